"""Imports packages that belong to an extra, such as ``flott[kafka]``. Imports nothing but errors."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from flott.errors import MissingExtraError


def require(module: str, extra: str) -> Any:
    """Return a module of another package. Raises an error that names the extra to install if it is missing.

    >>> require("json", extra="kafka").dumps([1])
    '[1]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        missing = error.name or module
        if not module.startswith(missing.split(".")[0]):
            raise  # the package is there, but something that it needs is not
        refusal = MissingExtraError(
            f"The package {missing.split('.')[0]!r} is not installed. Install it with: pip install 'flott[{extra}]'. It"
            " must be installed on the driver and on every executor."
        )
        refusal.name = error.name
        raise refusal from error

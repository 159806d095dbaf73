"""The environment variables that pass the command line's settings to a program or a JobManager."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from flott.cli.invocation import Invocation
from flott.common import _settings


def environment_of(invocation: Invocation, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the variables."""
    before = json.loads(os.environ.get(_settings.PROPERTIES) or "{}")
    made = {_settings.PROPERTIES: json.dumps({**before, **properties})}
    if invocation.config_file is not None:
        made[_settings.CONF_FILE] = str(Path(invocation.config_file).absolute())
    return made


@contextmanager
def passed_settings(invocation: Invocation, properties: Mapping[str, str]) -> Iterator[None]:
    """Set the variables for this process and the processes that it starts."""
    made = environment_of(invocation, properties)
    before = {name: os.environ.get(name) for name in made}
    os.environ |= made
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                del os.environ[name]
            else:
                os.environ[name] = text

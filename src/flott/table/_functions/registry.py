"""All scalar functions by name. A family is a module that exports ``FUNCTIONS``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from flott.table._functions.function import Function

#: Modules of ``flott.table._functions``, each with a tuple ``FUNCTIONS``.
FAMILIES: tuple[str, ...] = (
    "arithmetic",
    "comparison",
    "conditional",
    "mathematics",
    "random_numbers",
    "temporal_clock",
    "temporal_fields",
    "temporal_spans",
    "temporal_texts",
    "strings",
    "patterns",
    "encodings",
    "splitting",
    "arrays",
    "collections",
    "json_functions",
    "introspection",
    "bitmaps",
    "structures",
)


@cache
def functions() -> dict[str, Function]:
    """Return every function by its name and aliases, in upper case."""
    found: dict[str, Function] = {}
    for function in _all():
        for name in (function.name, *function.aliases):
            if name.upper() in found:
                raise AssertionError(f"Two functions are called {name}.")
            found[name.upper()] = function
    return found


def _all() -> Iterator[Function]:
    for family in FAMILIES:
        yield from import_module(f"flott.table._functions.{family}").FUNCTIONS


def function_named(name: str) -> Function | None:
    """Return a function by its name, in any case."""
    return functions().get(name.upper())

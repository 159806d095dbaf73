"""Sends functions and classes of the user between processes, and explains why one cannot be sent. Driver and task.

What can be imported travels by name. Lambdas, closures and everything of the main script travel by value, because
another process has another main script; there the classes are made attributes of ``__main__``, so that their instances
can be pickled by name as they are here.
"""

from __future__ import annotations

import sys
from typing import Any

import cloudpickle

from flott.errors import UnserializableError


def main_classes() -> dict[str, type]:
    """Return the classes defined in the main script, by name, without those that cannot be pickled."""
    main = sys.modules.get("__main__")
    classes = {
        name: value
        for name, value in vars(main).items()
        if isinstance(value, type) and value.__module__ == "__main__" and value.__qualname__ == name
    }
    if _travels(classes):
        return classes
    return {name: value for name, value in classes.items() if _travels(value)}


def refuse_unpicklable(label: str, source_line: str, part: Any) -> None:
    """Raise if a part of an operator cannot be sent to a worker, naming what it captured."""
    try:
        cloudpickle.dumps(part)
    except Exception as error:
        culprit = _culprit(part, "", 0, set()) or "something it refers to"
        raise UnserializableError(
            f"The function of operator {label} ({source_line}) cannot be sent to a worker:"
            f" it captures {culprit} ({type(error).__name__}: {error}). Create such objects in the function's open()"
            " instead, or pass the plain data they are made from."
        ) from error


def _travels(value: Any) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:
        return False
    return True


def _culprit(value: Any, path: str, depth: int, seen: set[int]) -> str | None:
    """Describe the innermost captured object that cannot be pickled."""
    if depth > 6 or id(value) in seen:
        return None
    seen.add(id(value))
    for name, part in _captured(value):
        if not _travels(part):
            where = f"{path}.{name}" if path else name
            inside = where if depth else ""  # Flott names the parts of a spec, the user what is in them
            return _culprit(part, inside, depth + 1, seen) or f"{where!r}, an object of type {type(part).__qualname__}"
    return None


def _captured(value: Any) -> list[tuple[str, Any]]:
    """Return what is pickled with an object by value: closure cells, globals that it uses, attributes, items."""
    found: list[tuple[str, Any]] = []
    function = getattr(value, "__func__", value)
    if code := getattr(function, "__code__", None):
        cells = getattr(function, "__closure__", None) or ()
        for name, cell in zip(code.co_freevars, cells, strict=True):
            try:
                found.append((name, cell.cell_contents))
            except ValueError:
                continue
        known = getattr(function, "__globals__", {})
        found += [(name, known[name]) for name in code.co_names if name in known]
        if (bound := getattr(value, "__self__", None)) is not None:
            found.append(("self", bound))
    elif isinstance(value, dict):
        found += [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple | set):
        found += [(str(index), item) for index, item in enumerate(value)]
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        found += list(vars(value).items())
    return found

"""Paths into JSON documents: ``$.a.b``, ``$['a']``, ``$.a[*]``, ``$..a``, ``$.a[1:3]``, ``$.a[?(@.b > 1)]``.

A path is definite if it can lead to one value at most. An indefinite one always gives a list.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from flott.errors import ProgramError


class PathMissing(Exception):
    """A definite step leads nowhere."""


Step = Callable[[Any], Iterator[Any]]


@dataclass(frozen=True)
class JsonPath:
    """A parsed path. ``strict``: a path that leads nowhere is an error."""

    steps: tuple[tuple[Step, bool], ...]  #: each with whether it is definite
    strict: bool
    keys: tuple[str | int, ...] | None = None  #: of a definite path: the way to the value

    @property
    def definite(self) -> bool:
        """Return whether it leads to one value at most."""
        return all(definite for _, definite in self.steps)

    def read(self, document: Any) -> Any:
        """Return what the path leads to; raise ``PathMissing`` if a strict one leads nowhere."""
        if self.keys is not None:
            return self._follow(document, self.keys)
        found = [document]
        certain = True
        for step, definite in self.steps:
            reached = [value for one in found for value in step(one)]
            if certain and definite and not reached:
                if self.strict:
                    raise PathMissing
                return None if self.definite else []
            certain = certain and definite
            found = reached
        return found[0] if self.definite else found

    def _follow(self, value: Any, keys: tuple[Any, ...]) -> Any:
        for key in keys:
            if isinstance(value, dict if isinstance(key, str) else list):
                try:
                    value = value[key]
                    continue
                except (KeyError, IndexError):
                    pass
            if self.strict:
                raise PathMissing
            return None
        return value


# --- documents -------------------------------------------------------------------------------------------------------


def _refused(constant: str) -> Any:
    raise ValueError(constant)


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_refused)


@lru_cache(maxsize=256)
def _cached(text: str) -> Any:
    return _DECODER.decode(text)


def parsed_json(text: str) -> Any:
    """Return a document with exact numbers; raise ``ValueError`` if it is not JSON. The value must not be changed."""
    return _cached(text) if len(text) < 65536 else _DECODER.decode(text)


# --- steps -----------------------------------------------------------------------------------------------------------


def _children(names: list[str]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            for name in names:
                if name in value:
                    yield value[name]

    return step


def _positions(indices: list[int]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            for index in indices:
                if -len(value) <= index < len(value):
                    yield value[index]

    return step


def _slice(start: int | None, end: int | None) -> Step:
    return lambda value: iter(value[start:end] if isinstance(value, list) else ())


def _all(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _deep(value: Any) -> Iterator[Any]:
    yield value
    for child in _all(value):
        yield from _deep(child)


# --- filters ---------------------------------------------------------------------------------------------------------

_COMPARISON = re.compile(r"\s*@((?:\.\w+|\[[^\]]+\])*)\s*(?:(==|!=|<=|>=|<|>|=~)\s*(.+?))?\s*", re.DOTALL)
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _condition(text: str) -> Callable[[Any], bool]:
    for word, combine in (("||", any), ("&&", all)):
        parts = text.split(word)
        if len(parts) > 1:
            conditions = [_condition(part) for part in parts]
            return lambda value, combine=combine: combine(one(value) for one in conditions)  # type: ignore[misc]
    found = _COMPARISON.fullmatch(text)
    if found is None:
        raise ProgramError(f"The filter {text!r} of a JSON path is wrong. Expected a comparison such as @.a > 1.")
    path = JsonPath(_steps("$" + found[1], 1), True)
    compare, wanted = found[2], None if found[3] is None else _constant(found[3])

    def holds(value: Any) -> bool:
        try:
            reached = path.read(value)
        except PathMissing:
            return False
        if compare is None:
            return True
        try:
            return _OPERATORS[compare](reached, wanted)
        except TypeError:
            return False

    return holds


def _constant(text: str) -> Any:
    text = text.strip()
    if text[:1] == "'" and text[-1:] == "'":
        return text[1:-1]
    try:
        return _DECODER.decode(text)
    except ValueError as error:
        raise ProgramError(f"{text!r} in the filter of a JSON path is not a constant.") from error


def _filter(text: str) -> Step:
    holds = _condition(text)
    return lambda value: (one for one in (value if isinstance(value, list) else [value]) if holds(one))


# --- parsing ---------------------------------------------------------------------------------------------------------

_MODE = re.compile(r"\s*(strict|lax)\s+(.+)", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"[^.\[\]\s]+")
_QUOTED = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*(?:,|$)""")


@lru_cache(maxsize=512)
def json_path(text: str) -> JsonPath:
    """Return a path of text such as ``lax $.a``. Without a mode it is strict."""
    found = _MODE.fullmatch(text)
    mode, spec = (found[1].lower(), found[2]) if found else ("strict", text)
    spec = spec.strip()
    if not spec.startswith("$"):
        raise ProgramError(f"The JSON path {text!r} does not begin with $.")
    return JsonPath(_steps(spec, 1), mode == "strict", _keys(spec))


_KEY = re.compile(r"""\.([^.\[\]\s*]+)|\[(-?\d+)\]|\['([^'\\]+)'\]""")


def _keys(spec: str) -> tuple[str | int, ...] | None:
    """Return the way of a path that consists of names and positions only; None if it has anything else."""
    keys: list[str | int] = []
    at = 1
    while at < len(spec):
        found = _KEY.match(spec, at)
        if found is None:
            return None
        keys.append(int(found[2]) if found[2] is not None else found[1] if found[1] is not None else found[3])
        at = found.end()
    return tuple(keys)


def _steps(spec: str, at: int) -> tuple[tuple[Step, bool], ...]:
    steps: list[tuple[Step, bool]] = []
    while at < len(spec):
        if spec.startswith("..", at):
            steps.append((_deep, False))
            at += 2
            if spec[at : at + 1] == "[":
                continue
        elif spec[at] == ".":
            at += 1
        elif spec[at] == "[":
            end = _closing(spec, at)
            steps.append(_bracket(spec[at + 1 : end].strip(), spec))
            at = end + 1
            continue
        elif spec[at].isspace():
            at += 1
            continue
        else:
            raise _wrong(spec, at)
        name = _NAME.match(spec, at)
        if name is None:
            raise _wrong(spec, at)
        steps.append((_all, False) if name[0] == "*" else (_children([name[0]]), True))
        at = name.end()
    return tuple(steps)


def _wrong(spec: str, at: int) -> ProgramError:
    return ProgramError(f"The JSON path {spec!r} is wrong at character {at + 1}. Expected .name, [index] or ['name'].")


def _closing(spec: str, at: int) -> int:
    """Return where the bracket that opens at a position closes, outside of quotes and inner brackets."""
    depth, quote = 0, ""
    for index in range(at, len(spec)):
        character = spec[index]
        if quote:
            quote = "" if character == quote and spec[index - 1] != "\\" else quote
        elif character in "'\"":
            quote = character
        elif character in "[(":
            depth += 1
        elif character in "])":
            depth -= 1
            if not depth:
                return index
    raise _wrong(spec, at)


def _bracket(inner: str, spec: str) -> tuple[Step, bool]:
    if inner == "*":
        return _all, False
    if inner.startswith("?"):
        return _filter(inner[1:].strip()[1:-1]), False
    if inner[:1] in ("'", '"'):
        names = [re.sub(r"\\(.)", r"\1", a or b) for a, b in _QUOTED.findall(inner)]
        return _children(names), len(names) == 1
    try:
        if ":" in inner:
            start, end = (int(part) if part.strip() else None for part in inner.split(":"))
            return _slice(start, end), False
        indices = [int(part) for part in inner.split(",")]
    except ValueError:
        raise _wrong(spec, spec.find(inner)) from None
    return _positions(indices), len(indices) == 1

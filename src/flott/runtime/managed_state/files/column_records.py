"""Bodies of what is made of other values: lists, maps, tuples, rows and records of the program's classes.

A list is its length and its elements, all elements of all lists in one body; a record is one body per field.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import chain, islice, repeat
from operator import attrgetter, eq, itemgetter
from typing import Any, ClassVar

from flott.common.types import Row, restore_row
from flott.runtime.managed_state.files.column_bodies import (
    INTS,
    Codec,
    Cursor,
    Parts,
    Unrepresentable,
    spell_number,
    unknown_tag,
)
from flott.runtime.managed_state.schema.record_classes import find_class, is_faithful, only_fields
from flott.runtime.managed_state.schema.type_schema import Json, class_name

_LISTS = 0x30
_MAPS = 0x31
_FIELDS = 0x40
_ROWS = 0x41
_DICTS = 0x42

_values_of = attrgetter("_values")
_fields_of = attrgetter("_fields")
_kind_of = attrgetter("_row_kind._value_")


class ListCodec(Codec):
    """How long each is, and all elements in one body."""

    def __init__(self, element: Codec, made: type):
        self._element = element
        self._made = made

    def _fits(self, kinds: set[type]) -> bool:
        return kinds == {self._made}

    def _pack(self, values: list[Any], parts: Parts) -> int:
        write_lists(self._element, values, parts)
        return _LISTS

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        if tag != _LISTS:
            raise unknown_tag(tag)
        return read_lists(self._element, cursor, count, self._made)


def write_lists(element: Codec, lists: Sequence[Sequence[Any]], parts: Parts) -> None:
    """Append the lengths of lists, and a body of all their elements."""
    INTS.write_known(list(map(len, lists)), parts)
    element.write(list(chain.from_iterable(lists)), parts)


def read_lists(element: Codec, cursor: Cursor, count: int, made: Callable[[Any], Any] = list) -> list[Any]:
    """Return so many lists, or whatever is made of their elements instead."""
    lengths = INTS.read(cursor, count)
    elements = iter(element.read(cursor, sum(lengths)))
    return [made(islice(elements, length)) for length in lengths]


class MapCodec(Codec):
    """How many items each has, one body of all keys, one of all values."""

    python_type = dict

    def __init__(self, key: Codec, value: Codec):
        self._key = key
        self._value = value

    def _pack(self, values: list[Any], parts: Parts) -> int:
        INTS.write_known(list(map(len, values)), parts)
        self._key.write(list(chain.from_iterable(values)), parts)
        self._value.write(list(chain.from_iterable(map(dict.values, values))), parts)
        return _MAPS

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        if tag != _MAPS:
            raise unknown_tag(tag)
        lengths = INTS.read(cursor, count)
        total = sum(lengths)
        items = zip(self._key.read(cursor, total), self._value.read(cursor, total), strict=True)
        return [dict(islice(items, length)) for length in lengths]


class TupleCodec(Codec):
    """One body per field."""

    python_type: ClassVar[type[Any] | None] = tuple

    def __init__(self, fields: tuple[Codec, ...]):
        self._fields = fields

    def _pack(self, values: list[Any], parts: Parts) -> int:
        self._pack_fields(values, parts)
        return _FIELDS

    def _pack_fields(self, values: list[Any], parts: Parts) -> None:
        """Append the fields of sequences."""
        if list(map(len, values)).count(len(self._fields)) != len(values):
            raise Unrepresentable
        for position, field in enumerate(self._fields):
            field.write(list(map(itemgetter(position), values)), parts)

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        if tag != _FIELDS:
            raise unknown_tag(tag)
        return self._unpack_fields(cursor, count)

    def _unpack_fields(self, cursor: Cursor, count: int) -> list[Any]:
        columns = [field.read(cursor, count) for field in self._fields]
        return list(zip(*columns, strict=True)) if columns else [()] * count


class RowCodec(TupleCodec):
    """What the rows call their fields, unless all call them as the type does; their kinds, unless all are insertions;
    then one body per field."""

    python_type = Row

    def __init__(self, names: tuple[str, ...], fields: tuple[Codec, ...]):
        super().__init__(fields)
        self._names = names

    def _pack(self, values: list[Any], parts: Parts) -> int:
        _pack_shapes(list(map(_fields_of, values)), self._names, parts)
        kinds = bytes(map(_kind_of, values))
        parts.append(b"\1" + kinds if any(kinds) else b"\0")
        self._pack_fields(list(map(_values_of, values)), parts)
        return _ROWS

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        if tag != _ROWS:
            raise unknown_tag(tag)
        shapes = _unpack_shapes(cursor, count, self._names)
        kinds = cursor.take(count) if cursor.byte() else bytes(count)
        return list(map(restore_row, shapes, self._unpack_fields(cursor, count), kinds))


class RecordCodec(TupleCodec):
    """Instances of a class of the program's, and rows that stand for them: one body per field."""

    def __init__(self, schema: Json, fields: tuple[Codec, ...]):
        super().__init__(fields)
        self._schema = schema
        self._class_name: str = schema["class"]
        self._names = tuple(field["name"] for field in schema["fields"])

    def _fits(self, kinds: set[type]) -> bool:
        if len(kinds) != 1:
            return False
        (kind,) = kinds
        return kind is Row or (class_name(kind) == self._class_name and is_faithful(kind, self._schema))

    def _pack(self, values: list[Any], parts: Parts) -> int:
        if type(values[0]) is Row:
            if set(map(_fields_of, values)) != {self._names} or any(map(_kind_of, values)):
                raise Unrepresentable
            self._pack_fields(list(map(_values_of, values)), parts)
        else:
            self._pack_instances(values, parts)
        return _FIELDS

    def _pack_instances(self, values: list[Any], parts: Parts) -> None:
        raise NotImplementedError

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        if tag != _FIELDS:
            raise unknown_tag(tag)
        kind = None if cursor.plain else find_class(self._schema)
        if kind is None:
            return list(map(restore_row, repeat(self._names), self._unpack_fields(cursor, count)))
        return self._make_instances(kind, cursor, count)

    def _make_instances(self, kind: type, cursor: Cursor, count: int) -> list[Any]:
        raise NotImplementedError


class DataclassCodec(RecordCodec):
    """Instances of a dataclass: made without calling it, as unpickling does."""

    def _pack_instances(self, values: list[Any], parts: Parts) -> None:
        if not only_fields(type(values[0]), values, self._names):
            raise Unrepresentable
        try:
            for name, field in zip(self._names, self._fields, strict=True):
                field.write(list(map(attrgetter(name), values)), parts)
        except AttributeError:
            raise Unrepresentable from None

    def _make_instances(self, kind: type, cursor: Cursor, count: int) -> list[Any]:
        made: list[Any] = list(map(object.__new__, repeat(kind, count)))
        for name, field in zip(self._names, self._fields, strict=True):
            # Past the class's own __setattr__: it may be frozen.
            deque(map(object.__setattr__, made, repeat(name), field.read(cursor, count)), maxlen=0)
        return made


class NamedTupleCodec(RecordCodec):
    """Named tuples."""

    def _pack_instances(self, values: list[Any], parts: Parts) -> None:
        if not only_fields(type(values[0]), values, ()):
            raise Unrepresentable
        self._pack_fields(values, parts)

    def _make_instances(self, kind: type, cursor: Cursor, count: int) -> list[Any]:
        return list(map(tuple.__new__, repeat(kind), self._unpack_fields(cursor, count)))


class DictCodec(Codec):
    """Dicts of a typed dict: their keys, unless all have those of the type in its order; then per field one body of
    those that are there."""

    python_type = dict

    def __init__(self, names: tuple[str, ...], fields: tuple[Codec, ...]):
        self._names = names
        self._fields = fields

    def _pack(self, values: list[Any], parts: Parts) -> int:
        complete = all(map(eq, map(tuple, values), repeat(self._names)))
        _pack_shapes([self._names] if complete else list(map(tuple, values)), self._names, parts)
        if not complete and set(chain.from_iterable(values)) - set(self._names):
            raise Unrepresentable
        for name, field in zip(self._names, self._fields, strict=True):
            field.write([value[name] for value in values if name in value], parts)
        return _DICTS

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        if tag != _DICTS:
            raise unknown_tag(tag)
        shapes = _unpack_shapes(cursor, count, self._names)
        occurrences = Counter(chain.from_iterable(map(_names_in, shapes)))
        columns = {
            name: iter(field.read(cursor, occurrences[name]))
            for name, field in zip(self._names, self._fields, strict=True)
        }
        return [{name: next(columns[name]) for name in _names_in(shape)} for shape in shapes]


_Shape = tuple[str, ...] | None


def _names_in(shape: _Shape) -> tuple[str, ...]:
    return shape or ()


def _pack_shapes(shapes: Sequence[_Shape], expected: tuple[str, ...], parts: Parts) -> None:
    """Which names each record has: a zero byte if all have the expected ones."""
    distinct = dict.fromkeys(shapes)
    if not distinct.keys() - {expected}:
        parts.append(b"\0")
        return
    if not all(isinstance(name, str) for shape in distinct for name in shape or ()):
        raise Unrepresentable
    numbers = {shape: number for number, shape in enumerate(distinct)}
    listed = json.dumps(list(distinct), separators=(",", ":")).encode()
    parts += (b"\1", spell_number(len(listed)), listed)
    INTS.write_known([numbers[shape] for shape in shapes], parts)


def _unpack_shapes(cursor: Cursor, count: int, expected: tuple[str, ...]) -> Sequence[_Shape]:
    if not cursor.byte():
        return [expected] * count
    listed = json.loads(cursor.take(cursor.number()))
    distinct = [None if shape is None else tuple(map(sys.intern, shape)) for shape in listed]
    return [distinct[number] for number in INTS.read(cursor, count)]

"""Converts between the values of an Avro library and rows, by functions made once for a schema. Task side.

The library reads records as dicts, and timestamps in UTC. A row has names, and its timestamps have no time zone, as
those of Flink. A function is ``None`` where nothing is to be converted.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from copy import deepcopy
from operator import itemgetter
from typing import Any

from flott.common.time import Instant
from flott.common.types import Row, restore_row
from flott.datastream.formats._avro_types import SchemaNames, alternative, kind_of, logical_of
from flott.errors import TypeMismatchError

Convert = Callable[[Any], Any]

_UTC = datetime.UTC
_EPOCH = datetime.datetime(1970, 1, 1)
_TIMESTAMPS = tuple(f"timestamp-{unit}" for unit in ("millis", "micros", "nanos"))


class ValueConverters:
    """Makes the functions of one schema. ``as_rows`` also converts records, from and to rows."""

    def __init__(self, as_rows: bool):
        self._as_rows = as_rows
        self._names = SchemaNames()

    def reading(self, schema: Any, namespace: str = "", inside: tuple[int, ...] = ()) -> Convert | None:
        """Return the function from what the library reads to a record's value."""
        schema, namespace = self._names.resolve(schema, namespace)
        kind = kind_of(schema)
        if kind in ("record", "error"):
            if id(schema) in inside:
                return None
            deeper = (*inside, id(schema))
            fields = [
                (each["name"], _unshared(each.get("default"), self.reading(each["type"], namespace, deeper)))
                for each in schema["fields"]
            ]
            return _to_row(fields) if self._as_rows else _changed_fields(fields)
        if kind in ("union", "array", "map"):
            return self._nested(kind, schema, lambda each: self.reading(each, namespace, inside))
        if logical_of(schema) in _TIMESTAMPS:
            return _without_zone
        return str if kind == "string" and logical_of(schema) == "uuid" else None

    def writing(self, schema: Any, namespace: str = "", inside: tuple[int, ...] = ()) -> Convert | None:
        """Return the function from a record's value to what the library writes."""
        schema, namespace = self._names.resolve(schema, namespace)
        kind = kind_of(schema)
        if kind in ("record", "error"):
            if id(schema) in inside:
                return None
            deeper = (*inside, id(schema))
            fields = [(each["name"], self.writing(each["type"], namespace, deeper)) for each in schema["fields"]]
            return _from_record(fields)
        if kind in ("union", "array", "map"):
            return self._nested(kind, schema, lambda each: self.writing(each, namespace, inside))
        return _with_zone if logical_of(schema) in _TIMESTAMPS else None

    def _nested(self, kind: str, schema: Any, converter: Callable[[Any], Convert | None]) -> Convert | None:
        if kind == "union":
            only = alternative(schema)
            converters = [converter(each) for each in schema]  # defines the names of all
            convert = None if only is None else converters[schema.index(only)]
            return None if convert is None else _unless_null(convert)
        convert = converter(schema["items" if kind == "array" else "values"])
        if convert is None:
            return None
        inner = convert
        if kind == "array":
            return lambda values: [inner(value) for value in values]
        return lambda values: {key: inner(value) for key, value in values.items()}


def _unshared(default: Any, convert: Convert | None) -> Convert | None:
    """Return the conversion of a field that gives each record a default of its own: the library gives all the same."""
    if not isinstance(default, (list, dict)):
        return convert

    def converted(value: Any) -> Any:
        if value == default:
            value = deepcopy(value)
        return value if convert is None else convert(value)

    return converted


def _unless_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _to_row(fields: Sequence[tuple[str, Convert | None]]) -> Convert:
    names = tuple(name for name, _ in fields)
    changed = [(position, convert) for position, (_, convert) in enumerate(fields) if convert is not None]
    if len(names) < 2:
        get: Callable[[Any], Sequence[Any]] = lambda record: [record[name] for name in names]  # noqa: E731
    else:
        get = itemgetter(*names)
    if not changed:
        return lambda record: restore_row(names, get(record))

    def convert_record(record: dict[str, Any]) -> Row:
        row = restore_row(names, get(record))
        values = row._values
        for position, convert in changed:
            values[position] = convert(values[position])
        return row

    return convert_record


def _changed_fields(fields: Sequence[tuple[str, Convert | None]]) -> Convert | None:
    changed = [(name, convert) for name, convert in fields if convert is not None]
    if not changed:
        return None

    def convert_record(record: dict[str, Any]) -> dict[str, Any]:
        for name, convert in changed:
            record[name] = convert(record[name])
        return record

    return convert_record


def _from_record(fields: Sequence[tuple[str, Convert | None]]) -> Convert:
    names = [name for name, _ in fields]
    changed = [(name, convert) for name, convert in fields if convert is not None]

    def convert_record(record: Any) -> Any:
        if type(record) is Row:
            if record._fields is not None:
                found = dict(zip(record._fields, record._values, strict=True))
            elif len(record._values) == len(names):
                found = dict(zip(names, record._values, strict=True))
            else:
                raise TypeMismatchError(f"Expected the {len(names)} fields {names}, found {record!r}.")
        elif isinstance(record, dict):
            if not changed:
                return record
            found = dict(record)  # what the program made is never changed in place
        elif isinstance(record, tuple) and len(record) == len(names):
            found = dict(zip(names, record, strict=True))
        else:
            raise TypeMismatchError(f"An Avro record is written from a row or a dict, found {record!r}.")
        for name, convert in changed:
            if name in found:
                found[name] = convert(found[name])
        return found

    return convert_record


def _without_zone(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value


def _with_zone(value: Any) -> Any:
    """Return a timestamp in UTC: the library would take one without a time zone for local time."""
    if isinstance(value, Instant):
        value = _EPOCH + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=_UTC)
    return value

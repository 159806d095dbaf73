"""Changelogs in JSON: messages of Debezium, Canal and Maxwell as rows with a kind, and back. Values only. Flott only.

| | Debezium | Canal | Maxwell |
|---|---|---|---|
| insert | ``op`` is ``c`` or ``r``, ``after`` | ``type`` is ``INSERT``, ``data`` is a list | ``insert``, ``data`` |
| update | ``u``, ``before`` and ``after`` | ``UPDATE``, ``old`` has the changed fields | ``update``, likewise |
| delete | ``d``, ``before`` | ``DELETE``, ``data`` | ``delete``, ``data`` |

An update becomes two rows, ``-U`` and ``+U``. A message without content, such as the tombstone that follows a delete in
Debezium, holds no row. Written are inserts and deletes only, as by Flink: ``-U`` as a delete, ``+U`` as an insert.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from flott.common.serialization import DeserializationSchema, SerializationSchema
from flott.common.typeinfo._composite import RowTypeInfo
from flott.common.typeinfo._type_information import Rejected, TypeInformation
from flott.common.types import Row, RowKind
from flott.datastream.formats._compiled import CompiledSchema
from flott.datastream.formats._json_decoding import ColumnDecoder, JsonReading, column_decoder, holds_decimals
from flott.datastream.formats._json_encoding import ColumnEncoder, column_encoder
from flott.datastream.formats.json import UNREADABLE, json_parser, unreadable
from flott.errors import ProgramError, TypeMismatchError

__all__ = [
    "CanalJsonDeserializationSchema",
    "CanalJsonSerializationSchema",
    "DebeziumJsonDeserializationSchema",
    "DebeziumJsonSerializationSchema",
    "MaxwellJsonDeserializationSchema",
    "MaxwellJsonSerializationSchema",
]

#: The image of a row in a message, and the kind of the row that it becomes.
Image = tuple[RowKind, Any]


@dataclass(frozen=True)
class ChangelogDeserializationSchema(CompiledSchema, DeserializationSchema):
    """What the three have in common: the rows of many messages are converted at once."""

    row_type: RowTypeInfo
    ignores_parse_errors: bool = False  #: unreadable messages are left out, unreadable fields are null

    returns_lists: ClassVar[bool] = True
    expected: ClassVar[str] = "a change"

    def __post_init__(self) -> None:
        _check_row_type(self.row_type)
        _ = self._decode  # refuses a type without a form now, on the driver

    @abstractmethod
    def images(self, root: Any) -> Iterator[Image]:
        """Yield the images of a parsed message; raise ``ValueError`` if it is no change."""

    def deserialize(self, message: bytes) -> list[Row]:
        """Return the rows of one message: none, one, or two for an update."""
        if not message:
            return []
        try:
            images = list(self.images(self._parse(message.decode())))
            return self._rows(images)
        except (*UNREADABLE, KeyError) as error:
            if self.ignores_parse_errors:
                return []
            raise unreadable(self.expected, message, error) from error

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        parse, images_of = self._parse, self.images
        images: list[Image] = []
        counts = []
        try:
            for message in messages:
                before = len(images)
                if message:
                    images.extend(images_of(parse(message.decode())))
                counts.append(len(images) - before)
            rows = iter(self._rows(images))
        except (*UNREADABLE, KeyError):
            return list(map(self.deserialize, messages))
        return [[next(rows) for _ in range(count)] for count in counts]

    def get_produced_type(self) -> TypeInformation:
        return self.row_type

    def _rows(self, images: list[Image]) -> list[Row]:
        rows = self._decode([image for _, image in images])
        for row, (kind, image) in zip(rows, images, strict=True):
            if row is None:
                raise Rejected(image, self.row_type, f"a change of the kind {kind} needs the row; {_COMPLETE}")
            row._row_kind = kind
        return rows

    @cached_property
    def _parse(self) -> Callable[[str], Any]:
        return json_parser(exact=holds_decimals(self.row_type))

    @cached_property
    def _decode(self) -> ColumnDecoder:
        return column_decoder(self.row_type, JsonReading(lenient=self.ignores_parse_errors))


_COMPLETE = "in PostgreSQL, set REPLICA IDENTITY FULL for the table, so that changes hold the row before"


@dataclass(frozen=True)
class DebeziumJsonDeserializationSchema(ChangelogDeserializationSchema):
    """Reads the changes that Debezium writes.

    >>> from flott.common import Types
    >>> schema = DebeziumJsonDeserializationSchema(Types.ROW_NAMED(["id", "n"], [Types.INT(), Types.INT()]))
    >>> rows = schema.deserialize(b'{"before": {"id": 1, "n": 1}, "after": {"id": 1, "n": 2}, "op": "u"}')
    >>> [(str(row.get_row_kind()), row) for row in rows]
    [('-U', Row(id=1, n=1)), ('+U', Row(id=1, n=2))]
    """

    schema_include: bool = False  #: the change is in ``payload``, beside its ``schema``

    expected: ClassVar[str] = "a change of Debezium"

    def images(self, root: Any) -> Iterator[Image]:
        change = _object(root)
        if self.schema_include:
            if change.get("payload", "") is None:
                return  # a tombstone with a schema
            change = _object(change["payload"])
        match change.get("op"):
            case "c" | "r":
                yield RowKind.INSERT, change.get("after")
            case "u":
                yield RowKind.UPDATE_BEFORE, change.get("before")
                yield RowKind.UPDATE_AFTER, change.get("after")
            case "d":
                yield RowKind.DELETE, change.get("before")
            case other:
                raise ValueError(f"found the op {other!r}, expected 'c', 'r', 'u' or 'd'")


@dataclass(frozen=True)
class CanalJsonDeserializationSchema(ChangelogDeserializationSchema):
    """Reads the changes that Canal writes. Messages that change a table's definition hold no row."""

    database_include: str | None = None  #: a regular expression that the whole name of the database matches
    table_include: str | None = None  #: the same for the table

    expected: ClassVar[str] = "a change of Canal"

    def __post_init__(self) -> None:
        super().__post_init__()
        for pattern in (self.database_include, self.table_include):
            try:
                re.compile(pattern or "")
            except re.error as error:
                raise ProgramError(f"Expected a regular expression, found {pattern!r}: {error}.") from error

    def images(self, root: Any) -> Iterator[Image]:
        change = _object(root)
        patterns = {"database": self.database_include, "table": self.table_include}
        if not all(_included(pattern, change, name) for name, pattern in patterns.items()):
            return
        kind = change.get("type")
        if kind == "CREATE" or change.get("isDdl") is True:
            return
        data = change.get("data")
        if not isinstance(data, list):
            raise ValueError(f"found the data {data!r:.80}, expected a list of rows")
        if kind == "UPDATE":
            old = change.get("old")
            if not isinstance(old, list) or len(old) != len(data):
                raise ValueError(f"found {len(data)} rows in 'data', expected as many in 'old'")
            for before, after in zip(old, data, strict=True):
                yield RowKind.UPDATE_BEFORE, {**_object(after), **_object(before)}
                yield RowKind.UPDATE_AFTER, after
        elif kind in _CANAL_KINDS:
            for row in data:
                yield _CANAL_KINDS[kind], row
        else:
            raise ValueError(f"found the type {kind!r}, expected 'INSERT', 'UPDATE' or 'DELETE'")


_CANAL_KINDS = {"INSERT": RowKind.INSERT, "DELETE": RowKind.DELETE}


@dataclass(frozen=True)
class MaxwellJsonDeserializationSchema(ChangelogDeserializationSchema):
    """Reads the changes that Maxwell writes."""

    expected: ClassVar[str] = "a change of Maxwell"

    def images(self, root: Any) -> Iterator[Image]:
        change = _object(root)
        match change.get("type"):
            case "insert":
                yield RowKind.INSERT, change.get("data")
            case "update":
                yield RowKind.UPDATE_BEFORE, {**_object(change.get("data")), **_object(change.get("old"))}
                yield RowKind.UPDATE_AFTER, change["data"]
            case "delete":
                yield RowKind.DELETE, change.get("data")
            case other:
                raise ValueError(f"found the type {other!r}, expected 'insert', 'update' or 'delete'")


@dataclass(frozen=True)
class ChangelogSerializationSchema(CompiledSchema, SerializationSchema):
    """What the three have in common: a row in the template of its kind."""

    row_type: RowTypeInfo
    timestamp_format: str = "SQL"  #: or "ISO-8601"

    #: The messages, with ``%s`` in place of the row.
    insert: ClassVar[str]
    delete: ClassVar[str]

    def __post_init__(self) -> None:
        _check_row_type(self.row_type)
        _ = self._encode  # refuses a type without a form now, on the driver

    def serialize(self, element: Any) -> bytes:
        return self.serialize_batch([element])[0]

    def serialize_batch(self, elements: Sequence[Any]) -> list[bytes]:
        rows = self.row_type.conform(list(elements))
        if None in rows:
            raise TypeMismatchError(f"Expected a row of the type {self.row_type!r}, found None: filter it out.")
        insert, delete = self.insert, self.delete
        try:
            return [
                ((insert if row._row_kind in _WRITTEN_AS_INSERT else delete) % text).encode()
                for row, text in zip(rows, self._encode(rows), strict=True)
            ]
        except UnicodeEncodeError as error:
            raise TypeMismatchError(f"JSON is written in UTF-8, found text that is not Unicode: {error}.") from error

    @cached_property
    def _encode(self) -> ColumnEncoder:
        return column_encoder(self.row_type, self.timestamp_format)


_WRITTEN_AS_INSERT = (RowKind.INSERT, RowKind.UPDATE_AFTER)


@dataclass(frozen=True)
class DebeziumJsonSerializationSchema(ChangelogSerializationSchema):
    """Writes rows as Debezium does."""

    insert: ClassVar[str] = '{"before":null,"after":%s,"op":"c"}'
    delete: ClassVar[str] = '{"before":%s,"after":null,"op":"d"}'


@dataclass(frozen=True)
class CanalJsonSerializationSchema(ChangelogSerializationSchema):
    """Writes rows as Canal does."""

    insert: ClassVar[str] = '{"data":[%s],"type":"INSERT"}'
    delete: ClassVar[str] = '{"data":[%s],"type":"DELETE"}'


@dataclass(frozen=True)
class MaxwellJsonSerializationSchema(ChangelogSerializationSchema):
    """Writes rows as Maxwell does."""

    insert: ClassVar[str] = '{"data":%s,"type":"insert"}'
    delete: ClassVar[str] = '{"data":%s,"type":"delete"}'


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"found {value!r:.80}, expected a JSON object")
    return value


def _included(pattern: str | None, change: dict[str, Any], name: str) -> bool:
    return pattern is None or re.fullmatch(pattern, str(change.get(name))) is not None


def _check_row_type(row_type: Any) -> None:
    if not isinstance(row_type, RowTypeInfo):
        raise ProgramError(f"Expected the type of a row, such as Types.ROW_NAMED(names, types), found {row_type!r}.")

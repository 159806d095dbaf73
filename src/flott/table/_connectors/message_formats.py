"""Formats of messages besides JSON and CSV: raw, Avro, and the changelogs of Debezium, Canal, Maxwell and OGG."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from flott.datastream.formats.protobuf import ProtobufDeserializationSchema
from flott.errors import ProgramError
from flott.table._connectors.formats import JSON_OPTIONS, FormatFactory, JsonMessages, MessageFormat, json_format
from flott.table._connectors.options import TableOptions, key
from flott.table._connectors.table_source import ChangelogMode
from flott.table._sql.errors import nearest
from flott.table._types import logical
from flott.table._types.logical import LogicalType

if TYPE_CHECKING:
    from flott.runtime.connectors.columns.decoded import ColumnDecoder, ColumnEncoder

# --- raw -------------------------------------------------------------------------------------------------------------

_CHARSET = (
    key("charset").string_type().default_value("UTF-8").with_description("The character set of a text.")
)  # fmt: skip
_ENDIANNESS = (
    key("endianness").string_type().default_value("big-endian")
    .with_description("The order of the bytes of a number: big-endian or little-endian.")
)  # fmt: skip
_RAW_DELIMITER = (
    key("line-delimiter").string_type().default_value("\n").with_description("Accepted: a row is a line of a file.")
)  # fmt: skip

#: How numbers are packed, by type.
_PACKED: dict[type[LogicalType], str] = {
    logical.BooleanType: "?",
    logical.TinyIntType: "b",
    logical.SmallIntType: "h",
    logical.IntType: "i",
    logical.BigIntType: "q",
    logical.FloatType: "f",
    logical.DoubleType: "d",
}


@dataclass(frozen=True)
class RawMessages(MessageFormat):
    """A message is the value of the only column."""

    charset: str = "UTF-8"
    packing: str | None = None  #: of a number, as ``struct`` writes it; None: text or bytes

    def decoder(self, names: Sequence[str], types: Sequence[LogicalType]) -> ColumnDecoder:
        from flott.runtime.connectors.columns.raw_columns import RawColumnDecoder

        return RawColumnDecoder(self, names)

    def encoder(self) -> ColumnEncoder:
        from flott.runtime.connectors.columns.raw_columns import RawColumnEncoder

        return RawColumnEncoder(self)


def _raw(names: tuple[str, ...], types: tuple[LogicalType, ...], options: TableOptions) -> RawMessages:
    if len(names) != 1:
        raise ProgramError(f"Table {options.table}: the format 'raw' is of one column, found {', '.join(names)}.")
    [of] = types
    if isinstance(of, logical.CharType | logical.VarCharType | logical.BinaryType | logical.VarBinaryType):
        return RawMessages(names, types, options.get(_CHARSET))
    code = _PACKED.get(type(of))
    if code is None:
        raise ProgramError(f"Table {options.table}: the format 'raw' has no form of the type {of}.")
    order = options.chosen(_ENDIANNESS, ("big-endian", "little-endian"))
    return RawMessages(names, types, packing=(">" if order == "big-endian" else "<") + code)


# --- avro ------------------------------------------------------------------------------------------------------------

_CODEC = (
    key("codec").string_type().default_value("deflate")
    .with_description("How the blocks of an Avro file are compressed: null, deflate, bzip2, xz, snappy, zstandard.")
)  # fmt: skip
_LEGACY_TIMES = (
    key("timestamp_mapping.legacy").boolean_type().default_value(True)
    .with_description("Accepted: TIMESTAMP is written as Avro's timestamp in either case, as Flink's default does.")
)  # fmt: skip
_ENCODING = (
    key("encoding").string_type().default_value("binary").with_description("Only binary is known.")
)  # fmt: skip


@dataclass(frozen=True)
class AvroMessages(MessageFormat):
    """Avro records of the table's schema."""

    codec: str = "deflate"

    layout: ClassVar[str] = "blocks"

    def decoder(self, names: Sequence[str], types: Sequence[LogicalType]) -> ColumnDecoder:
        from flott.runtime.connectors.columns.avro_columns import AvroColumnDecoder

        return AvroColumnDecoder(self, names, types)

    def encoder(self) -> ColumnEncoder:
        from flott.runtime.connectors.columns.avro_columns import AvroColumnEncoder

        return AvroColumnEncoder(self)

    def scan_blocks(self, *arguments: Any) -> Any:
        """Yield the rows of the blocks of a file."""
        from flott.runtime.connectors.columns.avro_columns import scan_blocks

        return scan_blocks(*arguments)

    def staged_file(self, path: str) -> Any:
        """Return the writer of a file."""
        from flott.runtime.connectors.columns.avro_columns import AvroColumnFile

        return AvroColumnFile(path, self)


def _avro(names: tuple[str, ...], types: tuple[LogicalType, ...], options: TableOptions) -> AvroMessages:
    options.chosen(_ENCODING, ("binary",))
    return AvroMessages(names, types, options.get(_CODEC))


_REGISTRY_URL = (
    key("url").string_type().no_default_value().with_description("The address of the schema registry.")
)  # fmt: skip
_SUBJECT = (
    key("subject").string_type().no_default_value()
    .with_description("The subject under which the schema of written messages is registered.")
)  # fmt: skip
_REGISTRY_AUTH = (
    key("basic-auth.user-info").string_type().no_default_value()
    .with_description("User and password of the schema registry, as user:password.")
)  # fmt: skip


@dataclass(frozen=True)
class ConfluentAvroMessages(MessageFormat):
    """Avro records, each after the number of its schema in a registry."""

    url: str = ""
    subject: str | None = None
    user: str | None = None
    password: str | None = None

    def decoder(self, names: Sequence[str], types: Sequence[LogicalType]) -> ColumnDecoder:
        from flott.runtime.connectors.columns.avro_columns import ConfluentColumnDecoder

        return ConfluentColumnDecoder(self, names, types)

    def encoder(self) -> ColumnEncoder:
        from flott.runtime.connectors.columns.avro_columns import ConfluentColumnEncoder

        return ConfluentColumnEncoder(self)

    def __repr__(self) -> str:
        return f"ConfluentAvroMessages({self.names}, {self.url})"


def _confluent(names: tuple[str, ...], types: tuple[LogicalType, ...], options: TableOptions) -> ConfluentAvroMessages:
    user, _, password = (options.get(_REGISTRY_AUTH) or "").partition(":")
    return ConfluentAvroMessages(
        names, types, options.required(_REGISTRY_URL), options.get(_SUBJECT), user or None, password or None
    )


# --- protobuf --------------------------------------------------------------------------------------------------------

_MESSAGE_CLASS = (
    key("message-class-name").string_type().no_default_value()
    .with_description("The class that protoc generated for Python, as module.Class.")
)  # fmt: skip
_PROTOBUF_ERRORS = (
    key("ignore-parse-errors").boolean_type().default_value(False)
    .with_description("Leave out messages that cannot be decoded.")
)  # fmt: skip
_DEFAULT_VALUES = (
    key("read-default-values").boolean_type().default_value(False)
    .with_description("Whether a field that is not set has its default value; otherwise it is NULL.")
)  # fmt: skip


@dataclass(frozen=True)
class ProtobufMessages(MessageFormat):
    """Messages of a class that protoc generated."""

    descriptor_set: bytes = b""
    message_name: str = ""
    ignore_parse_errors: bool = False
    read_default_values: bool = False

    def reading(self) -> ProtobufDeserializationSchema:
        """Return the schema that reads messages as rows."""
        return ProtobufDeserializationSchema(
            self.descriptor_set, self.message_name, read_default_values=self.read_default_values
        )

    def decoder(self, names: Sequence[str], types: Sequence[LogicalType]) -> ColumnDecoder:
        from flott.runtime.connectors.columns.protobuf_columns import ProtobufColumnDecoder

        return ProtobufColumnDecoder(self, names, types)

    def encoder(self) -> ColumnEncoder:
        from flott.runtime.connectors.columns.protobuf_columns import ProtobufColumnEncoder

        return ProtobufColumnEncoder(self)


def _protobuf(names: tuple[str, ...], types: tuple[LogicalType, ...], options: TableOptions) -> ProtobufMessages:
    text = options.required(_MESSAGE_CLASS)
    module, _, attribute = text.rpartition(".")
    try:
        found = getattr(import_module(module), attribute)
        schema = ProtobufDeserializationSchema.for_message(found)
        known = [field.name for field in found.DESCRIPTOR.fields]
    except (ImportError, AttributeError, ValueError) as error:
        raise ProgramError(
            f"Table {options.table}: '{options.prefix}message-class-name' is a generated class of Python, as"
            f" module.Class, found {text!r}: {error}."
        ) from error
    for name in names:
        if name not in known:
            raise ProgramError(
                f"Table {options.table}: the message {schema.message_name} has no field '{name}'.{nearest(name, known)}"
            )
    return ProtobufMessages(
        names,
        types,
        schema.descriptor_set,
        schema.message_name,
        options.get(_PROTOBUF_ERRORS),
        options.get(_DEFAULT_VALUES),
    )


# --- changelogs in JSON ----------------------------------------------------------------------------------------------

_SCHEMA_INCLUDE = (
    key("schema-include").boolean_type().default_value(False)
    .with_description("Whether messages hold their schema beside the change.")
)  # fmt: skip
_DATABASE = (
    key("database.include").string_type().no_default_value()
    .with_description("A regular expression that the whole name of the database matches.")
)  # fmt: skip
_TABLE = (
    key("table.include").string_type().no_default_value()
    .with_description("A regular expression that the whole name of the table matches.")
)  # fmt: skip


@dataclass(frozen=True)
class ChangelogMessages(MessageFormat):
    """Changes of rows as JSON, in the notation of a tool."""

    notation: str = "debezium"
    rows: JsonMessages | None = None
    schema_include: bool = False
    database_include: str | None = None
    table_include: str | None = None

    changelog: ClassVar[ChangelogMode] = ChangelogMode.ALL

    @property
    def skips_bad_messages(self) -> bool:
        return self.rows is not None and self.rows.ignore_parse_errors

    def decoder(self, names: Sequence[str], types: Sequence[LogicalType]) -> ColumnDecoder:
        from flott.runtime.connectors.columns.changelog_columns import ChangelogColumnDecoder

        return ChangelogColumnDecoder(self, names, types)

    def encoder(self) -> ColumnEncoder:
        from flott.runtime.connectors.columns.changelog_columns import ChangelogColumnEncoder

        return ChangelogColumnEncoder(self)


def _changelog(notation: str) -> Any:
    def make(names: tuple[str, ...], types: tuple[LogicalType, ...], options: TableOptions) -> ChangelogMessages:
        includes: list[str | None] = [None, None]
        if notation == "canal":
            includes = [options.get(_DATABASE), options.get(_TABLE)]
        for pattern in includes:
            try:
                re.compile(pattern or "")
            except re.error as error:
                raise ProgramError(
                    f"Table {options.table}: '{options.prefix}database.include' and '.table.include' are regular"
                    f" expressions, found {pattern!r}: {error}."
                ) from error
        return ChangelogMessages(
            names,
            types,
            notation,
            json_format(names, types, options),
            notation == "debezium" and options.get(_SCHEMA_INCLUDE),
            *includes,
        )

    return make


FACTORIES = (
    FormatFactory("raw", _raw, (_CHARSET, _ENDIANNESS, _RAW_DELIMITER), description="The only column, as it is."),
    FormatFactory("avro", _avro, (_CODEC, _LEGACY_TIMES, _ENCODING), description="Avro records."),
    FormatFactory(
        "avro-confluent", _confluent, (_REGISTRY_URL, _SUBJECT, _REGISTRY_AUTH), files=False,
        description="Avro records with the number of their schema in a Confluent Schema Registry.",
    ),
    FormatFactory(
        "protobuf", _protobuf, (_MESSAGE_CLASS, _PROTOBUF_ERRORS, _DEFAULT_VALUES), files=False,
        description="Messages of a class that protoc generated.",
    ),
    FormatFactory(
        "debezium-json", _changelog("debezium"), (*JSON_OPTIONS, _SCHEMA_INCLUDE), description="Changes of Debezium."
    ),
    FormatFactory(
        "canal-json", _changelog("canal"), (*JSON_OPTIONS, _DATABASE, _TABLE), description="Changes of Canal."
    ),
    FormatFactory("maxwell-json", _changelog("maxwell"), JSON_OPTIONS, description="Changes of Maxwell."),
    FormatFactory("ogg-json", _changelog("ogg"), JSON_OPTIONS, description="Changes of Oracle GoldenGate."),
)  # fmt: skip

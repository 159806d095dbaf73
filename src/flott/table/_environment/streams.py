"""Streams as tables and tables as streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flott.common.typeinfo import TypeInformation
from flott.common.typeinfo._basic import BasicType, BasicTypeInfo, DateTypeInfo, TimestampTypeInfo, TimeTypeInfo
from flott.common.typeinfo._collections import ListTypeInfo, MapTypeInfo, PrimitiveArrayTypeInfo
from flott.common.typeinfo._composite import RowTypeInfo, TupleTypeInfo
from flott.common.typeinfo._records import NamedTupleTypeInfo
from flott.errors import ProgramError
from flott.table._catalog.catalog_table import (
    CatalogTable,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    TableColumn,
    TableSchema,
)
from flott.table._connectors.table_source import ChangelogMode as PlanMode
from flott.table._plan import logical
from flott.table._plan.lower import Lowering
from flott.table._plan.operations import TIMESTAMP_FIELD
from flott.table._plan.resolve.resolver import resolve_declared
from flott.table._sql import nodes as ast
from flott.table._types import logical as types
from flott.table._types.record_types import TableRowTypeInfo, record_type_of
from flott.table.table import Table

if TYPE_CHECKING:
    from flott.datastream._data_stream import DataStream
    from flott.table.schema import Schema
    from flott.table.table_environment import StreamTableEnvironment

_BASIC: dict[BasicType, types.LogicalType] = {
    BasicType.STRING: types.STRING,
    BasicType.CHAR: types.STRING,
    BasicType.BOOLEAN: types.BOOLEAN,
    BasicType.BYTE: types.TINYINT,
    BasicType.SHORT: types.SMALLINT,
    BasicType.INT: types.INT,
    BasicType.LONG: types.BIGINT,
    BasicType.FLOAT: types.FLOAT,
    BasicType.DOUBLE: types.DOUBLE,
}
#: What metadata of a stream's records a column may be.
_ROWTIME = "rowtime"


def logical_of(declared: TypeInformation) -> types.LogicalType:
    """Return the SQL type of a type of records."""
    match declared:
        case BasicTypeInfo() if declared._basic_type in _BASIC:
            return _BASIC[declared._basic_type]
        case BasicTypeInfo() if declared._basic_type is BasicType.BIG_DEC:
            return types.DecimalType(38, 18)
        case DateTypeInfo():
            return types.DATE
        case TimeTypeInfo():
            return types.TimeType(3)
        case TimestampTypeInfo():
            return types.TimestampType(6)
        case PrimitiveArrayTypeInfo() if declared._holds_bytes():
            return types.BYTES
        case ListTypeInfo():
            return types.ArrayType(logical_of(declared.elem_type))
        case MapTypeInfo():
            return types.MapType(logical_of(declared._key_type_info), logical_of(declared._value_type_info))
        case RowTypeInfo() | NamedTupleTypeInfo():
            fields = zip(declared.get_field_names(), declared.get_field_types(), strict=True)
            return types.row_type({name: logical_of(of) for name, of in fields})
    raise ProgramError(
        f"Records of type {declared!r} have no SQL type. Declare what the stream holds, for example by"
        " map(..., output_type=Types.ROW_NAMED([...], [...]))."
    )


def stream_table(
    environment: StreamTableEnvironment,
    stream: DataStream[Any],
    schema: Schema | None,
    fields: Sequence[Any],
    changelog_mode: Any = None,
    *,
    changes: bool = False,
) -> Table:
    """Return a stream as a table."""
    declared = stream.get_type()
    names, found, places = _record_columns(declared)
    if fields:
        names = _renamed(names, fields)
    columns, all_places, extra = _declared_columns(schema, names, found, places)
    mode = PlanMode.INSERT_ONLY
    if changes:
        mode = (
            PlanMode.UPSERT if changelog_mode is not None and not _has_update_before(changelog_mode) else PlanMode.ALL
        )
    key = () if schema is None else schema.declared.primary_key
    node: logical.Node = logical.StreamScan(
        stream=stream,
        name=f"Unregistered_DataStream_{stream.get_name() if hasattr(stream, 'get_name') else ''}",
        columns=columns,
        changelog=mode,
        primary_key=tuple(columns.names.index(name) for name in key),
        fields=all_places,
    )
    if extra is not None:
        node = _with_declared(environment, node, extra)
    identifier = environment._new_name("stream")
    environment._session.catalogs.put_table(identifier, node, temporary=True, ignore=False)
    return Table(ast.SqlTableQuery((identifier.catalog, identifier.database, identifier.name)), environment)


def _record_columns(
    declared: TypeInformation,
) -> tuple[tuple[str, ...], tuple[types.LogicalType, ...], tuple[Any, ...]]:
    """Return names, types and places of the fields of records."""
    if isinstance(declared, TableRowTypeInfo):
        names = tuple(declared.get_field_names())
        return names, declared._logical_types, names
    if isinstance(declared, RowTypeInfo | NamedTupleTypeInfo):
        names = tuple(declared.get_field_names())
        return names, tuple(logical_of(of) for of in declared.get_field_types()), names
    if isinstance(declared, TupleTypeInfo):
        found = tuple(logical_of(of) for of in declared.get_field_types())
        return tuple(f"f{place}" for place in range(len(found))), found, tuple(range(len(found)))
    return ("f0",), (logical_of(declared),), (None,)


def _renamed(names: tuple[str, ...], fields: Sequence[Any]) -> tuple[str, ...]:
    given = tuple(
        str(getattr(field, "name", field)) if not hasattr(field, "_node") else field._node.name[-1] for field in fields
    )
    if len(given) != len(names):
        raise ProgramError(f"The stream has {len(names)} fields ({', '.join(names)}), found {len(given)} names.")
    return given


def _declared_columns(
    schema: Schema | None, names: tuple[str, ...], found: tuple[types.LogicalType, ...], places: tuple[Any, ...]
) -> tuple[logical.Schema, tuple[Any, ...], TableSchema | None]:
    """Return the columns to be made of records, where they come from, and what is declared beyond that."""
    if schema is None:
        return logical.Schema(names, found), places, None
    declared: TableSchema = schema.declared
    known = dict(zip(names, zip(found, places, strict=True), strict=True))
    physical = {column.name: column.type for column in declared.columns if isinstance(column, PhysicalColumn)}
    chosen: dict[str, tuple[types.LogicalType, Any]] = {}
    for name in physical or names:
        if name not in known:
            raise ProgramError(f"The schema names column '{name}', and the stream has {', '.join(names)}.")
        chosen[name] = (physical.get(name, known[name][0]), known[name][1])
    for column in declared.columns:
        if isinstance(column, MetadataColumn):
            if column.metadata_key != _ROWTIME:
                raise ProgramError(f"A stream has the metadata 'rowtime' only, found '{column.metadata_key}'.")
            chosen[column.name] = (column.type, TIMESTAMP_FIELD)
    columns = logical.Schema(tuple(chosen), tuple(one for one, _ in chosen.values()))
    return columns, tuple(place for _, place in chosen.values()), declared


def _with_declared(environment: StreamTableEnvironment, node: logical.Node, declared: TableSchema) -> logical.Node:
    """Return a stream with the computed columns and the event time of a schema."""
    schema = node.schema
    columns: list[TableColumn] = [PhysicalColumn(name, of) for name, of in zip(schema.names, schema.types, strict=True)]
    columns += [column for column in declared.columns if isinstance(column, ComputedColumn)]
    watermark = declared.watermark
    if watermark is not None and watermark.expression.replace(" ", "").upper() == "SOURCE_WATERMARK()":
        # The stream's own watermarks go on; only the column is said to be event time.
        node, watermark = _with_rowtime(node, watermark.column), None
        columns[: len(schema)] = [
            PhysicalColumn(name, of) for name, of in zip(node.schema.names, node.schema.types, strict=True)
        ]
    table = CatalogTable(TableSchema(tuple(columns), watermark))
    return resolve_declared(node, environment._new_name("stream"), table, environment._session)


def _with_rowtime(node: logical.Node, column: str) -> logical.Node:
    assert isinstance(node, logical.StreamScan)
    place = node.columns.names.index(column)
    found = list(node.columns.types)
    found[place] = replace(found[place], attribute=types.TimeAttribute.ROWTIME)  # type: ignore[call-arg]
    return replace(node, columns=logical.Schema(node.columns.names, tuple(found)))


def _has_update_before(mode: Any) -> bool:
    return "UPDATE_BEFORE" in {kind.name for kind in mode.kinds} if hasattr(mode, "kinds") else True


def table_stream(environment: StreamTableEnvironment, table: Table, changelog_mode: Any) -> DataStream[Any]:
    """Return a table as a stream of rows of the environment's program. Event time passes through."""
    from flott.datastream._data_stream import DataStream

    session = environment._session
    plan = session.resolve(table.query)
    settings = session.planner_settings([plan])
    step = session.physical(plan, settings)
    program = environment._environment._program
    ident = Lowering(program, settings, prefix=f"table-{len(program)}").add(step)
    return DataStream(environment._environment, ident, record_type_of(step.schema))

"""datagen: rows that are made up, at a rate. Every value is a function of its row's number, so epochs can repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flott.datastream.connectors.base import Boundedness, Source, SourceReader, SplitEnumerator
from flott.errors import ProgramError
from flott.table._connectors.options import TableOptions, key
from flott.table._connectors.table_source import ConnectorTable, TableConnector, TableSource
from flott.table._sql.errors import nearest
from flott.table._types import logical
from flott.table._types.logical import LogicalType

_RATE = (
    key("rows-per-second").long_type().default_value(10_000).at_least(1)
    .with_description("How many rows are made in a second.")
)  # fmt: skip
_COUNT = (
    key("number-of-rows").long_type().no_default_value().at_least(0)
    .with_description("How many rows there are. Not set: no end, unless a sequence ends.")
)  # fmt: skip
_PARALLELISM = (
    key("scan.parallelism").int_type().no_default_value().at_least(1)
    .with_description("How many subtasks make rows.")
)  # fmt: skip

#: The settings of a field, after ``fields.<name>.``.
FIELD_OPTIONS = {
    "kind": "random (the default) or sequence.",
    "min": "The smallest random number; the smallest of the type if not set.",
    "max": "The largest random number; the largest of the type if not set.",
    "max-past": "How far behind the present a random timestamp is at most; 0 if not set.",
    "length": "The length of random text and bytes (100 if not set), or of arrays, maps and multisets (3).",
    "var-len": "Whether texts and bytes are of any length up to 'length'.",
    "null-rate": "The share of values that are NULL.",
    "start": "The first number of a sequence.",
    "end": "The last number of a sequence. The table ends where its first sequence ends.",
    "element.*": "The settings of the elements of an array or multiset.",
    "key.*": "The settings of the keys of a map.",
    "value.*": "The settings of the values of a map.",
}

DEFAULT_TEXT_LENGTH, DEFAULT_COLLECTION_LENGTH = 100, 3


@dataclass(frozen=True)
class FieldPlan:
    """How the values of a field are made. ``path`` seeds them, so that each field has its own."""

    path: str
    type: LogicalType
    kind: str = "random"
    low: Any = None
    high: Any = None
    length: int | None = None
    variable: bool = False
    null_rate: float = 0.0
    max_past_ms: int = 0
    start: int = 0
    end: int = 0
    children: tuple[FieldPlan, ...] = ()  #: of arrays, maps and rows


@dataclass(frozen=True)
class DatagenSource(Source[Any]):
    """Rows that are made up."""

    fields: tuple[FieldPlan, ...]
    names: tuple[str, ...]
    types: tuple[LogicalType, ...]
    rows: int | None = None
    rows_per_second: int | None = None
    parallelism: int | None = None

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED if self.rows is None else Boundedness.BOUNDED

    @property
    def preferred_parallelism(self) -> int | None:
        return self.parallelism

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.columns.generated import GeneratedRowsEnumerator

        return GeneratedRowsEnumerator(self.rows, self.rows_per_second)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.columns.generated import GeneratedRowsReader

        return GeneratedRowsReader(self)


def _source(table: ConnectorTable) -> TableSource:
    options = TableOptions(str(table.identifier), table.options)
    _check_fields(table, options)
    plans = {
        name: field_plan(name, f"fields.{name}", of, options)
        for name, of in zip(table.names, table.types, strict=True)
    }
    ends = [plan.end - plan.start + 1 for plan in plans.values() if plan.kind == "sequence"]
    count = options.get(_COUNT)
    rows = min([*ends, *([] if count is None else [count])], default=None)
    if table.batch and rows is None:
        raise ProgramError(f"Table {table.identifier} never ends, and the query is a batch: set 'number-of-rows'.")

    def make(source: TableSource) -> Source[Any]:
        return DatagenSource(
            tuple(plans[name] for name in source.names),
            source.names,
            source.types,
            rows,
            options.get(_RATE),
            options.get(_PARALLELISM),
        )

    return TableSource(table.names, table.types, make, bounded=rows is not None, estimated_rows=rows)


def _check_fields(table: ConnectorTable, options: TableOptions) -> None:
    for option in table.options:
        if not option.startswith("fields."):
            continue
        name, _, setting = option.removeprefix("fields.").partition(".")
        # A field may have dots in its name, or settings below it that do.
        owner = next((each for each in table.names if option.startswith(f"fields.{each}.")), None)
        if owner is None:
            raise ProgramError(
                f"Table {table.identifier}: '{option}' is about a field '{name}' that the table does not have."
                f"{nearest(name, table.names)}"
            )
        setting = option.removeprefix(f"fields.{owner}.").split(".")[-1]
        if setting not in FIELD_OPTIONS:
            raise ProgramError(
                f"Table {table.identifier}: a generated field has no setting '{setting}', found in '{option}'."
                f"{nearest(setting, FIELD_OPTIONS)}"
            )


def field_plan(path: str, prefix: str, of: LogicalType, options: TableOptions) -> FieldPlan:
    """Return how a field is made, as the options below its prefix say."""
    table = options.table

    def setting(name: str) -> str | None:
        return options.options.get(f"{prefix}.{name}")

    def number(name: str) -> int | None:
        text = setting(name)
        try:
            return None if text is None else int(text)
        except ValueError:
            raise ProgramError(f"Table {table}: '{prefix}.{name}' is a whole number, found {text!r}.") from None

    kind = setting("kind") or "random"
    if kind not in ("random", "sequence"):
        raise ProgramError(f"Table {table}: '{prefix}.kind' is 'random' or 'sequence', found {kind!r}.")
    null_rate = options.get(key(f"{prefix}.null-rate").float_type().default_value(0.0))
    if not 0 <= null_rate <= 1:
        raise ProgramError(f"Table {table}: '{prefix}.null-rate' is between 0 and 1, found {null_rate}.")
    if kind == "sequence":
        start, end = number("start"), number("end")
        if start is None or end is None:
            raise ProgramError(f"Table {table}: a sequence needs the options '{prefix}.start' and '{prefix}.end'.")
        if end < start or not (of.is_numeric or isinstance(of, logical.CharType | logical.VarCharType)):
            raise ProgramError(f"Table {table}: {of} cannot be a sequence from {start} to {end}.")
        return FieldPlan(path, of, "sequence", start=start, end=end, null_rate=null_rate)
    children: tuple[FieldPlan, ...] = ()
    match of:
        case logical.ArrayType():
            children = (field_plan(f"{path}.element", f"{prefix}.element", of.element, options),)
        case logical.MultisetType():
            children = (field_plan(f"{path}.element", f"{prefix}.element", of.element, options),)
        case logical.MapType():
            children = (
                field_plan(f"{path}.key", f"{prefix}.key", of.key, options),
                field_plan(f"{path}.value", f"{prefix}.value", of.value, options),
            )
        case logical.RowType():
            children = tuple(
                field_plan(f"{path}.{each.name}", f"{prefix}.{each.name}", each.type, options) for each in of.fields
            )
        case logical.RawType() | logical.NullType():
            raise ProgramError(f"Table {table}: rows of the type {of} cannot be generated.")
    low, high = _range(of, setting("min"), setting("max"), table, prefix)
    return FieldPlan(
        path,
        of,
        low=low,
        high=high,
        length=number("length"),
        variable=options.get(key(f"{prefix}.var-len").boolean_type().default_value(False)),
        null_rate=null_rate,
        max_past_ms=options.get(key(f"{prefix}.max-past").duration_type().default_value(0)),
        children=children,
    )


def _range(of: LogicalType, low: str | None, high: str | None, table: str, prefix: str) -> tuple[Any, Any]:
    """Return the smallest and the largest value of a random number."""
    parse: Any = float
    smallest: Any
    largest: Any
    match of:
        case logical.IntegerType():
            parse, smallest, largest = int, -(1 << (of.bits - 1)), (1 << (of.bits - 1)) - 1
        case logical.FloatType():
            smallest, largest = 1.4e-45, 3.4028234663852886e38
        case logical.DoubleType():
            smallest, largest = 5e-324, 1.7976931348623157e308
        case logical.DecimalType():
            largest = float(10 ** (of.precision - of.scale)) - 10.0**-of.scale
            smallest = -largest
        case logical.YearMonthIntervalType():
            parse, smallest, largest = int, 0, 120_000
        case logical.DayTimeIntervalType():
            parse, smallest, largest = int, 0, 1 << 40
        case _:
            if low is not None or high is not None:
                raise ProgramError(f"Table {table}: '{prefix}' is of the type {of}, which has no 'min' and 'max'.")
            return None, None
    try:
        bounds = (smallest if low is None else parse(low), largest if high is None else parse(high))
    except ValueError:
        raise ProgramError(f"Table {table}: '{prefix}' has numbers as min and max, found {low!r}, {high!r}.") from None
    if bounds[0] > bounds[1]:
        raise ProgramError(f"Table {table}: '{prefix}' is between {bounds[0]} and {bounds[1]}, which is no range.")
    return bounds


CONNECTOR = TableConnector(
    "datagen",
    source=_source,
    options={
        _RATE.key: _RATE.description,
        _COUNT.key: _COUNT.description,
        _PARALLELISM.key: _PARALLELISM.description,
        **{f"fields.#.{name}": text for name, text in FIELD_OPTIONS.items()},
    },
)

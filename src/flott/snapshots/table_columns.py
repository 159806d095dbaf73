"""The columns of a state's table, and how raw rows become their cells. Pure; either side, without Arrow and Spark.

The type of a column is a node of a schema (``managed_state.schema.type_schema``); ``arrow`` and ``state_frames`` say
what it is there. Cells are what both take: numbers, text, dates, lists, dicts, and a tuple for every record.

Where a program declared no type, one is recognised from a sample if all of it is of one plain type; otherwise a column
shows the values as Python prints them, and its name says so: ``value_repr``.
"""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flott.common.time import Instant
from flott.common.typeinfo._basic import PickledBytesTypeInfo
from flott.common.typeinfo._type_information import TypeInformation
from flott.common.types import Row
from flott.errors import StateError, TypeMismatchError
from flott.runtime.managed_state.files.column_codec import field_names, plain_values
from flott.runtime.managed_state.schema.type_schema import RECORDS, Json, schema_of
from flott.snapshots.guesses import guess_type

LONG: Json = {"type": "long"}
TEXT: Json = {"type": "string"}
BYTES: Json = {"type": "bytes"}

#: What stands in a raw row beside the program's own values.
_KNOWN: Mapping[str, Json] = {
    "subtask": LONG,
    "window_start": LONG,
    "window_end": LONG,
    "namespace": TEXT,
    "position": LONG,
    "timestamp": LONG,
    "last_access": LONG,
}

Cell = Callable[[Any], Any]


@dataclass(frozen=True)
class Column:
    """One column: its name, and its type as a schema."""

    name: str
    type: Json


@dataclass(frozen=True)
class CellType:
    """The type of one of the program's own values in a row."""

    schema: Json | None  #: None: shown as text
    expected: TypeInformation | None = None  #: what values must be that were written without a type

    @staticmethod
    def declared(schema: Json | None) -> CellType | None:
        """Return what the program declared; None if it did not."""
        return None if schema is None else CellType(schema)

    @staticmethod
    def chosen(info: TypeInformation) -> CellType:
        """Return what the reader says the values are."""
        schema = None if isinstance(info, PickledBytesTypeInfo) else schema_of(info)
        return CellType(schema, info if schema is not None else None)

    @staticmethod
    def guessed(sample: Iterable[Any]) -> CellType:
        """Return what a sample of values has in common."""
        info = guess_type(list(sample))
        return CellType(None) if info is None else CellType.chosen(info)


@dataclass(frozen=True)
class RowShape:
    """All columns of a state's table."""

    state: str  #: for errors
    names: tuple[str, ...]  #: of what stands in a raw row
    types: Mapping[str, CellType]  #: of the program's own values among them
    pickled: bool = False  #: values that are shown as text come pickled, too

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns, in order. The fields of a value that is a record are columns of their own."""
        return tuple(column for name in self.names for column in self._columns_of(name))

    def cells(self, rows: list[tuple[Any, ...]]) -> list[list[Any]]:
        """Return the cells of raw rows, column by column."""
        return [
            cells
            for position, name in enumerate(self.names)
            for cells in self._cells_of(name, [row[position] for row in rows])
        ]

    def records(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return the cells of raw rows, row by row."""
        return list(zip(*self.cells(rows), strict=True))

    def _columns_of(self, name: str) -> list[Column]:
        if name in _KNOWN:
            return [Column(name, _KNOWN[name])]
        schema = self.types[name].schema
        if schema is None:
            shown = [Column(f"{name}_repr", TEXT)]
            return [*shown, Column(f"{name}_pickled", BYTES)] if self.pickled else shown
        if name == "value" and schema["type"] in RECORDS:
            names = zip(field_names(schema), schema["fields"], strict=True)
            return [Column(self._free(field), known["type"]) for field, known in names]
        return [Column(name, schema)]

    def _free(self, field: str) -> str:
        """Return the name of a field's column, which must not be that of another."""
        taken = {shown for name in self.names if name != "value" for shown in (name, f"{name}_repr", f"{name}_pickled")}
        return f"value_{field}" if field in taken else field

    def _cells_of(self, name: str, values: list[Any]) -> list[list[Any]]:
        if name in _KNOWN:
            return [values]
        kind = self.types[name]
        if kind.schema is None:
            shown = [list(map(repr, values))]
            return [*shown, [pickle.dumps(value, protocol=5) for value in values]] if self.pickled else shown
        try:
            if kind.expected is not None:
                values = plain_values(kind.schema, kind.expected.conform(values))
            if name == "value" and kind.schema["type"] in RECORDS:
                return _fields_of(kind.schema, values)
            return [convert(kind.schema, values)]
        except TypeMismatchError as error:
            culprit = values[error.index] if error.index is not None else None
            raise StateError(
                f"{self.state} was written without a type, and its first {name}s look like {kind.expected!r}, but one"
                f" is {culprit!r}. Say what they are with {name}_type=..., or have them as text with"
                f" {name}_type=Types.PICKLED_BYTE_ARRAY()."
            ) from error
        except (TypeError, ValueError, AttributeError, LookupError, OverflowError) as error:
            raise StateError(
                f"{self.state} holds a {name} that does not fit into the column of its type: {type(error).__name__}:"
                f" {error}. Have them as text with {name}_type=Types.PICKLED_BYTE_ARRAY()."
            ) from error


# --- values -> cells -------------------------------------------------------------------------------------------------


def convert(schema: Json, values: list[Any]) -> list[Any]:
    """Return values of a type as cells; None stays None."""
    cell = _cell(schema)
    return values if cell is None else [None if value is None else cell(value) for value in values]


def _fields_of(schema: Json, values: list[Any]) -> list[list[Any]]:
    """Return one list of cells per field of a record."""
    names = field_names(schema)
    absent: Sequence[Any] = (None,) * len(names)
    spread = [absent if value is None else _parts(schema, names, value) for value in values]
    return [
        convert(field["type"], [parts[position] for parts in spread]) for position, field in enumerate(schema["fields"])
    ]


def _cell(schema: Json) -> Cell | None:
    """Return what makes cells of values of a type, none of which is None; None: they are cells already."""
    match schema["type"]:
        case "big-int":
            return _whole
        case "big-decimal" | "time":
            return str
        case "pickled":
            return repr
        case "instant":
            return _instant
        case "timestamp":
            return _timestamp
        case "list" | "tuple-of":
            element = schema["element"]
            return lambda values: convert(element, list(values))
        case "map":
            return _map_cell(schema)
        case _ if "fields" in schema:
            return _record_cell(schema)
    return None


def _map_cell(schema: Json) -> Cell:
    key, value = schema["key"], schema["value"]
    return lambda held: dict(zip(convert(key, list(held)), convert(value, list(held.values())), strict=True))


def _record_cell(schema: Json) -> Cell:
    names = field_names(schema)
    cells = [_cell(field["type"]) for field in schema["fields"]]

    def cell(record: Any) -> tuple[Any, ...]:
        return tuple(
            part if make is None or part is None else make(part)
            for part, make in zip(_parts(schema, names, record), cells, strict=True)
        )

    return cell


def _parts(schema: Json, names: tuple[str, ...], record: Any) -> Sequence[Any]:
    """Return the fields of a record in the order of its schema."""
    if isinstance(record, Mapping):
        return [record.get(name) for name in names]
    if isinstance(record, Row) and record._fields not in (None, names) and _has_names(schema):
        found = record.as_dict()  # written when the record had other fields
        return [found.get(name) for name in names]
    return list(record)


def _has_names(schema: Json) -> bool:
    return all("name" in field for field in schema["fields"])


def _whole(value: int) -> int:
    if not -(1 << 63) <= value < 1 << 63:
        raise OverflowError(f"{value} is beyond 64 bits")
    return value


def _instant(value: Instant) -> datetime.datetime:
    since = datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + since


def _timestamp(value: datetime.datetime) -> datetime.datetime:
    return value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)

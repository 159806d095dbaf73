"""Types with values that conform to them, for property tests; and a comparison that forgives nothing."""

from __future__ import annotations

import dataclasses
import datetime
import struct
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from typing import Any, NamedTuple, NotRequired, TypedDict
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from flott.common.time import Instant
from flott.common.typeinfo import TypeInformation, Types
from flott.common.types import Row, RowKind


class Colour(IntEnum):
    RED = 1
    BLUE = 2


class Word(str):
    """A subclass of str: conforms to STRING, and is not one."""


@dataclasses.dataclass
class Point:
    x: int
    y: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    name: str
    at: Point
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Farther(Point):
    z: int = 0


@dataclasses.dataclass
class Noted:
    """Has an attribute that is no field."""

    x: int

    def __post_init__(self) -> None:
        self.note = f"made with {self.x}"


@dataclasses.dataclass
class Guarded:
    """Says itself how it is pickled."""

    x: int

    def __getstate__(self) -> int:
        return self.x

    def __setstate__(self, state: int) -> None:
        self.x = state


class Pair(NamedTuple):
    left: str
    right: int = 0


class Order(TypedDict):
    item: str
    count: int
    note: NotRequired[str | None]


floats = st.floats(allow_nan=True)
texts = st.text() | st.sampled_from(["", "\0", "a\0b", "\ud800", "\udc00\ud800", "né", "x" * 300])
wide = st.integers() | st.integers(-(1 << 70), 1 << 70)
zones = st.sampled_from(
    [
        None,
        datetime.UTC,
        datetime.timezone(datetime.timedelta(hours=-5, minutes=-30)),
        datetime.timezone(datetime.timedelta(hours=1, seconds=7, microseconds=9)),
        datetime.timezone(datetime.timedelta(hours=1), "named"),
        ZoneInfo("Europe/Berlin"),
        ZoneInfo("UTC"),
    ]
)
timestamps = st.builds(
    lambda at, zone, fold: at.replace(tzinfo=zone, fold=fold), st.datetimes(), zones, st.integers(0, 1)
)
times = st.builds(lambda at, zone, fold: at.replace(tzinfo=zone, fold=fold), st.times(), zones, st.integers(0, 1))


def _row(names: tuple[str, ...] | None, kind: RowKind, values: Any) -> Row:
    row = Row(*values)
    if names is not None:
        row.set_field_names(names)
    row.set_row_kind(kind)
    return row


def nullable(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def _simple() -> list[tuple[TypeInformation, st.SearchStrategy[Any]]]:
    return [
        (Types.STRING(), texts | texts.map(Word)),
        (Types.CHAR(), st.characters()),
        (Types.BOOLEAN(), st.booleans()),
        (Types.BYTE(), st.integers(-128, 127)),
        (Types.SHORT(), st.integers(-(1 << 15), (1 << 15) - 1)),
        (Types.INT(), st.integers(-(1 << 31), (1 << 31) - 1) | st.sampled_from(Colour)),
        (Types.LONG(), st.integers(-(1 << 63), (1 << 63) - 1)),
        (Types.BIG_INT(), wide | st.sampled_from(Colour)),
        (Types.FLOAT(), st.floats(allow_nan=True, width=32)),
        (Types.DOUBLE(), floats | st.sampled_from([-0.0, float("inf"), 5e-324])),
        (Types.BIG_DEC(), st.decimals() | st.sampled_from([Decimal("1.00"), Decimal("-0E+7"), Decimal("sNaN12")])),
        (Types.INSTANT(), st.builds(Instant, wide, st.integers(0, 999_999_999))),
        (Types.SQL_DATE(), st.dates()),
        (Types.SQL_TIME(), times),
        (Types.SQL_TIMESTAMP(), timestamps),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary()),
        (Types.PICKLED_BYTE_ARRAY(), st.integers() | st.text() | st.frozensets(st.integers())),
    ]


def _composite(
    inner: list[tuple[TypeInformation, st.SearchStrategy[Any]]],
) -> st.SearchStrategy[tuple[TypeInformation, st.SearchStrategy[Any]]]:
    def of(
        build: Callable[..., tuple[TypeInformation, st.SearchStrategy[Any]]],
    ) -> st.SearchStrategy[tuple[TypeInformation, st.SearchStrategy[Any]]]:
        return st.builds(build, st.sampled_from(inner), st.sampled_from(inner))

    hashable = [pair for pair in inner if repr(pair[0]) in ("String", "Long", "BigInteger", "Boolean")]
    kinds = st.sampled_from(RowKind)
    return st.one_of(
        of(lambda a, b: (Types.LIST(a[0]), st.lists(nullable(a[1]), max_size=4))),
        of(lambda a, b: (Types.of(tuple[int, ...]), st.lists(wide, max_size=4).map(tuple))),
        of(lambda a, b: (Types.TUPLE([a[0], b[0]]), st.tuples(nullable(a[1]), nullable(b[1])))),
        of(
            lambda a, b: (
                Types.ROW_NAMED(["a", "b"], [a[0], b[0]]),
                st.builds(_row, st.just(("a", "b")), kinds, st.tuples(nullable(a[1]), nullable(b[1]))),
            )
        ),
        of(
            lambda a, b: (
                Types.ROW([a[0], b[0]]),
                st.builds(
                    _row,
                    st.sampled_from([("f0", "f1"), ("own", "names")]),
                    kinds,
                    st.tuples(nullable(a[1]), nullable(b[1])),
                ),
            )
        ),
        st.builds(
            lambda key, value: (Types.MAP(key[0], value[0]), st.dictionaries(key[1], nullable(value[1]), max_size=4)),
            st.sampled_from(hashable),
            st.sampled_from(inner),
        ),
    )


points = st.builds(Point, wide, nullable(floats)) | st.builds(Farther, wide, floats, wide)
RECORDS: list[tuple[TypeInformation, st.SearchStrategy[Any]]] = [
    (Types.of(Point), points),
    (Types.of(Place), st.builds(Place, texts, nullable(points), st.lists(texts, max_size=3))),
    (Types.of(Noted), st.builds(Noted, wide)),
    (Types.of(Guarded), st.builds(Guarded, wide)),
    (Types.of(Pair), st.builds(Pair, texts, wide)),
    (
        Types.of(Order),
        st.fixed_dictionaries({"item": texts, "count": wide})
        | st.fixed_dictionaries({"note": nullable(texts), "count": wide, "item": texts}),
    ),
]

SIMPLE = _simple()
#: A type, and a strategy of values that it lets through as they are.
typed = st.one_of(st.sampled_from(SIMPLE), st.sampled_from(RECORDS), _composite(SIMPLE + RECORDS))


def exact(value: Any) -> Any:
    """Something that is equal for two values only if nobody can tell them apart."""
    match value:
        case float():
            return type(value), struct.pack("d", value)
        case Row():
            return Row, value._fields, value.get_row_kind(), exact(value._values)
        case list() | tuple():
            return type(value), [exact(part) for part in value]
        case dict():
            return type(value), [(exact(key), exact(part)) for key, part in value.items()]
        case datetime.datetime() | datetime.time():
            return type(value), value.isoformat(), value.fold, repr(value.tzinfo)
        case Decimal():
            return type(value), str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        extra = sorted(vars(value)) if hasattr(value, "__dict__") else None
        return type(value), [exact(getattr(value, name)) for name in names], extra
    return type(value), value

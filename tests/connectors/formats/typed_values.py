"""Types and values of them, for property tests of formats."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from flott.common.time import Instant
from flott.common.typeinfo import Types
from flott.common.types import Row

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


FLOATS = st.floats(width=32, allow_nan=False).map(lambda value: struct.unpack("f", struct.pack("f", value))[0])
INSTANTS = st.builds(Instant, st.integers(-62135596800, 253402300799), st.integers(0, 999_999_999))

#: By name: a type and the values of it that a format has to preserve.
SCALARS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "STRING": (Types.STRING(), TEXT),
    "BOOLEAN": (Types.BOOLEAN(), st.booleans()),
    "BYTE": (Types.BYTE(), whole(8)),
    "SHORT": (Types.SHORT(), whole(16)),
    "INT": (Types.INT(), whole(32)),
    "LONG": (Types.LONG(), whole(64)),
    "FLOAT": (Types.FLOAT(), FLOATS),
    "DOUBLE": (Types.DOUBLE(), st.floats(allow_nan=False)),
    "CHAR": (Types.CHAR(), st.characters(exclude_categories=["Cs"])),
    "BIG_INT": (Types.BIG_INT(), st.integers()),
    "BIG_DEC": (Types.BIG_DEC(), st.decimals(allow_nan=False, allow_infinity=False)),
    "INSTANT": (Types.INSTANT(), INSTANTS),
    "SQL_DATE": (Types.SQL_DATE(), st.dates()),
    "SQL_TIME": (Types.SQL_TIME(), st.times()),
    "SQL_TIMESTAMP": (Types.SQL_TIMESTAMP(), st.datetimes()),
    "BYTES": (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary(max_size=12)),
}
NAMES = ("a", "b b", 'c"%s', "d")


def nullable(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


@st.composite
def typed(draw: st.DrawFn, leaves: tuple[str, ...] = tuple(SCALARS), depth: int = 2, maps: bool = True) -> Any:
    """Draw a type, with the strategy of its values."""
    kinds = ["scalar"] * 3 + (["list", "row", *(["map", "tuple"] if maps else [])] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "scalar":
        return SCALARS[draw(st.sampled_from(leaves))]
    if kind == "list":
        declared, values = draw(typed(leaves, depth - 1, maps))
        return Types.LIST(declared), st.lists(nullable(values), max_size=3)
    if kind == "map":
        possible = [name for name in leaves if name in ("STRING", "LONG", "SQL_DATE")]
        key_type, keys = SCALARS[draw(st.sampled_from(possible))]
        declared, values = draw(typed(leaves, depth - 1, maps))
        return Types.MAP(key_type, declared), st.dictionaries(keys, nullable(values), max_size=3)
    fields = [draw(typed(leaves, depth - 1, maps)) for _ in range(draw(st.integers(1, 3)))]
    if kind == "tuple":
        return Types.TUPLE([each for each, _ in fields]), st.tuples(*[nullable(values) for _, values in fields])
    return row_of(fields)


def row_of(fields: list[tuple[Any, st.SearchStrategy[Any]]]) -> tuple[Any, st.SearchStrategy[Row]]:
    names = NAMES[: len(fields)]
    declared = Types.ROW_NAMED(names, [each for each, _ in fields])
    values = st.tuples(*[nullable(values) for _, values in fields])
    return declared, values.map(lambda each: Row(**dict(zip(names, each, strict=True))))


@st.composite
def rows(draw: st.DrawFn, **options: Any) -> tuple[Any, list[Row]]:
    """Draw a type of rows, and some rows of it."""
    fields = [draw(typed(**options)) for _ in range(draw(st.integers(1, 4)))]
    declared, values = row_of(fields)
    return declared, draw(st.lists(values, max_size=4))


EXAMPLES: dict[str, Any] = {
    "STRING": "ä\n\"x",
    "BOOLEAN": True,
    "BYTE": -128,
    "SHORT": 32767,
    "INT": -(2**31),
    "LONG": 2**63 - 1,
    "FLOAT": 0.5,
    "DOUBLE": 0.1,
    "CHAR": "é",
    "BIG_INT": 10**30,
    "BIG_DEC": Decimal("12345678901234567890.10"),
    "INSTANT": Instant(1, 500_000_001),
    "SQL_DATE": datetime.date(2026, 1, 2),
    "SQL_TIME": datetime.time(3, 4, 5, 60),
    "SQL_TIMESTAMP": datetime.datetime(2026, 1, 2, 3, 4, 5, 120_000),
    "BYTES": b"\x00\xff",
}

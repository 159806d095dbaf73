"""Aggregate functions over columns against the same functions of one list: folded, row by row, and in two phases."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

from flott.errors import ProgramError  # noqa: E402
from flott.table._functions.aggregates.accumulation import Accumulation, Groups, take  # noqa: E402
from flott.table._functions.aggregates.library import (  # noqa: E402
    AGGREGATES,
    MadeFor,
    aggregate_named,
    aggregates,
    make_accumulation,
)
from flott.table._functions.function import CallArguments  # noqa: E402
from flott.table._plan.logical import AggregateCall  # noqa: E402
from flott.table._types.arrow import arrow_type  # noqa: E402
from flott.table._types.logical import (  # noqa: E402
    ArrayType,
    BigIntType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LogicalType,
    TimestampType,
    TinyIntType,
    VarCharType,
)

STRING = VarCharType(2147483647)

VALUES: dict[str, tuple[LogicalType, st.SearchStrategy[Any]]] = {
    "tinyint": (TinyIntType(), st.integers(-128, 127)),
    "int": (IntType(), st.integers(-(2**31), 2**31 - 1)),
    "bigint": (BigIntType(), st.integers(-(2**40), 2**40)),
    "double": (DoubleType(), st.floats(-1e9, 1e9)),
    "float": (FloatType(), st.floats(-1e6, 1e6, width=32)),
    "decimal": (DecimalType(10, 2), st.decimals(-(10**7), 10**7, places=2)),
    "wide decimal": (DecimalType(38, 3), st.decimals(-(10**35) + 1, 10**35 - 1, places=3)),
    "long decimal": (DecimalType(19, 0), st.integers(-(2**63), 2**63 - 1).map(Decimal)),
    "string": (STRING, st.text(max_size=4)),
    "date": (DateType(), st.dates()),
    "timestamp": (TimestampType(3), st.integers(0, 10**12)),
    "boolean": (BooleanType(), st.booleans()),
}
NUMERIC = ["tinyint", "int", "bigint", "double", "float", "decimal", "wide decimal", "long decimal"]


def wrapped(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def in_type(value: Any, of: LogicalType) -> Any:
    bits = {TinyIntType: 8, IntType: 32, BigIntType: 64}.get(type(of))  # type: ignore[call-overload]
    return value if value is None or bits is None else wrapped(int(value), bits)


def total(values: list[Any], of: LogicalType) -> Any:
    if not values:
        return None
    if isinstance(of, FloatType):
        found = np.float32(0)
        for value in values:
            found = np.float32(found + np.float32(value))
        return float(found)
    if isinstance(of, DoubleType):
        added = 0.0
        for value in values:
            added += value
        return added
    with localcontext(prec=80):
        return in_type(fitting(sum(values), of), of)


def fitting(value: Any, of: LogicalType, scale: int | None = None) -> Any:
    """A decimal of more than 38 digits is NULL."""
    if not isinstance(of, DecimalType):
        return value
    return value if abs(value) < Decimal(10) ** (38 - (of.scale if scale is None else scale)) else None


def average(values: list[Any], of: LogicalType) -> Any:
    if not values:
        return None
    if isinstance(of, FloatType | DoubleType):
        added = 0.0
        for value in values:
            added += value
        return float(np.float32(added / len(values))) if isinstance(of, FloatType) else added / len(values)
    if isinstance(of, DecimalType):
        with localcontext(prec=80):
            scale = max(6, of.scale)
            if fitting(sum(values), of) is None:
                return None
            return fitting((sum(values) / len(values)).quantize(Decimal(1).scaleb(-scale), "ROUND_HALF_UP"), of, scale)
    return in_type(math.trunc(abs(sum(values)) // len(values)) * (1 if sum(values) >= 0 else -1), of)


MODELS: dict[str, Callable[[list[Any], LogicalType], Any]] = {
    "COUNT": lambda values, of: len(values),
    "SUM": total,
    "AVG": average,
    "MIN": lambda values, of: min(values, default=None),
    "MAX": lambda values, of: max(values, default=None),
    "FIRST_VALUE": lambda values, of: values[0] if values else None,
    "LAST_VALUE": lambda values, of: values[-1] if values else None,
}


def made(name: str, of: LogicalType, *, retracts: bool = False) -> Accumulation:
    entry = aggregates()[name]
    result = entry.infer(CallArguments(name, (of,)))
    return entry.make(MadeFor((of,), result, retracts))


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, LogicalType, list[tuple[int, Any]]]:
    name = draw(st.sampled_from(sorted(MODELS)))
    kind = draw(st.sampled_from(NUMERIC if name in ("SUM", "AVG") else sorted(VALUES)))
    of, values = VALUES[kind]
    rows = draw(st.lists(st.tuples(st.integers(0, 3), st.one_of(values, st.none())), max_size=30))
    return name, of, rows


def python(of: LogicalType, values: list[Any]) -> list[Any]:
    return pa.array(values, arrow_type(of)).to_pylist()  # type: ignore[no-any-return]


@given(calls(), st.integers(0, 30), st.booleans())
def test_it_is_the_function_of_the_values_of_each_group(
    call: tuple[str, LogicalType, list[tuple[int, Any]]], cut: int, retracts: bool
) -> None:
    name, of, rows = call
    accumulation = made(name, of, retracts=retracts)
    values = python(of, [value for _, value in rows])
    groups = [group for group, _ in rows]

    def expected(upto: int, group: int) -> Any:
        rows = zip(groups[:upto], values[:upto], strict=True)
        return MODELS[name]([value for at, value in rows if at == group and value is not None], of)

    wanted = python(aggregates()[name].infer(CallArguments(name, (of,))), [expected(len(rows), g) for g in range(4)])
    state = accumulation.empty(4)
    for part in (rows[:cut], rows[cut:]):  # wherever an epoch ends
        array = pa.array([value for _, value in part], arrow_type(of))
        state = accumulation.fold(_groups(part), state, [array])
    assert accumulation.result(state).to_pylist() == wanted
    assert accumulation.result(_scanned(accumulation, of, rows)).to_pylist() == [
        expected(place + 1, groups[place]) for place in np.argsort(groups, kind="stable").tolist()
    ]
    if not isinstance(of, FloatType | DoubleType) or name not in ("SUM", "AVG"):  # rounding depends on the order
        merged = accumulation.empty(4)
        for part in (rows[:cut], rows[cut:]):
            array = pa.array([value for _, value in part], arrow_type(of))
            partial = accumulation.fold(_groups(part), accumulation.empty(4), [array])
            merged = accumulation.merge(Groups(np.arange(4), 4, np.ones(4, np.int64)), merged, partial)
        assert accumulation.result(merged).to_pylist() == wanted


def _groups(rows: list[tuple[int, Any]]) -> Groups:
    return Groups(np.array([group for group, _ in rows], np.int64), 4, np.ones(len(rows), np.int64))


def _scanned(accumulation: Accumulation, of: LogicalType, rows: list[tuple[int, Any]]) -> Any:
    ids = np.array([group for group, _ in rows], np.int64)
    order = np.argsort(ids, kind="stable")
    present, dense = np.unique(ids[order], return_inverse=True)
    initial = [take(column, present) for column in accumulation.empty(4)]
    array = pa.array([value for _, value in rows], arrow_type(of)).take(pa.array(order))
    return accumulation.scan(Groups(dense, len(present), np.ones(len(rows), np.int64), True), initial, [array])


@given(
    st.sampled_from(["COUNT", "SUM", "AVG", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"]),
    st.sampled_from(["int", "decimal", "wide decimal", "long decimal"]),
    st.data(),
)
def test_what_is_taken_away_was_never_there(name: str, kind: str, data: st.DataObject) -> None:
    of, values = VALUES[kind]
    accumulation = made(name, of, retracts=True)
    held: list[Any] = []
    rows: list[tuple[int, Any]] = []
    for _ in range(data.draw(st.integers(0, 12))):
        if held and data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(held))
            held.remove(gone)
            rows.append((-1, gone))
        else:
            held.append(python(of, [data.draw(st.one_of(values, st.none()))])[0])
            rows.append((1, held[-1]))
    ids, signs = np.zeros(len(rows), np.int64), np.array([sign for sign, _ in rows], np.int64)
    array = pa.array([value for _, value in rows], arrow_type(of))
    state = accumulation.fold(Groups(ids, 1, signs), accumulation.empty(1), [array])
    found = accumulation.result(state).to_pylist()
    assert found == [MODELS[name]([value for value in held if value is not None], of)]


def aggregated(name: str, of: LogicalType, values: list[Any], literals: tuple[Any, ...] = ()) -> Any:
    result = aggregates()[name].infer(CallArguments(name, (of,) * (2 if literals and name == "PERCENTILE" else 1)))
    call = AggregateCall(name, (0,), result, "x", literals=literals)
    accumulation = make_accumulation(call, (of,), retracts=True)
    groups = Groups(np.zeros(len(values), np.int64), 1, np.ones(len(values), np.int64))
    state = accumulation.fold(groups, accumulation.empty(1), [pa.array(values, arrow_type(of))])
    return accumulation.result(state).to_pylist()[0]


@pytest.mark.parametrize(
    ("name", "of", "values", "literals", "expected"),
    [
        ("SUM", IntType(), [2**31 - 1, 1], (), -(2**31)),
        ("SUM", DecimalType(38, 0), [Decimal(10**38 - 1), Decimal(1)], (), None),
        ("SUM", DecimalType(38, 0), [Decimal(10**38 - 1), Decimal(1), Decimal(-5)], (), Decimal(10**38 - 5)),
        ("SUM", DecimalType(38, 0), [Decimal(1 - 10**38)] * 3, (), None),
        ("SUM", DecimalType(19, 0), [Decimal(2**61)] * 8, (), Decimal(2**64)),
        ("AVG", DecimalType(38, 3), [Decimal(10**32)], (), None),
        ("AVG", DecimalType(38, 0), [Decimal(10**38 - 1), Decimal(1)], (), None),
        ("VAR_POP", DecimalType(38, 0), [Decimal(10**30), Decimal(0)], (), None),
        ("SUM0", IntType(), [], (), 0),
        ("AVG", IntType(), [1, 2], (), 1),
        ("AVG", IntType(), [-1, -2], (), -1),
        ("AVG", DecimalType(5, 2), [Decimal("1.00"), Decimal("2.01")], (), Decimal("1.505000")),
        ("VAR_POP", DoubleType(), [1.0, 2.0, 3.0, 4.0], (), 1.25),
        ("VAR_SAMP", DoubleType(), [1.0, 2.0, 3.0], (), 1.0),
        ("VARIANCE", DoubleType(), [1.0], (), None),
        ("STDDEV_POP", DoubleType(), [2.0, 4.0], (), 1.0),
        ("STDDEV_SAMP", IntType(), [1, 3, 5], (), 2),
        ("LISTAGG", STRING, ["a", None, "b"], (), "a,b"),
        ("LISTAGG", STRING, ["a", "b"], ("|",), "a|b"),
        ("LISTAGG", STRING, [], (), None),
        ("COLLECT", STRING, ["a", "b", "a", None], (), [("a", 2), ("b", 1)]),
        ("ARRAY_AGG", IntType(), [1, None, 2], (), [1, None, 2]),
        ("ARRAY_AGG", IntType(), [], (), None),
        ("JSON_ARRAYAGG", STRING, ["a", None, "ü"], (), '["a","ü"]'),
        ("JSON_ARRAYAGG_NULL_ON_NULL", IntType(), [1, None], (), "[1,null]"),
        ("PERCENTILE", IntType(), [10, 20, 30, 40], (0.5,), 25.0),
        ("PERCENTILE", IntType(), [10, 20, 30], (0.25,), 15.0),
        ("APPROX_COUNT_DISTINCT", STRING, ["a", "b", "a", None], (), 2),
        ("MAX", BooleanType(), [False, True, None], (), True),
    ],
)
def test_values_of_functions(name: str, of: LogicalType, values: list[Any], literals: Any, expected: Any) -> None:
    assert aggregated(name, of, values, literals) == expected


def test_a_subquery_of_two_rows_is_no_value() -> None:
    assert aggregated("SINGLE_VALUE", IntType(), [None]) is None
    with pytest.raises(ProgramError, match="gave 2 rows"):
        aggregated("SINGLE_VALUE", IntType(), [1, 2])


@pytest.mark.parametrize(
    ("name", "of", "expected"),
    [
        ("COUNT", STRING, "BIGINT NOT NULL"),
        ("SUM", IntType(nullable=False), "INT"),
        ("SUM", DecimalType(10, 2), "DECIMAL(38, 2)"),
        ("AVG", BigIntType(), "BIGINT"),
        ("AVG", DecimalType(10, 2), "DECIMAL(38, 6)"),
        ("MIN", STRING, "STRING"),
        ("COLLECT", IntType(nullable=False), "MULTISET<INT NOT NULL> NOT NULL"),
        ("ARRAY_AGG", IntType(), "ARRAY<INT>"),
        ("LISTAGG", STRING, "STRING"),
    ],
)
def test_types_of_results(name: str, of: LogicalType, expected: str) -> None:
    assert str(aggregates()[name].infer(CallArguments(name, (of,)))) == expected


@pytest.mark.parametrize(("name", "of"), [("SUM", STRING), ("AVG", DateType()), ("MIN", ArrayType(IntType()))])
def test_arguments_of_other_types_are_refused(name: str, of: LogicalType) -> None:
    with pytest.raises(ProgramError, match=f"{name} cannot be called with"):
        aggregates()[name].infer(CallArguments(name, (of,)))


def test_every_entry_says_what_it_does() -> None:
    assert aggregate_named("sum") is aggregates()["SUM"]
    assert all(entry.syntax and entry.description for entry in AGGREGATES)

"""Batches of rows and of columns, and what becomes of one where an operator wants the other."""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

import pytest

from flott.common import Row, Types
from flott.common.typeinfo import TypeInformation
from flott.common.typeinfo._records import NamedTupleTypeInfo
from flott.common.types import RowKind
from flott.errors import ProgramError, TypeMismatchError
from flott.runtime.operators.batch import Coalescer, ColumnBatch, RowBatch

pa = pytest.importorskip("pyarrow")

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class City(NamedTuple):
    name: str
    people: int


@pytest.mark.parametrize(
    ("record_type", "values"),
    [
        (PAIR, [("a", 1), (None, None), ("b", -(2**63))]),
        (Types.LONG(), [1, None, 3]),
        (Types.STRING(), ["", "ä", None]),
        (Types.DOUBLE(), [0.1, -0.0, float("inf")]),
        (Types.BOOLEAN(), [True, False, None]),
        (Types.SQL_DATE(), [datetime.date(2024, 2, 29), None]),
        (Types.SQL_TIMESTAMP(), [datetime.datetime(2024, 2, 29, 1, 2, 3, 4), None]),
        (Types.LIST(Types.INT()), [[1, None], [], None]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"", b"\x00\xff"]),
    ],
)
def test_rows_become_columns_and_rows_again(record_type: TypeInformation, values: list[Any]) -> None:
    stamps = list(range(len(values)))
    columns = RowBatch(values, stamps, bytes(len(values))).to_columns(record_type)
    assert len(columns) == len(values)
    rows = columns.to_rows()
    assert (rows.values, rows.timestamps, rows.kinds) == (values, stamps, bytes(len(values)))
    assert list(map(type, rows.values)) == list(map(type, values))


def test_named_tuples_stay_named_tuples() -> None:
    declared = NamedTupleTypeInfo(City, ("name", "people"), (Types.STRING(), Types.LONG()))
    rows = RowBatch([City("Bern", 134_000)]).to_columns(declared).to_rows()
    assert rows.values == [City("Bern", 134_000)]
    assert type(rows.values[0]) is City


def test_rows_that_hold_their_kind_hold_it_again() -> None:
    declared = Types.ROW_NAMED(["id"], [Types.INT()])
    values = [Row.of_kind(RowKind.DELETE, id=1), Row.of_kind(RowKind.INSERT, id=2)]
    columns = RowBatch(values).to_columns(declared)
    assert columns.kinds.to_pylist() == [RowKind.DELETE.value, RowKind.INSERT.value]
    rows = columns.to_rows()
    assert rows.kinds is None
    assert [(row.id, row.get_row_kind()) for row in rows.values] == [(1, RowKind.DELETE), (2, RowKind.INSERT)]
    assert RowBatch(values[1:]).to_columns(declared).kinds is None


@pytest.mark.parametrize("values", [[None], [(1, 2, 3)], [("a", "b")], [("a", 2**64)], [("\ud800", 1)]])
def test_a_record_without_a_columnar_form_is_refused(values: list[Any]) -> None:
    with pytest.raises(TypeMismatchError, match="no columnar form"):
        RowBatch(values).to_columns(PAIR)


def test_a_type_without_a_columnar_form_is_refused() -> None:
    with pytest.raises(ProgramError, match="no columnar form"):
        RowBatch([(1,)]).to_columns(Types.TUPLE([Types.PICKLED_BYTE_ARRAY()]))
    with pytest.raises(ProgramError, match="has no fields"):
        RowBatch([()]).to_columns(Types.TUPLE([]))


def test_rows_are_made_once_for_all_consumers() -> None:
    columns = RowBatch([("a", 1)]).to_columns(PAIR)
    assert columns.to_rows() is columns.to_rows()


def test_parts_of_columns_keep_timestamps_and_kinds() -> None:
    columns = RowBatch([("a", 1), ("b", 2), ("c", 3)], [10, 20, 30], b"\x00\x01\x02").to_columns(PAIR)
    taken = columns.take([2, 0]).to_rows()
    assert (taken.values, taken.timestamps, taken.kinds) == ([("c", 3), ("a", 1)], [30, 10], b"\x02\x00")
    part = columns.slice(1, 3).to_rows()
    assert (part.values, part.timestamps, part.kinds) == ([("b", 2), ("c", 3)], [20, 30], b"\x01\x02")


def test_a_coalescer_passes_columns_and_kinds_on_in_order() -> None:
    given_out: list[Any] = []
    coalescer = Coalescer(given_out.append)
    columns, changes = RowBatch([("a", 1)]).to_columns(PAIR), RowBatch([2], None, b"\x03")
    for batch in (RowBatch([1]), columns, RowBatch([3]), changes):
        coalescer.emit(batch)
    assert [type(batch) for batch in given_out] == [RowBatch, ColumnBatch, RowBatch, RowBatch]
    assert given_out[1] is columns
    assert given_out[3] is changes

"""Types and values of results, in Flink's JSON."""

from __future__ import annotations

import threading

import pytest

from flott.common.types import Row
from flott.rest.gateway.logical_types import type_document
from flott.rest.gateway.pages import RowPages
from flott.rest.refusal import Refusal
from flott.table._types import logical
from tests.unit.rest.gateway.conftest import Gateway

VALUES = {
    "CAST(12345678901234567890.12 AS DECIMAL(22, 2))": (12345678901234567890.12, "12345678901234567890.12"),
    "DATE '2020-01-02'": ("2020-01-02", "2020-01-02"),
    "TIME '10:11:12'": ("10:11:12", "10:11:12"),
    "TIMESTAMP '2020-01-02 03:04:05.120'": ("2020-01-02T03:04:05.12", "2020-01-02 03:04:05.120"),
    "TIMESTAMP '2020-01-02 03:04:05'": ("2020-01-02T03:04:05", "2020-01-02 03:04:05"),
    "TO_TIMESTAMP_LTZ(5120, 3)": ("1970-01-01T00:00:05.12Z", "1970-01-01 00:00:05.120"),
    "ARRAY[1, 2]": ([1, 2], "[1, 2]"),
    "MAP['a', 1]": ({"a": 1}, None),
    "ROW(1, 'x')": ({"EXPR$0": 1, "EXPR$1": "x"}, None),
    "INTERVAL '1' DAY": (86_400_000, None),
    "INTERVAL '2' MONTH": (2, None),
    "X'00ff'": ("AP8=", "x'00ff'"),
    "CAST(NULL AS INT)": (None, None),
    "TRUE": (True, "TRUE"),
    "CAST('NaN' AS DOUBLE)": ("NaN", None),
}


def test_values_are_written_as_flinks_json(gateway: Gateway) -> None:
    (found,) = gateway.values(gateway.open(), f"SELECT {', '.join(VALUES)}")
    assert dict(zip(VALUES, found, strict=True)) == {text: value for text, (value, _) in VALUES.items()}


def test_values_are_written_as_texts(gateway: Gateway) -> None:
    wanted = {text: plain for text, (_, plain) in VALUES.items() if plain is not None}
    (row,) = gateway.rows(gateway.open(), f"SELECT {', '.join(wanted)}, CAST(NULL AS INT)", "PLAIN_TEXT")
    assert row["fields"] == [*wanted.values(), None]


def test_a_decimal_keeps_all_of_its_digits(gateway: Gateway) -> None:
    session = gateway.open()
    operation = gateway.run(session, "SELECT CAST('1234567890123456789.10' AS DECIMAL(21, 2))")
    gateway.sessions.session(session).operation(operation.rpartition("/")[2]).join(120)
    assert '"fields":[1234567890123456789.10]' in gateway.http.get(f"{operation}/result/0").text


@pytest.mark.parametrize(
    ("of", "document"),
    [
        (logical.STRING, {"type": "VARCHAR", "nullable": True, "length": 2147483647}),
        (logical.DecimalType(10, 2), {"type": "DECIMAL", "nullable": True, "precision": 10, "scale": 2}),
        (logical.TimestampType(3), {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "nullable": True, "precision": 3}),
        (
            logical.LocalZonedTimestampType(3),
            {"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "nullable": True, "precision": 3},
        ),
        (
            logical.MapType(logical.INT, logical.BIGINT),
            {
                "type": "MAP",
                "nullable": True,
                "keyType": {"type": "INTEGER", "nullable": True},
                "valueType": {"type": "BIGINT", "nullable": True},
            },
        ),
        (
            logical.ArrayType(logical.INT),
            {"type": "ARRAY", "nullable": True, "elementType": {"type": "INTEGER", "nullable": True}},
        ),
        (
            logical.row_type({"n": logical.INT}, nullable=False),
            {
                "type": "ROW",
                "nullable": False,
                "fields": [{"name": "n", "fieldType": {"type": "INTEGER", "nullable": True}}],
            },
        ),
        (
            logical.DayTimeIntervalType(),
            {
                "type": "INTERVAL_DAY_TIME",
                "nullable": True,
                "precision": 2,
                "fractionalPrecision": 3,
                "resolution": "DAY_TO_SECOND",
            },
        ),
        (
            logical.YearMonthIntervalType(),
            {"type": "INTERVAL_YEAR_MONTH", "nullable": True, "precision": 2, "resolution": "YEAR_TO_MONTH"},
        ),
        (logical.NullType(), {"type": "NULL"}),
    ],
    ids=str,
)
def test_a_type_has_flinks_document(of: logical.LogicalType, document: dict[str, object]) -> None:
    assert type_document(of) == document


def test_a_producer_waits_for_room_and_a_page_makes_it() -> None:
    pages = RowPages(max_rows=2)
    done = threading.Event()

    def produce() -> None:
        for number in range(5):
            pages.put(Row(number))
        pages.end()
        done.set()

    threading.Thread(target=produce, daemon=True).start()
    found, token = [], 0
    while (page := pages.page(token)).next_token is not None:
        assert len(page.rows) <= 2
        assert pages.page(token).rows == page.rows
        found += [row[0] for row in page.rows]
        token = page.next_token
    assert found == [0, 1, 2, 3, 4]
    assert done.wait(120)
    with pytest.raises(Refusal, match="Expecting token"):
        pages.page(token - 2)


def test_a_closed_buffer_lets_its_producer_go() -> None:
    pages = RowPages(max_rows=1)
    assert pages.put(Row(1))
    results: list[bool] = []
    producer = threading.Thread(target=lambda: results.append(pages.put(Row(2))), daemon=True)
    producer.start()
    pages.close()
    producer.join(120)
    assert results == [False]


def test_a_failure_comes_behind_the_rows_before_it() -> None:
    pages = RowPages()
    pages.put(Row(1))
    pages.end(ValueError("broken"))
    assert [row[0] for row in pages.page(0).rows] == [1]
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            pages.page(1)

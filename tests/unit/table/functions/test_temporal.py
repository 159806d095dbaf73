from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest

from flott.table._functions.argument_checks import EvaluationError
from flott.table._functions.function import Session, SignatureError
from flott.table._types.logical import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    STRING,
    DayTimeIntervalType,
    DecimalType,
    LocalZonedTimestampType,
    LogicalType,
    SymbolType,
    TimestampType,
    TimeType,
    YearMonthIntervalType,
    row_type,
)
from tests.unit.table.functions.evaluation import apply, call, column, evaluate, literal

LTZ = LocalZonedTimestampType(3)
TS = TimestampType(3)
TOKYO = Session(time_zone="Asia/Tokyo", now_ms=1_600_000_000_123)


def unit(name: str) -> Any:
    return literal(name, SymbolType(name))


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("MILLENNIUM", 2), ("CENTURY", 20), ("DECADE", 199), ("YEAR", 1999), ("ISOYEAR", 1998), ("QUARTER", 1),
        ("MONTH", 1), ("WEEK", 53), ("DAY", 2), ("DOY", 2), ("DOW", 7), ("ISODOW", 6), ("HOUR", 3), ("MINUTE", 4),
        ("SECOND", 5), ("MILLISECOND", 678), ("MICROSECOND", 678901), ("NANOSECOND", 678901000), ("EPOCH", 915246245),
    ],
)  # fmt: skip
def test_extract(field: str, expected: int) -> None:
    of = TimestampType(6)
    extracted = call("EXTRACT", unit(field), column(0, of))
    assert str(extracted.type) == "BIGINT"
    assert evaluate(extracted, (of, [datetime(1999, 1, 2, 3, 4, 5, 678901), None])) == [expected, None]


@pytest.mark.parametrize(
    ("name", "of", "value", "expected"),
    [
        ("YEAR", DATE, date(1969, 12, 31), 1969),
        ("DAYOFYEAR", DATE, date(2020, 12, 31), 366),
        ("DAYOFWEEK", DATE, date(2020, 2, 29), 7),
        ("WEEK", DATE, date(2021, 1, 3), 53),
        ("HOUR", TS, datetime(1969, 12, 31, 23, 59), 23),
        ("MINUTE", TimeType(0), time(1, 2, 3), 2),
        ("HOUR", LTZ, datetime(2020, 1, 1, 20, tzinfo=UTC), 5),  # Tokyo is nine hours ahead
    ],
)
def test_fields(name: str, of: LogicalType, value: Any, expected: int) -> None:
    assert apply(name, (of, [value, None]), session=TOKYO) == [expected, None]


def test_a_time_of_day_has_no_year() -> None:
    with pytest.raises(SignatureError, match="day"):
        call("YEAR", column(0, TimeType(0)))


@pytest.mark.parametrize(
    ("of", "value", "name", "down", "up"),
    [
        (TS, datetime(2020, 2, 29, 1, 56, 59, 987000), "SECOND", datetime(2020, 2, 29, 1, 56, 59),
         datetime(2020, 2, 29, 1, 57)),
        (TS, datetime(2020, 2, 29, 1, 56), "DAY", datetime(2020, 2, 29), datetime(2020, 3, 1)),
        (TS, datetime(2020, 2, 29, 1, 56), "WEEK", datetime(2020, 2, 23), datetime(2020, 3, 1)),
        (TS, datetime(1969, 2, 28, 1), "MONTH", datetime(1969, 2, 1), datetime(1969, 3, 1)),
        (TS, datetime(2020, 5, 1), "QUARTER", datetime(2020, 4, 1), datetime(2020, 7, 1)),
        (TS, datetime(2020, 1, 1), "YEAR", datetime(2020, 1, 1), datetime(2020, 1, 1)),
        (TS, datetime(2020, 2, 29), "CENTURY", datetime(2001, 1, 1), datetime(2101, 1, 1)),
        (DATE, date(1990, 10, 14), "DECADE", date(1990, 1, 1), date(2000, 1, 1)),
        (DATE, date(1990, 10, 14), "HOUR", date(1990, 10, 14), date(1990, 10, 14)),
        (DATE, date(1990, 10, 14), "DAY", date(1990, 10, 14), date(1990, 10, 15)),
        (DATE, date(1990, 10, 14), "WEEK", date(1990, 10, 14), date(1990, 10, 14)),
        (TimeType(3), time(11, 22, 33, 123000), "HOUR", time(11), time(12)),
        (LTZ, datetime(2020, 1, 1, 16, tzinfo=UTC), "DAY", datetime(2020, 1, 1, 15, tzinfo=UTC),
         datetime(2020, 1, 2, 15, tzinfo=UTC)),
    ],
)  # fmt: skip
def test_floor_and_ceil_of_times(of: LogicalType, value: Any, name: str, down: Any, up: Any) -> None:
    assert evaluate(call("FLOOR", column(0, of), unit(name)), (of, [value, None]), session=TOKYO) == [down, None]
    assert evaluate(call("CEIL", column(0, of), unit(name)), (of, [value, None]), session=TOKYO) == [up, None]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yyyy-MM-dd", "2020-03-09"),
        ("yyyy-MM-dd HH:mm:ss.SSS", "2020-03-09 05:06:07.089"),
        ("d.M.yy h:mm a", "9.3.20 5:06 AM"),
        ("EEEE, MMM dd 'at' HH'h'", "Monday, Mar 09 at 05h"),
        ("yyyyDDD", "2020069"),
    ],
)
def test_date_format(pattern: str, expected: str) -> None:
    values = [datetime(2020, 3, 9, 5, 6, 7, 89000), None]
    written = call("DATE_FORMAT", column(0, TS), literal(pattern, STRING))
    assert evaluate(written, (TS, values)) == [expected, None]
    assert apply("DATE_FORMAT", (TS, values), (STRING, [pattern, "yyyy"])) == [expected, None]


def test_date_format_shows_points_in_time_in_the_zone_of_the_session() -> None:
    written = call("DATE_FORMAT", column(0, LTZ), literal("yyyy-MM-dd HH", STRING))
    assert evaluate(written, (LTZ, [datetime(2020, 1, 1, 20, tzinfo=UTC)]), session=TOKYO) == ["2020-01-02 05"]


def test_date_format_reads_texts() -> None:
    written = call("DATE_FORMAT", column(0, STRING), literal("yyyyMMdd", STRING))
    assert evaluate(written, (STRING, ["2020-01-02 03:04:05", None])) == ["20200102", None]


def test_an_unknown_letter_is_refused() -> None:
    with pytest.raises(EvaluationError, match="'J'"):
        evaluate(call("DATE_FORMAT", column(0, TS), literal("J", STRING)), (TS, [datetime(2020, 1, 1)]))


def test_to_date() -> None:
    assert apply("TO_DATE", (STRING, ["2020-02-29", "2020-1-2", "x", None])) == [
        date(2020, 2, 29),
        date(2020, 1, 2),
        None,
        None,
    ]
    read = call("TO_DATE", column(0, STRING), literal("dd/MM/yyyy", STRING))
    assert evaluate(read, (STRING, ["29/02/2020", "2020", None])) == [date(2020, 2, 29), None, None]


@pytest.mark.parametrize(
    ("text", "pattern", "of", "expected"),
    [
        ("2020-01-02 03:04:05.6789", None, "TIMESTAMP(3)", datetime(2020, 1, 2, 3, 4, 5, 678000)),
        ("2020-01-02", None, "TIMESTAMP(3)", datetime(2020, 1, 2)),
        ("nonsense", None, "TIMESTAMP(3)", None),
        ("02.01.2020 3:4", "dd.MM.yyyy H:m", "TIMESTAMP(3)", datetime(2020, 1, 2, 3, 4)),
        ("20200102 59:58.123456", "yyyyMMdd mm:ss.SSSSSS", "TIMESTAMP(6)", datetime(2020, 1, 2, 0, 59, 58, 123456)),
        ("Jan 5 2021 01 PM", "MMM d yyyy hh a", "TIMESTAMP(3)", datetime(2021, 1, 5, 13)),
        ("2020-1-2 03:04:05", "yyyy-MM-dd HH:mm:ss", "TIMESTAMP(3)", datetime(2020, 1, 2, 3, 4, 5)),
        ("2020-02-31 00:00:00", "yyyy-MM-dd HH:mm:ss", "TIMESTAMP(3)", datetime(2020, 2, 29)),
        ("2020-01-02 25:00:00", "yyyy-MM-dd HH:mm:ss", "TIMESTAMP(3)", None),
    ],
)
def test_to_timestamp(text: str, pattern: str | None, of: str, expected: datetime | None) -> None:
    read = call("TO_TIMESTAMP", column(0, STRING), *([] if pattern is None else [literal(pattern, STRING)]))
    assert str(read.type) == of
    assert evaluate(read, (STRING, [text, None])) == [expected, None]


@pytest.mark.parametrize(
    ("of", "value", "digits", "expected"),
    [
        (BIGINT, 1234, 3, datetime(1970, 1, 1, 0, 0, 1, 234000, tzinfo=UTC)),
        (INT, -1, 0, datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (DOUBLE, 100.7, 3, datetime(1970, 1, 1, 0, 0, 0, 100000, tzinfo=UTC)),
        (DecimalType(10, 2), Decimal("100.99"), 3, datetime(1970, 1, 1, 0, 0, 0, 100000, tzinfo=UTC)),
        (BIGINT, 1_234_567, 6, datetime(1970, 1, 1, 0, 0, 1, 234567, tzinfo=UTC)),
    ],
)
def test_numbers_as_points_in_time(of: LogicalType, value: Any, digits: int, expected: datetime) -> None:
    moment = call("TO_TIMESTAMP_LTZ", column(0, of), literal(digits, INT))
    assert evaluate(moment, (of, [value, None])) == [expected, None]


def test_texts_as_points_in_time() -> None:
    read = call("TO_TIMESTAMP_LTZ", column(0, STRING), literal("dd/MM/yyyy HH", STRING), column(1, STRING))
    found = evaluate(
        read,
        (STRING, ["01/01/2023 08", "01/07/2023 08", "x", None]),
        (STRING, ["America/Los_Angeles", "+02:00", "nowhere", "UTC"]),
    )
    assert found == [datetime(2023, 1, 1, 16, tzinfo=UTC), datetime(2023, 7, 1, 6, tzinfo=UTC), None, None]
    with pytest.raises(EvaluationError, match="time zone"):
        call("TO_TIMESTAMP_LTZ", column(0, STRING), literal("yyyy", STRING), literal("nowhere", STRING))


def test_seconds_of_the_epoch() -> None:
    assert apply("UNIX_TIMESTAMP", session=TOKYO) == [1_600_000_000]
    assert apply("UNIX_TIMESTAMP", (STRING, ["1970-01-01 09:00:01", "x", None]), session=TOKYO) == [1, -(2**63), None]
    assert apply("FROM_UNIXTIME", (INT, [44, None]), session=TOKYO) == ["1970-01-01 09:00:44", None]
    assert apply("FROM_UNIXTIME", (BIGINT, [0]), (STRING, ["yyyy"]), session=TOKYO) == ["1970"]


def test_convert_tz() -> None:
    found = apply(
        "CONVERT_TZ",
        (STRING, ["1970-01-01 00:00:00", None]),
        (STRING, ["UTC", "UTC"]),
        (STRING, ["America/Los_Angeles", "UTC"]),
    )
    assert found == ["1969-12-31 16:00:00", None]


def test_the_time_now_is_that_of_the_epoch() -> None:
    shown = datetime(2020, 9, 13, 21, 26, 40, 123000)
    assert apply("CURRENT_DATE", session=TOKYO) == [shown.date()]
    assert apply("LOCALTIME", session=TOKYO) == [time(21, 26, 40)]
    assert apply("LOCALTIMESTAMP", session=TOKYO) == [shown]
    assert apply("NOW", session=TOKYO) == [datetime(2020, 9, 13, 12, 26, 40, 123000, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("name", "number", "of", "value", "expected"),
    [
        ("MONTH", 1, DATE, date(2020, 1, 31), date(2020, 2, 29)),
        ("YEAR", -1, TS, datetime(2020, 2, 29, 5), datetime(2019, 2, 28, 5)),
        ("WEEK", 1, DATE, date(2003, 1, 2), date(2003, 1, 9)),
        ("QUARTER", 2, TS, datetime(2020, 1, 1), datetime(2020, 7, 1)),
        ("SECOND", -61, TS, datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 58, 59)),
        ("HOUR", 25, DATE, date(2020, 1, 1), datetime(2020, 1, 2, 1)),
        ("HOUR", 2, TimeType(0), time(23), time(1)),
    ],
)
def test_timestampadd(name: str, number: int, of: LogicalType, value: Any, expected: Any) -> None:
    moved = call("TIMESTAMPADD", unit(name), literal(number, INT), column(0, of))
    assert evaluate(moved, (of, [value, None])) == [expected, None]


@pytest.mark.parametrize(
    ("name", "start", "end", "expected"),
    [
        ("DAY", datetime(2003, 1, 2, 10), datetime(2003, 1, 3, 10), 1),
        ("DAY", datetime(2003, 1, 2, 10), datetime(2003, 1, 3, 9), 0),
        ("HOUR", datetime(2003, 1, 2, 10), datetime(2003, 1, 1, 9), -25),
        ("MONTH", datetime(2020, 1, 31), datetime(2020, 2, 29), 1),
        ("MONTH", datetime(2020, 1, 15, 12), datetime(2020, 2, 15, 11), 0),
        ("MONTH", datetime(2020, 3, 1), datetime(2020, 1, 31), -1),
        ("YEAR", datetime(2000, 2, 29), datetime(2020, 2, 28), 19),
        ("QUARTER", datetime(2020, 1, 1), datetime(2020, 12, 31), 3),
        ("WEEK", datetime(2020, 1, 1), datetime(2020, 1, 15), 2),
    ],
)
def test_timestampdiff(name: str, start: datetime, end: datetime, expected: int) -> None:
    between = call("TIMESTAMPDIFF", unit(name), column(0, TS), column(1, TS))
    assert str(between.type) == "INT"
    assert evaluate(between, (TS, [start, None]), (TS, [end, end])) == [expected, None]


def test_times_plus_intervals() -> None:
    days, months = DayTimeIntervalType(), YearMonthIntervalType()
    moved = call("+", column(0, TS), literal(-1500, days))
    assert evaluate(moved, (TS, [datetime(1970, 1, 1), None])) == [datetime(1969, 12, 31, 23, 59, 58, 500000), None]
    moved = call("-", column(0, DATE), literal(1, months))
    assert evaluate(moved, (DATE, [date(2020, 3, 31), None])) == [date(2020, 2, 29), None]
    moved = call("+", literal(86_400_000, days), column(0, DATE))
    assert evaluate(moved, (DATE, [date(2020, 2, 29)])) == [date(2020, 3, 1)]
    moved = call("-", column(0, LTZ), column(1, days))
    assert evaluate(moved, (LTZ, [datetime(2020, 1, 1, tzinfo=UTC)]), (days, [timedelta(days=1)])) == [
        datetime(2019, 12, 31, tzinfo=UTC)
    ]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((1, 3), (3, 5), True),
        ((1, 2), (3, 5), False),
        ((5, 3), (4, 4), True),
        ((1, None), (3, 5), None),
    ],
)
def test_overlaps(one: Any, other: Any, expected: bool | None) -> None:
    span = row_type({"a": DATE, "b": DATE})
    columns = [
        {"a": None if a is None else date(2020, 1, a), "b": None if b is None else date(2020, 1, b)}
        for a, b in (one, other)
    ]
    assert apply("OVERLAPS", (span, [columns[0]]), (span, [columns[1]])) == [expected]

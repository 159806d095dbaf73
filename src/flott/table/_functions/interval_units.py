"""Intervals of a single field, such as INTERVAL HOUR, as numbers of that field's unit."""

from __future__ import annotations

from flott.table._types.logical import LogicalType, YearMonthIntervalType

#: Milliseconds of each field of an interval of days and less.
DAY_TIME_UNITS = {"SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000, "WEEK": 604_800_000}

#: Months of each field of an interval of years and months.
YEAR_MONTH_UNITS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def unit_of(of: LogicalType) -> int:
    """Return the months or milliseconds of one unit of an interval type."""
    text = of.root_text
    if " TO " in text:
        return 1
    field = text.removeprefix("INTERVAL ").split("(")[0]
    return (YEAR_MONTH_UNITS if isinstance(of, YearMonthIntervalType) else DAY_TIME_UNITS).get(field, 1)

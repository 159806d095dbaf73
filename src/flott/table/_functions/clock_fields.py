"""The fields of days and times of day as numpy arrays: year, month, hour and so on, of timestamps without a zone."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from flott.table._functions.decimals import raw_values, valid_mask

Numbers = Any  #: an array of int64

DAY_NS = 86_400_000_000_000
UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


#: A calendar of so many days is cheap, whatever the number of rows.
_SHORT_SPAN = 4_000


class _Calendar:
    """Computes the fields of days of the epoch."""

    def __init__(self, days: Numbers):
        self.days = days
        months = days.astype("M8[D]").astype("M8[M]")
        self._first_of_month = months.astype("M8[D]").astype(np.int64)
        number = months.astype(np.int64) + 1970 * 12
        self.year = number // 12
        self.month = number - self.year * 12 + 1

    @property
    def day(self) -> Numbers:
        return self.days - self._first_of_month + 1

    @property
    def day_of_year(self) -> Numbers:
        return self.days - _first_of_year(self.year) + 1

    @property
    def iso_day_of_week(self) -> Numbers:
        return (self.days + 3) % 7 + 1

    @property
    def _thursday(self) -> Numbers:
        """The Thursday of the same week: its year is the year of the week."""
        return self.days - self.iso_day_of_week + 4

    @property
    def iso_year(self) -> Numbers:
        return self._thursday.astype("M8[D]").astype("M8[Y]").astype(np.int64) + 1970

    @property
    def iso_week(self) -> Numbers:
        return (self._thursday - _first_of_year(self.iso_year)) // 7 + 1


def _first_of_year(year: Numbers) -> Numbers:
    return (year - 1970).astype("M8[Y]").astype("M8[D]").astype(np.int64)


class ClockFields:
    """Computes the fields of a column that are asked for. What stands at NULLs is not defined."""

    def __init__(self, column: pa.Array):
        self.valid = valid_mask(column)
        self.length = len(column)
        of = column.type
        if pa.types.is_date32(of):
            self.days: Numbers = raw_values(column, np.int32).astype(np.int64)
            self._rest: Numbers = np.zeros(len(column), dtype=np.int64)
            self._unit = "ms"
        elif pa.types.is_time32(of):
            self.days = np.zeros(len(column), dtype=np.int64)
            self._rest, self._unit = raw_values(column, np.int32).astype(np.int64), of.unit
        else:
            per_day = DAY_NS // UNIT_NS[of.unit]
            values = raw_values(column, np.int64)
            self.days = values // per_day
            self._rest, self._unit = values - self.days * per_day, of.unit

    @property
    def _per_second(self) -> int:
        return 1_000_000_000 // UNIT_NS[self._unit]

    @cached_property
    def second_of_day(self) -> Numbers:
        return self._rest // self._per_second

    @cached_property
    def nano(self) -> Numbers:
        """The nanoseconds behind the whole second."""
        return (self._rest - self.second_of_day * self._per_second) * UNIT_NS[self._unit]

    @cached_property
    def hour(self) -> Numbers:
        return self.second_of_day // 3600

    @cached_property
    def minute(self) -> Numbers:
        return self.second_of_day // 60 - self.hour * 60

    @cached_property
    def second(self) -> Numbers:
        return self.second_of_day - self.second_of_day // 60 * 60

    @cached_property
    def _calendar(self) -> tuple[_Calendar, Numbers | None]:
        """Return the calendar of all days between the first and the last one, and where each value stands in it.

        Looking days up is many times faster than calculating with the calendar for each row.
        """
        days = self.days if self.valid is None else np.where(self.valid, self.days, 0)
        if not len(days):
            return _Calendar(days), None
        first, last = int(days.min()), int(days.max())
        if last - first > max(len(days), _SHORT_SPAN):
            return _Calendar(days), None
        return _Calendar(np.arange(first, last + 1)), days - first

    def days_between(self) -> tuple[ClockFields, Numbers | None]:
        """Return the fields of all days between the first and the last one, and where each value stands among them."""
        calendar, places = self._calendar
        return ClockFields(pa.array(calendar.days.astype(np.int32)).cast(pa.date32())), places

    def _of_day(self, name: str) -> Numbers:
        calendar, places = self._calendar
        values = getattr(calendar, name)
        return values if places is None else values[places]

    @cached_property
    def year(self) -> Numbers:
        return self._of_day("year")

    @cached_property
    def month(self) -> Numbers:
        return self._of_day("month")

    @cached_property
    def day(self) -> Numbers:
        return self._of_day("day")

    @cached_property
    def day_of_year(self) -> Numbers:
        return self._of_day("day_of_year")

    @cached_property
    def iso_day_of_week(self) -> Numbers:
        """1 is Monday."""
        return self._of_day("iso_day_of_week")

    @cached_property
    def iso_year(self) -> Numbers:
        return self._of_day("iso_year")

    @cached_property
    def iso_week(self) -> Numbers:
        return self._of_day("iso_week")

    @cached_property
    def epoch_second(self) -> Numbers:
        return self.days * 86_400 + self.second_of_day

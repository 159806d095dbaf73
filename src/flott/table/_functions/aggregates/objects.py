"""Accumulators that are objects of Python, pickled in state: collections, multisets, and functions of users.

Each class describes one accumulator. Rows are taken one by one, in their order.
"""

from __future__ import annotations

import json
import math
import pickle
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import pyarrow as pa

from flott.common.types import Row
from flott.errors import ProgramError
from flott.table._functions.aggregates.accumulation import Accumulation, Groups, State
from flott.table._types.arrow import arrow_type
from flott.table._types.logical import LogicalType

#: Values that may be parts of an accumulator, which changes.
_MUTABLE = (list, dict, set, bytearray, Row)


class ObjectFunction:
    """What an accumulator of Python can do."""

    def create(self) -> Any:
        """Return an accumulator of nothing."""
        raise NotImplementedError

    def accumulate(self, held: Any, *values: Any) -> Any:
        """Add a row; return another accumulator, or None if this one was changed."""
        raise NotImplementedError

    def retract(self, held: Any, *values: Any) -> Any:
        """Take a row away."""
        raise NotImplementedError

    def merge(self, held: Any, others: list[Any]) -> Any:
        """Merge other accumulators into one."""
        raise NotImplementedError

    def value(self, held: Any) -> Any:
        """Return the value of the function."""
        raise NotImplementedError


class Objects(Accumulation):
    """The accumulators of an :class:`ObjectFunction`; one of nothing is null."""

    fields = (pa.field("object", pa.binary()),)

    def __init__(self, function: ObjectFunction, result: LogicalType):
        self._function = function
        self._type = arrow_type(result)

    def _rows(self, arguments: Sequence[pa.Array], count: int) -> list[tuple[Any, ...]]:
        """Return the arguments of each row."""
        columns = [argument.to_pylist() for argument in arguments]
        return list(zip(*columns, strict=True)) if columns else [()] * count

    def _array(self, values: list[Any]) -> pa.Array:
        """Return values of the function as a column."""
        return pa.array(values, self._type)

    def _load(self, pickled: bytes | None) -> Any:
        return self._function.create() if pickled is None else pickle.loads(pickled)

    def scan(self, groups: Groups, initial: State, arguments: Sequence[pa.Array]) -> State:
        found: list[bytes | None] = []
        starts = initial[0].to_pylist()
        pickled: bytes | None = None
        current = -1
        for group, sign, held in self._steps(groups, starts, arguments):
            if group != current:
                current, pickled = group, starts[group]
            if sign:
                pickled = pickle.dumps(held, 5)
            found.append(pickled)
        return [pa.array(found, pa.binary())]

    def scan_results(
        self, groups: Groups, initial: State, arguments: Sequence[pa.Array]
    ) -> tuple[pa.Array, State]:
        """Call the function for each row, and pickle the accumulator of a group once."""
        starts = initial[0].to_pylist()
        values = [self._value(self._load(pickled)) for pickled in starts]
        ends = list(starts)
        last: Any = None
        current, changed = -1, False
        for group, sign, held in self._steps(groups, starts, arguments):
            if group != current:
                if changed:
                    ends[current] = pickle.dumps(last, 5)
                current, changed = group, False
            if sign or not changed:
                value = self._value(held)
            changed = changed or bool(sign)
            last = held
            values.append(value)
        if changed:
            ends[current] = pickle.dumps(last, 5)
        return self._array(values), [pa.array(ends, pa.binary())]

    def _value(self, held: Any) -> Any:
        """Return the value of the function as one that stays as it is when the accumulator changes."""
        value = self._function.value(held)
        return deepcopy(value) if isinstance(value, _MUTABLE) else value

    def _steps(
        self, groups: Groups, starts: list[bytes | None], arguments: Sequence[pa.Array]
    ) -> Iterator[tuple[int, int, Any]]:
        """Yield the group and sign of each row, and the accumulator after it."""
        rows = self._rows(arguments, len(groups.ids))
        current, held = -1, None
        for group, sign, row in zip(groups.ids.tolist(), groups.signs.tolist(), rows, strict=True):
            if group != current:
                current, held = group, self._load(starts[group])
            if sign:
                held = self._step(held, sign, row)
            yield group, sign, held

    def _step(self, held: Any, sign: int, row: tuple[Any, ...]) -> Any:
        call = self._function.accumulate if sign > 0 else self._function.retract
        other = call(held, *row)
        return held if other is None else other

    def fold(self, groups: Groups, initial: State, arguments: Sequence[pa.Array]) -> State:
        rows = self._rows(arguments, len(groups.ids))
        starts = initial[0].to_pylist()
        changed: dict[int, Any] = {}
        for group, sign, row in zip(groups.ids.tolist(), groups.signs.tolist(), rows, strict=True):
            if sign:
                held = changed[group] if group in changed else self._load(starts[group])
                changed[group] = self._step(held, sign, row)
        for group, held in changed.items():
            starts[group] = pickle.dumps(held, 5)
        return [pa.array(starts, pa.binary())]

    def merge(self, groups: Groups, initial: State, partial: State) -> State:
        starts = initial[0].to_pylist()
        others: dict[int, list[Any]] = {}
        for group, pickled in zip(groups.ids.tolist(), partial[0].to_pylist(), strict=True):
            if pickled is not None:
                others.setdefault(group, []).append(pickle.loads(pickled))
        for group, found in others.items():
            held = self._load(starts[group])
            other = self._function.merge(held, found)
            starts[group] = pickle.dumps(held if other is None else other, 5)
        return [pa.array(starts, pa.binary())]

    def result(self, state: State) -> pa.Array:
        known: dict[bytes | None, Any] = {}
        values = []
        for pickled in state[0].to_pylist():
            if pickled not in known:
                if len(known) > 64:
                    known.clear()
                known[pickled] = self._value(self._load(pickled))
            values.append(known[pickled])
        return self._array(values)


class SortedValues(ObjectFunction):
    """MIN and MAX of rows that may be taken away: all values, sorted. A value may be owed, if it was taken first."""

    def __init__(self, *, largest: bool):
        self._largest = largest

    def create(self) -> tuple[list[Any], dict[Any, int]]:
        return [], {}

    def accumulate(self, held: Any, *values: Any) -> None:
        self._add(held, values[0], 1)

    def retract(self, held: Any, *values: Any) -> None:
        self._add(held, values[0], -1)

    def merge(self, held: Any, others: list[Any]) -> None:
        for _, counts in others:
            for value, count in counts.items():
                self._add(held, value, count)

    def _add(self, held: tuple[list[Any], dict[Any, int]], value: Any, times: int) -> None:
        if value is None:
            return
        ordered, counts = held
        before = counts.get(value, 0)
        after = before + times
        if after:
            counts[value] = after
        else:
            counts.pop(value, None)
        if before <= 0 < after:
            insort(ordered, value)
        elif after <= 0 < before:
            del ordered[bisect_left(ordered, value)]

    def value(self, held: Any) -> Any:
        ordered = held[0]
        return (ordered[-1] if self._largest else ordered[0]) if ordered else None


class OrderedValues(ObjectFunction):
    """FIRST_VALUE, LAST_VALUE, ARRAY_AGG, LISTAGG and so on: values in the order in which they came."""

    def __init__(self, finish: Callable[[list[Any]], Any], *, nulls: bool = False):
        self._finish = finish
        self._nulls = nulls

    def create(self) -> list[Any]:
        return []

    def accumulate(self, held: Any, *values: Any) -> None:
        if self._nulls or values[0] is not None:
            held.append(_kept(values))

    def retract(self, held: Any, *values: Any) -> None:
        if (self._nulls or values[0] is not None) and (found := _kept(values)) in held:
            held.remove(found)

    def merge(self, held: Any, others: list[Any]) -> None:
        for other in others:
            held.extend(other)

    def value(self, held: Any) -> Any:
        return self._finish(held)


def _kept(values: tuple[Any, ...]) -> Any:
    return values[0] if len(values) == 1 else values


class SingleValue(OrderedValues):
    """SINGLE_VALUE: the value of a subquery that has at most one row, whose value may be null."""

    def __init__(self) -> None:
        super().__init__(self._only, nulls=True)

    def _only(self, held: list[Any]) -> Any:
        if len(held) > 1:
            raise ProgramError(
                f"A subquery that stands for one value gave {len(held)} rows. Let it give at most one, for example with"
                " an aggregate function or LIMIT 1."
            )
        return held[0] if held else None


class CountedValues(ObjectFunction):
    """COLLECT: a multiset."""

    def create(self) -> dict[Any, int]:
        return {}

    def accumulate(self, held: Any, *values: Any) -> None:
        self._add(held, values[0], 1)

    def retract(self, held: Any, *values: Any) -> None:
        self._add(held, values[0], -1)

    def merge(self, held: Any, others: list[Any]) -> None:
        for other in others:
            for name, (value, count) in other.items():
                self._add(held, value, count, name)

    def _add(self, held: dict[Any, Any], value: Any, times: int, name: Any = None) -> None:
        if value is None:
            return
        name = name if name is not None else value if value.__hash__ is not None else repr(value)
        count = held.get(name, (value, 0))[1] + times
        if count:
            held[name] = (value, count)
        else:
            held.pop(name, None)

    def value(self, held: Any) -> Any:
        return [(value, count) for value, count in held.values() if count > 0]


class Percentiles(ObjectFunction):
    """PERCENTILE(value, percentage[, frequency]): interpolated between the nearest values."""

    def __init__(self, percentages: Any):
        self._percentages = percentages

    def create(self) -> dict[float, int]:
        return {}

    def accumulate(self, held: Any, *values: Any) -> None:
        self._add(held, values, 1)

    def retract(self, held: Any, *values: Any) -> None:
        self._add(held, values, -1)

    def merge(self, held: Any, others: list[Any]) -> None:
        for other in others:
            for value, count in other.items():
                self._add(held, (value, count), 1)

    def _add(self, held: dict[float, int], values: tuple[Any, ...], sign: int) -> None:
        value, times = values[0], 1 if len(values) < 2 else values[1]
        if value is None or times is None or times <= 0:
            return
        value = float(value)
        count = held.get(value, 0) + sign * int(times)
        if count:
            held[value] = count
        else:
            held.pop(value, None)

    def value(self, held: Any) -> Any:
        total = sum(held.values())
        if total <= 0:
            return None
        ordered = sorted(held.items())
        if isinstance(self._percentages, list | tuple):
            return [self._at(ordered, total, float(one)) for one in self._percentages]
        return self._at(ordered, total, float(self._percentages))

    def _at(self, ordered: list[tuple[float, int]], total: int, percentage: float) -> float:
        position = (total - 1) * percentage
        lower, upper = math.floor(position), math.ceil(position)
        low, high = self._nth(ordered, lower), self._nth(ordered, upper)
        return low if lower == upper or low == high else (upper - position) * low + (position - lower) * high

    def _nth(self, ordered: list[tuple[float, int]], number: int) -> float:
        passed = 0
        for value, count in ordered:
            passed += count
            if number < passed:
                return value
        return ordered[-1][0]


def joined_texts(separator: str) -> Callable[[list[Any]], Any]:
    """Return what finishes LISTAGG."""
    return lambda held: separator.join(map(str, held)) if held else None


def json_array(held: list[Any]) -> str:
    """Return the text of JSON_ARRAYAGG."""
    return json.dumps(held, separators=(",", ":"), ensure_ascii=False, default=str)


def json_object(held: list[Any]) -> str:
    """Return the text of JSON_OBJECTAGG: pairs, of which the last one counts for a name."""
    return json.dumps(dict(held), separators=(",", ":"), ensure_ascii=False, default=str)

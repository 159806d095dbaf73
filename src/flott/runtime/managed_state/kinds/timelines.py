"""Records that wait for others: per key a timeline, which is a list of records in the order of their timestamps.

Made for joins. Records are added in batches, found by timestamp, and forgotten from the old end, for all keys at once.
What is saved is the log of the epoch's batches and the keys that lost records; a record that came and went within one
epoch is never written.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple

from flott.common._ids import KeyGroup
from flott.runtime.managed_state.files.column_bodies import INTS, Cursor, Parts, spell_number
from flott.runtime.managed_state.files.column_records import read_lists, write_lists
from flott.runtime.managed_state.files.section_columns import SectionTypes, column, read_entries, write_entries
from flott.runtime.managed_state.kinds.table_kind import (
    Conversion,
    Entry,
    EntryKind,
    GroupOf,
    ReturnedShape,
    Wanted,
    put_or_drop,
)

#: The timestamps of a key's records, ascending, and the records beside them; equal ones stand as they came.
Timeline = tuple[list[int], list[Any]]
#: The number of a batch of additions, and its keys, timestamps and records beside each other.
Addition = tuple[int, list[Any], list[int], list[Any]]

#: Earlier than any record.
_NEVER = -(1 << 63)


class TimelineDelta(NamedTuple):
    """Batches of records that were added to a key group, and keys that lost their records before the horizon."""

    group: KeyGroup
    additions: list[Addition]
    horizon: int
    trimmed: list[Any]


class TimelineTable:
    """A timeline per key. Delta: :class:`TimelineDelta`.

    Each batch of additions to a key group has a number, its generation: a copy that has it already skips it. If the
    number is negative, its keys hold nothing but what it adds, and no other key of the group holds anything. Trimming
    is repeatable by itself. A record before the horizon of an earlier ``trim`` must not be added any more.
    """

    kind: ClassVar[str] = "timelines"
    namespaced = False
    __slots__ = ("_born", "_firsts", "_generations", "_heap", "_log", "_renewed", "_trimmed", "entries")

    def __init__(self) -> None:
        self.entries: dict[Any, Timeline] = {}
        self._log: list[tuple[Sequence[Any], Sequence[int], Sequence[Any]]] = []  #: what was added since the last drain
        self._trimmed: dict[int, list[Any]] = {}  #: horizon -> keys that lost records which may have been saved
        self._born: set[Any] = set()  #: keys that were new since the last drain: nothing of them is saved
        self._generations: dict[KeyGroup, int] = {}  #: key group -> the last generation it contains
        #: Timestamp -> keys whose first record had it, and a heap of these timestamps. Keys that have found another
        #: first record since then are passed over when their turn comes.
        self._firsts: dict[int, list[Any]] = {}
        self._heap: list[int] = []
        self._renewed = False  #: the log begins with everything that was held

    def add(self, keys: Sequence[Any], timestamps: Sequence[int], values: Sequence[Any]) -> None:
        """Add a batch of records. The sequences are kept: they must not change afterwards."""
        self._log.append((keys, timestamps, values))
        self._place(keys, timestamps, values, self._born)

    def trim(self, horizon: int) -> None:
        """Forget all records before a timestamp. Costs what is forgotten, however much is held."""
        heap, firsts, entries = self._heap, self._firsts, self.entries
        trimmed: list[Any] = []
        while heap and heap[0] < horizon:
            first = heappop(heap)
            for key in firsts.pop(first):
                held = entries.get(key)
                if held is not None and held[0][0] == first:
                    trimmed.append(key)
                    if held[0][-1] < horizon:
                        del entries[key]
                    else:
                        self._cut(held, key, horizon)
        if trimmed:
            born = self._born
            self._trimmed.setdefault(horizon, []).extend([key for key in trimmed if key not in born])

    def renew(self) -> None:
        """Save everything again: the records have been converted. Nothing was added since the last drain."""
        if not self.entries:
            return  # otherwise the mark stays for a later epoch, and deletes what other workers have added until then
        self._renewed = True
        for key, (timestamps, values) in self.entries.items():
            self._log.append(([key] * len(timestamps), list(timestamps), list(values)))

    def _place(self, keys: Sequence[Any], timestamps: Sequence[int], values: Sequence[Any], born: set[Any]) -> None:
        entries, firsts = self.entries, self._firsts
        for key, timestamp, value in zip(keys, timestamps, values, strict=True):
            held = entries.get(key)
            if held is None:
                entries[key] = ([timestamp], [value])
                born.add(key)
                if timestamp in firsts:
                    firsts[timestamp].append(key)
                else:
                    self._expect(timestamp, key)
            elif timestamp >= held[0][-1]:
                held[0].append(timestamp)
                held[1].append(value)
            else:
                self._insert(held, key, timestamp, value)

    def _insert(self, held: Timeline, key: Any, timestamp: int, value: Any) -> None:
        times, values = held
        place = bisect_right(times, timestamp)
        times.insert(place, timestamp)
        values.insert(place, value)
        if place == 0:
            self._expect(timestamp, key)

    def _cut(self, held: Timeline, key: Any, horizon: int) -> None:
        times, values = held
        place = bisect_left(times, horizon)
        if place == len(times):
            del self.entries[key]
            return
        del times[:place], values[:place]
        if place:
            self._expect(times[0], key)

    def _expect(self, first: int, key: Any) -> None:
        """Take note of when a key's first record is due."""
        keys = self._firsts.get(first)
        if keys is None:
            self._firsts[first] = [key]
            heappush(self._heap, first)
        else:
            keys.append(key)

    # --- changes -----------------------------------------------------------------------------------------------------

    def drain(self, group_of: GroupOf) -> dict[KeyGroup, TimelineDelta]:
        horizon = max(self._trimmed, default=_NEVER)
        deltas: dict[KeyGroup, TimelineDelta] = {}
        for group, columns in _by_group(self._log, horizon, group_of).items():
            generation = self._generations[group] = self._generations.get(group, 0) + 1
            addition = (-generation if self._renewed else generation, *columns)
            deltas[group] = TimelineDelta(group, [addition], horizon, [])
        for keys in self._trimmed.values():
            for key in keys:
                group = group_of(key)
                deltas.setdefault(group, TimelineDelta(group, [], horizon, [])).trimmed.append(key)
        self._log.clear()
        self._trimmed.clear()
        self._born.clear()
        self._renewed = False
        return deltas

    def dump(self, group_of: GroupOf) -> dict[KeyGroup, TimelineDelta]:
        timelines = (([key] * len(times), times, values) for key, (times, values) in self.entries.items())
        found = _by_group(timelines, _NEVER, group_of)
        # Generations of groups that hold nothing, too: their next one must count for every copy.
        return {
            group: TimelineDelta(
                group, [(self._generations.get(group, 0), *found.get(group, ([], [], [])))], _NEVER, []
            )
            for group in {**self._generations, **found}
        }

    def apply(self, delta: TimelineDelta) -> None:
        group, additions, horizon, trimmed = delta
        for generation, keys, timestamps, values in additions:
            if abs(generation) > self._generations.get(group, -1):
                self._generations[group] = abs(generation)
                if generation < 0:
                    for key in set(keys):
                        self.entries.pop(key, None)
                self._place(keys, timestamps, values, set())
        for key in trimmed:
            if held := self.entries.get(key):
                self._cut(held, key, horizon)

    @staticmethod
    def merge(deltas: Iterable[TimelineDelta]) -> TimelineDelta:
        additions: list[Any] = []
        trimmed: dict[Any, None] = {}
        group, horizon = KeyGroup(0), _NEVER
        for group, added, until, keys in deltas:  # noqa: B007 - one group throughout
            for addition in added:
                if addition[0] < 0:
                    additions.clear()
                additions.append(addition)
            horizon = max(horizon, until)
            trimmed.update(dict.fromkeys(keys))
        kept = [_after(addition, horizon) for addition in additions]
        # One without records is no use but as the last, whose generation the copy will have.
        return TimelineDelta(group, [one for one in kept[:-1] if one[1]] + kept[-1:], horizon, list(trimmed))

    def empty(self) -> None:
        for container in (self.entries, self._log, self._trimmed, self._born, self._generations, self._firsts):
            container.clear()
        self._heap.clear()
        self._renewed = False

    def has_changes(self) -> bool:
        return bool(self._log) or any(self._trimmed.values())

    def size(self) -> int:
        return len(self.entries)


def _by_group(
    batches: Iterable[tuple[Sequence[Any], Sequence[int], Sequence[Any]]], horizon: int, group_of: GroupOf
) -> dict[KeyGroup, tuple[list[Any], list[int], list[Any]]]:
    """Return the records of batches that are not before the horizon, by key group, as they came."""
    found: dict[KeyGroup, tuple[list[Any], list[int], list[Any]]] = {}
    for keys, timestamps, values in batches:
        for key, timestamp, value in zip(keys, timestamps, values, strict=True):
            if timestamp < horizon:
                continue
            group = group_of(key)
            columns = found.get(group)
            if columns is None:
                columns = found[group] = ([], [], [])
            columns[0].append(key)
            columns[1].append(timestamp)
            columns[2].append(value)
    return found


def _after(addition: Any, horizon: int) -> Any:
    """Return what an addition still adds when everything before the horizon is gone."""
    generation, keys, timestamps, values = addition
    if not timestamps or min(timestamps) >= horizon:
        return addition
    kept = [index for index, timestamp in enumerate(timestamps) if timestamp >= horizon]
    return generation, [keys[i] for i in kept], [timestamps[i] for i in kept], [values[i] for i in kept]


class TimelineKind(EntryKind[TimelineTable, TimelineDelta]):
    """The kind of records that wait to be joined. Its tables are in memory with every backend."""

    name = TimelineTable.kind
    spread = "timestamp"

    def make(self, namespaced: bool) -> TimelineTable:
        return TimelineTable()

    def from_plain(self, plain: Any) -> TimelineDelta:
        return TimelineDelta(*plain)

    def write(self, types: SectionTypes, delta: TimelineDelta, parts: Parts) -> None:
        group, additions, horizon, trimmed = delta
        parts.append(spell_number(len(additions)))
        INTS.write([group, horizon, *column(0, additions)], parts)
        write_lists(types.key, column(1, additions), parts)
        INTS.write(list(chain.from_iterable(column(2, additions))), parts)
        types.value.write(list(chain.from_iterable(column(3, additions))), parts)
        write_entries(types, trimmed, parts)

    def read(self, types: SectionTypes, cursor: Cursor) -> TimelineDelta:
        count = cursor.number()
        group, horizon, *generations = INTS.read(cursor, count + 2)
        keys = read_lists(types.key, cursor, count)
        total = sum(map(len, keys))
        timestamps, values = iter(INTS.read(cursor, total)), iter(types.value.read(cursor, total))
        additions = [
            (generation, held, list(islice(timestamps, len(held))), list(islice(values, len(held))))
            for generation, held in zip(generations, keys, strict=True)
        ]
        return TimelineDelta(group, additions, horizon, read_entries(types, cursor))

    def part(self, delta: TimelineDelta, wanted: Wanted) -> tuple[TimelineDelta, bool]:
        parts: list[Addition] = []
        for generation, keys, timestamps, values in delta.additions:
            chosen = [position for position, key in enumerate(keys) if wanted(key)]
            columns = [keys[at] for at in chosen], [timestamps[at] for at in chosen], [values[at] for at in chosen]
            parts.append((generation, *columns))
        return delta._replace(additions=parts, trimmed=list(filter(wanted, delta.trimmed))), False

    # --- schema ------------------------------------------------------------------------------------------------------

    def convert(self, table: TimelineTable, entries: list[tuple[Any, Any]], conversion: Conversion) -> None:
        for key, (_, waiting) in entries:
            waiting[:] = conversion.values(waiting, [key])

    def converted(self, table: TimelineTable) -> None:
        table.renew()

    # --- rows for users ----------------------------------------------------------------------------------------------

    def entries(self, table: TimelineTable) -> Iterator[Entry]:
        for key, (timestamps, values) in table.entries.items():
            yield key, None, list(zip(timestamps, values, strict=True))

    def items(self, held: Any) -> Iterable[tuple[Any, ...]]:
        return held  # type: ignore[no-any-return]

    def transform(self, table: TimelineTable, change: Callable[[Any, Any, Any], Any]) -> None:
        for key, _, records in list(self.entries(table)):
            changed = change(key, None, records)
            if changed is not None:
                ordered = sorted(changed, key=lambda record: record[0])
                changed = [record[0] for record in ordered], [record[1] for record in ordered]
            put_or_drop(table.entries, key, changed)

    def shaped(self, changed: Any, shape: ReturnedShape) -> Any:
        return [_pair(record, shape) for record in shape.elements(changed)] or None


def _pair(record: Any, shape: ReturnedShape) -> tuple[int, Any]:
    if not isinstance(record, list | tuple) or len(record) != 2 or not isinstance(record[0], int):
        raise shape.refusal(record, "a list of pairs of timestamp and record")
    return record[0], shape.fitting(record[1])


TIMELINES = TimelineKind()

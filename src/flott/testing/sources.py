"""A source that plays a script: elements, and marks for the ends of epochs, pauses and failures.

Failures are written in the data, where a reader of the test sees them:

>>> ScriptedSource([1, 2, Abort(), 3, EndOfEpoch(), 4]).splits
{'0': (1, 2, Abort(times=1), 3, EndOfEpoch(), 4)}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from flott.datastream.connectors.base import (
    Boundedness,
    Followed,
    Json,
    Pause,
    Pending,
    Records,
    Slice,
    SlicePlan,
    SliceRequest,
    Source,
    SourceReader,
    SplitEnumerator,
)


class Mark:
    """The root of all marks: an entry of a script that is not an element."""


@dataclass(frozen=True)
class Abort(Mark):
    """Reading fails here a number of times; then the script continues."""

    times: int = 1


@dataclass(frozen=True)
class EndOfEpoch(Mark):
    """An epoch that reads this split ends here at the latest. The epoch of a batch job reads everything."""


@dataclass(frozen=True)
class Wait(Mark):
    """The next entries arrive this much later than the former ones. A batch job does not wait."""

    ms: int


class Aborted(Exception):
    """Raised by an :class:`Abort`."""


#: For how long scripts are followed, how many entries are read at once, and what is the pause between them.
FOLLOW_MS = 10
FOLLOWED_ENTRIES = 12
FOLLOW_PAUSE_SECONDS = 0.001

#: How often each Abort of each source was reached in this process.
_met: dict[tuple[str, str, int], int] = {}


class ScriptedSource(Source[Any]):
    """Plays one script, or one for each split. ``endless``: the input does not end after the last entry.

    ``followed``: a job that runs continuously reads all but the last entry of each split through open slices. Scripts
    have no marks then.
    """

    def __init__(
        self,
        script: Sequence[Any] | Mapping[str, Sequence[Any]],
        *,
        endless: bool = False,
        followed: bool = False,
    ):
        scripts = script if isinstance(script, Mapping) else {"0": script}
        self.splits: dict[str, tuple[Any, ...]] = {name: tuple(entries) for name, entries in scripts.items()}
        self.endless = endless
        self.followed = followed
        self._token = uuid4().hex

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED if self.endless else Boundedness.BOUNDED

    def create_enumerator(self) -> SplitEnumerator:
        return _ScriptEnumerator(self.splits, self.endless, self.followed)

    def create_reader(self) -> SourceReader[Any]:
        return _ScriptReader(self.splits, self._token)


class _ScriptEnumerator(SplitEnumerator):
    """The position in each script and, at a Wait, the time since when it waits."""

    def __init__(self, splits: dict[str, tuple[Any, ...]], endless: bool, followed: bool):
        self._splits = splits
        self._endless = endless
        self._followed = followed
        self._next = dict.fromkeys(splits, 0)
        self._waiting_since: dict[tuple[str, int], int] = {}

    def restore(self, state: Json) -> None:
        self._next.update(state)

    def plan(self, request: SliceRequest) -> SlicePlan:
        open_splits = [name for name, start in self._next.items() if start < len(self._splits[name])]
        if self._followed and request.may_be_open:
            return self._plan_following(open_splits, request.now_ms)
        share = max(1, request.max_records // max(1, len(open_splits)))
        slices: list[Slice] = []
        wakes: dict[str, int] = {}
        for name in open_splits:
            part = self._rest(name) if request.everything else self._slice(name, share, request.now_ms)
            if isinstance(part, int):
                wakes[name] = part
            elif name not in request.paused:
                slices.append(part)
        reached = {**self._next, **{part.split: part.stop for part in slices}}
        done = all(stop == len(self._splits[name]) for name, stop in reached.items())
        return SlicePlan(
            tuple(slices),
            finished=done and not self._endless,
            backlog=any(self._has_more(name, stop) for name, stop in reached.items()),
            wake_at_ms=min(wakes.values(), default=None) if not slices else None,
            waiting=tuple(name for name in self._next if name in wakes or (self._endless and name not in open_splits)),
        )

    def _plan_following(self, names: list[str], now_ms: int) -> SlicePlan:
        """Follow scripts to their last entries. Those are read by slices with an end, which say that splits end."""
        slices = []
        for name in names:
            start, end = self._next[name], len(self._splits[name])
            if start < end - 1:
                slices.append(Slice(name, start, None, end - 1 - start, is_open=True))
            else:
                slices.append(Slice(name, start, end, 1, ends_split=not self._endless))
        waiting = tuple(name for name in self._next if self._endless and name not in names)
        finished = not self._endless and not any(part.is_open for part in slices)
        return SlicePlan(tuple(slices), finished=finished, wake_at_ms=now_ms + FOLLOW_MS, waiting=waiting)

    def _has_more(self, name: str, position: int) -> bool:
        """Return whether the next entries of a script have arrived."""
        entries = self._splits[name]
        return position < len(entries) and not isinstance(entries[position], Wait)

    def _rest(self, name: str) -> Slice:
        entries, start = self._splits[name], self._next[name]
        records = sum(not isinstance(entry, Mark) for entry in entries[start:])
        return Slice(name, start, len(entries), records, ends_split=not self._endless)

    def _slice(self, name: str, share: int, now_ms: int) -> Slice | int:
        """Return the next part of a script, or the time at which it arrives."""
        entries, start = self._splits[name], self._next[name]
        if isinstance(entries[start], Wait):
            since = self._waiting_since.setdefault((name, start), now_ms)
            if now_ms < since + entries[start].ms:
                return int(since + entries[start].ms)
        stop, records = start, 0
        while stop < len(entries) and records < share:
            if isinstance(entries[stop], Wait) and stop > start:
                break
            records += not isinstance(entries[stop], Mark)
            stop += 1
            if isinstance(entries[stop - 1], EndOfEpoch):
                break
        while stop < len(entries) and isinstance(entries[stop], EndOfEpoch):
            stop += 1
        return Slice(name, start, stop, records, ends_split=stop == len(entries) and not self._endless)

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        self._next.update(reached)

    def pending(self, now_ms: int) -> Pending:
        left = [entry for name, start in self._next.items() for entry in self._splits[name][start:]]
        return Pending(records=sum(not isinstance(entry, Mark) for entry in left))

    def snapshot(self) -> Json:
        return dict(self._next)


class _ScriptReader(SourceReader[Any]):
    """Yields the elements of a slice and applies its marks."""

    def __init__(self, splits: dict[str, tuple[Any, ...]], token: str):
        self._splits = splits
        self._token = token
        self._reached: dict[str, int] = {}  #: how far open slices were read

    def follow(self, parts: Sequence[Slice]) -> Followed[Any]:
        self._reached = {part.split: part.start for part in parts}
        while True:
            for part in parts:
                start = self._reached[part.split]
                stop = min(start + FOLLOWED_ENTRIES, len(self._splits[part.split]) - 1)
                if start < stop:
                    self._reached[part.split] = stop
                    yield part, Records(list(self._splits[part.split][start:stop]))
            yield Pause(FOLLOW_PAUSE_SECONDS)

    def reached(self, part: Slice) -> Json:
        return self._reached[part.split] if part.is_open else part.stop

    def read(self, part: Slice) -> Iterator[Any]:
        for index in range(part.start, part.stop):
            entry = self._splits[part.split][index]
            if isinstance(entry, Mark):
                self._obey(entry, part.split, index)
            else:
                yield entry

    def locate(self, part: Slice, index: int) -> str:
        entries = self._splits[part.split]
        stop = len(entries) if part.is_open else part.stop
        places = [i for i in range(part.start, stop) if not isinstance(entries[i], Mark)]
        return f"split {part.split}, offset {places[index]}"

    def _obey(self, mark: Mark, split: str, index: int) -> None:
        if isinstance(mark, Abort):
            place = (self._token, split, index)
            _met[place] = _met.get(place, 0) + 1
            if _met[place] <= mark.times:
                raise Aborted(f"attempt {_met[place]} of {mark.times} at entry {index} of split {split}")

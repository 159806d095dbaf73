"""Plans (driver) and reads (task) several sources one after the other.

The source switches between two epochs. A slice says which source it belongs to, and, for a source that is made when its
turn comes, from what: so tasks, and an enumerator that did not make the plan, make the same one. A switch becomes
part of the state with the epoch that read the end of a source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from flott.datastream.connectors.base import (
    ColumnRecords,
    Followed,
    Json,
    Pause,
    Pending,
    Records,
    Slice,
    SlicePlan,
    SliceRequest,
    SourceReader,
    SplitEnumerator,
)
from flott.datastream.connectors.hybrid_source import HybridSource
from flott.errors import StateError


class HybridEnumerator(SplitEnumerator):
    """Hands requests to the enumerator of the source that is being read."""

    readable_beside = False

    def __init__(self, source: HybridSource):
        self._source = source
        # The state: what snapshot returns.
        self._index = 0
        self._context: Json = None
        self._state: Json = None  #: of the current enumerator, as long as that is not open
        # Not state.
        self._enumerators: dict[int, SplitEnumerator] = {}  #: the current one, and those that a plan has switched to
        self._contexts: dict[int, Json] = {}

    # The first source is opened when it is known that it is read: a restored job may be beyond it, and its input gone.

    def restore(self, state: Json) -> None:
        if state["index"] >= len(self._source.stages):
            raise StateError(
                f"The checkpoint was made while source {state['index'] + 1} of a HybridSource was read, but the program"
                f" has {len(self._source.stages)}. Do not remove or reorder sources."
            )
        self._index, self._context, self._state = state["index"], state["context"], state["state"]
        self._contexts = {self._index: self._context}

    def snapshot(self) -> Json:
        unopened = self._index not in self._enumerators and self._state is not None
        state = self._state if unopened else self._enumerator(self._index).snapshot()
        return {"version": 1, "index": self._index, "context": self._context, "state": state}

    def plan(self, request: SliceRequest) -> SlicePlan:
        slices: list[Slice] = []
        index = self._index
        while True:
            plan = self._enumerator(index).plan(replace(request, paused=_own(request.paused, index)))
            last = index == len(self._source.stages) - 1
            ends = plan.finished and not last
            slices += [self._wrapped(index, part, ends, request.now_ms) for part in plan.slices]
            if not ends:
                waiting = tuple(f"{index}:{split}" for split in plan.waiting)
                return replace(plan, slices=tuple(slices), waiting=waiting)
            if slices and not request.everything:
                return SlicePlan(tuple(slices), backlog=True)
            if index + 1 not in self._contexts:
                self._contexts[index + 1] = self._switch_context(index, request.now_ms)
            index += 1

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        for index in sorted({part.detail["index"] for part in plan.slices}):
            mine = [part for part in plan.slices if part.detail["index"] == index]
            detail = mine[0].detail
            if index != self._index or self._contexts.get(index) != detail["context"]:
                self._switch(index, detail["context"])
            parts = tuple(_unwrapped(part) for part in mine)
            told = {part.split: reached[whole.split] for part, whole in zip(parts, mine, strict=True)}
            finished = detail["ends"] or plan.finished
            self._enumerator(index).advance(replace(plan, slices=parts, finished=finished, waiting=()), told)
            if detail["ends"]:
                self._switch(index + 1, self._switch_context(index, detail["at_ms"]))

    def acknowledge(self) -> None:
        if self._index in self._enumerators or self._state is not None:
            self._enumerator(self._index).acknowledge()

    def pending(self, now_ms: int) -> Pending:
        current = self._enumerators.get(self._index)
        if current is None:
            return Pending()
        pending = current.pending(now_ms)
        return replace(pending, splits={f"{self._index}:{split}": count for split, count in pending.splits.items()})

    def close(self) -> None:
        for enumerator in self._enumerators.values():
            enumerator.close()
        self._enumerators = {}

    def _enumerator(self, index: int) -> SplitEnumerator:
        """Return the enumerator of a source, opened and, if the state is about it, restored."""
        if index not in self._enumerators:
            enumerator = self._source.stages[index].make(self._contexts.get(index)).create_enumerator()
            enumerator.open()
            if index == self._index and self._state is not None:
                enumerator.restore(self._state)
            self._enumerators[index] = enumerator
        return self._enumerators[index]

    def _switch(self, index: int, context: Json) -> None:
        """Make the switch to a source part of the state."""
        unlike = index not in self._contexts or self._contexts[index] != context
        for each in list(self._enumerators):
            # The next source may be open already, and another one, if another enumerator made the plan.
            if each < index or (each == index and unlike):
                self._enumerators.pop(each).close()
        self._index, self._context, self._state = index, context, None
        self._contexts[index] = context

    def _switch_context(self, index: int, now_ms: int) -> Json:
        """Return what a source is made from that is made now. A source that is known needs nothing."""
        if self._source.stages[index + 1].source is not None:
            return None
        return {"previous_state": self._enumerator(index).snapshot(), "switched_at_ms": now_ms}

    def _wrapped(self, index: int, part: Slice, ends: bool, now_ms: int) -> Slice:
        context = self._contexts.get(index)
        detail = {"index": index, "context": context, "ends": ends, "at_ms": now_ms, "detail": part.detail}
        return replace(part, split=f"{index}:{part.split}", ends_split=part.ends_split or ends, detail=detail)


def _own(splits: frozenset[str], index: int) -> frozenset[str]:
    """Return the names that the source with this index gave to its splits."""
    prefix = f"{index}:"
    return frozenset(split[len(prefix) :] for split in splits if split.startswith(prefix))


def _unwrapped(part: Slice) -> Slice:
    """Return the slice as its source made it, but for the end of its split, which does no harm to know."""
    return replace(part, split=part.split.partition(":")[2], detail=part.detail["detail"])


class HybridReader(SourceReader[Any]):
    """Hands slices to the reader of their source."""

    def __init__(self, source: HybridSource):
        self._source = source
        self._readers: dict[int, SourceReader[Any]] = {}

    def read(self, part: Slice) -> Iterator[Any]:
        return self._reader(part).read(_unwrapped(part))

    def read_batches(self, part: Slice) -> Iterator[Records[Any] | ColumnRecords]:
        return self._reader(part).read_batches(_unwrapped(part))

    def follow(self, parts: Sequence[Slice]) -> Followed[Any]:
        whole = {_unwrapped(part).split: part for part in parts}  # all of one source: the one whose turn it is
        with closing(self._reader(parts[0]).follow([_unwrapped(part) for part in parts])) as followed:
            for news in followed:
                yield news if isinstance(news, Pause) else (whole[news[0].split], news[1])

    def reached(self, part: Slice) -> Json:
        return self._reader(part).reached(_unwrapped(part))

    def locate(self, part: Slice, index: int) -> str:
        return self._reader(part).locate(_unwrapped(part), index)

    def roughly(self, part: Slice, index: int) -> str:
        return self._reader(part).roughly(_unwrapped(part), index)

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers = {}

    def _reader(self, part: Slice) -> SourceReader[Any]:
        index = part.detail["index"]
        if index not in self._readers:
            self._readers[index] = reader = self._source.stages[index].make(part.detail["context"]).create_reader()
            reader.open()
        return self._readers[index]

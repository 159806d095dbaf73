"""Compare a replay with what was recorded, and two replays with each other; describe the differences in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any

from flott.common._watermark_report import watermark_text
from flott.datastream.connectors.base import Json
from flott.graph.job_graph import JobGraph
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint.manifest import Manifest, OperatorSnapshot
from flott.runtime.epoch.accumulators import values_of
from flott.runtime.replay.observation import Passage, stable_bytes
from flott.runtime.replay.recorded_epoch import RecordedEpoch
from flott.runtime.replay.replay import Replayed
from flott.snapshots.difference import Change, SnapshotDifference, StateDifference, same
from flott.snapshots.snapshot import StateSnapshot

_TWICE = ("once", "once more")
#: So many entries of a state that differ are shown.
SHOWN = 3


@dataclass(frozen=True)
class Difference:
    """One difference."""

    operator: str
    what: str  #: in words
    one: str  #: what was recorded; of two replays, what the first one gave
    other: str
    sides: tuple[str, str] = ("recorded", "replayed")

    def __str__(self) -> str:
        return f"{self.operator}: {self.what}: {self.sides[0]} {self.one}, {self.sides[1]} {self.other}"


def differences(recorded: RecordedEpoch, replay: Replayed) -> Iterator[Difference]:
    """Return what the replay did differently from the job, in the order of the program; nothing if it is identical."""
    if recorded.after is None or replay.manifest is None:
        return
    before, after = recorded.after, replay.manifest
    label = _labels(replay.graph)
    for ident in replay.graph.operators:
        name = label[ident]
        if ident not in before.operators:
            yield Difference(name, "the operator", "unknown", "in the program")
            continue
        yield from _times(name, before.operators[ident], after.operators[ident])
        yield from _source(name, before, after, ident)
        if replay.writing.get(ident):
            yield from _committables(name, before, after, ident)
    yield from _state(recorded, before, replay, after)
    yield from _of_the_job(before, after)


def two_replays(one: Replayed, other: Replayed) -> Iterator[Difference]:
    """Return the operators whose records differ between two replays of an epoch, the first one first."""
    label = _labels(one.graph)
    for vertex in one.graph.vertices:
        for operator in vertex.operators:
            first, second = one.traffic.get(operator.id), other.traffic.get(operator.id)
            if first is None or second is None:
                continue
            for what, a, b in (
                ("the records it got", first.received, second.received),
                ("the records it emitted", first.emitted, second.emitted),
            ):
                if a.digest != b.digest:
                    yield _parting(label[operator.id], what, a, b)


def _parting(name: str, what: str, one: Passage, other: Passage) -> Difference:
    if one.is_whole and other.is_whole:
        former, latter = (_sorted(side) for side in (one, other))
        if former == latter:
            return Difference(
                name, f"{what} come in another order at every replay", f"{one.count}", "the same ones", _TWICE
            )
        for left, right in zip_longest(one.records(shown=False), other.records(shown=False)):
            if not same(left, right):
                once, again = ("nothing" if side is None else _short(side.value) for side in (left, right))
                return Difference(
                    name, f"{what} are different at every replay, for the first time here", once, again, _TWICE
                )
    once, again = (f"{side.count} records ({side.digest[:8]})" for side in (one, other))
    return Difference(name, f"{what} are different at every replay", once, again, _TWICE)


def _sorted(passage: Passage) -> list[bytes]:
    return sorted(stable_bytes([seen.value, seen.port], None) for seen in passage.records(shown=False))


def _labels(graph: JobGraph) -> dict[OperatorId, str]:
    return {ident: operator.node.uid or operator.node.name for ident, operator in graph.operators.items()}


def _times(name: str, before: OperatorSnapshot, after: OperatorSnapshot) -> Iterator[Difference]:
    if before.parallelism != after.parallelism:
        yield Difference(name, "parallelism", str(before.parallelism), str(after.parallelism))
        return
    for index, (one, other) in enumerate(zip(before.subtasks, after.subtasks, strict=True)):
        if one.watermark != other.watermark:
            marks = watermark_text(one.watermark), watermark_text(other.watermark)
            yield Difference(name, f"watermark of subtask {index}", *marks)
        elif one.progress != other.progress:
            yield Difference(
                name, f"watermark generator of subtask {index}", _short(one.progress), _short(other.progress)
            )


def _source(name: str, before: Manifest, after: Manifest, ident: OperatorId) -> Iterator[Difference]:
    one, other = before.sources.get(ident), after.sources.get(ident)
    if one is None or other is None:
        return
    if _plain(one.enumerator) != _plain(other.enumerator):
        yield Difference(name, "position in its input", _short(one.enumerator), _short(other.enumerator))
    if one.finished != other.finished:
        yield Difference(name, "has ended", str(one.finished), str(other.finished))
    for split in {**one.splits, **other.splits}:
        if one.splits.get(split) != other.splits.get(split):
            times = _short(one.splits.get(split)), _short(other.splits.get(split))
            yield Difference(name, f"event time of split {split!r}", *times)


def _committables(name: str, before: Manifest, after: Manifest, ident: OperatorId) -> Iterator[Difference]:
    one = _without_attempts(before.committables.get(ident, []), before.attempts)
    other = _without_attempts(after.committables.get(ident, []), after.attempts)
    if len(one) != len(other):
        yield Difference(name, "pieces of output to commit", str(len(one)), str(len(other)))
        return
    for left, right in zip(one, other, strict=True):
        if left != right:
            yield Difference(name, "output to commit", left, right)
            return


def _without_attempts(committables: list[Json], attempts: tuple[str, ...]) -> list[str]:
    """Return committables as sorted texts, without the name of the attempt, which always differs."""
    texts = []
    for committable in committables:
        text = json.dumps(committable, sort_keys=True)
        for attempt in sorted(attempts, key=len, reverse=True):
            text = text.replace(attempt, "*")
        texts.append(text)
    return sorted(texts)


def _state(recorded: RecordedEpoch, before: Manifest, replay: Replayed, after: Manifest) -> Iterator[Difference]:
    was = StateSnapshot(replay.storage, before, recorded.directory)  # the job may have deleted the files by now
    now = StateSnapshot(replay.storage, after, replay.storage.root)
    for state in SnapshotDifference(was, now).states:
        yield from _of_state(state)


def _of_state(state: StateDifference) -> Iterator[Difference]:
    if not (counts := state.counts):
        return
    total = counts.added + counts.removed + counts.changed
    for change in islice(state, SHOWN):
        yield Difference(state.operator, f"state {state.name!r} of key {_short(change.key)}", *_sides(change))
    if total > SHOWN:
        yield Difference(state.operator, f"state {state.name!r}", f"{total - SHOWN} more keys", "otherwise")


def _sides(change: Change) -> tuple[str, str]:
    return (
        "nothing" if change.before is None else _short(change.before),
        "nothing" if change.after is None else _short(change.after),
    )


def _of_the_job(before: Manifest, after: Manifest) -> Iterator[Difference]:
    if before.wakeup_ms != after.wakeup_ms:
        yield Difference("the job", "next processing-time timer", _short(before.wakeup_ms), _short(after.wakeup_ms))
    one, other = values_of(before.accumulators), values_of(after.accumulators)
    for name in {**one, **other}:
        if not same(one.get(name), other.get(name)):
            yield Difference("the job", f"accumulator {name!r}", _short(one.get(name)), _short(other.get(name)))


def _plain(value: Json) -> Json:
    return json.loads(json.dumps(value, sort_keys=True))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."

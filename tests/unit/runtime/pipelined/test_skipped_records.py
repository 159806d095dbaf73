"""Batches whose records are all skipped or rejected: between two of them a slot does everything else it has to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flott.common import JobStatus, Types, WatermarkStrategy
from flott.datastream.connectors.base import (
    BadRecord,
    Followed,
    OnError,
    Records,
    Slice,
    SlicePlan,
    SliceRequest,
    Source,
    SourceReader,
    SplitEnumerator,
)
from flott.datastream.connectors.discard import DiscardSink
from flott.runtime.clock import SystemClock
from flott.runtime.connectors.columns.named_rows import NamedRowsReader
from flott.runtime.pipelined.control import EndRound, SlotEvent
from flott.runtime.pipelined.local_pipeline import LocalPipeline
from flott.table._types.logical import BigIntType
from flott.testing.harness import in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from tests.unit.runtime.pipelined.test_open_slices import CountingPipeline

NO_WATERMARKS: WatermarkStrategy = WatermarkStrategy.no_watermarks()
#: A reader that is not ended by then was never going to be.
ENDLESS = 5_000_000
BAD_BATCHES, BAD_PER_BATCH = 100, 8


class Until(SplitEnumerator):
    """Lets a split be followed until something was read of it."""

    reached = 0

    def plan(self, request: SliceRequest) -> SlicePlan:
        if self.reached:
            return SlicePlan(finished=True)
        return SlicePlan((Slice("backlog", 0, None, is_open=True),))

    def advance(self, plan: SlicePlan, reached: dict[str, Any]) -> None:
        self.reached = reached.get("backlog", self.reached)

    def snapshot(self) -> Any:
        return self.reached


class Backlog(SourceReader[Any]):
    """Brings batch after batch without a record, and never pauses."""

    def __init__(self) -> None:
        self.batches = 0

    def read(self, part: Slice) -> Any:
        raise AssertionError("all slices are open")

    def follow(self, parts: Sequence[Slice]) -> Followed[Any]:
        for self.batches in range(1, ENDLESS):
            yield parts[0], Records([])
        raise AssertionError("the task has never done anything else")

    def reached(self, part: Slice) -> Any:
        return self.batches


def columns() -> SourceReader[Any]:
    return NamedRowsReader(Backlog(), ("number",), (BigIntType(),))


@dataclass(frozen=True)
class BacklogSource(Source[Any]):
    make: Callable[[], SourceReader[Any]]

    def create_enumerator(self) -> SplitEnumerator:
        return Until()

    def create_reader(self) -> SourceReader[Any]:
        return self.make()


@pytest.mark.parametrize("reader", [Backlog, columns])
def test_an_endless_backlog_of_skipped_records_lets_the_round_end_and_a_checkpoint_be_taken(
    tmp_path: Path, reader: Callable[[], SourceReader[Any]]
) -> None:
    env = in_process(1, execution__mode="pipelined", execution__checkpointing__interval="5 ms",
                     restart_strategy__type="none")  # fmt: skip
    env.from_source(BacklogSource(reader), NO_WATERMARKS, "backlog").sink_to(DiscardSink())
    pipeline, committed = CountingPipeline(), []
    on_step = lambda step, epoch: committed.append(epoch) if step == "committed" else None  # noqa: E731
    life = live(env, tmp_path, clock=SystemClock(), pipeline=pipeline, on_step=on_step)
    assert life.status is JobStatus.FINISHED, life.failure
    assert pipeline.commands[EndRound] == 1, "what was skipped is to be saved, so a barrier ended the round"
    assert committed[:2] == [1, 2]


# --- dead letters ----------------------------------------------------------------------------------------------------


class OneSlice(SplitEnumerator):
    def plan(self, request: SliceRequest) -> SlicePlan:
        return SlicePlan((Slice("bad", 0, BAD_BATCHES, ends_split=True),), finished=True)

    def advance(self, plan: SlicePlan, reached: dict[str, Any]) -> None:
        pass

    def snapshot(self) -> Any:
        return None


class BadReader(SourceReader[Any]):
    def read(self, part: Slice) -> Any:
        raise AssertionError("it reads batches")

    def read_batches(self, part: Slice) -> Iterator[Records[Any]]:
        for batch in range(part.start, part.stop):
            yield Records([], rejected=[BadRecord(f"{batch}", "bad", b"x")] * BAD_PER_BATCH)


@dataclass(frozen=True)
class BadSource(Source[Any]):
    on_error: OnError

    def create_enumerator(self) -> SplitEnumerator:
        return OneSlice()

    def create_reader(self) -> SourceReader[Any]:
        return BadReader()


class OnePieceAtATime(LocalPipeline):
    """Looks between two pieces of work at how much the source has rejected."""

    def __init__(self) -> None:
        super().__init__()
        self.rejected: list[int] = []

    def events(self) -> list[SlotEvent]:
        for slot in self.slots:
            while slot.work_in_stage(0):
                task = next(iter(slot.tasks.values()))
                self.rejected.append(task.task.subtasks[0].slots[0].counts.records_out)
        happened = list(self._events)
        self._events.clear()
        return happened


def test_between_two_batches_of_dead_letters_a_task_does_other_work(tmp_path: Path) -> None:
    env = in_process(1, execution__mode="pipelined", execution__checkpointing__interval="1 h")
    ledger, pipeline = Ledger(f"dead-letters-{uuid4()}"), OnePieceAtATime()
    source = BadSource(OnError.dead_letter(LedgerSink(ledger)))
    env.from_source(source, NO_WATERMARKS, "bad", Types.INT()).sink_to(DiscardSink())
    life = live(env, tmp_path, pipeline=pipeline)
    assert life.status is JobStatus.FINISHED, life.failure
    assert len(ledger.records) == BAD_BATCHES * BAD_PER_BATCH
    assert set(range(0, BAD_BATCHES * BAD_PER_BATCH, BAD_PER_BATCH)) <= {0, *pipeline.rejected}

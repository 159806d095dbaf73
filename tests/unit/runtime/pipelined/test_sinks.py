"""Sinks of pipelined jobs: the next writer begins behind the barrier, before the commit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flott.common import JobStatus, WatermarkStrategy
from flott.datastream.connectors.base import DeliveryGuarantee, SinkWriter, WriterContext
from flott.datastream.connectors.jdbc import CommitBy, JdbcTableSink
from flott.testing.clock import ManualClock
from flott.testing.harness import in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import ScriptedSource
from tests.unit.runtime.pipelined.test_failed_checkpoints import HeldPipeline
from tests.unit.runtime.pipelined.test_pipelined_jobs import Counted, expected_counts

_early: list[str] = []


class _WatchedWriter(SinkWriter[Any]):
    """Notes what it is told, and whether it writes while something prepared is not committed."""

    def __init__(self, writer: Any, place: str):
        self._writer = writer
        self._place = place

    def write(self, values: Any, timestamps: Any) -> None:
        prepared = [token for token in self._writer._ledger.staged if token.startswith(self._place)]
        _early.extend(prepared)
        self._writer.write(values, timestamps)

    def prepare_commit(self) -> Any:
        return self._writer.prepare_commit()


class WatchedSink(LedgerSink):
    """A ledger whose writers are watched."""

    waits = False

    @property
    def waits_for_commits(self) -> bool:
        return self.waits

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        return _WatchedWriter(super().create_writer(context), f"{context.operator_id}:{context.subtask}:")


class WaitingSink(WatchedSink):
    """The same, with locks that another writer would wait for."""

    waits = True


class Hasty(ManualClock):
    """A clock that runs on whenever it is looked at, so that checkpoints become due."""

    def now_ms(self) -> int:
        self.advance(1)
        return super().now_ms()


def run(sink_class: type[WatchedSink], folder: Path) -> None:
    _early.clear()
    ledger = Ledger(uuid4().hex)
    env = in_process(
        2, execution__mode="pipelined", execution__checkpointing__interval="1 ms", flott__epoch__max_records="10"
    )
    numbers = env.from_source(ScriptedSource(list(range(200))), WatermarkStrategy.no_watermarks(), "numbers")
    counted = numbers.key_by(lambda n: n % 3).process(Counted())
    # A task of its own, fed by others that go on while it waits.
    counted.key_by(lambda found: found[0]).map(lambda found: found).sink_to(sink_class(ledger))
    clock = Hasty()
    # State files take a while, so that there is time between barrier and commit.
    slow = HeldPipeline(clock, lambda: clock.monotonic() * 1000 % 40 > 10)
    life = live(env, folder, clock=clock, pipeline=slow)
    assert life.status is JobStatus.FINISHED, life.failure
    assert len(life.history.epochs) > 5
    assert Counter(ledger.records) == expected_counts(200)


@pytest.mark.parametrize("sink_class", [WatchedSink, WaitingSink])
def test_a_sink_with_locks_writes_only_after_the_commit(sink_class: type[WatchedSink], tmp_path: Path) -> None:
    run(sink_class, tmp_path)
    assert bool(_early) is not sink_class.waits


@pytest.mark.parametrize("commit_by", list(CommitBy))
def test_prepared_transactions_of_a_database_keep_their_locks(commit_by: CommitBy) -> None:
    builder = JdbcTableSink.builder().set_url("jdbc:postgresql://localhost/db").set_table("t")
    sink = builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).commit_by(commit_by).build()
    assert sink.waits_for_commits is (commit_by is CommitBy.PREPARED_TRANSACTION)

"""A source is told when a checkpoint is durable and committed: never before, and again after a crash."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import CommitPermit, SplitEnumerator
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.runtime.connectors.number_seq import NumberSequenceEnumerator
from flott.testing.harness import Crash, in_process, live
from flott.testing.sinks import Ledger, LedgerSink

#: What happened, in order. In this process only.
_events: list[str] = []


class _Telling(NumberSequenceEnumerator):
    def acknowledge(self) -> None:
        _events.append("acknowledged")
        if _events.count("acknowledged") == 2:
            raise OSError("password=hunter2 refused")  # a job does not depend on it


@dataclass(frozen=True)
class Telling(NumberSequenceSource):
    def create_enumerator(self) -> SplitEnumerator:
        return _Telling(self.start, self.end)


def _program(ledger: Ledger) -> Any:
    env = in_process(1, flott__epoch__max_records="2")
    stream = env.from_source(Telling(1, 6), WatermarkStrategy.no_watermarks(), "numbers")
    stream.sink_to(LedgerSink(ledger))
    return env


def _ledger() -> Ledger:
    _events.clear()

    def committing(permit: CommitPermit) -> None:
        _events.append("committed")

    return Ledger(f"ack-{uuid4().hex}", before_commit=committing)


def test_every_checkpoint_is_acknowledged_after_its_commit(tmp_path: Path, caplog: Any):
    ledger = _ledger()
    live(_program(ledger), tmp_path / "job")
    assert sorted(ledger.records) == [1, 2, 3, 4, 5, 6]
    assert _events
    assert _events == ["committed", "acknowledged"] * (len(_events) // 2)
    assert "hunter2" not in caplog.text
    assert "could not acknowledge" in caplog.text


def test_a_checkpoint_whose_process_died_is_acknowledged_by_the_next(tmp_path: Path):
    ledger = _ledger()

    def die(step: str, epoch: int) -> None:
        if step == "completed" and epoch == 1:
            raise Crash

    assert live(_program(ledger), tmp_path / "job", on_step=die).crashed
    assert _events == []
    live(_program(ledger), tmp_path / "job")
    assert _events[:2] == ["committed", "acknowledged"]
    assert sorted(ledger.records) == [1, 2, 3, 4, 5, 6]


def test_a_preview_acknowledges_nothing():
    _events.clear()
    stream = in_process(1).from_source(Telling(1, 6), WatermarkStrategy.no_watermarks(), "numbers")
    assert len(list(stream.preview(10))) == 6
    assert _events == []

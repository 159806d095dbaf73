"""Records that cannot be decoded: the job fails, leaves them out, or writes them to a dead-letter sink exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest

from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import (
    BadRecord,
    OnError,
    Records,
    Slice,
    SlicePlan,
    SliceRequest,
    Source,
    SourceReader,
    SplitEnumerator,
)
from flott.errors import BadRecordError, JobFailedError, ProgramError
from flott.testing.harness import collect, in_process
from flott.testing.sinks import Ledger, LedgerSink

MESSAGES = [b"1", b"2", b"x", b"4", b"y", b"6"]


class _Plan(SplitEnumerator):
    position = 0

    def restore(self, state: Any) -> None:
        self.position = state

    def plan(self, request: SliceRequest) -> SlicePlan:
        stop = min(len(MESSAGES), self.position + 2)
        part = Slice("messages", self.position, stop, ends_split=stop == len(MESSAGES))
        return SlicePlan((part,), finished=stop == len(MESSAGES), backlog=True)

    def advance(self, plan: SlicePlan, reached: dict[str, Any]) -> None:
        self.position = reached["messages"]

    def snapshot(self) -> Any:
        return self.position


@dataclass
class _Read(SourceReader[int]):
    on_error: OnError

    def read(self, part: Slice) -> Iterator[int]:
        raise NotImplementedError

    def read_batches(self, part: Slice) -> Iterator[Records[int]]:
        values, rejected = [], []
        for offset in range(part.start, part.stop):
            try:
                values.append(int(MESSAGES[offset]))
            except ValueError as error:
                place = f"messages, offset {offset}"
                if not self.on_error.keeps_going:
                    raise BadRecordError(place, str(error), MESSAGES[offset]) from error
                rejected.append(BadRecord(place, str(error), MESSAGES[offset]))
        yield Records(values, rejected=rejected)


@dataclass(frozen=True)
class Messages(Source[int]):
    on_error: OnError = field(default_factory=OnError.fail)

    def create_enumerator(self) -> SplitEnumerator:
        return _Plan()

    def create_reader(self) -> SourceReader[int]:
        return _Read(self.on_error)


def _stream(on_error: OnError, **options: str) -> Any:
    env = in_process(1, **options)
    source = replace(Messages(), on_error=on_error)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


def test_a_job_fails_by_default_and_its_card_says_where_the_record_is():
    with pytest.raises(JobFailedError) as failure:
        collect(_stream(OnError.fail(), restart_strategy__type="none"))
    assert "messages, offset 2" in str(failure.value)
    assert "OnError.skip()" in str(failure.value)
    assert "b'x'" in str(failure.value)


def test_bad_records_are_left_out():
    assert collect(_stream(OnError.skip())) == [1, 2, 4, 6]


def test_bad_records_reach_the_dead_letter_sink_once():
    ledger = Ledger(f"dead-{uuid4().hex}")
    assert collect(_stream(OnError.dead_letter(LedgerSink(ledger)))) == [1, 2, 4, 6]
    assert [(bad.place, bad.value) for bad in ledger.records] == [
        ("messages, offset 2", b"x"),
        ("messages, offset 4", b"y"),
    ]


def test_dead_letters_are_written_by_the_second_job_of_an_environment_too():
    ledger = Ledger(f"dead-{uuid4().hex}")
    stream = _stream(OnError.dead_letter(LedgerSink(ledger)))
    collect(stream)
    collect(stream)
    assert len(ledger.records) == 4


_failures: list[int] = []


def _fragile(number: int) -> int:
    if number == 6 and len(_failures) < 2:
        _failures.append(number)
        raise RuntimeError("not yet")
    return number


def test_a_failed_epoch_writes_no_dead_letter_twice():
    ledger = Ledger(f"dead-{uuid4().hex}")
    _failures.clear()
    options = {
        "restart_strategy__type": "fixed-delay",
        "restart_strategy__fixed_delay__delay": "1ms",
        "restart_strategy__fixed_delay__attempts": "5",
    }
    stream = _stream(OnError.dead_letter(LedgerSink(ledger)), **options)
    assert collect(stream.map(_fragile)) == [1, 2, 4, 6]
    assert len(_failures) == 2
    assert [bad.value for bad in ledger.records] == [b"x", b"y"]


def test_a_preview_writes_no_dead_letters():
    ledger = Ledger(f"dead-{uuid4().hex}")
    rows = _stream(OnError.dead_letter(LedgerSink(ledger))).preview(10)
    assert len(list(rows)) == 4
    assert ledger.records == []


def test_the_dead_letter_sink_is_a_node_of_the_plan_named_after_its_source():
    stream = _stream(OnError.dead_letter(LedgerSink(Ledger(f"dead-{uuid4().hex}")))).uid("in")
    stream.print()
    nodes = stream.get_execution_environment().get_stream_graph().nodes
    assert [(node.name, node.uid) for node in nodes][-1] == ("Dead letters of numbers", "in-dead-letters")


def test_a_dead_letter_sink_must_be_a_sink():
    with pytest.raises(ProgramError, match="takes a Sink of BadRecord"):
        OnError.dead_letter("topic")

"""Sinks whose records come back to the driver, and the one that keeps nothing."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest

from flott.datastream.connectors.base import DriverSink, WriterContext
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.connectors.collect import CollectSink
from flott.datastream.connectors.discard import DiscardSink
from flott.datastream.connectors.print import PrintSink
from flott.errors import ProgramError


def deliver(sink: DriverSink[Any], subtask: int, parallelism: int, values: list[Any]) -> None:
    """As the runtime does it: a copy of the sink writes in the task, the original delivers on the driver."""
    writer: Any = pickle.loads(pickle.dumps(sink)).create_writer(
        WriterContext(subtask, parallelism, 1, "a", "job", "operator", 0)
    )
    writer.write(values, None)
    assert writer.prepare_commit() == []
    sink.deliver(subtask, writer.values)


def test_print_names_the_subtask_only_if_there_are_several(capsys: pytest.CaptureFixture[str]) -> None:
    deliver(PrintSink(), 0, 1, [1, (2, "b")])
    deliver(PrintSink(), 2, 4, ["x"])
    deliver(PrintSink("late"), 0, 1, ["y"])
    deliver(PrintSink("late"), 1, 2, ["z"])
    deliver(PrintSink(std_err=True), 0, 1, ["wrong"])
    captured = capsys.readouterr()
    assert captured.out == "1\n(2, 'b')\n3> x\nlate> y\nlate:2> z\n"
    assert captured.err == "wrong\n"


def test_collect_hands_over_whole_batches() -> None:
    batches: list[list[int]] = []
    deliver(CollectSink(lambda values: batches.append(list(values))), 0, 1, [1, 2])
    assert batches == [[1, 2]]


def test_the_function_of_a_driver_sink_never_travels() -> None:
    lock = threading.Lock()  # cannot be pickled
    seen: list[int] = []

    def function(value: int) -> None:
        with lock:
            seen.append(value)

    deliver(CallableSink(function), 0, 1, [1, 2])
    assert seen == [1, 2]
    for sink in (CallableSink(function), CollectSink(function)):
        with pytest.raises(ProgramError, match="another process"):
            pickle.loads(pickle.dumps(sink)).deliver(0, [1])


def test_discard_takes_everything() -> None:
    sink = DiscardSink()
    sink.create_writer(WriterContext(0, 1, 1, "a", "job", "operator", 0)).write([1, 2], [3, 4])
    assert sink.create_committer() is None

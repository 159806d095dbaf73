"""Jobs whose state the tests of ``flott.state`` read: run in this process, cancelled after an epoch, state kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import flott.state
from flott.common import Duration, Types, WatermarkStrategy
from flott.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from flott.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flott.runtime.storage import PosixStorage
from flott.state import StateSnapshot
from flott.testing import Cancel, EndOfEpoch, ScriptedSource, in_process, live
from flott.testing.harness import Incarnation

#: (user, item, amount)
Order = tuple[str, str, int]

ORDERS: list[Any] = [
    ("alice", "apple", 3),
    ("bob", "bread", 5),
    EndOfEpoch(),
    ("alice", "cherry", 4),
    ("carol", "apple", 1),
    ("alice", "apple", 2),
    EndOfEpoch(),
]


class Ledger(KeyedProcessFunction[Any, Any, Any]):
    """Keeps everything it is told in every kind of state."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.items = runtime_context.get_list_state(ListStateDescriptor("items", Types.STRING()))
        self.amounts = runtime_context.get_map_state(MapStateDescriptor("amounts", Types.STRING(), Types.LONG()))
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, order: Order, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        user, item, amount = order
        self.total.update((self.total.value() or 0) + amount)
        self.items.add(item)
        self.amounts.put(item, (self.amounts.get(item) or 0) + amount)
        self.last.update((item, amount))
        ctx.timer_service().register_event_time_timer(amount * 1000)
        yield user, self.total.value()


def stamped(amount: Callable[[Any], int]) -> WatermarkStrategy:
    """Event time from the records; none of it late."""
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10_000)).with_timestamp_assigner(
        lambda value, _: amount(value)
    )


def orders(env: StreamExecutionEnvironment, script: list[Any] | None = None) -> DataStream[Any]:
    """A stream that plays a script of orders, and then waits."""
    source = ScriptedSource(ORDERS if script is None else script, endless=True)
    return env.from_source(source, stamped(lambda order: order[2] * 1000), "orders")


def ledger(env: StreamExecutionEnvironment, script: list[Any] | None = None) -> None:
    """The program that most tests look at."""
    stream = orders(env, script).key_by(lambda order: order[0], Types.STRING())
    stream.process(Ledger()).uid("ledger").name("Ledger").print()


def run(
    program: Callable[[StreamExecutionEnvironment], Any],
    folder: Path,
    *,
    epochs: int = 2,
    parallelism: int = 2,
    **options: str,
) -> Incarnation:
    """Run a program for so many epochs, and leave its checkpoints behind."""
    env = in_process(parallelism, **options)
    program(env)

    def stop(step: str, epoch: int) -> None:
        if step == "committed" and epoch >= epochs:
            raise Cancel

    job = live(env, folder, on_step=stop)
    assert job.failure is None, job.failure
    return job


def snapshot_of(
    program: Callable[[StreamExecutionEnvironment], Any], folder: Path, *, epochs: int = 2, parallelism: int = 2
) -> StateSnapshot:
    """The state of a program after so many epochs."""
    run(program, folder, epochs=epochs, parallelism=parallelism)
    return flott.state.open(folder)


@dataclass(frozen=True)
class CountingStorage(PosixStorage):
    """Counts what is read of which file."""

    read_bytes: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        with super().open(name) as file:
            yield _CountingFile(file, self.read_bytes, name)  # type: ignore[misc]


class _CountingFile:
    def __init__(self, file: BinaryIO, counts: dict[str, int], name: str):
        self._file, self._counts, self._name = file, counts, name
        counts.setdefault(name, 0)

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._counts[self._name] += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

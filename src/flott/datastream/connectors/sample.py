"""A sink that brings the first records of each epoch to the driver, for a preview. PyFlink has no such module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from flott.datastream.connectors.base import DriverSink, SinkWriter, WriterContext, _DriverWriter

__all__ = ["SampleSink"]

T = TypeVar("T")


@dataclass(frozen=True)
class SampleSink(DriverSink[T]):
    """Calls ``receive`` with at most ``limit`` records of each subtask of each completed epoch; drops the others.

    What is dropped never leaves its task. The function stays on the driver: a copy that travels has none.
    """

    limit: int
    receive: Callable[[Sequence[T]], object] | None

    stays_in_program: ClassVar[bool] = True

    def create_writer(self, context: WriterContext) -> SinkWriter[T]:
        return _SampleWriter(limit=self.limit)

    def deliver(self, subtask: int, values: Sequence[T]) -> None:
        assert self.receive is not None, "only the sink that the program made delivers"
        self.receive(values)

    def __getstate__(self) -> dict[str, object]:
        return {"limit": self.limit, "receive": None}


@dataclass
class _SampleWriter(_DriverWriter[T]):
    """Keeps what it gets first."""

    limit: int = 0

    def write(self, values: Sequence[T], timestamps: Sequence[int] | None) -> None:
        self.values.extend(values[: self.limit - len(self.values)])

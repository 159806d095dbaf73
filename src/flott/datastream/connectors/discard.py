"""A sink that keeps nothing: for measuring what comes before it. Flink's ``DiscardingSink``; PyFlink has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flott.datastream.connectors.base import Guarantee, Sink, SinkWriter, WriterContext

__all__ = ["BlackholeSink", "DiscardSink"]


@dataclass(frozen=True)
class DiscardSink(Sink[Any]):
    """Takes every record and writes nothing.

    It is also the smallest example of a sink: a specification, and a writer that lives for one epoch in one task.
    """

    @property
    def guarantee(self) -> Guarantee | None:
        return None

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        return _Nothing()


class _Nothing(SinkWriter[Any]):
    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        pass


#: The name of the same thing in Flink's SQL.
BlackholeSink = DiscardSink

"""A source of whole numbers. A specification only: ``flott.runtime.connectors.number_seq`` plans and reads it.

The runtime calls ``create_enumerator`` and ``create_reader``; their imports stand inside, so that the API does not load
the runtime.
"""

from __future__ import annotations

from dataclasses import dataclass

from flott.datastream.connectors.base import Source, SourceReader, SplitEnumerator
from flott.errors import ProgramError

__all__ = ["NumberSequenceSource"]


@dataclass(frozen=True)
class NumberSequenceSource(Source[int]):
    """The numbers from ``start`` to ``end``, both included; each subtask reads a contiguous part of them in order.

    >>> NumberSequenceSource(1, 10)
    NumberSequenceSource(start=1, end=10)
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ProgramError(
                f"NumberSequenceSource({self.start}, {self.end}) goes backwards: the end is included and must not be"
                " less than the start."
            )

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.number_seq import NumberSequenceEnumerator

        return NumberSequenceEnumerator(self.start, self.end)

    def create_reader(self) -> SourceReader[int]:
        from flott.runtime.connectors.number_seq import NumberSequenceReader

        return NumberSequenceReader()

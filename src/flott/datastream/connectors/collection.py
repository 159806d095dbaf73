"""A source of given elements, as ``env.from_collection`` makes it. A specification only.

The runtime calls ``create_enumerator`` and ``create_reader``; their imports stand inside, so that the API does not load
the runtime. PyFlink has no such module: there the elements go through a Java source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from flott.datastream.connectors.base import Source, SourceReader, SplitEnumerator
from flott.errors import ProgramError

__all__ = ["CollectionSource"]

T = TypeVar("T")


@dataclass(frozen=True)
class CollectionSource(Source[T]):
    """The elements in order, read by one subtask. They travel inside the program, so this is for small inputs.

    >>> CollectionSource(("a", "b")).preferred_parallelism
    1
    """

    elements: tuple[T, ...]
    max_records_per_epoch: int | None = None  #: at most so many in an epoch, so that a test can have many epochs

    def __post_init__(self) -> None:
        if self.max_records_per_epoch is not None and self.max_records_per_epoch < 1:
            raise ProgramError(
                f"An epoch reads at least one record, found max_records_per_epoch={self.max_records_per_epoch}."
            )

    @property
    def preferred_parallelism(self) -> int:
        return 1

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.collection import CollectionEnumerator

        return CollectionEnumerator(len(self.elements), self.max_records_per_epoch)

    def create_reader(self) -> SourceReader[T]:
        from flott.runtime.connectors.collection import CollectionReader

        return CollectionReader(self.elements)

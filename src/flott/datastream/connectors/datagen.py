"""A source that makes records up: the n-th record is a function of n. A specification only.

The runtime calls ``create_enumerator`` and ``create_reader``; their imports stand inside, so that the API does not load
the runtime. PyFlink has no such module; Flink's Java API has this source under the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from flott.common.typeinfo import RowTypeInfo
from flott.common.types import Row
from flott.datastream.connectors._datagen_fields import Fields, GeneratedField, RowGenerator
from flott.datastream.connectors.base import Boundedness, Source, SourceReader, SplitEnumerator
from flott.errors import ProgramError

__all__ = ["DataGeneratorSource", "Fields"]

T = TypeVar("T")


@dataclass(frozen=True)
class DataGeneratorSource(Source[T]):
    """The values ``generator_function(0)``, ``generator_function(1)``, … dealt out to all subtasks in turn.

    The function must depend on nothing but the index: an epoch that is repeated must see the same records.

    >>> source = DataGeneratorSource(lambda index: {"id": index}, count=1000, records_per_second=50)
    >>> source.boundedness.name
    'BOUNDED'
    """

    generator_function: Callable[[int], T]
    count: int | None = None  #: how many records there are; ``None``: no end
    #: Record n appears n / records_per_second after the source has started; ``None``: as fast as they can be read.
    records_per_second: float | None = None

    def __post_init__(self) -> None:
        if self.count is not None and self.count < 0:
            raise ProgramError(f"Found a count of {self.count} records: it is 0 or more, or None for no end.")
        if self.records_per_second is not None and not self.records_per_second > 0:
            raise ProgramError(
                f"{self.records_per_second} records per second would never produce one: give a rate above 0, or None"
                " for as fast as possible."
            )

    @staticmethod
    def rows(
        fields: Mapping[str, GeneratedField],
        count: int | None = None,
        records_per_second: float | None = None,
        seed: int = 0,
    ) -> DataGeneratorSource[Row]:
        """Return a source of rows whose fields are generated; the same seed gives the same rows.

        The number of rows is the lowest of ``count`` and the lengths of sequences that have an end.

        >>> source = DataGeneratorSource.rows({"id": Fields.sequence(1, 100), "ok": Fields.booleans()})
        >>> source.count
        100
        """
        generator = RowGenerator(fields, seed)
        limits = [limit for limit in (count, generator.count) if limit is not None]
        return DataGeneratorSource(generator, min(limits, default=None), records_per_second)

    @property
    def type_info(self) -> RowTypeInfo | None:
        """Return the type of generated rows, to be declared in ``from_source``; None for another function."""
        function = self.generator_function
        return function.type_info if isinstance(function, RowGenerator) else None

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED if self.count is None else Boundedness.BOUNDED

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.datagen import DataGeneratorEnumerator

        return DataGeneratorEnumerator(self.count, self.records_per_second)

    def create_reader(self) -> SourceReader[T]:
        from flott.runtime.connectors.datagen import DataGeneratorReader

        return DataGeneratorReader(self.generator_function)

"""Connectors of the DataStream API as tables, where rows are converted at the boundary. Values that travel to tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from flott.common.typeinfo import TypeInformation
from flott.datastream.connectors.base import (
    Boundedness,
    Committer,
    Guarantee,
    Sink,
    SinkWriter,
    Source,
    SourceReader,
    SplitEnumerator,
    WriterContext,
)
from flott.table._types.logical import LogicalType


@dataclass(frozen=True)
class RowsAsColumns(Source[Any]):
    """Reads a source of named rows as columns."""

    rows: Source[Any]
    names: tuple[str, ...]
    types: tuple[LogicalType, ...]

    @property
    def boundedness(self) -> Boundedness:
        return self.rows.boundedness

    @property
    def guarantee(self) -> Guarantee:
        return self.rows.guarantee

    @property
    def preferred_parallelism(self) -> int | None:
        return self.rows.preferred_parallelism

    def create_enumerator(self) -> SplitEnumerator:
        return self.rows.create_enumerator()

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.columns.named_rows import NamedRowsReader

        return NamedRowsReader(self.rows.create_reader(), self.names, self.types)


@dataclass(frozen=True)
class ColumnsAsRows(Sink[Any]):
    """Writes columns into a sink of named rows."""

    rows: Sink[Any]
    names: tuple[str, ...]

    takes_columns: ClassVar[bool] = True

    @property
    def waits_for_commits(self) -> bool:
        return self.rows.waits_for_commits

    @property
    def guarantee(self) -> Guarantee | None:
        return self.rows.guarantee

    def validate(self) -> None:
        self.rows.validate()

    def validate_records(self, record_type: TypeInformation | None) -> None:
        self.rows.validate_records(None)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.columns.named_rows import NamedRowsWriter

        return NamedRowsWriter(self.names, self.rows.create_writer(context))

    def create_committer(self) -> Committer | None:
        return self.rows.create_committer()

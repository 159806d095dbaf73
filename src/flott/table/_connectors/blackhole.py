"""blackhole: takes every row and keeps none, to measure what comes before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from flott.datastream.connectors.base import Guarantee, Sink, SinkWriter, WriterContext
from flott.table._connectors.options import TableOptions, described, key
from flott.table._connectors.table_source import ChangelogMode, ConnectorTable, TableConnector, TableSink

_PARALLELISM = (
    key("sink.parallelism").int_type().no_default_value()
    .with_description("How many subtasks write.")
)  # fmt: skip


@dataclass(frozen=True)
class BlackholeTableSink(Sink[Any]):
    """Takes columns and keeps nothing."""

    takes_columns: ClassVar[bool] = True

    @property
    def guarantee(self) -> Guarantee | None:
        return None

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        return _BlackholeWriter()


class _BlackholeWriter(SinkWriter[Any]):
    def write(self, values: Any, timestamps: Any) -> None:
        pass

    def write_columns(self, columns: Any, kinds: Any) -> None:
        pass


def _sink(table: ConnectorTable) -> TableSink:
    options = TableOptions(str(table.identifier), table.options)
    return TableSink(
        table.names,
        table.types,
        BlackholeTableSink,
        accepts=ChangelogMode.ALL,
        key=table.table.schema.primary_key,
        parallelism=options.get(_PARALLELISM),
    )


CONNECTOR = TableConnector("blackhole", sink=_sink, options=described([_PARALLELISM]))

"""print: writes every change to standard output of the driver, as Flink does: ``+I[1, Ada]``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from flott.datastream.connectors.base import DriverSink, SinkWriter, WriterContext, _DriverWriter
from flott.datastream.connectors.print import PrintSink
from flott.table._connectors.options import TableOptions, described, key
from flott.table._connectors.table_source import ChangelogMode, ConnectorTable, TableConnector, TableSink
from flott.table._types.logical import LogicalType

_IDENTIFIER = (
    key("print-identifier").string_type().default_value("")
    .with_description("What stands before every row, followed by >.")
)  # fmt: skip
_STANDARD_ERROR = (
    key("standard-error").boolean_type().default_value(False)
    .with_description("Print to standard error instead of standard output.")
)  # fmt: skip
_PARALLELISM = (
    key("sink.parallelism").int_type().no_default_value()
    .with_description("How many subtasks write.")
)  # fmt: skip


@dataclass(frozen=True)
class PrintTableSink(DriverSink[Any]):
    """Prints the rows of a table, with the kind of each change."""

    types: tuple[LogicalType, ...]
    identifier: str = ""
    std_err: bool = False

    takes_columns: ClassVar[bool] = True

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        prefix = PrintSink(self.identifier).prefix(context.subtask, context.parallelism)
        return _RowLines(prefix=prefix, types=self.types)

    def deliver(self, subtask: int, values: Sequence[Any]) -> None:
        stream = sys.stderr if self.std_err else sys.stdout
        stream.writelines(f"{line}\n" for line in values)
        stream.flush()


@dataclass
class _RowLines(_DriverWriter[Any]):
    """Makes the lines in the task."""

    prefix: str = ""
    types: tuple[LogicalType, ...] = field(default=())

    def write_columns(self, columns: Any, kinds: Any) -> None:
        from flott.runtime.connectors.columns.row_text import row_lines

        self.values.extend(row_lines(columns, kinds, self.types, self.prefix))


def _sink(table: ConnectorTable) -> TableSink:
    options = TableOptions(str(table.identifier), table.options)
    sink = PrintTableSink(table.types, options.get(_IDENTIFIER), options.get(_STANDARD_ERROR))
    return TableSink(
        table.names,
        table.types,
        lambda: sink,
        accepts=ChangelogMode.ALL,
        key=table.table.schema.primary_key,
        parallelism=options.get(_PARALLELISM),
    )


CONNECTOR = TableConnector("print", sink=_sink, options=described([_IDENTIFIER, _STANDARD_ERROR, _PARALLELISM]))

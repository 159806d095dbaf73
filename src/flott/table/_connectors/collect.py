"""collect: brings the rows of a query back to the program, with the kind of each change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from flott.datastream.connectors.base import DriverSink, SinkWriter, WriterContext, _DriverWriter
from flott.errors import ProgramError

#: An Arrow record batch and the row kinds beside it (numpy, int8), or None: all rows are inserts.
Collected = tuple[Any, Any]


@dataclass(frozen=True)
class CollectColumns(DriverSink[Any]):
    """Calls ``receive`` with the batches of each subtask of each completed epoch, as :data:`Collected`.

    The function stays on the driver: a copy of the sink that travels to a task has none, so it need not be picklable.
    """

    receive: Callable[[Sequence[Collected]], object] | None

    takes_columns: ClassVar[bool] = True
    stays_in_program: ClassVar[bool] = True
    follows_input: ClassVar[bool] = True

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        return _Batches()

    def deliver(self, subtask: int, values: Sequence[Any]) -> None:
        if self.receive is None:
            raise ProgramError(
                "This sink came from another process and left its function there: submit the program where the results"
                " are wanted."
            )
        self.receive(values)

    def __getstate__(self) -> dict[str, object]:
        return {"receive": None}


@dataclass
class _Batches(_DriverWriter[Any]):
    """Keeps the batches; the task's report carries them to the driver."""

    def write_columns(self, columns: Any, kinds: Any) -> None:
        if columns.num_rows:
            self.values.append((columns, kinds))

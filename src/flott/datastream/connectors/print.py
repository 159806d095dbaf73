"""A sink that prints on the driver, as ``DataStream.print`` makes it. PyFlink has no such module."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flott.common._text_form import TextForm, printed_form
from flott.datastream.connectors.base import DriverSink, SinkWriter, WriterContext, _DriverWriter

__all__ = ["PrintSink"]


@dataclass(frozen=True)
class PrintSink(DriverSink[Any]):
    """Prints each record in Flink's form: ``3> value``, where 3 is the subtask, counted from 1.

    With one subtask there is no number. An identifier stands before it: ``late:3> value``, or ``late> value``. Records
    of a declared type are written as Flink writes them, such as ``(hi,1)``; others are their own ``str()``.
    """

    identifier: str = ""
    std_err: bool = False  #: print to standard error instead of standard output

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        prefix = self.prefix(context.subtask, context.parallelism)
        return _LineWriter(prefix=prefix, form=printed_form(context.record_type))

    def deliver(self, subtask: int, values: Sequence[Any]) -> None:
        stream = sys.stderr if self.std_err else sys.stdout
        stream.writelines(f"{line}\n" for line in values)
        stream.flush()

    def prefix(self, subtask: int, parallelism: int) -> str:
        """Return what stands before each value.

        >>> PrintSink("late").prefix(2, 4), PrintSink().prefix(0, 2), PrintSink().prefix(0, 1)
        ('late:3> ', '1> ', '')
        """
        names = [self.identifier] if self.identifier else []
        if parallelism > 1:
            names.append(str(subtask + 1))
        return ":".join(names) + "> " if names else ""


@dataclass
class _LineWriter(_DriverWriter[Any]):
    """Makes the lines in the task: only there is the parallelism known, and the work is shared."""

    prefix: str = ""
    form: TextForm = str

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        prefix, form = self.prefix, self.form
        self.values.extend([prefix + form(value) for value in values])

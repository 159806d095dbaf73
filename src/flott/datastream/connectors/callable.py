"""A sink that calls a function on the driver with every record: for tests and small programs. Not in PyFlink."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from flott.datastream.connectors.base import DriverSink
from flott.errors import ProgramError

__all__ = ["CallableSink"]

T = TypeVar("T")


@dataclass(frozen=True)
class CallableSink(DriverSink[T]):
    """Calls ``function(value)`` on the driver, in order, once the record's epoch is complete.

    The function stays on the driver, so it may be anything, for example a list's ``append``:

    >>> seen: list[int] = []
    >>> CallableSink(seen.append).deliver(0, [1, 2])
    >>> seen
    [1, 2]
    """

    function: Callable[[T], object] | None

    stays_in_program: ClassVar[bool] = True

    def deliver(self, subtask: int, values: Sequence[T]) -> None:
        if self.function is None:
            raise ProgramError(
                "This CallableSink came from another process and left its function there: only the sink the program"
                " made can deliver. Submit the program where the results are wanted."
            )
        for value in values:
            self.function(value)

    def __getstate__(self) -> dict[str, object]:
        return {"function": None}

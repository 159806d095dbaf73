"""A sink that hands records to the program that runs on the driver. PyFlink has no such module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from flott.datastream.connectors.base import DriverSink
from flott.errors import ProgramError

__all__ = ["CollectSink"]

T = TypeVar("T")


@dataclass(frozen=True)
class CollectSink(DriverSink[T]):
    """Calls ``receive`` with the records of each subtask of each completed epoch.

    The function stays on the driver: a copy of the sink that travels to a task has none, so it need not be picklable.
    """

    receive: Callable[[Sequence[T]], object] | None

    stays_in_program: ClassVar[bool] = True
    follows_input: ClassVar[bool] = True

    def deliver(self, subtask: int, values: Sequence[T]) -> None:
        if self.receive is None:
            raise ProgramError(
                "This CollectSink came from another process and left its function there: only the sink the program"
                " made can deliver. Submit the program where the results are wanted."
            )
        self.receive(values)

    def __getstate__(self) -> dict[str, object]:
        return {"receive": None}

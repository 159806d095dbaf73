"""Work in small steps, between which something else can be done. The work itself is a generator. Pure."""

from __future__ import annotations

from collections.abc import Generator
from typing import Generic, TypeVar

R = TypeVar("R")


class Stepwise(Generic[R]):
    """The work of a generator that returns a result. It is begun when this is made, up to its first ``yield``."""

    def __init__(self, work: Generator[None, None, R]):
        self._work = work
        self._result: list[R] = []
        self.step()

    @property
    def is_done(self) -> bool:
        """Return whether there is nothing left to do."""
        return bool(self._result)

    def step(self) -> bool:
        """Take a step, if there is one left; return whether all is done."""
        if not self._result:
            try:
                next(self._work)
            except StopIteration as end:
                self._result.append(end.value)
        return self.is_done

    def finish(self) -> R:
        """Take all steps that are left; return the result."""
        while not self.step():
            pass
        return self._result[0]

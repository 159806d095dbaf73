"""Threads of which only one runs at a time: whoever holds the baton, until it passes it on at a moment of its choice.

So two processes that work on the same files can be stopped and resumed between any two of their steps, and a seed that
decides about it all goes the same way every time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random


class Runner:
    """One of those who pass the baton on."""

    def __init__(self, name: str, work: Callable[[], None]):
        self.name = name
        self.ended = False
        self.failure: BaseException | None = None
        self.turn = threading.Event()
        self._work = work
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.after: Callable[[], None] = lambda: None

    def _run(self) -> None:
        self.turn.wait()
        try:
            self._work()
        except BaseException as error:
            self.failure = error
        self.ended = True
        self.after()


class Baton:
    """Passes control among runners."""

    def __init__(self, choose: Callable[[list[Runner]], Runner | None]):
        self._choose = choose  #: who goes next, of those who have not ended; None: whoever goes now
        self._idle = threading.Event()
        self.runners: list[Runner] = []
        self.current: Runner | None = None

    def add(self, name: str, work: Callable[[], None]) -> Runner:
        """Somebody who will run when it is its turn."""
        runner = Runner(name, work)
        runner.after = self._ended
        self.runners.append(runner)
        runner.thread.start()
        return runner

    def run(self) -> None:
        """Until nobody is left. Raises what went wrong in any of them."""
        self._idle.clear()
        self._give(next(runner for runner in self.runners if not runner.ended))
        assert self._idle.wait(120), f"{self.current and self.current.name} keeps the baton"
        for runner in self.runners:
            if runner.failure is not None:
                raise runner.failure

    def moment(self) -> None:
        """Called by the one who runs: perhaps somebody else's turn comes now."""
        current = self.current
        assert current is not None
        chosen = self._choose([runner for runner in self.runners if not runner.ended])
        if chosen is not None and chosen is not current:
            self._give(chosen)
            current.turn.wait()

    def _give(self, runner: Runner) -> None:
        if self.current is not None:
            self.current.turn.clear()
        self.current = runner
        runner.turn.set()

    def _ended(self) -> None:
        left = [runner for runner in self.runners if not runner.ended]
        if not left:
            self._idle.set()
            return
        self._give(self._choose(left) or left[-1])


def anyone(awake: list[Runner], current: Runner | None, chance: Random, rate: float) -> Runner | None:
    """Who goes on by chance: now and then somebody else, and whenever the current one is not awake; None: the same."""
    if len(awake) == 1:
        return awake[0]
    is_due = chance.random() < rate or current not in awake
    return chance.choice(awake) if is_due else None

"""State whose time to live was added, taken away, or is measured by another clock since it was saved. Task side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flott.runtime.managed_state.kinds.registry import kind_of
from flott.runtime.managed_state.kinds.table_kind import Table
from flott.runtime.managed_state.ttl.state_clock import StateClocks
from flott.runtime.managed_state.ttl.time_to_live import TimeToLive

_STEP = 1024


@dataclass(frozen=True)
class TtlConversion:
    """From a former time to live to the present one; None: state lived for ever, or does.

    What begins to age is as old as the epoch at hand. What is gone by the former time to live stays gone.
    """

    had: TimeToLive | None
    has: TimeToLive | None
    clocks: StateClocks

    def move(self, source: Table, target: Table, make_room: Callable[[], None]) -> None:
        """Move everything from the table of the former form to that of the present one."""
        kind, cursor = kind_of(source.kind), None
        while True:
            found, cursor = kind.walk(source, cursor, _STEP)
            for entry, held in found:
                kind.move(source, target, entry, held, self._convert)
            make_room()
            if cursor is None:
                return

    def _convert(self, held: Any) -> tuple[Any, ...]:
        """Return a value of the present form in a tuple; an empty one if it was gone."""
        value, clocks = held, self.clocks
        if self.had is not None:
            value, stamp = held
            if stamp + self.had.lifespan_ms <= clocks.of(self.had).floor:
                return ()
        return (value if self.has is None else (value, clocks.of(self.has).stamp),)

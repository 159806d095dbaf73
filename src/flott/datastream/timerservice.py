"""The interface of clocks and timers for process functions. The runtime implements it in tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["TimerService"]


class TimerService(ABC):
    """Returns the time and registers timers. All times are milliseconds since 1970.

    Timers belong to the current key, so only functions on keyed streams may set them. Setting the same timer of the
    same key twice has the effect of setting it once. Timers are part of every checkpoint::

        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the time of the wall clock."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the event time up to which records are complete."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call ``on_timer`` for the current key when processing time reaches ``timestamp``."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Call ``on_timer`` for the current key when the watermark reaches ``timestamp``."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete the current key's processing-time timer for ``timestamp``, if it exists."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete the current key's event-time timer for ``timestamp``, if it exists."""

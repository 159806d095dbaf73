"""The clocks and timers a process function sees. An interface; the runtime implements it in tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["TimerService"]


class TimerService(ABC):
    """Tells the time and sets timers. All times are milliseconds since 1970.

    Timers belong to the current key, so only functions on keyed streams may set them. Setting the same timer of the
    same key twice has the effect of setting it once. Timers are part of every checkpoint::

        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """The time of the clock on the wall."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The event time up to which records are complete."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call ``on_timer`` for the current key when processing time reaches ``timestamp``."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Call ``on_timer`` for the current key when the watermark reaches ``timestamp``."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget the current key's processing-time timer for ``timestamp``, if there is one."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Forget the current key's event-time timer for ``timestamp``, if there is one."""

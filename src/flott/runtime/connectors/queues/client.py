"""What the client of a broker must do so that a queue can be a source. Driver side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from flott.runtime.connectors.queues.message import Delivery


class QueueClient(ABC):
    """One connection to a broker, used by one thread at a time. After an error it is closed and another one is made.

    A message that was received and not acknowledged when the connection ends is delivered again by the broker.
    """

    #: Whether ``acknowledge`` may be called by another thread while ``receive`` runs.
    thread_safe: ClassVar[bool] = False

    @abstractmethod
    def open(self) -> None:
        """Connect. Raises ProgramError if it can never work (credentials, no such queue), else ConnectorError."""

    @abstractmethod
    def receive(self, room: int, seconds: float) -> list[Delivery]:
        """Return messages that have arrived, at most ``room``, and wait so long for the first one.

        It is also called without room, so that the client can keep its connection and its messages alive.
        """

    @abstractmethod
    def acknowledge(self, tags: Sequence[Any]) -> None:
        """Acknowledge messages. Returns when the broker has processed that, as far as the protocol tells."""

    def wake(self) -> None:
        """Let :meth:`receive` return soon. Called by another thread."""

    @abstractmethod
    def close(self) -> None:
        """End the connection. What was not acknowledged is delivered again, at once where the broker can do so."""

"""What a connection must do so that its messages can be a source. Driver side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pushed:
    """A message that was received."""

    value: bytes
    id: str | None = None  #: where to continue after it, if the server can do that


class StreamEnded(Exception):
    """The server has nothing more to send, ever."""


class PushedStream(ABC):
    """One connection. It is opened once, and another one is made after an error."""

    @abstractmethod
    def open(self, resume: str | None) -> None:
        """Connect, and ask for what comes after the message with this id. Bounded in time.

        Raises ProgramError if it can never work (credentials, a wrong address), else ConnectorError.
        """

    @abstractmethod
    def receive(self) -> list[Pushed]:
        """Wait for messages. Raises ConnectorError if the connection is lost, StreamEnded if the stream has ended."""

    @abstractmethod
    def abort(self) -> None:
        """Let :meth:`receive` end with an error. Called by another thread, and perhaps twice."""

    @abstractmethod
    def close(self) -> None:
        """End the connection. Called by the thread that received."""

    @property
    def reconnect_ms(self) -> int | None:
        """Return how long the server wants its clients to wait before they connect again, if it said so."""
        return None

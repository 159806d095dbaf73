"""Why a request is refused, and with which status. Raised by handlers, made into Flink's error shape by the frame."""

from __future__ import annotations

from starlette.exceptions import HTTPException

from flott.errors import (
    ClusterError,
    ConfigurationError,
    JobEndedError,
    JobNotFoundError,
    JobRestartingError,
    LeadershipLostError,
    ProgramError,
    StorageFullError,
    SubmissionError,
    UnreachableError,
)

#: The status of what Flott raises elsewhere; all other errors are the server's own (500).
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (JobNotFoundError, 404),
    (JobEndedError, 409),
    (JobRestartingError, 503),
    (SubmissionError, 400),
    (ProgramError, 400),
    (ConfigurationError, 400),
    (LeadershipLostError, 503),
    (UnreachableError, 503),
    (StorageFullError, 507),
    (ClusterError, 500),
)


class Refusal(Exception):
    """A request that cannot be answered as it is. ``messages`` are for the client; nothing else of it is sent."""

    def __init__(self, status: int, *messages: str):
        super().__init__(*messages)
        self.status = status
        self.messages = messages


def refusal_of(error: BaseException) -> Refusal | None:
    """The refusal an exception amounts to; None if it is a fault of the server."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, HTTPException):  # of starlette's own readers of requests
        return Refusal(error.status_code, str(error.detail))
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return Refusal(status, message_of(error))
    return None


def message_of(error: BaseException) -> str:
    """What an error says, in words: never empty, never a trace."""
    return str(error).strip() or type(error).__name__

"""Refused requests and their HTTP status. Handlers raise them, the application converts them to Flink's error form."""

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

#: The status of errors that are raised outside of ``rest``. All other errors are internal (500).
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
    """A request that is refused. ``messages`` are sent to the client, nothing else is."""

    def __init__(self, status: int, *messages: str):
        super().__init__(*messages)
        self.status = status
        self.messages = messages


def refusal_of(error: BaseException) -> Refusal | None:
    """Return the refusal that corresponds to an exception, or None if it is an internal error."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, HTTPException):  # raised by starlette's own request parsers
        return Refusal(error.status_code, str(error.detail))
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return Refusal(status, message_of(error))
    return None


def message_of(error: BaseException) -> str:
    """Return the message of an error. It is never empty and contains no stack trace."""
    return str(error).strip() or type(error).__name__

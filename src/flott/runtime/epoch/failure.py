"""The failure card: what users see when their code raises. Tasks make it, the driver prints it.

It shows their own traceback, operator, subtask, key, record, origin and epoch, and no line of the engine or of Java.
"""

from __future__ import annotations

import os
import reprlib
import traceback
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from flott.common._ids import EpochId, SubtaskIndex
from flott.errors import FlottError, StateMigrationError, StorageError
from flott.runtime.operators.operator import EpochScope, RecordFailure

_ENGINE_FOLDER = str(Path(__file__).resolve().parents[2]) + os.sep

_shown = reprlib.Repr()
_shown.maxstring = _shown.maxother = 300
_shown.maxlist = _shown.maxtuple = _shown.maxdict = 20
_shown.maxlevel = 4


class Blame(Enum):
    """The probable cause of a failure. It decides how the job reacts and what the user reads."""

    USER_CODE = "user code"
    STORAGE = "storage"
    STATE = "state"  #: the saved state is not what the program declares: another attempt would fail too
    ENGINE = "engine"


@dataclass(frozen=True)
class FailureCard:
    """A failed task, as plain text fields. None: the field does not apply."""

    blame: Blame
    error: str  #: type and message
    traceback: str
    epoch: EpochId
    attempt: int
    subtask: SubtaskIndex
    vertex: str
    operator: str | None = None
    uid: str | None = None
    user_line: str | None = None
    parallelism: int | None = None
    activity: str | None = None
    key: str | None = None
    record: str | None = None
    timestamp: int | None = None
    origin: tuple[str, str] | None = None
    host: str = ""
    executor: str = ""

    @property
    def exception(self) -> str:
        """Return the class of the exception, as Python names it."""
        return self.error.partition(":")[0].strip()

    def __str__(self) -> str:
        lines = [f"{self.error}", ""]
        for label, value in self._facts():
            if value is not None:
                lines.append(f"  {label:<10} {value}")
        if self.traceback:
            lines += ["", *(f"  {line}" for line in self.traceback.rstrip().splitlines())]
        return "\n".join(lines)

    def _facts(self) -> list[tuple[str, str | None]]:
        operator = self.operator and (f"{self.operator} (uid {self.uid})" if self.uid else self.operator)
        subtask = f"{self.subtask + 1} of {self.parallelism}" if self.parallelism else f"{self.subtask + 1}"
        tried = "" if self.attempt == 0 else f", attempt {self.attempt + 1}"
        return [
            ("operator", operator),
            ("defined at", self.user_line or None),
            ("task", self.vertex),
            ("subtask", subtask),
            ("while", self.activity),
            ("key", self.key),
            ("record", self.record),
            ("timestamp", None if self.timestamp is None else str(self.timestamp)),
            ("origin", self._origin()),
            ("epoch", f"{self.epoch}{tried}"),
        ]

    def _origin(self) -> str | None:
        if self.origin is None:
            return None
        first, last = self.origin
        return first if first == last else f"between {first} and {last}"


def card_of(error: BaseException, vertex: str, subtask: SubtaskIndex, scope: EpochScope) -> FailureCard:
    """Return the card of an exception that a task raised."""
    if isinstance(error, RecordFailure):
        return _card_of_record(error, vertex, subtask, scope)
    blame = Blame.ENGINE
    if isinstance(error, FlottError):
        # Flott's own errors are written for the user. A traceback into the engine would hide them.
        shown = _user_frames(error)
        blame = _blame(error)
    else:
        shown = "".join(traceback.format_exception(error))
    return FailureCard(
        blame, _message(error), shown, scope.epoch, scope.attempt, subtask, vertex, origin=scope.origin
    )


def _card_of_record(failure: RecordFailure, vertex: str, subtask: SubtaskIndex, scope: EpochScope) -> FailureCard:
    cause = failure.__cause__ or failure
    node = failure.operator.node
    return FailureCard(
        blame=_blame(cause),
        error=_message(cause),
        traceback=_user_frames(cause),
        epoch=scope.epoch,
        attempt=scope.attempt,
        subtask=subtask,
        vertex=vertex,
        operator=node.name,
        uid=node.uid,
        user_line=node.source_line,
        parallelism=node.parallelism,
        activity=failure.activity,
        key=_repr(failure.key) if failure.has_key else None,
        record=_repr(failure.record) if failure.has_record else None,
        timestamp=failure.timestamp,
        origin=failure.origin or scope.origin,
    )


def _blame(error: BaseException) -> Blame:
    match error:
        case StorageError():
            return Blame.STORAGE
        case StateMigrationError():
            return Blame.STATE
    return Blame.USER_CODE


def _message(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def _user_frames(error: BaseException) -> str:
    """Return the traceback without frames of the engine, which may be empty."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_engine(frame.filename)]
    if not frames:
        return ""
    text = ["Traceback (most recent call last):\n", *traceback.format_list(frames), _message(error)]
    if error.__cause__ is not None and (before := _user_frames(error.__cause__)):
        text = [before, "\n\nwhich led to\n\n", *text]
    return "".join(text)


def is_engine(filename: str) -> bool:
    """Return whether a file belongs to Flott."""
    return os.path.abspath(filename).startswith(_ENGINE_FOLDER)


def _repr(value: object) -> str:
    try:
        return _shown.repr(value)
    except Exception as error:  # a broken __repr__ must not hide the failure
        return f"<{type(value).__qualname__} whose repr() raised {type(error).__name__}>"

"""The output of one task in one epoch, up to a limit: printed text and log records become log lines. Task side."""

from __future__ import annotations

import logging
import threading
from types import FrameType
from typing import NamedTuple

from flott.runtime.clock import SystemClock
from flott.runtime.logs.call_stack import is_logging, operator_above
from flott.runtime.logs.line import LogLimits, LogLine

#: A longer message is cut.
MAX_MESSAGE = 16 * 1024

#: The logger of lines that the engine itself adds.
OWN_LOGGER = "flott.logs"

_LEVELS = {"stdout": "INFO", "stderr": "WARNING"}

_EMITS_RECORD = logging.StreamHandler.emit.__code__
#: By name, because the function may be replaced when this module is imported and restored later.
_SHOWS_WARNING = "_showwarnmsg_impl"

_clock = SystemClock()
_tracebacks = logging.Formatter()


class OutputOrigin(NamedTuple):
    """The subtask and operator that are at work, as far as the task knows."""

    task: str = ""
    subtask: int = 0
    parallelism: int = 1
    operator: str | None = None


class _Unfinished:
    """A line that has begun. Of a line that is too long only the beginning is kept."""

    __slots__ = ("cut", "text")

    def __init__(self) -> None:
        self.text = ""
        self.cut = 0  #: characters that were not kept

    def add(self, piece: str) -> None:
        before, returned, piece = piece.rpartition("\r")
        if returned:  # it overwrites the line, as progress bars do
            self.text, self.cut = "", 0
            if not piece:
                piece = before.rpartition("\r")[2]
        kept = piece[: max(0, MAX_MESSAGE - len(self.text))]
        self.text += kept
        self.cut += len(piece) - len(kept)

    def finish(self) -> str:
        text = _cut(self.text, self.cut)
        self.text, self.cut = "", 0
        return text


class TaskOutputBuffer:
    """Collects the output of a task, from any thread."""

    def __init__(self, limits: LogLimits):
        self.origin = OutputOrigin()  #: what is at work if the call stack does not tell
        self._limits = limits
        self._lines: list[LogLine] = []
        self._characters = 0
        self._full = limits.lines <= 0
        self._left_out = 0
        self._unfinished: dict[tuple[int, str], _Unfinished] = {}  #: by thread and stream
        self._lock = threading.Lock()

    def printed(self, stream: str, text: str, frame: FrameType | None) -> None:
        """Take in what the code in a frame has written to a stream."""
        if not text:
            return
        code = frame.f_code if frame is not None else None
        if code is _EMITS_RECORD:
            return  # a log record, which was taken in when it was made
        if code is not None and code.co_name == _SHOWS_WARNING:
            self._take("WARNING", "py.warnings", _cut(text.rstrip("\n")), stream, frame)
            return
        place = (threading.get_ident(), stream)
        unfinished = self._unfinished.get(place)
        if unfinished is None:
            unfinished = self._unfinished[place] = _Unfinished()
        if self._full:
            # Lines are only counted, because a job may print a million of them.
            with self._lock:
                self._left_out += text.count("\n")
            unfinished.text = text[-1:].replace("\n", "")
            return
        *ends, rest = text.split("\n")
        if ends and is_logging(frame):
            return
        for end in ends:
            unfinished.add(end)
            self._take(_LEVELS[stream], stream, unfinished.finish(), stream, frame)
        unfinished.add(rest)

    def logged(self, record: logging.LogRecord, frame: FrameType | None) -> None:
        """Take in a log record."""
        if not record.name:
            return  # it is a copy of a record that was made elsewhere
        if self._full:
            with self._lock:
                self._left_out += 1
            return
        self._take(record.levelname, record.name, _cut(_message_of(record)), None, frame)

    def _take(self, level: str, logger: str, message: str, stream: str | None, frame: FrameType | None) -> None:
        context = operator_above(frame)
        origin = self.origin
        if context is not None:
            origin = OutputOrigin(context.task_name, context.subtask, context.parallelism, context.operator.node.name)
        task, subtask, parallelism, operator = origin
        line = LogLine(
            _clock.now_ms(), level, logger, message, stream, task, operator, subtask, parallelism,
        )  # fmt: skip
        with self._lock:
            if self._full:
                self._left_out += 1
                return
            self._lines.append(line)
            self._characters += len(message)
            self._full = len(self._lines) >= self._limits.lines or self._characters >= self._limits.characters

    def finish(self) -> tuple[LogLine, ...]:
        """Return all lines, also those that have no end yet, and begin with an empty buffer."""
        for (_, stream), unfinished in list(self._unfinished.items()):
            if unfinished.text:
                self._take(_LEVELS[stream], stream, unfinished.finish(), stream, None)
        with self._lock:
            lines, left_out = self._lines, self._left_out
            self._lines, self._left_out, self._characters = [], 0, 0
            self._full = self._limits.lines <= 0
        if left_out and self._limits.lines > 0:  # with a limit of 0 no lines are wanted at all
            lines.append(self._left_out_line(left_out))
        return tuple(lines)

    def _left_out_line(self, left_out: int) -> LogLine:
        message = (
            f"{left_out:,} more {'line was' if left_out == 1 else 'lines were'} written in this epoch and left out: a"
            f" task may write {self._limits.lines:,} lines and {self._limits.characters:,} characters"
            " (flott.log.task.max-lines, flott.log.task.max-size)."
        )
        task, subtask, parallelism, _ = self.origin
        return LogLine(_clock.now_ms(), "WARNING", OWN_LOGGER, message, None, task, None, subtask, parallelism)


def _message_of(record: logging.LogRecord) -> str:
    try:
        message = record.getMessage()
    except Exception:  # the arguments do not fit the message; logging itself reports that
        message = f"{record.msg!r} with arguments that do not fit"
    if record.exc_info and record.exc_info[0] is not None:
        message += "\n" + _tracebacks.formatException(record.exc_info)
    return message


def _cut(text: str, missing: int = 0) -> str:
    """Return the text as it can be kept: not too long, and without lone surrogates."""
    if len(text) > MAX_MESSAGE:
        missing += len(text) - MAX_MESSAGE
        text = text[:MAX_MESSAGE]
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return f"{text}… ({missing:,} more characters)" if missing else text

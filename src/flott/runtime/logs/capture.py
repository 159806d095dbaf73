"""Captures what tasks print and log, and nothing else. Task side.

While a task is at work, ``sys.stdout`` and ``sys.stderr`` are streams that pass everything on to the real ones, and
tell the task's buffer about it; every log record that is made is heard as well, whatever its logger and handlers.
Nothing is done per record: what is not said, costs nothing.

Who speaks is known by the thread, or else by the operator on the call stack (calls of asynchronous functions run in an
event loop's thread). A worker process has one task at a time, so what its other threads say is that task's, too. In the
driver's process, where tasks run in-process, it is not: what is printed outside tasks is left alone.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Any, TextIO

from flott.runtime.logs.call_stack import operator_above
from flott.runtime.logs.line import LogLimits, LogLine
from flott.runtime.logs.output_buffer import OutputOrigin, TaskOutputBuffer
from flott.runtime.operators.operator import EpochScope

#: The attribute of a log record that a task's capture has: a log that is told by the driver need not take it again.
HEARD = "is_heard_by_flott"


class _Here(threading.local):
    """What is known of a thread."""

    buffer: TaskOutputBuffer | None = None  #: of the task it runs
    is_heard = False  #: what it writes at this moment was heard already
    is_a_tasks = False  #: what it writes at this moment, a task has said


class _Switchboard:
    """The tasks that are captured in this process. The lock is held briefly, and never while anything is printed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tasks: dict[int, TaskCapture] = {}  #: at work
        self.is_worker = False
        self.background: TaskOutputBuffer | None = None  #: of a worker: what its threads say between two tasks


_here = _Here()
_switchboard = _Switchboard()


def claim_process(limits: LogLimits) -> None:
    """Declare this process a worker: all its output comes from tasks."""
    if _switchboard.is_worker:
        return
    _switchboard.is_worker = True
    _switchboard.background = TaskOutputBuffer(limits)
    root = logging.getLogger()
    if root.level == logging.WARNING and not root.handlers:  # Python's default, which no program has changed
        root.setLevel(limits.level)
    _plug_in()


def is_said_by_a_task() -> bool:
    """Return whether the text that this thread writes comes from a task, and so is in the task's log."""
    return _here.is_a_tasks


class TaskCapture:
    """Listens to one task for as long as it is entered. It may be entered again meanwhile, by the same thread."""

    def __init__(self, limits: LogLimits):
        self._buffer = TaskOutputBuffer(limits)
        self._scope: EpochScope | None = None
        self._background: tuple[LogLine, ...] = ()
        self._entered = 0

    def turn_to(self, origin: OutputOrigin, scope: EpochScope) -> None:
        """Set the subtask that is at work, and the scope that its operators share."""
        self._buffer.origin = origin
        self._scope = scope

    def has_scope(self, scope: EpochScope) -> bool:
        return self._scope is scope

    @property
    def buffer(self) -> TaskOutputBuffer:
        return self._buffer

    def __enter__(self) -> TaskCapture:
        self._entered += 1
        if self._entered > 1:
            return self
        with _switchboard.lock:
            _switchboard.tasks[id(self)] = self
            _plug_in()
        _here.buffer = self._buffer
        if _switchboard.background is not None:
            self._background += _switchboard.background.finish()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._entered -= 1
        if self._entered:
            return
        if _here.buffer is self._buffer:
            _here.buffer = None
        with _switchboard.lock:
            _switchboard.tasks.pop(id(self), None)
            if _switchboard.background is not None:
                _switchboard.background.origin = self._buffer.origin
            if not _switchboard.tasks and not _switchboard.is_worker:
                _unplug()

    def lines(self) -> tuple[LogLine, ...]:
        """Return the lines since the last call. A program may have replaced the streams since then."""
        if self._entered:
            with _switchboard.lock:
                _plug_in()
        before, self._background = self._background, ()
        return before + self._buffer.finish()


# --- the origin ------------------------------------------------------------------------------------------------------


def _listening(frame: FrameType | None) -> TaskOutputBuffer | None:
    """Return the buffer for the output of this thread."""
    if (buffer := _here.buffer) is not None:
        return buffer
    if not _switchboard.tasks:
        return _switchboard.background
    context = operator_above(frame)
    tasks = list(_switchboard.tasks.values())
    for task in tasks:
        if context is not None and task.has_scope(context.scope):
            return task.buffer
    return tasks[0].buffer if _switchboard.is_worker else None


# --- streams and records ---------------------------------------------------------------------------------------------


class _HeardStream:
    """A stream that passes on what is written to it, and copies it to the buffer of the task."""

    def __init__(self, name: str, behind: TextIO):
        self._name = name
        self._behind = behind

    @property
    def behind(self) -> TextIO:
        return self._behind

    def write(self, text: str) -> int:
        if _here.is_heard or not isinstance(text, str):
            return self._behind.write(text)  # another such stream has it already, or it is refused
        frame = sys._getframe(1)
        _here.is_heard = True
        try:
            if (buffer := _listening(frame)) is not None:
                buffer.printed(self._name, text, frame)
                _here.is_a_tasks = True
            return self._behind.write(text)
        finally:
            _here.is_heard = _here.is_a_tasks = False

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def __iter__(self) -> Any:
        return iter(self._behind)


class _HeardRecords:
    """Makes log records as before, and copies them to the buffer of the task."""

    def __init__(self, behind: Any):
        self.behind = behind

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if _here.is_heard:
            return self.behind(*arguments, **named)
        frame = sys._getframe(1)
        _here.is_heard = True
        try:
            record = self.behind(*arguments, **named)
            if (buffer := _listening(frame)) is not None:
                buffer.logged(record, frame)
                setattr(record, HEARD, True)
            return record
        finally:
            _here.is_heard = False


def _plug_in() -> None:
    """Install the streams and the log record factory, unless they are installed. A program may have replaced them."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, _HeardStream):
            setattr(sys, name, _HeardStream(name, stream))
    factory = logging.getLogRecordFactory()
    if not isinstance(factory, _HeardRecords):
        logging.setLogRecordFactory(_HeardRecords(factory))


def _unplug() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, _HeardStream):
            setattr(sys, name, stream.behind)
    factory = logging.getLogRecordFactory()
    if isinstance(factory, _HeardRecords):
        logging.setLogRecordFactory(factory.behind)

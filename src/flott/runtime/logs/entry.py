"""An entry of a structured log: its JSON line, its text for people, and a filter of entries. Data.

    {"time": "2026-03-01T12:00:00.250Z", "level": "INFO", "logger": "stdout", "message": "got 7", "job": "2f…",
     "task": "Map -> Sink", "operator": "Map", "subtask": 1, "parallelism": 4, "host": "a", "task_manager": "3", …}

    2026-03-01 12:00:00,250 INFO  [Map (2/4)] got 7
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

#: What would steer a terminal, and half characters.
_UNFIT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class LogEntry:
    """One entry. None: does not apply."""

    time: str  #: UTC, in ISO form, with milliseconds
    level: str
    logger: str
    message: str
    job: str | None = None
    task: str | None = None  #: the name of the vertex
    operator: str | None = None
    subtask: int | None = None  #: the first is 0
    parallelism: int | None = None
    host: str | None = None
    task_manager: str | None = None  #: Spark's id of the executor
    stream: str | None = None  #: stdout or stderr, if it was printed
    epoch: int | None = None
    thread: str | None = None

    def encoded(self) -> bytes:
        """Return the entry as one line of JSON, without its end."""
        known = {name: value for name in _NAMES if (value := getattr(self, name)) is not None}
        try:
            return json.dumps(known, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # half a character, which is none
            whole = {name: _spelled(value) if isinstance(value, str) else value for name, value in known.items()}
            return json.dumps(whole, ensure_ascii=False).encode()

    def text(self) -> str:
        """Return the entry for people. Further lines of the message are indented: none looks like another entry."""
        stamp = self.time.replace("T", " ").replace(".", ",").removesuffix("Z")
        who = self._who()
        return _shown(f"{stamp} {self.level:<7} {f'[{who}] ' if who else ''}{self.message}")

    def _who(self) -> str:
        """Return the operator or the task, and the subtask; for other entries the logger."""
        name = self.operator or self.task
        if name is None:
            return self.logger
        if self.subtask is None:
            return name
        return f"{name} ({self.subtask + 1}{f'/{self.parallelism}' if self.parallelism else ''})"


_NAMES = tuple(field.name for field in fields(LogEntry))
_TEXTS = frozenset(_NAMES) - {"subtask", "parallelism", "epoch"}


def parse(line: bytes) -> LogEntry | None:
    """Return the entry in a line; None if it is no entry of a structured log."""
    try:
        found: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or not {"time", "level", "logger", "message"} <= found.keys():
        return None
    known = {name: found[name] for name in _NAMES if found.get(name) is not None}
    if any(not isinstance(value, str if name in _TEXTS else int) for name, value in known.items()):
        return None
    return LogEntry(**known)


def _spelled(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _shown(text: str) -> str:
    return _UNFIT.sub(lambda found: repr(found[0])[1:-1], text).replace("\n", "\n    ")


def stamp(time_ms: float) -> str:
    """Return a time as entries have it.

    >>> stamp(1_000)
    '1970-01-01T00:00:01.000Z'
    """
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class LogFilter:
    """A filter of entries. None: any."""

    level: str | None = None  #: this one and those above it
    operator: str | None = None  #: its name, or that of its task
    subtask: int | None = None
    task_manager: str | None = None
    search: str | None = None  #: a part of the entry's text, in upper or lower case

    @property
    def takes_all(self) -> bool:
        """Return whether nothing is left out, not even lines that are no entries."""
        return self == LogFilter()

    def takes_line(self, text: str) -> bool:
        """Return whether a line that is no entry passes the filter. It belongs to no level and no operator."""
        return self == LogFilter(search=self.search) and self._finds(text)

    def _finds(self, text: str) -> bool:
        return self.search is None or self.search.lower() in text.lower()

    def takes(self, entry: LogEntry) -> bool:
        """Return whether the entry passes the filter."""
        return (
            (self.level is None or _rank(entry.level) >= _rank(self.level))
            and (self.operator is None or self.operator in (entry.operator, entry.task))
            and (self.subtask is None or self.subtask == entry.subtask)
            and (self.task_manager is None or self.task_manager == entry.task_manager)
            and (self.search is None or self._finds(entry.text()))
        )


def _rank(level: str) -> int:
    """Return the rank of a level; a level that a program has defined ranks as INFO."""
    return logging.getLevelNamesMapping().get(level.upper(), logging.INFO)

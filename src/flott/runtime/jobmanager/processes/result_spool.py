"""Results that a program waits for, on their way from the job's process to the program's: files, fetched through REST.

    job process: RemoteSink.deliver -> <spool>/<name>/<number>        one file for what one subtask wrote in one epoch
    JobManager:  fetch(after) gives the next ones, and deletes those that were given before

The job waits while too much is unread, as it would for a program in its own process. Cancelling the job ends the wait.
Results are delivered after their checkpoint, so a process that is killed in between loses some of them. It cannot be
determined which ones. Therefore the job fails when it is started again, as it does in a program's own process.
"""

from __future__ import annotations

import logging
import pickle
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from flott.datastream.connectors.base import DriverSink, SinkWriter, WriterContext
from flott.errors import ProgramError
from flott.runtime.clock import Clock, SystemClock

log = logging.getLogger("flott.job")

#: So many unread bytes make the job wait, and so many, or one file, are given at once.
CAPACITY_BYTES = 32 << 20
FETCH_BYTES = 4 << 20
#: How often the log says that the job waits.
_SAY_EVERY_MS = 60_000
_WAIT_MS = 50
_HEAD = struct.Struct(">QI")  #: number of a piece, and its length


# --- in the job's process --------------------------------------------------------------------------------------------


class ResultSpool:
    """Where this process leaves results.

    ``marks`` is where it says that it has begun: a folder that every JobManager sees which may go on with the job, or a
    function that creates a mark of that name there and returns False if there is one already.
    """

    def __init__(
        self, folder: Path, clock: Clock | None = None, marks: Path | Callable[[str], bool] | None = None
    ):
        self._folder = folder
        self._mark = marks if callable(marks) else partial(_create_file, marks or folder)
        self._clock: Clock = clock or SystemClock()
        self._number = self._clock.now_ms() * 1000
        self._closed = threading.Event()
        self._begun: set[str] = set()

    def begin(self, name: str) -> None:
        """Begin with results of this name; refuse to continue where another process ended."""
        (self._folder / name).mkdir(parents=True, exist_ok=True)
        if name in self._begun:
            return
        if not self._mark(f"delivers-{name}"):
            raise ProgramError(
                "The process of the job was lost, and with it results on their way to the program, which cannot be told"
                " from those that have arrived. Run the program again; sinks that commit, such as files, lose nothing."
            )
        self._begun.add(name)

    def put(self, name: str, subtask: int, values: Sequence[Any]) -> None:
        """Keep a piece; wait while the program is far behind."""
        folder = self._folder / name
        if not values or not self._has_room(folder):
            return
        self._number += 1
        draft = folder / f".{self._number}"
        draft.write_bytes(pickle.dumps((subtask, list(values)), protocol=5))
        draft.rename(folder / f"{self._number:020d}")

    def close(self) -> None:
        """Let writers wait no more and keep nothing more, because the job is being ended."""
        self._closed.set()

    def _has_room(self, folder: Path) -> bool:
        """Wait until there is room; False if the job is being ended."""
        said = self._clock.monotonic()
        while sum(_size(piece) for piece in _pieces(folder)) >= CAPACITY_BYTES:
            if self._clock.wait(self._closed, _WAIT_MS):
                return False
            if (self._clock.monotonic() - said) * 1000 >= _SAY_EVERY_MS:
                said = self._clock.monotonic()
                log.warning("The job waits until the program that submitted it takes its results; or cancel it.")
        return not self._closed.is_set()


#: Of the one job of this process.
_spool: ResultSpool | None = None


def _create_file(folder: Path, name: str) -> bool:
    try:
        (folder / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def open_spool(folder: Path, marks: Path | Callable[[str], bool]) -> ResultSpool:
    """Keep the results of this process's job in a folder from now on."""
    global _spool
    _spool = ResultSpool(folder, marks=marks)
    return _spool


def _of_this_process() -> ResultSpool:
    if _spool is None:
        raise ProgramError("A sink delivers to a program elsewhere, but this process runs no job of a cluster.")
    return _spool


@dataclass(frozen=True)
class RemoteSink(DriverSink[Any]):
    """Stands for a sink that delivers in the program's process."""

    sink: DriverSink[Any]  #: whose writers it uses
    name: str

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        return self.sink.create_writer(context)

    def validate(self) -> None:
        self.sink.validate()
        _of_this_process().begin(self.name)

    def deliver(self, subtask: int, values: Sequence[Any]) -> None:
        _of_this_process().put(self.name, subtask, values)


# --- in the JobManager -----------------------------------------------------------------------------------------------


def fetch(folder: Path, after: int) -> bytes:
    """Return the pieces after one, as many as one answer holds; delete those up to it, which have arrived."""
    if not folder.is_dir():
        return b""
    given: list[bytes] = []
    size = 0
    for piece in _pieces(folder):
        number = int(piece.name)
        if number <= after:
            piece.unlink(missing_ok=True)
        elif size < FETCH_BYTES:
            data = piece.read_bytes()
            given += (_HEAD.pack(number, len(data)), data)
            size += len(data)
    return b"".join(given)


# --- in the program's process ----------------------------------------------------------------------------------------


def pieces_in(data: bytes) -> Iterator[tuple[int, int, list[Any]]]:
    """Yield number, subtask and values of each piece that was fetched."""
    place = 0
    while place < len(data):
        number, length = _HEAD.unpack_from(data, place)
        place += _HEAD.size
        subtask, values = pickle.loads(data[place : place + length])
        place += length
        yield number, subtask, values


def _pieces(folder: Path) -> list[Path]:
    return sorted(piece for piece in folder.iterdir() if piece.name.isdecimal())


def _size(piece: Path) -> int:
    try:
        return piece.stat().st_size
    except FileNotFoundError:  # it has arrived meanwhile
        return 0

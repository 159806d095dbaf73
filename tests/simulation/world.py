"""A world in which everything goes wrong at a moment that a seed decides: storage, processes, other people's wishes.

It draws all of its decisions from one generator of random numbers and writes down what happened, so a seed can be run
again and goes exactly the same way.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, BinaryIO

from flott.datastream.connectors.base import CommitPermit
from flott.errors import StorageError
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.pins import read_pins
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.storage import PosixStorage
from flott.testing.harness import Crash


class World:
    """One seed's course of events."""

    def __init__(self, seed: int, home: Path):
        self._home = f"{home}/"
        self.random = Random(seed)
        self.trace: list[str] = []  #: what happened, in order
        self.beside = Beside(self)
        self.calm = True  #: nothing goes wrong (any more)
        self.dead = False  #: the process has died: whatever it still tries to do does not happen
        self._bad_for = 0  #: so many operations of the storage are refused
        self._left = 0  #: moments until the process dies; 0: it does not
        self._refusal_rate = 0.0
        self._unsynced: dict[Path, bytes] = {}  #: files that were deleted, which a power failure may bring back
        self.wish: Callable[[], None] = lambda: None  #: something a user asks for now and then

    def begin_life(self, calm: bool) -> None:
        """A new process."""
        self.dead, self.calm, self._bad_for = False, calm, 0
        self.beside.forget()
        self._left = 0 if calm else self.random.randint(1, self.random.choice([40, 120, 400]))
        self._refusal_rate = self.random.choice([0, 0, 0.01, 0.03])
        self.trace.append(f"life {'calm' if calm else 'stormy'}")

    # --- what may happen at any moment -------------------------------------------------------------------------------

    def step(self, name: str, epoch: int) -> None:
        """A step of the protocol was taken."""
        self._living()
        self.trace.append(f"{name} {epoch}")
        self._perhaps_elsewhere()
        if self._is_the_last_moment():
            self.crash()
        if self.random.random() < 0.08:
            self.wish()

    def before_commit(self, permit: CommitPermit) -> None:
        """A sink commits."""
        self._living()
        if self._is_the_last_moment():
            self.crash()
        if not self.calm and self.random.random() < 0.05:
            raise ConnectionError("the database is away")

    def fate(self, verb: str, name: str) -> str:
        """What becomes of an operation of the storage: done, or the process dies before, in the middle or after."""
        self._living()
        self.trace.append(f"{verb} {name.removeprefix(self._home)}")
        if verb in ("read", "write", "publish") and not name.startswith("pins"):
            # Not during the others: they are done while a lock is held, which in a simulation nobody could wait for.
            self._perhaps_elsewhere()
        if self.calm:
            return "done"
        if self._is_the_last_moment():
            return self.random.choice(["before", "middle", "after"])
        if self._bad_for == 0 and self.random.random() < self._refusal_rate:
            self._bad_for = self.random.randint(1, 4)
        if self._bad_for:
            self._bad_for -= 1
            self.trace.append("  refused")
            raise StorageError(f"Cannot {verb} {name}: the simulation says so.")
        return "done"

    def crash(self) -> None:
        """The process dies; perhaps the power fails, and what was not flushed to the disk is as it was before."""
        self.dead = True
        self.trace.append("  crash")
        if self.random.random() < 0.3:
            for path in sorted(self._unsynced):
                if self.random.random() < 0.5 and not path.exists():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(self._unsynced[path])
                    self.trace.append(f"  {path.name} is back")
        self._unsynced.clear()
        raise Crash

    def _is_the_last_moment(self) -> bool:
        self._left -= 1
        return self._left == 0

    def _living(self) -> None:
        if self.dead:
            raise Crash

    def _perhaps_elsewhere(self) -> None:
        """Work beside the epochs may be done at any moment."""
        if self.random.random() < 0.1:
            self.beside.catch_up()

    def token(self) -> Any:
        """In the place of a random name."""
        return SimpleNamespace(hex=f"{self.random.getrandbits(64):016x}")

    # --- deletions are not flushed -----------------------------------------------------------------------------------

    def deleted(self, path: Path) -> None:
        """A file is about to be deleted. (Half of a savepoint, without metadata, may come back for good.)"""
        if path.is_file() and "savepoints" not in path.parts:
            self._unsynced[path] = path.read_bytes()

    def flushed(self, folder: Path) -> None:
        """A folder was flushed, and with it the deletions in it."""
        self._unsynced = {path: data for path, data in self._unsynced.items() if path.parent != folder}


class Beside:
    """Work beside the epochs, in the same thread, at a moment that the world chooses."""

    def __init__(self, world: World):
        self._world = world
        self._waiting: list[tuple[str, Callable[[], Any], Future[Any]]] = []
        self._busy = False

    def start(self, work: Callable[[], Any], name: str) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((name, work, future))
        return future

    def wait(self, future: Future[Any]) -> None:
        self.catch_up()

    def forget(self) -> None:
        """It was work of a process that is no more."""
        self._waiting, self._busy = [], False

    def catch_up(self) -> None:
        """Do what waits to be done; while it is being done, nothing else begins."""
        while self._waiting and not self._busy:
            name, work, future = self._waiting.pop(0)
            self._world.trace.append(f"  beside: {name}")
            self._busy = True
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)
            self._busy = False


@dataclass(frozen=True)
class SimulatedStorage(PosixStorage):
    """Local storage that refuses, dies and leaves half-written files behind as the world will have it."""

    world: World = field(kw_only=True)

    def read(self, name: str) -> bytes:
        self._look("read", name)
        return super().read(name)

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        self._look("read", name)
        with super().open(name) as file:
            yield file

    def write(self, name: str, data: bytes) -> None:
        with self.create(name) as file:
            file.write(data)

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        fate = self.world.fate("write", name)
        path = self._path(name)
        assert not path.exists(), f"{name} would be overwritten"
        if fate == "before":
            self.world.crash()
        written = io.BytesIO()
        yield written  # if that fails nothing is left, as with the real one
        path.parent.mkdir(parents=True, exist_ok=True)
        data = written.getvalue()
        if fate == "middle":
            path.write_bytes(data[: self.world.random.randint(0, len(data))])
            self.world.crash()
        path.write_bytes(data)
        self.world.flushed(path.parent)
        if fate == "after":
            self.world.crash()

    def publish(self, name: str, data: bytes) -> None:
        fate = self.world.fate("publish", name)
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if fate == "before":
            self.world.crash()
        if fate == "middle":
            path.with_name(f".draft-{path.name}-1").write_bytes(data[: self.world.random.randint(0, len(data))])
            self.world.crash()
        super().publish(name, data)
        self.world.flushed(path.parent)
        if fate == "after":
            self.world.crash()

    def delete(self, name: str) -> None:
        fate = self.world.fate("delete", name)
        if fate == "before":
            self.world.crash()
        self.world.deleted(self._path(name))
        super().delete(name)
        if fate in ("middle", "after"):
            self.world.crash()

    def delete_folder(self, name: str) -> None:
        fate = self.world.fate("delete", name)
        if fate == "before":
            self.world.crash()
        super().delete_folder(name)
        if fate in ("middle", "after"):
            self.world.crash()

    def list(self, folder: str) -> Iterator[str]:
        self._look("list", folder)
        yield from super().list(folder)

    def _look(self, verb: str, name: str) -> None:
        if self.world.fate(verb, name) != "done":
            self.world.crash()


def files_below(folder: Path) -> set[str]:
    """All files, relative to the folder."""
    return {os.path.relpath(os.path.join(top, file), folder) for top, _, files in os.walk(folder) for file in files}


def unneeded_files(folder: Path, retained: int) -> set[str]:
    """What lies in a job's directory and belongs to no checkpoint that is retained, no pin and no next plan."""
    storage = PosixStorage(str(folder))
    completed = CheckpointStore(storage).completed()
    assert len(completed) <= retained
    kept = {name for manifest in completed for name in manifest.files}
    for manifest in completed:
        kept |= {paths.metadata(manifest.checkpoint_id), paths.epoch_input(manifest.checkpoint_id)}
    for pin in read_pins(storage):
        assert Path(pin.savepoint, "_metadata").exists(), f"{pin.name} is a pin without a savepoint"
        kept |= {paths.pin(pin.name), *pin.files}
    return files_below(folder) - kept - {paths.epoch_input(completed[-1].checkpoint_id + 1), paths.JOB, paths.LOCK}

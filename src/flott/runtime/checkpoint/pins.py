"""Pins: savepoints elsewhere that refer to state files of this job. Driver side.

A native savepoint is a list of references. A pin in the job's directory says so durably: the files it names outlive
their checkpoints, the job's sweeps and the job itself, until the savepoint is disposed of. It is written before the
savepoint is complete, so a crash in between leaves a pin without a savepoint, never the reverse; such a pin is void.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from flott.errors import CorruptStateError
from flott.runtime.checkpoint import paths
from flott.runtime.storage import Storage

VERSION = 1


@dataclass(frozen=True)
class Pin:
    """A savepoint and the files it needs."""

    name: str  #: different for every savepoint
    savepoint: str  #: its folder
    files: frozenset[str]  #: below the job's directory, or absolute

    def is_void(self, storage: Storage) -> bool:
        """Return whether its savepoint does not exist (any more). A savepoint that is out of reach may exist."""
        savepoint = storage.at(self.savepoint)
        return savepoint.is_reachable and not savepoint.exists(paths.METADATA)


def write_pin(storage: Storage, pin: Pin) -> None:
    """Keep the files of a savepoint, durably."""
    content = {"version": VERSION, "savepoint": pin.savepoint, "files": sorted(pin.files)}
    storage.publish(paths.pin(pin.name), json.dumps(content).encode())


def read_pins(storage: Storage) -> Iterator[Pin]:
    """Yield all pins of a job."""
    for file in storage.list(paths.PINS):
        if (name := paths.name_of_pin(file)) is not None:
            yield _decode(name, storage.read(paths.pin(name)), storage.location(paths.pin(name)))


def delete_pin(storage: Storage, name: str) -> None:
    """Let go of the files of a savepoint, if they are kept."""
    storage.delete(paths.pin(name))


def _decode(name: str, data: bytes, path: str) -> Pin:
    try:
        content = json.loads(data)
        if content["version"] != VERSION:
            raise CorruptStateError(
                f"{path} has format version {content['version']}; this version of Flott reads version {VERSION}."
            )
        return Pin(name, content["savepoint"], frozenset(content["files"]))
    except (LookupError, ValueError, TypeError) as error:
        raise CorruptStateError(
            f"{path} is damaged: {type(error).__name__} {error}. It keeps the files of a savepoint; if that savepoint"
            " is not needed any more, delete the file."
        ) from error

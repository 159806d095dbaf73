"""Where the keyed state of a subtask is while it runs: the choice, and what it takes. Travels to tasks."""

from __future__ import annotations

import getpass
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flott.common.typeinfo import TypeInformation
from flott.runtime.clock import SystemClock
from flott.runtime.managed_state.backends.hashmap import KeyedState

HASHMAP, ROCKSDB = "hashmap", "rocksdb"
#: Databases that have not been touched for so long are those of a job that has ended.
FORGOTTEN_AFTER_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True)
class BackendSettings:
    """The job's choice of a backend."""

    kind: str = HASHMAP
    task_memory_bytes: int = 256 << 20  #: what the state of one task may take, if it is not all in memory anyway
    local_dir: str | None = None  #: for databases; None: the system's temporary directory

    def job_folder(self, job_id: str) -> Path:
        """Return where a job's databases are on this host."""
        return Path(self.local_dir or tempfile.gettempdir(), f"flott-state-{getpass.getuser()}", job_id)

    def delete_local_state(self, job_id: str) -> None:
        """Delete the databases of a job that is over on this host, as far as that can be done."""
        if self.kind == ROCKSDB:
            shutil.rmtree(self.job_folder(job_id), ignore_errors=True)
            with suppress(OSError):
                self.job_folder(job_id).parent.rmdir()  # if no other job has anything there

    def keep_only(self, job_id: str, names: frozenset[str]) -> int:
        """Delete the databases of a job on this host that have other names; return how many were there.

        One that a process has open stays.
        """
        if self.kind != ROCKSDB:
            return 0
        from flott.runtime.managed_state.backends.rocksdb.store import Budget, RocksStore

        found = [path for path in self.job_folder(job_id).glob("*") if path.is_dir() and path.name not in names]
        for path in found:
            RocksStore(path, Budget(0)).destroy()
        return len(found)


def database_name(operator_id: str, groups: range) -> str:
    """Return the name of the database of an operator subtask.

    It has key groups and not the subtask: after a change of parallelism the same name would stand for something else.
    """
    return f"{operator_id[:16]}-{groups.start}-{groups.stop}"


def _delete_forgotten(job_folder: Path, now_ms: int) -> None:
    """Delete what jobs left on this host that ended elsewhere, when another begins. An idle one loses but a copy."""
    if job_folder.exists():
        return
    for folder in job_folder.parent.glob("*"):
        with suppress(OSError):
            touched = max(path.stat().st_mtime for path in (folder, *folder.glob("*")))
            if now_ms - touched * 1000 > FORGOTTEN_AFTER_MS:
                shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class StateOwner:
    """The operator subtask whose state it is."""

    label: str
    max_parallelism: int
    groups: range
    in_place: bool = False  #: the program, and not an exchange, has moved records to the subtask of their key
    key_type: TypeInformation | None = None  #: None: pickled


def make_keyed_state(
    settings: BackendSettings, owner: StateOwner, job_id: str, operator_id: str, sharing: Callable[[], int]
) -> KeyedState:
    """Return the empty state of an operator subtask.

    ``sharing``: how many operators have the task's memory between them.
    """
    if settings.kind == HASHMAP:
        return KeyedState(
            owner.label, owner.max_parallelism, owner.groups, in_place=owner.in_place, key_type=owner.key_type
        )
    from flott.runtime.managed_state.backends.rocksdb.keyed_state import RocksKeyedState
    from flott.runtime.managed_state.backends.rocksdb.store import Budget

    _delete_forgotten(settings.job_folder(job_id), SystemClock().now_ms())
    return RocksKeyedState(
        owner.label,
        owner.max_parallelism,
        owner.groups,
        settings.job_folder(job_id) / database_name(operator_id, owner.groups),
        Budget(settings.task_memory_bytes // max(sharing(), 1)),
        in_place=owner.in_place,
        key_type=owner.key_type,
    )

"""What one subtask that holds a million keys writes at the end of an epoch in which some of them have changed.

The engine's own state, without Spark and without records: keys are touched as an operator does, then saved as an epoch
does, to a file that is forced to the disk. What a checkpoint costs is the time of that, and of the next epoch's
beginning: a database takes the changes in only then, when the checkpoint is complete.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import flott
from bench import state
from bench.runners import command
from bench.runners.flott_totals import BACKENDS
from flott.common import Types
from flott.runtime.checkpoint import paths
from flott.runtime.managed_state.backends.backend import BackendSettings, StateOwner, make_keyed_state
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.managed_state.handles import TableValueState
from flott.runtime.storage import PosixStorage

SHARES = (0.001, 0.01, 0.1, 1.0)
MAX_PARALLELISM = 128
MEMORY_BYTES = 256 << 20  # half of state.MANAGED_MEMORY: what a task gets of it on two cores
#: Records come in batches; the state is told of each.
BATCH_RECORDS = 1_024
CHECK_KEYS, CHECK_EPOCHS = 2_000, 3


@dataclass(frozen=True)
class Saved:
    """One epoch."""

    save_seconds: float
    open_seconds: float  #: of the next epoch
    size: int

    @property
    def seconds(self) -> float:
        return self.save_seconds + self.open_seconds


@dataclass
class Subtask:
    """The state of an operator subtask that has all key groups."""

    request: command.Request
    keys: int
    sequence: FileSequence = ()
    epoch: int = 0
    storage: PosixStorage = field(init=False)

    def __post_init__(self) -> None:
        scratch = self.request.scratch
        self.storage = PosixStorage(str(scratch / "job"))
        settings = BackendSettings(BACKENDS[self.request.variant], MEMORY_BYTES, str(scratch / "local"))
        owner = StateOwner("totals", MAX_PARALLELISM, range(MAX_PARALLELISM), key_type=Types.LONG())
        self.state = make_keyed_state(settings, owner, "checkpoint", "0" * 32, sharing=lambda: 1)
        self.state.bring_to(self.sequence, self.storage)

    def run_epoch(self, touched: int) -> Saved:
        """An epoch that adds to so many keys, others each time."""
        self.epoch += 1
        self._touch(touched)
        began = time.perf_counter()
        # Named as epochs name them: the operator, the subtask, the epoch, the attempt.
        self.sequence = self.state.save(self.sequence, self.storage, f"{paths.STATE}/{'0' * 16}-0-{self.epoch}-0")
        saved = time.perf_counter()
        self.state.bring_to(self.sequence, self.storage)
        return Saved(saved - began, time.perf_counter() - saved, self.sequence[-1].size)

    def read(self, key: int) -> int:
        """The total of a key."""
        self.state.current.key = key
        return TableValueState(self.state.value_table("total", Types.LONG()), self.state.current).value()

    def _touch(self, touched: int) -> None:
        total = TableValueState(self.state.value_table("total", Types.LONG()), self.state.current)
        for batch in self._batches(touched):
            self.state.prefetch(batch)
            for key in batch:
                self.state.current.key = key
                total.update((total.value() or 0) + (key & 1023))
            self.state.make_room()

    def _batches(self, touched: int) -> Iterator[list[int]]:
        first = self.epoch * touched
        for start in range(first, first + touched, BATCH_RECORDS):
            places = range(start, min(start + BATCH_RECORDS, first + touched))
            yield [place * state.SPREAD % self.keys for place in places]


def measure(request: command.Request) -> dict[str, object]:
    _check(request)
    subtask = Subtask(request, state.KEYS[request.workload] // request.shrink)
    full = subtask.run_epoch(subtask.keys)
    changes = [_change(subtask, share, request.repeats) for share in SHARES]
    subtask.state.close()
    one_percent = next(change for change in changes if change["share"] == 0.01)
    return {
        "milliseconds": one_percent["milliseconds"],
        "keys": subtask.keys,
        "full_bytes": full.size,
        "changes": changes,
        "detail": f"{BACKENDS[request.variant]}, one subtask, 1 % of {subtask.keys:,} keys changed; forced to disk",
        "versions": {"flott": getattr(flott, "__version__", "")},
    }


def _check(request: command.Request) -> None:
    """Refuse to time saves that do not hold what was put into them: another copy of the state is made of the files."""
    subtask = Subtask(replace(request, scratch=request.scratch / "check"), CHECK_KEYS)
    for _ in range(CHECK_EPOCHS):
        subtask.run_epoch(CHECK_KEYS)
    subtask.state.close()
    copy = Subtask(replace(request, scratch=request.scratch / "copy"), CHECK_KEYS)
    copy.state.bring_to(subtask.sequence, subtask.storage)
    found = [copy.read(key) for key in range(CHECK_KEYS)]
    copy.state.close()
    command.check(request.workload, found, [CHECK_EPOCHS * (key & 1023) for key in range(CHECK_KEYS)])


def _change(subtask: Subtask, share: float, repeats: int) -> dict[str, object]:
    touched = max(1, int(subtask.keys * share))
    rounds = [subtask.run_epoch(touched) for _ in range(repeats)]
    return {
        "share": share,
        "touched": touched,
        "bytes": int(statistics.median(saved.size for saved in rounds)),
        "milliseconds": [round(saved.seconds * 1_000, 2) for saved in rounds],
        "open_milliseconds": [round(saved.open_seconds * 1_000, 2) for saved in rounds],
    }


if __name__ == "__main__":
    command.main("flott", measure)

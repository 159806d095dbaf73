"""Fills the state of one subtask with many times its memory budget, then works on it. Prints what it took, as JSON.

Run as a process of its own, because memory is measured.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

from flott.runtime.managed_state.backends.rocksdb.keyed_state import RocksKeyedState
from flott.runtime.managed_state.backends.rocksdb.store import Budget
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.managed_state.handles import TableValueState
from flott.runtime.storage import PosixStorage

VALUE_BYTES = 8 * 1024
BATCH = 64


def resident_kb(field: str) -> int:
    """A field of this process's memory, as the kernel counts it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise AssertionError(f"/proc/self/status has no {field}")


def measure(folder: Path, budget: int, times: int) -> dict[str, int]:
    """Hold so many budgets of state in one epoch, and touch some of it in three more."""
    storage = PosixStorage(str(folder / "job"), sync=False)
    state = RocksKeyedState("large", 128, range(128), folder / "local", Budget(budget))
    state.bring_to((), storage)
    state.close()
    before, keys = resident_kb("VmRSS"), times * budget // VALUE_BYTES
    chance, sequence = random.Random(0), FileSequence()
    for epoch in range(4):
        state.bring_to(sequence, storage)
        handle = TableValueState(state.value_table("value"), state.current)
        touched = range(keys) if epoch == 0 else chance.sample(range(keys), keys // 10)
        for begin in range(0, len(touched), BATCH):
            batch = touched[begin : begin + BATCH]
            state.prefetch(batch)
            for key in batch:
                state.current.key = key
                held = handle.value()
                assert (held is None) == (epoch == 0), f"key {key} in epoch {epoch}"
                assert held is None or held[:8] == key.to_bytes(8, "big")
                handle.update(key.to_bytes(8, "big") + os.urandom(VALUE_BYTES - 8))
            state.make_room()
        sequence = state.save(sequence, storage, f"state/{epoch}")
    return {
        "state bytes": sequence[0].size,
        "peak bytes": (resident_kb("VmHWM") - before) * 1024,
        "last delta bytes": sequence[-1].size,
    }


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))

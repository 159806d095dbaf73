"""A thousand epochs in one process: nothing grows. For more of them: FLOTT_TEST_SOAK_EPOCHS=20000."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import StartDriver
from tests.spark.driver_process import SCRIPTS

EPOCHS = int(os.environ.get("FLOTT_TEST_SOAK_EPOCHS", "1000"))
#: How much more memory may be held at the end than after half of the epochs: until then the JVM fills its heap.
DRIVER_GROWTH_MB, WORKER_GROWTH_MB, JVM_GROWTH_MB = 8, 8, 100


@pytest.mark.slow
def test_many_epochs_leave_memory_and_files_as_they_were(start_driver: StartDriver, tmp_path: Path) -> None:
    settings = {"folder": str(tmp_path), "epochs": EPOCHS}
    ended = start_driver(SCRIPTS / "soak.py", json.dumps(settings)).wait(60 + EPOCHS).expect_success()
    *samples, result = [json.loads(line) for line in ended.stdout.splitlines()]
    print("\n".join(map(json.dumps, samples[9::10])))  # with pytest -s, or if it fails
    assert result == {"sum": EPOCHS * 200}
    assert samples[-1]["epoch"] == EPOCHS
    half, end = _around(samples, len(samples) // 2), _around(samples, len(samples))
    assert end["driver_mb"] - half["driver_mb"] < DRIVER_GROWTH_MB
    assert end["workers_mb"] - half["workers_mb"] < WORKER_GROWTH_MB
    assert end["jvm_mb"] - half["jvm_mb"] < JVM_GROWTH_MB
    assert max(sample["workers"] for sample in samples) <= 4
    assert max(sample["local_files"] for sample in samples) < 50
    assert max(sample["checkpoint_files"] for sample in samples) < 60
    assert list((tmp_path / "checkpoints").iterdir()) == []


def _around(samples: list[dict[str, Any]], position: int) -> dict[str, Any]:
    """The lowest of the last four samples up to a position: garbage comes and goes."""
    window = samples[max(0, position - 4) : position]
    return {name: min(sample[name] for sample in window) for name in ("driver_mb", "workers_mb", "jvm_mb")}

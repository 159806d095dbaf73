"""Many epochs in one process: nothing grows. ``make test`` runs some hundred, ``make test-long`` some thousand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import StartDriver
from tests.spark.driver_process import SCRIPTS

FEW, MANY = 320, 3000  # multiples of the script's SAMPLES, so that the last epoch has a sample
CHECKPOINTS = 60  #: of a pipelined job, one a second
#: How much more memory may be held at the end than after half of the epochs. When the JVM takes more of its heap is
#: the collector's choice, so it is only refused what a leak of the heap's size would take.
DRIVER_GROWTH_MB, WORKER_GROWTH_MB, JVM_GROWTH_MB = 8, 8, 400


@pytest.mark.slow
@pytest.mark.timeout(MANY)
@pytest.mark.parametrize("epochs", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
def test_many_epochs_leave_memory_and_files_as_they_were(
    start_driver: StartDriver, tmp_path: Path, epochs: int
) -> None:
    settings = {"folder": str(tmp_path), "epochs": epochs}
    ended = start_driver(SCRIPTS / "soak.py", json.dumps(settings)).wait(60 + epochs).expect_success()
    *samples, result = [json.loads(line) for line in ended.stdout.splitlines()]
    print("\n".join(map(json.dumps, samples[9::10])))  # with pytest -s, or if it fails
    assert result == {"sum": epochs * 200}
    assert samples[-1]["epoch"] == epochs
    half, end = _around(samples, len(samples) // 2), _around(samples, len(samples))
    growth = {name: end[name] - half[name] for name in half}
    assert growth["driver_mb"] < DRIVER_GROWTH_MB, growth
    assert growth["workers_mb"] < WORKER_GROWTH_MB, growth
    assert growth["jvm_mb"] < JVM_GROWTH_MB, growth
    # A worker that was slow to come may get a second one beside it, and compaction may lag on a busy machine: neither
    # goes on. So the lowest of the last samples counts.
    for name, limit in (("workers", 4), ("local_files", 50), ("checkpoint_files", 60)):
        last = [sample[name] for sample in samples[-8:]]
        assert min(last) <= limit, (name, [sample[name] for sample in samples])
        assert max(last) <= 10 * limit, (name, last)
    assert list((tmp_path / "checkpoints").iterdir()) == []


def _around(samples: list[dict[str, Any]], position: int) -> dict[str, Any]:
    """The lowest of the last four samples up to a position: garbage comes and goes."""
    window = samples[max(0, position - 4) : position]
    return {name: min(sample[name] for sample in window) for name in ("driver_mb", "workers_mb", "jvm_mb")}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("unaligned", [False, True], ids=["aligned", "unaligned"])
def test_a_pipelined_job_under_back_pressure_leaves_memory_and_files_as_they_were(
    start_driver: StartDriver, tmp_path: Path, unaligned: bool
) -> None:
    options = {"execution.checkpointing.unaligned.enabled": str(unaligned).lower()}
    settings = {"folder": str(tmp_path), "checkpoints": CHECKPOINTS, "options": options}
    ended = start_driver(SCRIPTS / "pipelined_soak.py", json.dumps(settings)).wait(900).expect_success()
    *samples, result = [json.loads(line) for line in ended.stdout.splitlines()]
    print("\n".join(map(json.dumps, samples[::5])))  # with pytest -s, or if it fails
    assert result["restarts"] == 0
    assert result["counted"] == result["sum"] > 0, "every record was counted once"
    assert any(sample["persisted_bytes"] for sample in samples) == unaligned
    half, end = _around(samples, len(samples) // 2), _around(samples, len(samples))
    growth = {name: end[name] - half[name] for name in half}
    assert growth["driver_mb"] < DRIVER_GROWTH_MB, growth
    assert growth["workers_mb"] < WORKER_GROWTH_MB, growth
    assert growth["jvm_mb"] < JVM_GROWTH_MB, growth
    assert min(sample["checkpoint_files"] for sample in samples[-8:]) <= 60

"""State of many times the memory budget is held within the budget."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rocksdict", reason="the RocksDB binding is not installed")

BUDGET = 32 << 20
#: What the process itself may take besides: pages of code that is first used here, and what the allocator cannot give
#: back. It depends on how RocksDB's threads are scheduled, so it differs from run to run (measured: up to 2 MB).
PROCESS_BYTES = 8 << 20


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is measured with Linux's /proc")
def test_ten_times_the_budget_is_held_and_worked_on_within_the_budget(tmp_path):
    script = Path(__file__).parent / "holds_many_budgets.py"
    run = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(BUDGET), "11"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    taken = json.loads(run.stdout)
    assert taken["state bytes"] >= 10 * BUDGET
    assert taken["peak bytes"] <= BUDGET + PROCESS_BYTES, taken

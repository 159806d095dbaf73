"""The demo runs: a job on real Spark survives ``kill -9`` of all its processes, and writes to Kafka exactly once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.connectors


def test_the_demo_kills_its_job_and_is_exact() -> None:
    pytest.importorskip("confluent_kafka", reason="no client: pip install 'flott[kafka]'")
    if shutil.which("java") is None:
        pytest.skip("no Kafka: there is no java to run it with")
    done = subprocess.run(
        [sys.executable, "examples/kafka_demo.py", "4"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}"
    assert "-- kill -9" in done.stdout
    assert "All 16,000 results are exact and in order" in done.stdout

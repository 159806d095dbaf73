"""A job with checkpoints, savepoint and file sink on an S3 server survives what kills its workers and its driver."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import flott.state
from flott.runtime.storage import opening
from tests.object_stores.conftest import settings_of
from tests.object_stores.test_jobs import visible_lines
from tests.s3_server import BUCKET, S3Server, s3_server
from tests.servers.process import NoServer
from tests.spark.conftest import StartDriver
from tests.spark.driver_process import SCRIPTS, DriverProcess

SURVIVOR = SCRIPTS / "survivor.py"
PLACE = f"s3://{BUCKET}/survivor"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    pytest.importorskip("obstore", reason="no client: pip install 'flott[object-stores]'")
    try:
        with s3_server(tmp_path / "s3") as running:
            monkeypatch.setattr(opening, "_settings", settings_of(running))
            yield running
    except NoServer as reason:
        pytest.skip(str(reason))


def expected(folder: Path) -> Counter[str]:
    """What a run without faults, without Spark and without a server publishes."""
    settings = {"folder": str(folder), "options": {"execution.target": "in-process", "flott.progress": "off"}}
    DriverProcess([str(SURVIVOR), json.dumps(settings)], folder).wait(300).expect_success()
    parts = [path for path in (folder / "files").glob("*") if not path.name.startswith(".")]
    return Counter(line for path in parts for line in path.read_text().splitlines())


def test_a_job_on_an_object_store_survives_its_driver_and_a_worker_with_exact_results(
    server: S3Server, start_driver: StartDriver, tmp_path: Path
) -> None:
    folder = tmp_path / "job"

    def start(options: dict[str, str], **fault: str) -> DriverProcess:
        options = {**server.options, "execution.checkpointing.dir": f"{PLACE}/checkpoints", **options}
        settings = {"folder": str(folder), "files": f"{PLACE}/files", "options": options, **fault}
        return start_driver(SURVIVOR, json.dumps(settings), folder=folder)

    # The driver is killed by a task, in the middle of the third epoch.
    killed = start({}, fault="driver", place="account").wait(300)
    assert killed.code == -signal.SIGKILL, killed.stderr
    storage = opening.open_object_storage(PLACE)
    (job,) = storage.list("checkpoints")
    # What it had completed becomes a savepoint in the store. Another job starts from it, and a worker of it is killed.
    savepoint = flott.state.export_savepoint(f"{PLACE}/checkpoints/{job}/chk-2", f"{PLACE}/savepoints")
    ended = start({"execution.state-recovery.path": savepoint}, fault="worker", place="read").wait(300).expect_success()
    assert any(folder.glob("struck-read")), "the worker was killed"
    assert json.loads(ended.stdout.splitlines()[-1])["epochs"] == [3, 4, 5, 6]
    assert visible_lines(storage, "files") == expected(tmp_path / "undisturbed")
    assert "flott-secret" not in killed.stdout + killed.stderr + ended.stdout + ended.stderr

"""A JobManager in a process of its own, one of several that may lead."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import httpx

from flott.runtime.cluster.submission import JobSubmission
from tests.spark.driver_process import MARK
from tests.unit.runtime.cluster.jobs import wait_for

ROOT = Path(__file__).parents[3]


class Standby:
    """A JobManager that may lead."""

    def __init__(self, folder: Path, shared: Path, **settings: str):
        self.folder = folder
        self.mark = uuid4().hex
        folder.mkdir(parents=True)
        properties = {
            "flott.cluster.dir": str(folder),
            "execution.target": "in-process",
            "rest.port": "0",
            "high-availability.type": "filesystem",
            "high-availability.storageDir": str(shared),
            "flott.ha.lease-timeout": "1s",
            "flott.ha.lease-renewal": "100ms",
            "flott.storage.sync": "false",
            **settings,
        }
        environment = {**os.environ, "FLOTT_PROPERTIES": json.dumps(properties)}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        environment.update({MARK: self.mark})
        with open(folder / "out", "wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "flott.server"], env=environment, stdout=out, stderr=out, start_new_session=True
            )
        self.url = str(wait_for(self._announced)["url"])

    def _announced(self) -> dict | None:
        assert self.process.poll() is None, (self.folder / "out").read_text()
        file = self.folder / "cluster.json"
        return json.loads(file.read_text()) if file.exists() else None

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, trust_env=False, timeout=5)

    def leads(self) -> bool:
        return self.get("/overview").status_code == 200

    def submit(self, submission: JobSubmission) -> None:
        parts = {
            "submission": ("submission", submission.description(), "application/json"),
            "graph": ("graph", submission.graph, "application/octet-stream"),
        }
        httpx.post(f"{self.url}/jobs", files=parts, trust_env=False).raise_for_status()

    def status(self, job_id: str) -> str | None:
        answer = self.get(f"/jobs/{job_id}/status")
        return answer.json()["status"] if answer.status_code == 200 else None

    def epochs(self, job_id: str) -> int:
        answer = self.get(f"/jobs/{job_id}/checkpoints")
        return answer.json()["counts"]["completed"] if answer.status_code == 200 else 0

    def end(self) -> None:
        """Whatever it is doing."""
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait(10)

"""A JobManager in a process of its own, one of several that may lead."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from uuid import uuid4

import httpx

from flott.runtime.jobmanager.submission import JobSubmission
from tests.spark.driver_process import MARK
from tests.unit.runtime.jobmanager.jobs import wait_for
from tests.unit.server.jobmanager_process import announced_url, command


class Standby:
    """A JobManager that may lead."""

    def __init__(self, folder: Path, shared: Path, **settings: str):
        self.folder = folder
        self.mark = uuid4().hex
        folder.mkdir(parents=True)
        elected = {
            "high-availability.type": "filesystem",
            "high-availability.storageDir": str(shared),
            "flott.ha.lease-timeout": "1s",
            "flott.ha.lease-renewal": "100ms",
        }
        started = command(folder, **{**elected, **settings})
        started["env"][MARK] = self.mark
        with open(folder / "out", "wb") as out:
            self.process = subprocess.Popen(**started, stdout=out, stderr=out)
        self.url = str(wait_for(lambda: announced_url(folder, self.process)))

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
        self.process.wait(120)

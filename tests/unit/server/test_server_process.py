"""The process of a JobManager: what it refuses to start with, what it leaves on disk, and its death at any moment."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from flott.runtime.jobmanager.submission import JobSubmission
from tests.unit.runtime.jobmanager.jobs import counting, counts, submission_of, wait_for
from tests.unit.server.jobmanager_process import announced_url, command


@contextmanager
def serving(folder: Path, **settings: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """A JobManager that answers, and its address."""
    (folder / "cluster.json").unlink(missing_ok=True)  # of one that was killed
    process = subprocess.Popen(**command(folder, **settings))
    try:
        url = wait_for(lambda: announced_url(folder, process))
        wait_for(lambda: httpx.get(f"{url}/overview", trust_env=False).status_code == 200)
        yield process, url
    finally:
        process.kill()
        process.wait(120)


def refused(folder: Path, **settings: str) -> str:
    """What a JobManager says that does not even start."""
    ended = subprocess.run(**command(folder, **settings), capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    return ended.stderr


def submit(url: str, job: JobSubmission) -> None:
    parts = {"submission": job.description(), "graph": job.graph}
    httpx.post(f"{url}/jobs", files=parts, trust_env=False).raise_for_status()


def detail(url: str, job_id: str) -> dict:
    return httpx.get(f"{url}/jobs/{job_id}", trust_env=False).json()


def test_a_killed_jobmanager_is_followed_by_the_next_and_a_second_one_is_refused(tmp_path: Path):
    folder = tmp_path / "cluster"
    job = submission_of(counting(tmp_path / "out", records=1500, rate=700), "survivor")
    with serving(folder) as (process, url):
        assert f"process {process.pid}" in refused(folder)
        for made in (folder, folder / "logs"):
            assert stat.S_IMODE(made.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "cluster.json").stat().st_mode) == 0o600
        submit(url, job)
        began = wait_for(lambda: d if (d := detail(url, job.job_id)).get("state") == "RUNNING" else None)
        wait_for(lambda: counts(tmp_path / "out"))
        os.kill(process.pid, signal.SIGKILL)
    with serving(folder) as (process, url):
        ended = wait_for(lambda: d if (d := detail(url, job.job_id)).get("state") == "FINISHED" else None)
        assert ended["start-time"] == began["start-time"], "it is still the same job"
        assert counts(tmp_path / "out") == dict.fromkeys(range(5), 300)
        process.terminate()
        assert process.wait(120) == 0
        assert not (folder / "cluster.json").exists()


def test_what_is_in_the_way_of_a_jobmanager_is_said_in_one_sentence(tmp_path: Path):
    (tmp_path / "file").touch()
    assert "cannot use the folder" in refused(tmp_path / "file" / "cluster")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "cannot listen on localhost" in refused(tmp_path / "cluster", **{"rest.port": str(port)})

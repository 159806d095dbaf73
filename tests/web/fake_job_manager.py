"""A JobManager's REST server over a cluster made of data, on a real port: for browsers, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from flott.common.configuration import Configuration
from flott.rest.app import create_app
from flott.rest.http_server import RestServer
from flott.runtime.jobmanager.programs import ProgramStore
from flott.runtime.jobmanager.views.job_view import InputView, JobView, TaskState
from tests.unit.rest.fake_cluster import FakeCluster, running_job, vertices

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


@contextmanager
def served(cluster: FakeCluster, port: int = 0) -> Iterator[str]:
    """Serve a cluster; yield its address."""
    configuration = Configuration.of({**cluster.configuration.to_dict(), "rest.port": port})
    server = RestServer(create_app(cluster, ProgramStore(cluster.folder / "programs", configuration)), configuration)
    chosen = server.start()
    try:
        yield f"http://localhost:{chosen}"
    finally:
        server.stop()


def long_job(job_id: str, name: str, count: int) -> JobView:
    """Return a running job with so many vertices in a row."""
    [source, window] = vertices(TaskState.RUNNING)
    row = [replace(source, id=f"{job_id[:16]}{0:016x}")]
    for index in range(1, count):
        before = InputView(row[-1].id, "HASH", 0)
        row.append(replace(window, id=f"{job_id[:16]}{index:016x}", name=f"step {index}", inputs=(before,)))
    return replace(running_job(job_id), name=name, vertices=tuple(row))


def busy_cluster(folder: Path, jobs: int = 50, count: int = 10) -> FakeCluster:
    """Return a cluster with so many running jobs of so many vertices."""
    cluster = FakeCluster(folder)
    cluster.known.clear()
    for index in range(jobs):
        job_id = f"{index + 1:032x}"
        cluster.known[job_id] = long_job(job_id, f"pipeline {index + 1}", count)
    return cluster

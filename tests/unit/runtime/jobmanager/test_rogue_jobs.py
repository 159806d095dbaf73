"""Jobs that do what they should not, side by side in one JobManager: each has its own end, and no other notices."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from flott.common.job_status import JobStatus
from flott.datastream import StreamExecutionEnvironment
from flott.runtime.jobmanager.job_manager import JobManager
from flott.runtime.jobmanager.views.job_view import MAX_TEXT
from flott.runtime.orders import CancelJob, TakeCheckpoint
from tests.unit.runtime.jobmanager.jobs import await_epoch, await_status, counting, counts, running, submit, wait_for

#: Whoever knows it could give orders to the JobManager.
SECRETS = {"FLOTT_REST_TOKEN": "sesame", "FLOTT_HA_ZOOKEEPER_PASSWORD": "sesame", "FLOTT_PROPERTIES": '{"a": "sesame"}'}


def leave_a_child_behind(value: int) -> int:
    if os.fork() == 0:
        time.sleep(600)  # it has inherited the pipe, and keeps it open
    os._exit(3)


def close_everything(value: int) -> int:
    os.closerange(3, 100_000)
    return value


def babble(value: int) -> int:
    """Say something to the JobManager that is no message."""
    for descriptor in range(3, 4096):  # a pipe has the number that it has in the process of the JobManager
        with suppress(OSError):
            pipe = socket.socket(fileno=os.dup(descriptor))
            if pipe.family is socket.AddressFamily.AF_UNIX:
                pipe.sendall(b"\0\0\0\3abc")
    time.sleep(0.01)
    return value


def chatter(value: int) -> int:
    """As a native library does that knows nothing of Python's streams."""
    for _ in range(1000):
        os.write(1, b"%0100d\n" % value)
    return value


def leave(value: int) -> int:
    sys.exit(3)


def shout(value: int) -> int:
    raise ValueError("x" * 3_000_000)


def make_itself_at_home(value: int) -> int:
    """Bad manners that harm nobody."""
    if threading.current_thread().name != "ours":
        os.chdir("/")
        signal.alarm(0)
        threading.Thread(target=time.sleep, args=(600,), name="ours").start()
        assert not [name for name, text in os.environ.items() if "sesame" in text], "a secret of the JobManager's"
        assert os.environ["FLOTT_HOME"] == "/nowhere"
    return value


def never_end(value: int) -> int:
    while True:
        pass


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobManager]:
    settings = {
        "flott.cluster.job-process.restarts": "0",
        "restart-strategy.type": "none",
        "task.cancellation.timeout": "300ms",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))
        patch.setenv("FLOTT_HOME", "/nowhere")
        for name, text in SECRETS.items():
            patch.setenv(name, text)
        with running(tmp_path_factory.mktemp("cluster"), **settings) as manager:
            patch.delenv("FLOTT_PROPERTIES")  # programs of this process would read it; jobs are started all the same
            yield manager


@pytest.fixture(scope="module")
def neighbour(cluster: JobManager, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A job that minds its own business all the while."""
    output = tmp_path_factory.mktemp("good")
    job = submit(cluster, counting(output, records=None, rate=300), "good")
    await_epoch(cluster, job)
    process = cluster.job(job).process
    yield job
    before = cluster.job(job).checkpoints.completed
    await_epoch(cluster, job, before + 2)
    assert (cluster.job(job).status, cluster.job(job).restarts, cluster.job(job).process) == (
        JobStatus.RUNNING,
        0,
        process,
    )
    cluster.order(job, CancelJob()).result(120)
    await_status(cluster, job, JobStatus.CANCELED)
    counts(output)


HARMFUL = {
    leave_a_child_behind: "exited with code 3",
    close_everything: "exited with code 1",
    babble: "was ended by SIGKILL",
    leave: "sys.exit(3)",
    shout: "characters are left out",
}


def test_jobs_that_harm_their_processes_fail_and_no_other_does(cluster: JobManager, neighbour: str, tmp_path: Path):
    jobs = [
        start(cluster, counting(tmp_path / change.__name__, records=100, change=change), change.__name__)
        for change in HARMFUL
    ]
    civil = start(cluster, counting(tmp_path / "civil", records=100, change=make_itself_at_home), "civil")
    for (job, process), reason in zip(jobs, HARMFUL.values(), strict=True):
        view = await_status(cluster, job, JobStatus.FAILED)
        assert reason in view.failures[0].text
        assert len(view.failures[0].text) < MAX_TEXT + 100
        wait_for(lambda group=process: not members(group), 120)  # and whatever it has started is gone, too
    await_status(cluster, civil[0], JobStatus.FINISHED)
    assert counts(tmp_path / "civil") == dict.fromkeys(range(5), 20)
    wait_for(lambda: not members(civil[1]))


def test_what_a_job_prints_past_pythons_streams_is_bounded(cluster: JobManager, tmp_path: Path):
    env = counting(tmp_path / "out", records=100, change=chatter, **{"flott.log.max-file-size": "64 kb"})
    job, process = start(cluster, env, "chatter")
    await_status(cluster, job, JobStatus.FINISHED)
    wait_for(lambda: not members(process))
    logs = cluster.log_folder / "jobs" / job
    wait_for(lambda: (logs / "job.out").stat().st_size <= 64 * 1024, 120)  # of 10 MB
    assert 0 < (logs / "job.out.1").stat().st_size <= 128 * 1024


@pytest.mark.parametrize("stopped", [False, True], ids=["busy", "stopped"])
def test_a_job_that_does_not_react_is_cancelled_all_the_same(
    cluster: JobManager, neighbour: str, tmp_path: Path, stopped: bool
):
    job, process = start(cluster, counting(tmp_path, change=never_end), "hangs")
    if stopped:
        os.kill(process, signal.SIGSTOP)
    else:
        wait_for(lambda: cluster.job(job).status is JobStatus.RUNNING)
    cluster.order(job, CancelJob()).result(120)
    view = await_status(cluster, job, JobStatus.CANCELED)
    assert JobStatus.CANCELLING in view.timestamps
    wait_for(lambda: not list((cluster.folders.checkpoints).glob(job)))
    assert not members(process)


def test_a_process_that_never_reads_keeps_nobody_waiting(cluster: JobManager, neighbour: str, tmp_path: Path):
    job, process = start(cluster, counting(tmp_path, records=None, rate=100), "stopped")
    os.kill(process, signal.SIGSTOP)
    orders = [cluster.order(job, TakeCheckpoint()) for _ in range(20_000)]
    assert cluster.order(neighbour, TakeCheckpoint()).result(120)
    os.kill(process, signal.SIGKILL)
    for order in orders:
        assert order.exception(10) is not None
    await_status(cluster, job, JobStatus.FAILED)


def start(cluster: JobManager, env: StreamExecutionEnvironment, name: str) -> tuple[str, int]:
    """The id of a new job, and that of its process, which is also that of all it starts."""
    job = submit(cluster, env, name)
    process = cluster.dispatcher.process_of(job)
    assert process is not None
    return job, process.pid


def members(group: int) -> list[str]:
    """The processes of a group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
            if its_group == str(group) and state != "Z":
                found.append(stat.parent.name)
    return found

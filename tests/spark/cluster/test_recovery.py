"""Everything under a session's jobs dies once: they go on from their checkpoints, and their results are exact."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.spark.cluster.conftest import TALLY, Session, counts, run_cli, wait_for
from tests.spark.driver_process import ROOT

StartSession = Callable[..., Session]
#: Small epochs, so that what dies dies in the middle.
SETTINGS = {"flott.epoch.max-records": "100", "flott.epoch.initial-records": "100", "parallelism.default": "2"}


def submit(session: Session, output: Path) -> str:
    return session.submit(output, "--rate", "200", settings=SETTINGS)


def java(session: Session) -> int:
    [pid] = [pid for pid, line in session.process.processes().items() if line.split(" ")[0].endswith("java")]
    return pid


def job_processes(session: Session) -> list[int]:
    return [pid for pid, line in session.process.processes().items() if "job_runner" in line]


def await_restored(session: Session, job: str) -> None:
    """Wait until the job has gone on from a checkpoint and completed another one."""
    restored = wait_for(lambda: session.rest.get(f"/jobs/{job}/checkpoints")["latest"]["restored"], 300)
    wait_for(lambda: _latest(session, job) > restored["id"], 300)


def _latest(session: Session, job: str) -> int:
    completed = session.rest.get(f"/jobs/{job}/checkpoints")["latest"]["completed"]
    return completed["id"] if completed else 0


def test_jobs_survive_the_death_of_their_process_of_a_worker_of_spark_and_of_the_jobmanager(
    sessions: StartSession, tmp_path: Path
) -> None:
    session = sessions()
    outputs = {submit(session, tmp_path / name): tmp_path / name for name in ("a", "b")}
    first, second = outputs
    for job in outputs:
        session.await_epochs(job, 2)

    # The process of one job. The other one does not notice.
    views = {job["jid"]: job for job in session.rest.get("/jobs/overview")["jobs"]}
    began = views[first]["start-time"]
    os.kill(session.rest.get(f"/jobs/{first}")["process"], signal.SIGKILL)
    wait_for(lambda: "SIGKILL" in json.dumps(session.rest.get(f"/jobs/{first}/exceptions")), 300)
    await_restored(session, first)
    assert session.rest.get(f"/jobs/{first}")["start-time"] == began
    assert [one["value"] for one in session.rest.get(f"/jobs/{first}/metrics", get="numRestarts")] == ["1"]
    assert session.rest.get(f"/jobs/{second}/exceptions")["exceptionHistory"]["entries"] == []

    # Python workers of Spark's, whosever they are.
    for pid, line in session.process.processes().items():
        if "pyspark.daemon" in line:
            os.kill(pid, signal.SIGKILL)
    for job in outputs:
        before = _latest(session, job)
        wait_for(lambda job=job, before=before: _latest(session, job) > before + 1, 300)

    # Spark itself.
    old = java(session)
    os.kill(old, signal.SIGKILL)
    wait_for(lambda: [pid for pid, line in session.process.processes().items() if "java" in line and pid != old], 300)
    for job in outputs:
        wait_for(lambda job=job: "Spark" in json.dumps(session.rest.get(f"/jobs/{job}/exceptions")), 300)
        await_restored(session, job)
    assert "Spark application has ended" in session.rest.text("/jobmanager/log")

    # The JobManager, in good order: what it ran goes on with the next one.
    session.cli("cluster", "stop")
    session.process.wait(300).expect_success()
    session.process.expect_no_leftovers()
    again = sessions()
    assert {job["jid"] for job in again.rest.get("/jobs/overview")["jobs"]} == set(outputs)
    assert f"{len(outputs)} jobs were recovered" in again.rest.text("/jobmanager/log")
    for job, output in outputs.items():
        await_restored(again, job)
        again.cli("stop", job, "-p", tmp_path / "savepoints")
        again.await_status(job, "FINISHED")
        assert len(counts(output)) == 5  # each without gap or repetition
    wait_for(lambda: not job_processes(again), 300)


def test_a_session_is_started_used_and_stopped_from_the_command_line(tmp_path: Path) -> None:
    settings = {"rest.port": "0", "spark.master": "local[2]", "flott.storage.sync": "false"}
    variables = {
        "FLOTT_HOME": str(tmp_path / "home"),
        "FLOTT_CONF_DIR": str(tmp_path),
        "FLOTT_PROPERTIES": json.dumps(settings),
        "PYTHONPATH": str(ROOT / "src"),
    }
    (tmp_path / "flott.yaml").write_text("parallelism.default: 2\n")

    def flott(*arguments: str | Path, code: int = 0) -> str:
        done = run_cli("--cluster", "mine", *arguments, environment=variables)
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    started = json.loads(flott("--json", "cluster", "start"))
    try:
        assert json.loads(flott("--json", "cluster", "start"))["url"] == started["url"]  # it runs already
        flott("run", TALLY, tmp_path / "out", "--records", "500")  # on the session, without being told
        assert counts(tmp_path / "out") == dict.fromkeys(range(5), 100)
        assert [one["state"] for one in json.loads(flott("--json", "list", "-a"))["jobs"]] == ["FINISHED"]
        assert "mine" in flott("cluster", "list")
    finally:
        flott("cluster", "stop")
    flott("list", code=3)
    wait_for(lambda: not Path(f"/proc/{started['pid']}").exists(), 300)  # whoever adopted it may be slow to bury it

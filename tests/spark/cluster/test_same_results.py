"""One program, by every way there is to run it: the same results."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

from tests.spark.cluster.conftest import PROGRAMS, TALLY, Session, counts, run_cli

RECORDS = "2500"
EXPECTED = dict.fromkeys(range(5), 500)


@pytest.mark.parametrize("targets", [("local-cluster[2,1,1024]",), pytest.param(("local[2]",), marks=pytest.mark.long)])
def test_a_program_gives_the_same_results_uploaded_on_a_session_and_in_a_spark_of_its_own(
    session: Session, tmp_path: Path, targets: tuple[str, ...]
) -> None:
    uploaded, on_session = tmp_path / "uploaded", tmp_path / "on-session"
    own = [tmp_path / target.partition("[")[0] for target in targets]
    job = _run_uploaded(session, uploaded)
    arguments = ["--records", RECORDS]
    session.cli("run", "--target", "session", "-p", "2", TALLY, on_session, *arguments)
    for target, output in zip(targets, own, strict=True):
        settings = ["-Dspark.executor.memory=512m", "-Dflott.storage.sync=false", "-p", "2", "--target", target]
        ran = run_cli("--json", "run", *settings, TALLY, output, *arguments, timeout=300)
        assert ran.returncode == 0, ran.stderr
        assert "the program is done" in ran.stderr  # with --json, stdout is for one document
        [ended] = json.loads(ran.stdout)["jobs"]
        assert (ended["state"], ended["records-in"]) == ("FINISHED", int(RECORDS))
    session.await_status(job, "FINISHED")
    assert [counts(output) for output in (uploaded, on_session, *own)] == [EXPECTED] * (2 + len(own))


def test_a_job_of_a_session_writes_into_a_table_of_its_spark(session: Session, tmp_path: Path) -> None:
    table = f"numbers_{tmp_path.name.replace('-', '_')}"
    session.cli("run", "--target", "session", PROGRAMS / "numbers_to_table.py", table, tmp_path / "staging")
    [folder] = [path for path in session.folder.rglob(f"*{table}*") if path.is_dir()]
    assert sorted(row["id"] for row in pq.read_table(folder).to_pylist()) == list(range(100))


def _run_uploaded(session: Session, output: Path) -> str:
    archive = output.with_suffix(".zip")
    with zipfile.ZipFile(archive, "w") as packed:
        packed.write(TALLY, "__main__.py")
        packed.write(PROGRAMS / "counter.py", "counter.py")
    with httpx.Client(base_url=session.url, trust_env=False, timeout=60) as http:
        reply = http.post("/jars/upload", files={"jarfile": ("tally.zip", archive.read_bytes())}).raise_for_status()
        program = Path(reply.json()["filename"]).name
        arguments = {"programArgsList": [str(output), "--records", RECORDS], "parallelism": 2}
        job = str(http.post(f"/jars/{program}/run", json=arguments).raise_for_status().json()["jobid"])
        http.delete(f"/jars/{program}").raise_for_status()  # the job has what it needs
    return job

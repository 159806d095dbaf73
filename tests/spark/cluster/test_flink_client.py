"""Flink's own command line client, pointed at a session: it cannot tell the difference."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.spark.cluster.conftest import Jobs, Session, counts
from tests.spark.cluster.flink_client import FlinkClient, flink_jars


@pytest.fixture
def flink(session: Session, tmp_path: Path) -> FlinkClient:
    return FlinkClient(flink_jars(), tmp_path / "flink", session.url)


def test_flinks_client_lists_checkpoints_savepoints_stops_and_cancels(
    session: Session, jobs: Jobs, flink: FlinkClient, tmp_path: Path
) -> None:
    stopped, cancelled = (session.submit(tmp_path / name, "--rate", "100") for name in ("stopped", "cancelled"))
    for job in (stopped, cancelled):
        session.await_epochs(job, 1)

    def ask(*arguments: str | Path) -> str:
        done = flink(*arguments)
        assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    listed = ask("list", "-a")
    assert f"{stopped} : tally (RUNNING)" in listed
    assert f"{jobs.failed} : tally (FAILED)" in listed
    assert "Triggering checkpoint" in ask("checkpoint", stopped)
    [taken] = re.findall(r"Path: (\S+)", ask("savepoint", stopped, tmp_path / "sp"))
    assert Path(taken.removeprefix("file:"), "_metadata").exists()
    assert "disposed" in ask("savepoint", "-dispose", taken)
    assert not Path(taken.removeprefix("file:")).exists()
    [last] = re.findall(r"Path: (\S+)", ask("stop", "-p", tmp_path / "sp", stopped))
    assert Path(last.removeprefix("file:"), "_metadata").exists()
    session.await_status(stopped, "FINISHED")
    assert counts(tmp_path / "stopped")
    assert "Cancelled" in ask("cancel", cancelled)
    session.await_status(cancelled, "CANCELED")


def test_flinks_client_is_told_in_words_what_it_cannot_have(
    session: Session, jobs: Jobs, flink: FlinkClient, tmp_path: Path
) -> None:
    unknown = flink("cancel", "f" * 32)
    assert unknown.returncode != 0
    assert f"There is no job {'f' * 32}" in unknown.stdout + unknown.stderr
    ended = flink("savepoint", jobs.finished, tmp_path / "sp")
    assert ended.returncode != 0
    assert jobs.finished in ended.stdout + ended.stderr


PROGRAM = """
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

public class Numbers {
    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.fromSequence(1, 10).print();
        env.execute("numbers of Java");
    }
}
"""


@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no Java compiler to make a program of Flink's with")
def test_a_program_of_java_is_refused_with_a_reason(session: Session, flink: FlinkClient, tmp_path: Path) -> None:
    (tmp_path / "Numbers.java").write_text(PROGRAM)
    subprocess.run(["javac", "-cp", str(flink_jars()[0]), "Numbers.java"], cwd=tmp_path, check=True)
    with zipfile.ZipFile(tmp_path / "numbers.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nMain-Class: Numbers\n\n")
        jar.write(tmp_path / "Numbers.class", "Numbers.class")
    refused = flink("run", tmp_path / "numbers.jar")
    assert refused.returncode != 0
    said = refused.stdout + refused.stderr
    assert "Java" in said
    assert "Python" in said
    assert "numbers of Java" not in session.cli("list", "--all")

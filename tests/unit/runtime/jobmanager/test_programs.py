"""Programs that are uploaded, and their processes."""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from flott.common.configuration import Configuration
from flott.errors import ClusterError, ConfigurationError, SubmissionError
from flott.runtime.jobmanager import programs as module
from flott.runtime.jobmanager.programs import ProgramStore, RunRequest

#: In place of ``flott.client.program``: tells what it was started with.
ECHO = """
import json, os, sys
print(json.dumps({"argv": sys.argv[1:], "cwd": os.getcwd(), "run": os.environ["FLOTT_PROGRAM_RUN"],
                  "gateway": os.environ.get("PYSPARK_GATEWAY_PORT"),
                  "properties": json.loads(os.environ["FLOTT_PROPERTIES"])}))
"""


@pytest.fixture
def store(tmp_path: Path) -> ProgramStore:
    return ProgramStore(tmp_path / "programs", Configuration.of({"flott.rest.token": "t", "parallelism.default": 9}))


def upload(store: ProgramStore, name: str = "prog.py", content: bytes = b"pass") -> str:
    received = store.incoming() / "received"
    received.write_bytes(content)
    try:
        return store.add(name, received).id
    finally:
        shutil.rmtree(received.parent)


def archive(path: Path, *members: str) -> bytes:
    with zipfile.ZipFile(path, "w") as made:
        for member in members:
            made.writestr(member, "pass")
    return path.read_bytes()


def runs(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(module, "RUNNER", (sys.executable, "-c", code))


# -------------------------------------------------------------------------------------------------------------- uploads


def test_programs_are_kept_listed_and_deleted(store: ProgramStore, tmp_path: Path) -> None:
    script = upload(store)
    zipped = upload(store, "app.zip", archive(tmp_path / "a.zip", "__main__.py", "lib.py"))
    wheel = upload(store, "lib.whl", archive(tmp_path / "b.zip", "lib/main.py"))
    assert {program.id: program.entry for program in store.list()} == {script: "prog", zipped: "__main__", wheel: None}
    assert store.get(script).path.read_bytes() == b"pass"
    store.delete(zipped)
    assert {program.name for program in store.list()} == {"prog.py", "lib.whl"}
    with pytest.raises(SubmissionError):
        store.delete(zipped)


@pytest.mark.parametrize("name", ["../../evil.py", "/etc/evil.py", "C:\\\\evil.py", "a/b/evil.py"])
def test_a_path_that_a_client_sends_is_reduced_to_its_last_part(store: ProgramStore, name: str, tmp_path: Path) -> None:
    assert store.get(upload(store, name)).path.name == "evil.py"
    outside = [path for path in tmp_path.rglob("evil.py") if "programs" not in path.parts]
    assert outside == []


@pytest.mark.parametrize(
    "name", ["", "..", "a/..", ".hidden.py", "x.jar", "x.exe", "a\nb.py", "a\0.py", "x" * 200 + ".py", "/", ".py"]
)
def test_other_names_are_refused(store: ProgramStore, name: str) -> None:
    with pytest.raises(SubmissionError):
        upload(store, name)
    assert store.list() == []


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip", b"PK\x05\x06" + b"\xff" * 18])
def test_an_archive_is_one(store: ProgramStore, content: bytes) -> None:
    with pytest.raises(SubmissionError, match="not an archive"):
        upload(store, "a.zip", content)


@pytest.mark.parametrize(
    "ident", ["", "..", "../x", ".incoming-1", "00000000-0000-0000-0000-000000000000_../../x.py", "x" * 5000, "\0", "_"]
)
def test_an_id_never_leads_elsewhere(store: ProgramStore, ident: str) -> None:
    for act in (store.get, store.delete):
        with pytest.raises(SubmissionError, match="no program"):
            act(ident)


def test_what_a_job_manager_did_not_live_to_end_is_cleared_away(store: ProgramStore, tmp_path: Path) -> None:
    kept, left = upload(store), store.incoming()
    assert [program.id for program in ProgramStore(tmp_path / "programs", Configuration()).list()] == [kept]
    assert not left.exists()


# ----------------------------------------------------------------------------------------------------------------- runs


def test_a_program_is_told_where_the_job_manager_is_and_how_to_run(
    store: ProgramStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, ECHO)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    store.reachable_at("127.0.0.1", 4711)
    request = RunRequest(("a", "b c"), None, 3, "/s/1", True, "CLAIM", {"pipeline.name": "x"})
    run = store.run(upload(store), request)
    with pytest.raises(ClusterError, match="exit code 0 and submitted no job"):
        run.job.result(120)
    told = json.loads(run.output)
    assert told["argv"] == [str(run.program.path), "a", "b c"]
    assert told["run"] == run.id
    assert told["gateway"] is None
    assert told["cwd"] != str(Path.cwd())
    assert told["properties"] == {
        "execution.target": "remote",
        "rest.address": "127.0.0.1",
        "rest.port": "4711",
        "flott.rest.token": "t",
        "parallelism.default": "3",
        "execution.state-recovery.path": "/s/1",
        "execution.state-recovery.ignore-unclaimed-state": "true",
        "execution.state-recovery.claim-mode": "CLAIM",
        "pipeline.name": "x",
    }


def test_a_module_of_an_archive_is_run_by_its_name(
    store: ProgramStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs(monkeypatch, ECHO)
    ident = upload(store, "lib.whl", archive(tmp_path / "b.zip", "lib/main.py"))
    run = store.run(ident, RunRequest(("x",), "lib.main"))
    assert run.ended.wait(120)
    told = json.loads(run.output)
    assert told["argv"] == ["-m", "lib.main", "x"]
    assert told["properties"]["python.files"] == str(run.program.path)
    for module_name in (None, "-c", "a b", "a..b", "--help", "1x"):
        with pytest.raises(SubmissionError):
            store.run(ident, RunRequest(module=module_name))


def test_the_first_job_it_submits_is_its_job(store: ProgramStore, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(monkeypatch, "import time; time.sleep(60)")
    run = store.run(upload(store), RunRequest())
    store.submitted("another", "0" * 32)
    store.submitted(run.id, "1" * 32)
    store.submitted(run.id, "2" * 32)
    assert run.job.result(120) == "1" * 32
    store.end(run)
    assert run.ended.wait(120)


def test_a_program_that_fails_says_why(store: ProgramStore, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(monkeypatch, "print('x' * 100_000); raise ValueError('my fault')")
    run = store.run(upload(store), RunRequest())
    with pytest.raises(ClusterError) as failed:
        run.job.result(120)
    assert "exit code 1" in str(failed.value)
    assert str(failed.value).endswith("ValueError: my fault")
    assert len(str(failed.value)) < 40_000


def test_a_program_that_leaves_something_running_has_ended_all_the_same(
    store: ProgramStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, "import os, time; time.sleep(600) if os.fork() == 0 else os._exit(3)")
    run = store.run(upload(store), RunRequest())
    with pytest.raises(ClusterError, match="exit code 3"):
        run.job.result(120)
    assert run.ended.wait(120)


def test_nothing_is_left_of_a_run(store: ProgramStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs(monkeypatch, "pass")
    run = store.run(upload(store), RunRequest())
    store.delete(run.program.id)
    for thread in [thread for thread in module.threading.enumerate() if thread.name == f"program-{run.id}"]:
        thread.join(120)
    assert list((tmp_path / "programs").iterdir()) == []
    assert store._runs == {}


def test_only_so_many_programs_start_at_the_same_time(store: ProgramStore, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(monkeypatch, "import time; time.sleep(60)")
    monkeypatch.setattr(module, "MAX_STARTING", 1)
    ident = upload(store)
    run = store.run(ident, RunRequest())
    with pytest.raises(ClusterError, match="try again"):
        store.run(ident, RunRequest())
    store.close()
    assert run.ended.wait(120)


def test_settings_that_cannot_be_are_refused_before_anything_starts(store: ProgramStore) -> None:
    with pytest.raises(ConfigurationError):
        store.run(upload(store), RunRequest(parallelism=0))
    assert not store._runs


def test_a_plan_is_read_from_the_file_the_program_writes(store: ProgramStore, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(monkeypatch, "import os; open(os.environ['FLOTT_PLAN_FILE'], 'w').write('{\"plan\": {\"name\": \"n\"}}')")
    assert store.plan(upload(store), RunRequest()).plan.result(120) == {"plan": {"name": "n"}}
    runs(monkeypatch, "raise SystemExit('no plan today')")
    with pytest.raises(ClusterError, match="no plan today"):
        store.plan(upload(store), RunRequest()).plan.result(120)

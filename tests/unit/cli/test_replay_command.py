"""``flott replay`` and ``flott info`` of a program: what they show, and that they run nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flott.runtime.jobmanager.job_store import JobStore
from flott.runtime.jobmanager.processes.graph_pickle import pickle_graph
from flott.runtime.jobmanager.submission import JobSubmission
from tests.unit.cli.cluster import without_client
from tests.unit.runtime.replay import recorded
from tests.unit.runtime.replay.recorded import Kept

PROGRAM = """
import sys
from flott.common import Types, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.testing.sources import EndOfEpoch, ScriptedSource

SCRIPT = [("a", 1), ("b", 2), EndOfEpoch(), ("a", 3), ("b", 4), EndOfEpoch(), ("a", 0)]

def inverse(pair):
    return pair[0], 12 // pair[1]

def build(env):
    source = env.from_source(ScriptedSource(SCRIPT), WatermarkStrategy.no_watermarks(), "pairs")
    (source.map(inverse).uid("inverse").key_by(lambda pair: pair[0], key_type=Types.STRING())
        .reduce(lambda one, other: (one[0], one[1] + other[1])).uid("sum").print())

if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    build(env)
    print("in the program")
    env.execute("inverses")
    raise AssertionError("it went on")
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "inverses.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture(scope="module")
def job(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A job that failed in its third epoch."""
    parts: dict[str, object] = {"__name__": "inverses"}
    exec(compile(PROGRAM, str(program), "exec"), parts)
    folder = tmp_path_factory.mktemp("job")
    return recorded.run(parts["build"], folder, **{"restart-strategy.type": "none"})  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def own_main() -> Iterator[None]:
    """A program becomes the process's main script, and stays it."""
    before, path, argv = sys.modules["__main__"], list(sys.path), list(sys.argv)
    yield
    sys.modules["__main__"], sys.path[:], sys.argv[:] = before, path, argv


def test_the_epochs_that_can_be_replayed_are_listed(job: Kept) -> None:
    result = without_client("replay", job.directory, "--json")
    found = json.loads(result.stdout)["epochs"]
    assert [(entry["epoch"], entry["complete"]) for entry in found] == [(1, True), (2, True), (3, False)]


def test_an_epoch_is_replayed_with_the_graph_of_its_program(job: Kept, program: Path) -> None:
    result = without_client("replay", job.directory, "--epoch", "2", "--program", program)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert "Epoch 2 is identical: source positions, watermarks, state and accumulators are as recorded," in lines[-1]
    assert sorted(line.split("  ")[-1] for line in lines if "/2  " in line) == ["('a', 16)", "('b', 9)"]


def test_the_latest_and_the_failed_epoch_have_names(job: Kept, program: Path) -> None:
    assert (
        "Epoch 2 is identical" in without_client("replay", job.directory, "-e", "latest", "--program", program).stdout
    )
    assert "Epoch 3 fails" in without_client("replay", job.directory, "-e", "failed", "--program", program).stdout
    assert without_client("replay", job.directory, "-e", "soon", "--program", program).exit_code == 2


def test_one_operator_and_one_key_of_it_are_shown(job: Kept, program: Path) -> None:
    result = without_client(
        "replay", job.directory, "-e", "2", "--program", program, "--operator", "sum", "--key", "b", "--json"
    )
    (shown,) = json.loads(result.stdout)["operators"]
    assert [record["value"] for record in shown["got"]] == [["b", 3]]
    assert [record["value"] for record in shown["emitted"]] == [["b", 9]]


def test_the_epoch_that_made_the_job_fail_shows_why(job: Kept, program: Path) -> None:
    result = without_client("replay", job.directory, "-e", "3", "--program", program)
    assert result.exit_code == 0, "it does what it did"
    assert "Epoch 3 fails:" in result.stdout
    assert "ZeroDivisionError" in result.stdout
    assert "uid inverse" in result.stdout


def test_the_graph_of_a_job_that_a_cluster_keeps_is_found_by_itself(
    job: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOTT_HOME", str(tmp_path))
    unknown = without_client("replay", job.directory, "-e", "2")
    assert (unknown.exit_code, "give its program with --program" in unknown.stderr) == (1, True)
    submission = JobSubmission(
        job.directory.name, "inverses", job.configuration.to_dict(), pickle_graph(job.graph), submitted_ms=1
    )
    JobStore(tmp_path / "clusters" / "default" / "jobs").keep(submission, {})
    result = without_client("replay", job.directory, "-e", "2")
    assert result.exit_code == 0, result.output
    assert "Epoch 2 is identical" in result.stdout
    by_id = without_client("-m", "localhost:1", "replay", job.directory.name[:8])
    assert by_id.exit_code == 0, "nobody answers, but the job is kept on this machine"
    assert len(by_id.stdout.splitlines()) == 4


def test_what_cannot_be_looked_for_is_refused(job: Kept, program: Path) -> None:
    refused = without_client(
        "replay", job.directory, "-e", "2", "--program", program, "--operator", "inverse", "--key", "b"
    )
    assert (refused.exit_code, "is not keyed" in refused.stderr) == (1, True)
    gone = without_client("replay", job.directory, "-e", "9", "--program", program)
    assert "has not come to epoch 9" in gone.stderr


def test_the_debugger_stops_in_the_users_function(job: Kept, program: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "flott.cli", "replay", str(job.directory), "-e", "2", "--program", str(program),
         "--operator", "inverse", "--pdb"],
        input="p 'pair is', pair\nc\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "inverses.py(10)inverse()" in done.stdout
    assert "('pair is', (" in done.stdout
    assert "Epoch 2 is identical" in done.stdout


def test_a_failure_is_looked_at_where_it_happened(job: Kept, program: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "flott.cli", "replay", str(job.directory), "-e", "3", "--program", str(program),
         "--pdb"],
        input="p 'divided by', pair[1]\nq\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "('divided by', 0)" in done.stdout, done.stderr


def test_the_plan_of_a_program_is_shown_and_it_runs_no_further(program: Path, tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    result = without_client("info", "-p", "3", "--svg", picture, program)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert (lines[0], lines[-1]) == (" Execution Plan ".center(62, "-"), "-" * 62)
    nodes = json.loads("\n".join(lines[1:-1]))["nodes"]
    assert {"id", "type", "pact", "contents", "parallelism"} <= nodes[0].keys()
    assert picture.read_text().startswith("<svg")


def test_a_program_without_a_job_has_no_plan(tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text("pass\n")
    (tmp_path / "broken.py").write_text("raise SystemExit(3)\n")
    idle = without_client("info", tmp_path / "idle.py")
    assert (idle.exit_code, idle.stderr.count("ended without running a job")) == (1, 1)
    assert "exit code 3" in without_client("info", tmp_path / "broken.py").stderr
    assert "There is no program at nowhere.py" in without_client("info", "nowhere.py", "--input", "x").stderr


def test_the_plan_of_a_module_is_shown_and_its_arguments_are_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(
        "import sys\n"
        "from flott.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1]).map(str).name(' '.join(sys.argv[1:])).print()\n"
        "env.execute('planned')\n"
    )
    monkeypatch.chdir(tmp_path)
    for words in (("-m", "shop", "--json", "x"), ("-pym", "shop", "--x"), ("-py", "shop.py", "-x"), ("shop.py", "-p")):
        result = without_client("--json", "info", "-p", "3", *words)
        assert result.exit_code == 0, result.output
        mapped = json.loads(result.stdout)["nodes"][1]
        assert (mapped["contents"], mapped["parallelism"]) == (" ".join(w for w in words[1:] if "shop" not in w), 3)

"""Programs packed in one process and run in another: what they define, import and bring along arrives."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import flott
from flott.client import packaging
from flott.client.packaging import package
from flott.common.configuration import Configuration
from flott.errors import SubmissionError, UnserializableError
from flott.runtime.jobmanager.folders import ClusterFolders
from flott.runtime.jobmanager.job_settings import job_settings
from flott.runtime.jobmanager.processes.graph_pickle import pickle_graph, unpickle_graph
from flott.testing import in_process
from tests.unit.runtime.dependencies.wheels import write_wheel

SOURCES = str(Path(flott.__file__).parent.parent)

#: What a program ends with: its job is packed into a folder instead of being run.
PACK = """
from pathlib import Path
import pickle
from flott.client.packaging import package

def pack(env):
    made = package(env.get_stream_graph(), env._configuration)
    out = Path(sys.argv[1])
    (out / "files").mkdir(parents=True)
    for name, path in made.files.items():
        (out / "files" / name).write_bytes(path.read_bytes())
    (out / "description.json").write_bytes(made.submission.description())
    (out / "graph").write_bytes(made.submission.graph)
"""

#: What the process of a job does, without a JobManager.
RUNNER = """
import os, sys
from pathlib import Path
from flott.common.configuration import Configuration
from flott.runtime.jobmanager.processes.graph_pickle import unpickle_graph
from flott.runtime.jobmanager.submission import JobSubmission
from flott.runtime.entrypoint.executors import Executor
from flott.runtime.job_files import place_files

class Order:  # a name that the user's program has, too
    pass

def main(folder):
    submission = JobSubmission.of((folder / "description.json").read_bytes(), (folder / "graph").read_bytes())
    environment = place_files(folder / "files", submission.files)
    work = folder / "work"
    work.mkdir()
    for target, place in environment.archives:
        (work / target).symlink_to(place)
    os.chdir(work)
    graph = unpickle_graph(submission.graph)
    configuration = Configuration.of({**submission.configuration, "execution.target": "in-process"})
    Executor("in-process").prepare(graph, configuration, environment=environment).run()

main(Path(sys.argv[1]))
"""


def run_python(*arguments: str, cwd: Path, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={"PYTHONPATH": SOURCES, "HOME": str(cwd), **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def arrive(tmp_path: Path, packed: Path) -> list[str]:
    """Run a packed job where nothing of the program is to be seen; the lines it prints."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    (elsewhere / "runner.py").write_text(RUNNER)
    printed = run_python("runner.py", str(packed), cwd=elsewhere, FLOTT_HOME=str(tmp_path / "home"))
    return printed.splitlines()


def test_everything_a_program_uses_arrives_in_another_process(tmp_path: Path) -> None:
    program = tmp_path / "program"
    (program / "rules" / "deep").mkdir(parents=True)
    (program / "prices.py").write_text("def price(name):\n    return {'tea': 3, 'jam': 5}[name]\n")
    (program / "later.py").write_text("from deeper_still import SURCHARGE\n")
    (program / "deeper_still.py").write_text("SURCHARGE = 1\n")
    (program / "unused.py").write_text("raise RuntimeError('nobody imports this')\n")
    (program / "rules" / "__init__.py").write_text("")
    (program / "rules" / "deep" / "__init__.py").write_text(
        "from pathlib import Path\nTAX = int(Path(__file__).with_name('tax.txt').read_text())\n"
    )
    (program / "rules" / "deep" / "tax.txt").write_text("10")
    named = tmp_path / "named"
    named.mkdir()
    (named / "named_module.py").write_text("NAMED = 100\n")
    packages = tmp_path / "packages"
    packages.mkdir()
    write_wheel(packages, "brought_wheel", "1.0", "WHEEL = 1000\n")
    (tmp_path / "requirements.txt").write_text("brought_wheel\n")
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("inner/value.txt", "20000")
    (program / "shop.py").write_text(
        "import dataclasses, sys\n"
        "from prices import price\n"
        "from rules.deep import TAX\n"
        "from flott.datastream import StreamExecutionEnvironment\n" + PACK + f"""
@dataclasses.dataclass(frozen=True)
class Order:
    name: str
    total: int = 0

def compute(order):
    from later import SURCHARGE
    from named_module import NAMED
    from brought_wheel import WHEEL
    archived = int(open("data/inner/value.txt").read())
    return Order(order.name, price(order.name) + SURCHARGE + TAX + NAMED + WHEEL + archived)

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.add_python_file({str(named)!r})
env.set_python_requirements({str(tmp_path / "requirements.txt")!r}, {str(packages)!r})
env.add_python_archive({str(tmp_path / "data.zip")!r}, "data")
(env.from_collection([Order("tea"), Order("jam"), Order("tea")])
    .map(compute).key_by(lambda order: order.name)
    .reduce(lambda a, b: Order(a.name, a.total + b.total)).print())
pack(env)
"""
    )
    run_python(str(program / "shop.py"), str(tmp_path / "packed"), cwd=tmp_path)
    assert arrive(tmp_path, tmp_path / "packed") == [
        "Order(name='tea', total=21114)",
        "Order(name='jam', total=21116)",
        "Order(name='tea', total=42228)",
    ]
    brought = [path for path in (tmp_path / "packed" / "files").iterdir() if path.name.startswith("program-")]
    with zipfile.ZipFile(brought[0]) as archive:
        assert archive.namelist() == [
            "deeper_still.py",
            "later.py",
            "prices.py",
            "rules/__init__.py",
            "rules/deep/__init__.py",
            "rules/deep/tax.txt",
        ]


def test_two_jobs_with_different_modules_of_the_same_name_are_both_right(tmp_path: Path) -> None:
    for number in (1, 2):
        program = tmp_path / f"program-{number}"
        program.mkdir()
        (program / "version.py").write_text(f"VERSION = {number}\n")
        (program / "main.py").write_text(
            "import sys, version\nfrom flott.datastream import StreamExecutionEnvironment\n" + PACK + """
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection([0]).map(lambda _: version.VERSION).print()
pack(env)
"""
        )
        run_python(str(program / "main.py"), str(tmp_path / f"packed-{number}"), cwd=tmp_path)
    assert [arrive(tmp_path, tmp_path / f"packed-{number}") for number in (1, 2)] == [["1"], ["2"]]


def test_a_program_in_an_archive_travels_as_that_archive(tmp_path: Path) -> None:
    main = (
        "import sys\nfrom inside.parts import PART\nfrom flott.datastream import StreamExecutionEnvironment\n"
        + PACK
        + """
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection([0]).map(lambda _: PART).print()
pack(env)
"""
    )
    with zipfile.ZipFile(tmp_path / "program.zip", "w") as archive:
        archive.writestr("__main__.py", main)
        archive.writestr("inside/__init__.py", "")
        archive.writestr("inside/parts.py", "PART = 'of the archive'\n")
    run_python(
        "-m", "flott.client.program", str(tmp_path / "program.zip"), str(tmp_path / "packed"), cwd=tmp_path
    )
    assert arrive(tmp_path, tmp_path / "packed") == ["of the archive"]


# ---- without another process -----------------------------------------------------------------------------------------


def test_a_function_that_cannot_travel_is_refused_with_what_it_captured() -> None:
    lock = __import__("threading").Lock()

    def use(value: int) -> int:
        with lock:
            return value

    env = in_process(1)
    env.from_collection([1]).map(use).uid("the-map").print()
    with pytest.raises(UnserializableError, match=r"'the-map'.*test_packaging\.py.*captures 'lock'"):
        pickle_graph(env.get_stream_graph())


def test_paths_are_said_so_that_they_mean_the_same_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    env = in_process(1)
    env.from_collection([1]).print()
    settings = {
        "execution.target": "remote",
        "execution.checkpointing.dir": "checkpoints",
        "execution.checkpointing.savepoint-dir": "file:///savepoints",
        "parallelism.default": "2",
    }
    made = package(env.get_stream_graph(), Configuration.of(settings), "a program")
    assert made.submission.configuration == {
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.savepoint-dir": "file:///savepoints",
        "parallelism.default": "2",
    }
    assert made.submission.program == "a program"


def test_no_secret_of_the_cluster_and_nothing_about_it_travels_with_a_job() -> None:
    env = in_process(1)
    env.from_collection([1]).print()
    settings = {
        "rest.address": "example",
        "flott.rest.token": "secret",
        "flott.rest.ssl.key": "/key",
        "high-availability.type": "filesystem",
        "flott.cluster.dir": "/cluster",
        "execution.attached": "false",
        "spark.master": "local[7]",
        "pipeline.max-parallelism": "64",
    }
    made = package(env.get_stream_graph(), Configuration.of(settings))
    assert made.submission.configuration == {"pipeline.max-parallelism": "64"}


def test_what_tasks_measure_and_how_they_connect_travels_with_a_job(tmp_path: Path) -> None:
    own = {"metrics.latency.interval": "1 s", "security.ssl.internal.enabled": "true"}
    env = in_process(1)
    env.from_collection([1]).print()
    submission = package(env.get_stream_graph(), Configuration.of(own)).submission
    assert own.items() <= submission.configuration.items()
    folders = ClusterFolders(tmp_path, tmp_path)
    assert own.items() <= job_settings(Configuration(), submission, folders).items()
    bare = replace(submission, configuration={})
    assert own.items() <= job_settings(Configuration.of(own), bare, folders).items()
    foreign = Configuration.of({"security.ssl.rest.enabled": "true", "metrics.reporters": "prom"})
    assert foreign.to_dict().keys().isdisjoint(job_settings(foreign, bare, folders))


def test_a_job_that_holds_too_much_data_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaging, "GRAPH_LIMIT_BYTES", 10_000)
    env = in_process(1)
    env.from_collection(["x" * 100 + str(number) for number in range(1000)]).print()
    with pytest.raises(SubmissionError, match="Read data from files"):
        package(env.get_stream_graph(), Configuration())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a job"),
        (b"\x80\x05.", "not a job"),
        (b"flott graph 1 2.7 0.0.1\n", r"made with Python 2\.7 and Flott 0\.0\.1"),
    ],
)
def test_what_this_python_cannot_read_is_refused_before_it_is_read(data: bytes, reason: str) -> None:
    main = sys.modules["__main__"]
    with pytest.raises(SubmissionError, match=reason):
        unpickle_graph(data)
    assert sys.modules["__main__"] is main


def test_a_module_that_is_missing_where_the_job_runs_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "vanishing_module.py").write_text("def work(value):\n    return value\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import vanishing_module  # type: ignore[import-not-found]

    env = in_process(1)
    env.from_collection([1]).map(vanishing_module.work).print()
    data = pickle_graph(env.get_stream_graph())
    (tmp_path / "vanishing_module.py").unlink()
    sys.modules.pop("vanishing_module")
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # put back afterwards
    with pytest.raises(SubmissionError, match=r"'vanishing_module'.*python\.requirements"):
        unpickle_graph(data)

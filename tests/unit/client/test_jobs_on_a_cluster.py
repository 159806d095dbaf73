"""Programs in processes of their own, jobs in theirs, and a JobManager without Spark between them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import flott
from flott.common.configuration import Configuration
from flott.rest.app import create_app
from flott.rest.http_server import RestServer
from flott.runtime.jobmanager.programs import ProgramStore
from tests.unit.runtime.jobmanager.jobs import running

SOURCES = str(Path(flott.__file__).parent.parent)

BEGIN = """
import dataclasses, sys, json
from flott.common import Configuration, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.functions import MapFunction
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)

@dataclasses.dataclass(frozen=True)
class Item:
    name: str
    count: int
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The port of a JobManager."""
    folder = tmp_path_factory.mktemp("cluster")
    with running(folder) as manager:
        server = RestServer(create_app(manager, ProgramStore(folder / "programs", manager.configuration)),
                            Configuration.of({"rest.port": 0}))  # fmt: skip
        port = server.start()
        try:
            yield str(port)
        finally:
            server.stop()


def run(tmp_path: Path, port: str, source: str, **settings: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "program.py").write_text(BEGIN + source)
    properties = {"execution.target": "remote", "rest.port": port, **settings}
    return subprocess.run(
        [sys.executable, "-P", "-m", "flott.client.program", str(tmp_path / "program.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": SOURCES, "FLOTT_PROPERTIES": json.dumps(properties)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_results_and_accumulators_come_back_as_objects_of_the_program(tmp_path: Path, cluster: str) -> None:
    (tmp_path / "beside.py").write_text("def twice(n):\n    return 2 * n\n")
    done = run(
        tmp_path,
        cluster,
        """
import beside
from flott.common import IntCounter

class Work(MapFunction):
    def open(self, context):
        self.seen = IntCounter()
        context.add_accumulator("seen", self.seen)
    def map(self, item):
        self.seen.add(1)
        return Item(item.name, beside.twice(item.count))

items = env.from_collection([Item("a", 1), Item("b", 2), Item("a", 3)])
worked = items.map(Work()).key_by(lambda item: item.name).reduce(lambda a, b: Item(a.name, a.count + b.count))
with worked.execute_and_collect("collected") as results:
    found = list(results)
    client = results.get_job_client()
assert all(type(item) is Item for item in found), found
print(sorted((item.name, item.count) for item in found))
print(client.get_job_execution_result().result().get_all_accumulator_results())
print(client.get_job_status().result().name)
print(len(items.map(Work()).execute_and_collect(limit=2)))
""",
    )
    assert (done.stdout, done.stderr) == ("[('a', 2), ('a', 8), ('b', 4)]\n{'seen': 3}\nFINISHED\n2\n", "")
    assert done.returncode == 0


def test_a_failed_job_shows_the_same_card_as_it_would_here(tmp_path: Path, cluster: str) -> None:
    source = """
def divide(item):
    return item.count / 0
env.from_collection([Item("a", 1)]).map(divide).uid("divide").print()
env.execute("breaks")
"""
    done = run(tmp_path, cluster, source, **{"restart-strategy.type": "none"})
    assert done.returncode == 5
    for word in ("Job 'breaks' failed.", "ZeroDivisionError", "item.count / 0", "uid divide"):
        assert word in done.stderr
    assert "flott/runtime" not in done.stderr


def test_a_job_is_stopped_with_a_savepoint_and_goes_on_from_it(tmp_path: Path, cluster: str) -> None:
    done = run(
        tmp_path,
        cluster,
        f"""
from flott.datastream.connectors.datagen import DataGeneratorSource
def build(env, count):
    source = DataGeneratorSource(lambda index: index, count=count, records_per_second=None if count else 500)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    summed = numbers.key_by(lambda n: 0).reduce(lambda a, b: max(a, b)).uid("max")
    return summed
results = build(env, None).execute_and_collect("first")
client = results.get_job_client()
first = next(results)
client.rescale(1).result(120)
print(str(client.explain_watermark()).splitlines()[0].startswith("Event time of 'first'"))
path = client.stop_with_savepoint(False, {str(tmp_path / "savepoints")!r}).result(120)
seen = max([first, *results])
print(client.get_job_status().result().name, client.get_checkpoint_directory() != "")
env.configure(Configuration.of({{"execution.state-recovery.path": path}}))
later = list(build(env, seen + 2).execute_and_collect("second"))
print(later == [seen + 1], (seen, later))
""",
    )
    assert done.stdout.splitlines()[:2] == ["True", "FINISHED True"], done.stdout + done.stderr
    assert done.stdout.splitlines()[2].startswith("True"), done.stdout + done.stderr


def test_a_job_that_waits_for_its_program_can_be_cancelled(tmp_path: Path, cluster: str) -> None:
    """The program stops reading; what it does not read makes the job wait, and cancelling ends both."""
    done = run(
        tmp_path,
        cluster,
        """
from flott.datastream.connectors.datagen import DataGeneratorSource
source = DataGeneratorSource(lambda index: "x" * 1000, records_per_second=20_000)
results = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").execute_and_collect("waits")
next(results)
results.close()
print(results.get_job_client().get_job_status().result().name)
""",
    )
    assert (done.stdout, done.returncode) == ("CANCELED\n", 0), done.stderr

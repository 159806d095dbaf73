"""Everything that can die dies once, and the output is what it would have been.

Where the driver lives on, the job runs on the shared Spark. A driver that dies, and executors that do, have processes
of their own.
"""

from __future__ import annotations

import json
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from tests.spark.conftest import StartDriver
from tests.spark.driver_process import SCRIPTS, DriverProcess, Ended
from tests.spark.scripts import survivor as program

SURVIVOR = SCRIPTS / "survivor.py"

#: Two executors with a core each, in processes of their own.
CLUSTER = {"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "512m"}
RECOVER = {"execution.state-recovery.from-latest": "true"}


@dataclass(frozen=True)
class Output:
    """What both sinks published."""

    files: list[str]
    ledger: list[tuple[int, ...]]

    @staticmethod
    def of(folder: Path) -> Output:
        """Reads what a reader of the output would read."""
        parts = [path for path in (folder / "files").glob("*") if not path.name.startswith((".", "_"))]
        lines = [line for path in parts for line in path.read_text().splitlines()]
        rows = [tuple(row) for path in (folder / "ledger").glob("*.json") for row in json.loads(path.read_text())]
        return Output(sorted(lines), sorted(rows))


@dataclass
class Survivor:
    """The job of ``scripts/survivor.py`` in a folder of its own."""

    start_driver: StartDriver
    folder: Path

    def start(self, **settings: Any) -> DriverProcess:
        """Start it with a fault."""
        return self.start_driver(SURVIVOR, json.dumps({"folder": str(self.folder), **settings}), folder=self.folder)

    def run(self, **settings: Any) -> Ended:
        """Run it in a process of its own to its end, whatever that is."""
        return self.start(**settings).wait(300)

    def run_here(self, **settings: Any) -> dict[str, Any]:
        """Run it on the shared Spark; what it went through."""
        return program.run({"folder": str(self.folder), **settings})

    @property
    def output(self) -> Output:
        return Output.of(self.folder)

    def be_killed(self, place: str, options: dict[str, str] | None = None) -> None:
        """Run it, or go on with it, until its driver is killed somewhere in the third epoch."""
        killed = self.run(fault="driver", place=place, options=options or {})
        assert killed.code == -signal.SIGKILL, f"{place}: {killed.stderr}"

    def expect_recovery(self, undisturbed: Output) -> None:
        """The third epoch is complete, but maybe not published: the next driver goes on from there."""
        diary = diary_of(self.run(options=RECOVER))
        assert (diary["epochs"], diary["restarts"]) == ([4, 5, 6], [])
        assert self.output == undisturbed
        self.expect_clean()

    @property
    def was_struck(self) -> bool:
        return any(self.folder.glob("struck-*"))

    def expect_clean(self) -> None:
        """The job is over: it left no checkpoints and no hidden files behind."""
        assert list((self.folder / "checkpoints").iterdir()) == []
        assert [path.name for path in (self.folder / "files").iterdir() if path.name.startswith(".")] == []


@pytest.fixture
def survivor(start_driver: StartDriver, tmp_path: Path) -> Survivor:
    return Survivor(start_driver, tmp_path / "job")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Output:
    """What a run without faults publishes; without Spark, which makes no difference to that."""
    folder = tmp_path_factory.mktemp("undisturbed")
    diary = program.run({"folder": str(folder), "options": {"execution.target": "in-process"}})
    assert diary == {"epochs": [1, 2, 3, 4, 5, 6], "retried": [], "restarts": []}
    output = Output.of(folder)
    assert len(output.files) > 1000
    assert len(output.ledger) == len(range(0, 3000, 11))
    return output


def diary_of(ended: Ended) -> dict[str, Any]:
    """What the job said it went through."""
    ended.expect_success()
    return json.loads(ended.stdout.splitlines()[-1])  # type: ignore[no-any-return]


class TestWorkers:
    """Spark retries a task whose process died; the epoch goes on."""

    @pytest.mark.parametrize("place", ["read", "account"])
    def test_a_python_worker_that_is_killed_costs_nothing(
        self, spark: SparkContext, survivor: Survivor, undisturbed: Output, place: str
    ) -> None:
        diary = survivor.run_here(fault="worker", place=place)
        assert survivor.was_struck
        assert (diary["epochs"], diary["restarts"]) == ([1, 2, 3, 4, 5, 6], [])
        assert survivor.output == undisturbed
        survivor.expect_clean()

    def test_an_executor_that_is_killed_while_it_reads_costs_nothing(
        self, survivor: Survivor, undisturbed: Output
    ) -> None:
        diary = diary_of(survivor.run(fault="executor", place="read", options=CLUSTER))
        assert survivor.was_struck
        assert diary["epochs"] == [1, 2, 3, 4, 5, 6]
        assert survivor.output == undisturbed

    def test_published_output_that_is_lost_makes_the_whole_epoch_run_again(
        self, survivor: Survivor, undisturbed: Output
    ) -> None:
        diary = diary_of(survivor.run(fault="executor", place="account", options=CLUSTER))
        assert survivor.was_struck
        assert diary["epochs"] == [1, 2, 3, 4, 5, 6]
        assert diary["retried"] == [3]
        assert len(diary["restarts"]) == 1
        assert "Spark could not complete the epoch" in diary["restarts"][0]
        assert survivor.output == undisturbed


class TestDriver:
    """A driver that dies at any step is continued by the next one."""

    @pytest.mark.parametrize(
        "places",
        [
            pytest.param(("account", "acknowledged", "completed"), id="around the checkpoint"),
            pytest.param(("planned", "read", "ran", "completed"), id="other steps", marks=pytest.mark.long),
        ],
    )
    def test_drivers_that_are_killed_one_after_the_other_are_continued_by_the_next_one(
        self, survivor: Survivor, undisturbed: Output, places: tuple[str, ...]
    ) -> None:
        options = None
        for place in places:
            survivor.be_killed(place, options)
            assert survivor.output.ledger == [row for row in undisturbed.ledger if row[1] < 1000], "of two epochs"
            assert set(survivor.output.files) <= set(undisturbed.files)
            options = RECOVER
        survivor.expect_recovery(undisturbed)

    def test_a_driver_that_is_killed_between_two_commits_is_continued_by_the_next_one(
        self, survivor: Survivor, undisturbed: Output
    ) -> None:
        survivor.be_killed("commit")
        survivor.expect_recovery(undisturbed)

    def test_a_tree_that_is_killed_anywhere_is_continued_by_the_next_one(
        self, survivor: Survivor, undisturbed: Output
    ) -> None:
        process = survivor.start()
        process.wait_for_line("epoch 2", 300)
        process.kill_tree()
        diary_of(survivor.run(options=RECOVER))
        assert survivor.output == undisturbed
        survivor.expect_clean()


class TestRestarts:
    """The restart strategy decides what follows a failed epoch."""

    def test_an_exception_is_followed_by_a_restart_after_a_fixed_delay(
        self, spark: SparkContext, survivor: Survivor, undisturbed: Output
    ) -> None:
        diary = survivor.run_here(fault="exception", place="account")
        assert diary["retried"] == [3]
        assert len(diary["restarts"]) == 1
        assert "ValueError: record 1234 is one too many" in diary["restarts"][0]
        assert survivor.output == undisturbed
        survivor.expect_clean()

    def test_a_checkpoint_directory_that_refuses_writes_for_a_while_is_waited_for(
        self, spark: SparkContext, survivor: Survivor, undisturbed: Output
    ) -> None:
        patient = {
            "restart-strategy.type": "exponential-delay",
            "restart-strategy.exponential-delay.initial-backoff": "50 ms",
        }
        diary = survivor.run_here(fault="storage", options=patient)
        assert diary["retried"] == [3]
        assert len(diary["restarts"]) == 3
        assert all("Cannot" in reason and "/state" in reason for reason in diary["restarts"])
        assert survivor.output == undisturbed
        survivor.expect_clean()


class TestLocalState:
    """Databases on the executors' disks are copies: whoever loses one gets it back from the checkpoint."""

    @pytest.fixture
    def rocksdb(self, survivor: Survivor) -> dict[str, str]:
        pytest.importorskip("rocksdict", reason="the RocksDB binding is not installed")
        return {"state.backend.type": "rocksdb", "state.backend.rocksdb.localdir": str(survivor.folder / "local")}

    def test_a_python_worker_that_is_killed_with_its_database_open_costs_nothing(
        self, spark: SparkContext, survivor: Survivor, undisturbed: Output, rocksdb: dict[str, str]
    ) -> None:
        diary = survivor.run_here(fault="worker", place="account", options=rocksdb)
        assert survivor.was_struck
        assert (diary["epochs"], diary["restarts"]) == ([1, 2, 3, 4, 5, 6], [])
        assert survivor.output == undisturbed
        survivor.expect_clean()
        assert not list(survivor.folder.glob("local/*")), "the databases go with the job"

    @pytest.mark.parametrize("backend", ["rocksdb", pytest.param("hashmap", marks=pytest.mark.long)])
    def test_a_tree_that_is_killed_and_loses_its_disk_is_continued_on_either_backend(
        self, survivor: Survivor, undisturbed: Output, rocksdb: dict[str, str], backend: str
    ) -> None:
        process = survivor.start(options=rocksdb)
        process.wait_for_line("epoch 2", 300)
        process.kill_tree()
        assert list(survivor.folder.glob("local/*/*")), "it did work on databases"
        shutil.rmtree(survivor.folder / "local")
        diary_of(survivor.run(options=RECOVER | rocksdb | {"state.backend.type": backend}))
        assert survivor.output == undisturbed
        survivor.expect_clean()

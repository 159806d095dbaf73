"""Kafka to keyed state to Kafka in one job that dies in every way: the result is that of a plain loop, exactly."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.servers.kafka import KafkaServer, kafka_server
from tests.servers.process import NoServer

#: A watchdog; a passing test comes nowhere near it.
LIMIT_SECONDS = 180
STEPS = ("planned", "ran", "acknowledged", "completed", "committed")


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker of this module's own, which is killed."""
    pytest.importorskip("confluent_kafka", reason="no client: pip install 'flott[kafka]'")
    try:
        with kafka_server(tmp_path_factory.mktemp("mortal")) as running:
            yield running
    except NoServer as reason:
        pytest.skip(str(reason))


class Driver:
    """A process that runs the job."""

    def __init__(self, options: dict[str, Any], log: Path, module: str = "tests.connectors.kafka.survival_job"):
        self._log = log
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(options)],
            cwd=Path(__file__).parents[3],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("a"),
            text=True,
            bufsize=1,
        )
        watchdog = threading.Timer(LIMIT_SECONDS, self._process.kill)
        watchdog.daemon = True
        watchdog.start()

    @property
    def is_alive(self) -> bool:
        """Return whether it runs."""
        return self._process.poll() is None

    def log(self) -> str:
        """Return the end of what it wrote to standard error."""
        return self._log.read_text()[-3000:]

    def wait_for(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read what the process prints until a line is as wanted."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said: dict[str, Any] = json.loads(line)
            assert "ended" not in said or holds(said), f"the job ended: {said}\n{self.log()}"
            if holds(said):
                return said
        raise AssertionError(f"the process ended with {self._process.wait()}\n{self.log()}")

    def order(self, verb: str, argument: Any) -> Any:
        """Give the job an order and return its answer."""
        self._tell(verb, argument)
        return self.wait_for(lambda said: "answer" in said)["answer"]

    def await_pause(self) -> None:
        """Wait until the job stands at the step at which it was ordered to pause."""
        self.wait_for(lambda said: "paused" in said)

    def go_on(self) -> None:
        """End a pause."""
        self._tell("go on", None)

    def _tell(self, verb: str, argument: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([verb, argument]) + "\n")
        self._process.stdin.flush()

    def committed_epochs(self, count: int) -> None:
        """Wait for some epochs."""
        for _ in range(count):
            self.wait_for(lambda said: said.get("step") == "committed")

    def dies(self) -> None:
        """Wait until it has killed itself."""
        assert self._process.stdout is not None
        output = self._process.stdout.read()
        status = self._process.wait(LIMIT_SECONDS)
        assert status == -signal.SIGKILL, f"{status}: {output[-1000:]}\n{self.log()}"

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._process.kill()
        self._process.wait(LIMIT_SECONDS)


class Survival:
    """A job, its topics, and what its output must be."""

    def __init__(self, broker: KafkaServer, folder: Path, seed: int):
        self.broker = broker
        self.folder = folder
        self.random = random.Random(seed)
        self.source, self.target = broker.create_topic(partitions=2), broker.create_topic(partitions=3)
        self.prefix = f"survival-{uuid4().hex[:8]}"
        self.job = folder / uuid4().hex
        self.written: dict[str, list[int]] = defaultdict(list)

    def produce(self, partition: int, count: int) -> None:
        """Write records with keys of a partition, so that the records of a key have one order."""
        lines = []
        for _ in range(count):
            key, number = f"{partition}.{self.random.randrange(7)}", self.random.randrange(1000)
            self.written[key].append(number)
            lines.append(f"{key},{number}")
        self.broker.produce(self.source, lines, partition=partition)

    def driver(self, **options: Any) -> Driver:
        """Start a process that runs the job, from its last checkpoint."""
        facts = {"address": self.broker.address, "source": self.source, "target": self.target, "prefix": self.prefix}
        return Driver({"parallelism": 2, "folder": str(self.job), **facts, **options}, self.folder / "driver.log")

    def expected(self) -> dict[str, list[str]]:
        """Return the output of a plain loop."""
        return {
            key: [f"{key},{index},{sum(numbers[:index])}" for index in range(1, len(numbers) + 1)]
            for key, numbers in self.written.items()
        }

    def await_result(self, driver: Driver) -> None:
        """Wait until a read-committed consumer sees as many records as a plain loop makes, and compare them."""
        wanted = sum(map(len, self.written.values()))
        deadline = time.monotonic() + LIMIT_SECONDS
        while (found := len(self.broker.values(self.target))) < wanted:
            assert driver.is_alive, f"{found} of {wanted} records\n{driver.log()}"
            assert time.monotonic() < deadline, f"{found} of {wanted} records\n{driver.log()}"
            time.sleep(0.2)
        self.compare()

    def compare(self) -> None:
        """Compare what a read-committed consumer sees with a plain loop: every record once, and in order."""
        found: dict[str, list[str]] = defaultdict(list)
        for record in self.broker.read(self.target):
            assert record.key is not None
            assert record.value is not None
            found[record.key.decode()].append(record.value.decode())
        expected = self.expected()
        lines, wanted = ([line for lines in each.values() for line in lines] for each in (found, expected))
        assert not (Counter(wanted) - Counter(lines)), f"lost: {Counter(wanted) - Counter(lines)}"
        assert not (Counter(lines) - Counter(wanted)), f"too many: {Counter(lines) - Counter(wanted)}"
        assert found == expected


# make test kills the job with three sinks instead: tests/connectors/test_kafka_postgres_files.py
@pytest.mark.connectors
def test_the_driver_may_be_killed_at_every_step(mortal: KafkaServer, tmp_path: Path) -> None:
    job = Survival(mortal, tmp_path, seed=1)
    for step in STEPS:
        for partition in range(2):
            job.produce(partition, 100)
        job.driver(die_at=step, die_after=1).dies()
    last = job.driver()
    job.await_result(last)
    last.kill()
    job.compare()


@pytest.mark.connectors
def test_brokers_partitions_rescaling_and_savepoints_change_nothing(mortal: KafkaServer, tmp_path: Path) -> None:
    job = Survival(mortal, tmp_path, seed=2)
    for partition in range(2):
        job.produce(partition, 400)
    driver = job.driver(max_records=60)
    driver.committed_epochs(2)
    mortal.restart()  # by SIGKILL; the job waits for it, or repeats the epoch
    for partition in range(2):
        job.produce(partition, 100)
    mortal.add_partitions(job.source, 3)
    job.produce(2, 200)
    driver.order("rescale", 3)
    driver.committed_epochs(2)
    path = driver.order("stop", str(tmp_path / "savepoints"))
    driver.wait_for(lambda said: "ended" in said)
    for partition in range(3):
        job.produce(partition, 100)
    job.job = tmp_path / uuid4().hex  # another job, with another parallelism, from the savepoint
    driver = job.driver(parallelism=1, savepoint=path)
    job.await_result(driver)
    driver.kill()
    job.compare()


@pytest.mark.connectors
@pytest.mark.parametrize("seed", range(4))
def test_random_deaths_of_driver_and_broker_change_nothing(mortal: KafkaServer, tmp_path: Path, seed: int) -> None:
    job = Survival(mortal, tmp_path, seed)
    partitions = 2
    for _ in range(8):
        for partition in range(partitions):
            job.produce(partition, job.random.randrange(50, 400))
        driver = job.driver(parallelism=job.random.randint(1, 4), max_records=job.random.choice([20, 70, 300]))
        driver.committed_epochs(job.random.randint(0, 1))  # there is one at least: records were produced
        chance = job.random.random()
        if chance < 0.3:
            mortal.restart()
        elif chance < 0.5 and partitions < 5:
            partitions += 1
            mortal.add_partitions(job.source, partitions)
        elif chance < 0.7:
            driver.order("rescale", job.random.randint(1, 4))
        time.sleep(job.random.random())
        driver.kill()
    driver = job.driver()
    job.await_result(driver)
    driver.kill()
    job.compare()

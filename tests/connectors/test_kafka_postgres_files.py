"""Kafka to keyed state to Kafka, PostgreSQL and files in one job that dies in every way, as its servers do.

A read-committed consumer, a SELECT and the files agree with a plain loop: nothing is lost, nothing is doubled.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.connectors.kafka.test_exactly_once import LIMIT_SECONDS, STEPS, Driver, Survival
from tests.servers.kafka import KafkaServer, kafka_server
from tests.servers.postgres import PASSWORD, USER, PostgresServer, postgres_server
from tests.servers.process import NoServer


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaServer, PostgresServer]]:
    """A broker and a database server of this module's own, which are killed."""
    pytest.importorskip("confluent_kafka", reason="no client: pip install 'flott[kafka]'")
    pytest.importorskip("psycopg", reason="no client: pip install 'flott[postgres]'")
    try:
        with kafka_server(tmp_path_factory.mktemp("mortal")) as broker, postgres_server() as postgres:
            yield broker, postgres
    except NoServer as reason:
        pytest.skip(str(reason))


class ThreeSinks(Survival):
    """A job with its topics, tables and files, and what their content must be."""

    def __init__(self, servers: tuple[KafkaServer, PostgresServer], folder: Path, seed: int):
        broker, self.postgres = servers
        super().__init__(broker, folder, seed)
        self.database = self.postgres.new_database()
        columns = "id TEXT NOT NULL, n BIGINT NOT NULL, total BIGINT NOT NULL"
        for table, key in (("staged", ""), ("prepared", ""), ("latest", ", PRIMARY KEY (id)")):
            self.postgres.execute(f"CREATE TABLE {table} ({columns}{key})", database=self.database)
        self.files = folder / "files"

    def driver(self, **options: Any) -> Driver:
        facts = {
            "address": self.broker.address,
            "source": self.source,
            "target": self.target,
            "prefix": self.prefix,
            "postgres": [self.postgres.url(self.database), USER, PASSWORD],
            "files": str(self.files),
        }
        everything = {"parallelism": 2, "folder": str(self.job), **facts, **options}
        return Driver(everything, self.folder / "driver.log", "tests.connectors.three_sinks_job")

    def await_result(self, driver: Driver) -> None:
        """Wait until all outputs have as many records as a plain loop makes, and compare them."""
        wanted = sum(map(len, self.written.values()))
        deadline = time.monotonic() + LIMIT_SECONDS
        while (found := (len(self.broker.values(self.target)), *map(len, self.tables()), len(self.lines()))) != (
            (wanted,) * 4
        ):
            assert driver.is_alive, f"{found} of {wanted} records\n{driver.log()}"
            assert max(found) <= wanted, f"too many: {found} of {wanted} records\n{driver.log()}"
            assert time.monotonic() < deadline, f"{found} of {wanted} records\n{driver.log()}"
            time.sleep(0.3)
        self.compare()

    def tables(self) -> list[list[str]]:
        """Return the content of the tables to which results are appended."""
        return [self.lines_of(table) for table in ("staged", "prepared")]

    def lines_of(self, table: str) -> list[str]:
        found = self.postgres.execute(f"SELECT id, n, total FROM {table}", database=self.database)
        return [f"{key},{count},{total}" for key, count, total in found]

    def lines(self) -> list[str]:
        """Return what a reader of the files sees."""
        parts = [path for path in self.files.rglob("*") if path.is_file() and not path.name.startswith(".")]
        return [line for path in parts for line in path.read_text().splitlines()]

    def compare(self) -> None:
        """Compare all outputs with a plain loop."""
        super().compare()
        expected = self.expected()
        every = Counter(line for lines in expected.values() for line in lines)
        for name, found in (("staged", self.tables()[0]), ("prepared", self.tables()[1]), ("files", self.lines())):
            lost, doubled = every - Counter(found), Counter(found) - every
            assert not lost, f"{name} lost {lost}"
            assert not doubled, f"{name} has too many: {doubled}"
        assert sorted(self.lines_of("latest")) == sorted(lines[-1] for lines in expected.values())
        waiting = self.postgres.execute("SELECT gid FROM pg_prepared_xacts WHERE database = %s", self.database)
        assert len(waiting) <= 4, f"transactions that nobody ends: {waiting}"


def test_the_driver_may_be_killed_at_every_step(servers: tuple[KafkaServer, PostgresServer], tmp_path: Path) -> None:
    job = ThreeSinks(servers, tmp_path, seed=1)
    for step in STEPS:
        for partition in range(2):
            job.produce(partition, 60)
        job.driver(die_at=step, die_after=1).dies()
    last = job.driver()
    job.await_result(last)
    last.kill()
    job.compare()


# make test kills them where it matters most: when the checkpoint is complete, and nothing is committed yet.
@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=() if step == "completed" else pytest.mark.connectors) for step in STEPS]
)
def test_servers_may_be_killed_at_every_step(
    servers: tuple[KafkaServer, PostgresServer], tmp_path: Path, step: str
) -> None:
    job = ThreeSinks(servers, tmp_path, seed=3)
    driver = job.driver(max_records=60)
    for server in servers:
        driver.order("pause", step)
        for partition in range(2):
            job.produce(partition, 100)
        driver.await_pause()
        server.kill()
        driver.go_on()  # without the server, which takes some seconds to come back
        server.start()
    job.await_result(driver)
    driver.kill()
    job.compare()


@pytest.mark.connectors
def test_servers_partitions_rescaling_and_savepoints_change_nothing(
    servers: tuple[KafkaServer, PostgresServer], tmp_path: Path
) -> None:
    broker, postgres = servers
    job = ThreeSinks(servers, tmp_path, seed=2)
    for partition in range(2):
        job.produce(partition, 300)
    driver = job.driver(max_records=60)
    driver.committed_epochs(2)
    postgres.restart()
    driver.committed_epochs(1)
    broker.restart()
    for partition in range(2):
        job.produce(partition, 100)
    broker.add_partitions(job.source, 3)
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
def test_random_deaths_of_driver_and_servers_change_nothing(
    servers: tuple[KafkaServer, PostgresServer], tmp_path: Path, seed: int
) -> None:
    broker, postgres = servers
    job = ThreeSinks(servers, tmp_path, seed)
    partitions = 2
    for _ in range(6):
        for partition in range(partitions):
            job.produce(partition, job.random.randrange(50, 300))
        driver = job.driver(parallelism=job.random.randint(1, 4), max_records=job.random.choice([20, 70, 300]))
        driver.committed_epochs(job.random.randint(0, 1))  # there is one at least: records were produced
        chance = job.random.random()
        if chance < 0.2:
            broker.restart()
        elif chance < 0.5:
            postgres.restart()
        elif chance < 0.6 and partitions < 5:
            partitions += 1
            broker.add_partitions(job.source, partitions)
        elif chance < 0.8:
            driver.order("rescale", job.random.randint(1, 4))
        time.sleep(job.random.random())
        driver.kill()
    driver = job.driver()
    job.await_result(driver)
    driver.kill()
    job.compare()

"""A job of its own process, killed again and again, and its server too: the files have every change once."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from flott.common.types import RowKind, restore_row
from tests.connectors.postgres_cdc.conftest import Database
from tests.connectors.postgres_cdc.test_model import KEYS, apply, write
from tests.servers.postgres import postgres_server
from tests.servers.process import NoServer

pytestmark = pytest.mark.connectors

ROOT = Path(__file__).parents[3]


class Driver:
    """The process that follows the tables."""

    def __init__(self, database: Database, folder: Path):
        self._arguments = [str(database.server.port), database.name, str(folder)]
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.connectors.postgres_cdc.following", *self._arguments]
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()[-3000:]
        self._process.kill()
        self._process.wait(60)


def changes(folder: Path) -> list[Any]:
    """The committed lines, in the order of their files."""
    files = [file for file in (folder / "out").glob("*") if not file.name.startswith((".", "_"))]
    lines = [
        json.loads(text)
        for file in sorted(files, key=lambda file: [int(n) for n in re.findall(r"\d+", file.name)][-1:])
        for text in file.read_text().splitlines()
    ]
    return [restore_row(tuple(values), list(values.values()), RowKind[kind].value) for kind, values in lines]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills_server", [False, True])
def test_neither_the_death_of_the_driver_nor_that_of_the_server_costs_a_change(tmp_path, kills_server):
    try:
        with postgres_server({"fsync": "on"} if kills_server else {}) as server:
            _survive(Database(server), tmp_path, kills_server)
    except NoServer as reason:
        pytest.skip(str(reason))


def _survive(database: Database, folder: Path, kills_server: bool) -> None:
    for table in ("t", "f"):
        database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n int)")
        database.execute(f"INSERT INTO {table} SELECT i, 0 FROM generate_series(0, {KEYS - 1}, 2) i")
    database.execute("ALTER TABLE f REPLICA IDENTITY FULL")
    failures: list[BaseException] = []
    writers = [
        threading.Thread(target=write, args=(database, seed, 800, failures), kwargs={"hold": 0.05}, daemon=True)
        for seed in (1, 2)
    ]
    driver, chance = Driver(database, folder), random.Random(5)
    for writer in writers:
        writer.start()
    kills = 0
    while any(writer.is_alive() for writer in writers):
        driver.start()
        time.sleep(2 + 3 * chance.random())
        if kills_server and kills % 2:
            database.server.restart()
            time.sleep(1)
        driver.kill()
        kills += 1
    assert not failures, failures
    driver.start()
    database.connection = database.connect()
    expected = {table: dict(database.execute(f"SELECT id, n FROM {table}")) for table in ("t", "f")}
    deadline = time.monotonic() + 120
    while apply(changes(folder)) != expected and time.monotonic() < deadline:
        time.sleep(0.2)
    driver.kill()
    assert apply(changes(folder)) == expected
    assert kills > 1

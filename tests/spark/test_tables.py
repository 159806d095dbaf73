"""Queries over tables in Spark's worker processes: the same results as an independent engine, also when workers die."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flott.common.types import Row, RowKind
from flott.table import DataTypes, EnvironmentSettings, StreamTableEnvironment
from flott.table.udf import udf
from tests.spark.conftest import MakeEnvironment

duckdb = pytest.importorskip("duckdb")

ORDERS = 4000
QUERY = """
SELECT c.country, o.product, COUNT(*) AS n, SUM(o.amount) AS total, MAX(o.amount) AS highest, COUNT(DISTINCT o.customer)
FROM orders AS o JOIN customers AS c ON o.customer = c.id
WHERE {filter} GROUP BY c.country, o.product
"""


class KillsItsWorker:
    """A function that kills the process it runs in, once, at a number."""

    def __init__(self, mark: Path, number: int):
        self.mark, self.number = str(mark), number

    def __call__(self, number: int) -> int:
        if number == self.number:
            with suppress(FileExistsError):
                os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
        return number


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random = Random(3)
    for name, files in (("orders", 3), ("customers", 1)):
        (tmp_path / name).mkdir()
        for number in range(files):
            with (tmp_path / name / f"{number}.json").open("w") as file:
                for row in _rows(name, random, number, files):
                    file.write(json.dumps(row) + "\n")
    return tmp_path


def _rows(name: str, random: Random, number: int, files: int) -> list[dict[str, Any]]:
    if name == "customers":
        return [{"id": one, "country": random.choice(["de", "fr", "it", None])} for one in range(40)]
    return [
        {"nr": nr, "customer": random.randrange(50), "product": random.choice("abc"), "amount": random.randrange(100)}
        for nr in range(number, ORDERS, files)
    ]


def tables(environment: MakeEnvironment, folder: Path, **options: str) -> StreamTableEnvironment:
    env = environment({"flott.epoch.max-records": 700, "restart-strategy.type": "none"})
    t_env = StreamTableEnvironment.create(env, EnvironmentSettings.in_streaming_mode())
    for key, value in options.items():
        t_env.get_config().set(key.replace("__", "."), value)
    for name, columns in (
        ("orders", "nr INT, customer INT, product STRING, amount BIGINT"),
        ("customers", "id INT, country STRING"),
    ):
        t_env.execute_sql(
            f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{folder / name}',"
            " 'format' = 'json')"
        )
    return t_env


def folded(rows: list[Row]) -> Counter[tuple[Any, ...]]:
    """What is left of a changelog; a row that is taken back must have been there."""
    left: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        key = tuple(row._values)
        if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            left[key] += 1
        else:
            assert left[key] > 0, row
            left[key] -= 1
    return +left


def expected(folder: Path, condition: str) -> Counter[tuple[Any, ...]]:
    base = duckdb.connect()
    for name in ("orders", "customers"):
        base.execute(f"CREATE VIEW {name} AS SELECT * FROM read_json('{folder / name}/*.json')")
    return Counter(base.execute(QUERY.format(filter=condition)).fetchall())


@pytest.mark.parametrize("mini_batch", ["false", "true"])
def test_a_join_with_aggregates_gives_the_results_of_another_engine(
    environment: MakeEnvironment, folder: Path, mini_batch: str
) -> None:
    t_env = tables(environment, folder, **{"table__exec__mini-batch__enabled": mini_batch})
    with t_env.execute_sql(QUERY.format(filter="o.amount > 10")).collect() as rows:
        found = folded(list(rows))
    assert found == expected(folder, "o.amount > 10")


def test_a_worker_that_is_killed_inside_a_query_costs_nothing(
    environment: MakeEnvironment, folder: Path, tmp_path: Path
) -> None:
    t_env = tables(environment, folder)
    killer = udf(KillsItsWorker(tmp_path / "struck", 2500), result_type=DataTypes.INT(), input_types=[DataTypes.INT()])
    t_env.create_temporary_system_function("passed", killer)
    with t_env.execute_sql(QUERY.format(filter="passed(o.nr) >= 0")).collect() as rows:
        found = folded(list(rows))
    assert (tmp_path / "struck").exists()
    assert found == expected(folder, "true")


def test_batch_mode_gives_final_rows_only(environment: MakeEnvironment, folder: Path) -> None:
    t_env = tables(environment, folder, **{"execution__runtime-mode": "batch"})
    with t_env.execute_sql(QUERY.format(filter="true")).collect() as rows:
        found = list(rows)
    assert {row.get_row_kind() for row in found} == {RowKind.INSERT}
    assert Counter(tuple(row._values) for row in found) == expected(folder, "true")

"""Lookup joins against a dict: keys asked once, order of the input, caching, queries at the same time."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from flott.table._plan.logical import EquiKeys, JoinKind, Schema
from flott.table._plan.operations import JoinLookups, LookupSettings
from flott.table._types.logical import BigIntType, IntType, VarCharType
from tests.unit.table.columnar.cluster import Cluster

LEFT = Schema(("k", "v"), (IntType(), VarCharType(9)))
RIGHT = Schema(("id", "name"), (BigIntType(), VarCharType(9)))


class External:
    """A table that counts the keys it is asked for."""

    def __init__(self, **rows: list[str]):
        self.rows = {int(name[1:]): names for name, names in rows.items()}
        self.asked: list[list[int]] = []
        self.closed = 0

    def open(self) -> Any:
        return self

    def __call__(self, keys: Any) -> Any:
        asked = keys.column(0).to_pylist()
        self.asked.append(asked)
        found = [(key, name) for key in reversed(asked) for name in self.rows.get(key, [])]
        return pa.table(
            {"id": pa.array([key for key, _ in found], pa.int64()), "name": pa.array([name for _, name in found])}
        )

    def close(self) -> None:
        self.closed += 1


def cluster_of(external: External, kind: JoinKind = JoinKind.LEFT, **settings: Any) -> Cluster:
    told = JoinLookups(
        output=LEFT + RIGHT,
        kind=kind,
        left=LEFT,
        right=RIGHT,
        keys=EquiKeys((0,), (0,), (True,)),
        condition=None,
        open_lookup=external.open,
        lookups=LookupSettings(**settings),
    )
    return Cluster(told, [LEFT], [(0,)])


def test_each_key_is_asked_for_once_and_rows_keep_their_order_and_kind() -> None:
    external = External(_1=["one"], _2=["two", "zwei"])
    cluster = cluster_of(external)
    sent = cluster.epoch([("+I", (2, "a")), ("-U", (1, "b")), ("+U", (3, "c")), ("+I", (None, "d")), ("+I", (2, "e"))])
    assert [(kind, row[1], row[3]) for kind, row in sent] == [
        ("+I", "a", "two"),
        ("+I", "a", "zwei"),
        ("-U", "b", "one"),
        ("+U", "c", None),
        ("+I", "d", None),
        ("+I", "e", "two"),
        ("+I", "e", "zwei"),
    ]
    assert external.asked == [[2, 1, 3]]
    inner = cluster_of(external, JoinKind.INNER).epoch([("+I", (3, "a")), ("+I", (1, "b"))])
    assert inner == [("+I", (1, "b", 1, "one"))]
    cluster.operators[0].close()
    assert external.closed == 1


def test_nothing_is_found_in_an_empty_table() -> None:
    assert cluster_of(External()).epoch([("+I", (1, "a"))]) == [("+I", (1, "a", None, None))]
    assert cluster_of(External(), JoinKind.INNER).epoch([("+I", (1, "a"))]) == []
    assert cluster_of(External()).epoch([("+I", (None, "a"))]) == [("+I", (None, "a", None, None))]


@pytest.mark.parametrize("cache_missing", [True, False])
def test_keys_are_remembered_for_a_time(cache_missing: bool) -> None:
    external = External(_1=["one"])
    cluster = cluster_of(external, cache_keys=10, cache_ms=100, cache_missing=cache_missing)
    cluster.epoch([("+I", (1, "a")), ("+I", (2, "b"))], now_ms=1000)
    external.rows[1] = ["eins", "uno"]
    sent = cluster.epoch([("+I", (1, "c")), ("+I", (2, "d"))], now_ms=1050)
    assert [row[3] for _, row in sent] == ["one", None]
    assert external.asked == ([[1, 2]] if cache_missing else [[1, 2], [2]])
    sent = cluster.epoch([("+I", (1, "e"))], now_ms=1100)
    assert [row[3] for _, row in sent] == ["eins", "uno"]


def test_the_keys_that_were_fetched_first_are_forgotten() -> None:
    external = External(_1=["one"], _2=["two"], _3=["three"])
    cluster = cluster_of(external, cache_keys=2)
    for now, key in enumerate((1, 2, 3, 2, 1)):
        cluster.epoch([("+I", (key, "a"))], now_ms=now)
    assert external.asked == [[1], [2], [3], [1]]


def test_several_queries_are_asked_at_a_time() -> None:
    external = External(**{f"_{key}": [str(key)] for key in range(50)})
    cluster = cluster_of(external, parallel=4, batch_keys=5)
    sent = cluster.epoch([("+I", (key, "a")) for key in range(60)])
    assert [row[3] for _, row in sent] == [str(key) if key < 50 else None for key in range(60)]
    assert sorted(map(len, external.asked)) == [5] * 12
    cluster.operators[0].close()
    assert external.closed == 4

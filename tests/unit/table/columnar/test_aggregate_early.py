"""Group windows that are sent before they end and again for late rows: the last result is that of all rows."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from flott.common.watermark_strategy import MAX_WATERMARK
from flott.table._plan.logical import Window, WindowKind
from tests.unit.table.columnar.operator_cluster import OperatorCluster
from tests.unit.table.columnar.test_aggregate_windows import (
    CUMULATE,
    HOP,
    INPUT,
    TUMBLE,
    AlignedModel,
    changelogs,
    epochs,
    operation,
)

TEN = Window(WindowKind.TUMBLE, 2, 10)


def counts(found: list[Any]) -> list[Any]:
    """Kind, count and sum of each change."""
    return [(kind, row[1], row[2]) for kind, row in found]


def test_a_window_is_sent_some_time_after_its_first_row_and_updated() -> None:
    with TemporaryDirectory() as folder:
        cluster = OperatorCluster(operation(TEN, early_ms=100), [INPUT], [(0,)], Path(folder))
        assert cluster.epoch([[(0, ("a", 1, 3))]], 0, now_ms=1000) == []
        assert cluster.wakeups == [1100]
        assert cluster.epoch([[(0, ("a", 2, 4))]], 0, now_ms=1050) == []
        cluster.happen(("rescale", 2))
        assert counts(cluster.epoch([[]], 0, now_ms=1100)) == [(0, 2, 3)]
        cluster.happen(("rescale", 1))
        assert cluster.epoch([[]], 0, now_ms=1300) == []
        assert cluster.wakeups == [None]
        cluster.epoch([[(0, ("a", 5, 5))]], 0, now_ms=1400)
        assert counts(cluster.epoch([[]], 0, now_ms=1600)) == [(1, 2, 3), (2, 3, 8)]
        # Nothing has changed when the window ends.
        assert cluster.epoch([[]], 9, now_ms=1700) == []
        assert cluster.subtasks[0].state.sizes() == {"slices": 0, "values": 0, "sent": 0}


def test_late_rows_update_a_window_within_the_allowed_lateness() -> None:
    with TemporaryDirectory() as folder:
        told = operation(TEN, late_ms=0, allow_lateness_ms=20)
        cluster = OperatorCluster(told, [INPUT], [(0,)], Path(folder))
        assert counts(cluster.epoch([[(0, ("a", 1, 3))]], 12, now_ms=1)) == [(0, 1, 1)]
        assert counts(cluster.epoch([[(0, ("a", 4, 3)), (0, ("b", 6, 3))]], 12, now_ms=2)) == [
            (1, 1, 1),
            (2, 2, 5),
            (0, 1, 6),
        ]
        assert cluster.epoch([[]], 29, now_ms=3) == []
        assert cluster.epoch([[(0, ("a", 7, 3))]], 29, now_ms=4) == []
        assert cluster.late == 1


def test_a_window_of_which_all_rows_are_retracted_is_taken_back() -> None:
    with TemporaryDirectory() as folder:
        told = operation(TEN, early_ms=0, retracts=(True,))
        cluster = OperatorCluster(told, [INPUT], [(0,)], Path(folder))
        assert counts(cluster.epoch([[(0, ("a", 1, 3))]], 0, now_ms=1)) == [(0, 1, 1)]
        assert counts(cluster.epoch([[(3, ("a", 1, 3))]], 0, now_ms=2)) == [(3, 1, 1)]
        assert cluster.epoch([[]], 50, now_ms=3) == []


@pytest.mark.parametrize("window", [TUMBLE, HOP, CUMULATE], ids=lambda one: one.kind.value)
@pytest.mark.parametrize("retracts", [False, True])
@settings(max_examples=10)
@given(data=st.data())
def test_the_folded_updates_are_the_windows(window: Window, retracts: bool, data: Any) -> None:
    history = data.draw(changelogs() if retracts else epochs)
    told = operation(window, early_ms=5, retracts=(retracts,))
    model = AlignedModel(window)
    folded: list[Any] = []
    expected: list[Any] = []
    with TemporaryDirectory() as folder:
        cluster = OperatorCluster(told, [INPUT], [(0,)], Path(folder))
        for number, (rows, watermark, event) in enumerate([*history, ([], MAX_WATERMARK, ("checkpoint",))]):
            for kind, row in cluster.epoch([rows], watermark, now_ms=3 * number):
                if kind in (0, 2):
                    folded.append(row)
                else:
                    folded.remove(row)
            expected += model.epoch(rows, watermark)
            assert cluster.late == model.late
            cluster.happen(event if event[0] not in ("crash", "put aside") else ("checkpoint",))
        assert sorted(map(str, folded)) == sorted(map(str, expected))
        cluster.close()

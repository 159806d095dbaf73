"""A cluster made of data for the pages of a job: loads of every kind, an edge over a layer, state and records to read.

Times are near the clock of the machine, so that ages and charts look as they do while a job runs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from flott.common.configuration import Configuration
from flott.runtime.jobmanager.inspection.questions import (
    CompareStates,
    CountKeys,
    FindKey,
    ListCheckpoints,
    ListStates,
    PageRows,
    PreviewRecords,
    Question,
    TraceKey,
)
from flott.runtime.jobmanager.views.job_history import STEP_MS
from flott.runtime.jobmanager.views.job_view import (
    ChainedOperatorView,
    InputView,
    JobView,
    LatencyView,
    SubtaskView,
    TaskState,
    VertexView,
)
from tests.unit.rest.fake_cluster import FakeCluster, checkpoints, running_job, subtask

#: Keys of the state, in the order of key groups: not that of their texts.
KEYS = [f"customer {number * 37 % 120}" for number in range(120)]
KEPT = (5, 6, 7)  #: the checkpoints that can be read


def vertex_of(name: str, busy: float, idle: float, inputs: Sequence[tuple[str, str]], width: int = 2) -> VertexView:
    """Return a running vertex with such shares; its id is made of its name."""
    now = round(time.time() * 1000)

    def one(index: int) -> SubtaskView:
        made = subtask(index, TaskState.RUNNING)
        own = {**(made.own_metrics or {}), "currentInputWatermark": now - 4_000 - 1_000 * index}
        return replace(
            made, busy_ratio=busy, idle_ratio=idle, start_ms=now - 3_600_000, watermark=now - 5_000, own_metrics=own
        )

    operators = tuple(
        ChainedOperatorView(ident(part), part, part.lower(), "Operator", part, width, f"/home/shop/{part}.py:5")
        for part in name.split(" -> ")
    )
    edges = tuple(
        InputView(ident(source), how, index, 201, 2000, 21.0, 210.0) for index, (source, how) in enumerate(inputs)
    )
    subtasks = tuple(one(index) for index in range(width))
    return VertexView(
        ident(name), name, width, 128, TaskState.RUNNING, operators, edges, subtasks, start_ms=now - 3_600_000,
        has_event_time=True,
    )  # fmt: skip


def ident(name: str) -> str:
    """Return the id of a vertex or an operator with a name."""
    return name.encode().hex().ljust(32, "0")[:32]


def shop_job(job_id: str, **changes: Any) -> JobView:
    """Return a job in which an edge passes a layer, with a busy, a back-pressured and an idle vertex."""
    now = round(time.time() * 1000)
    vertices = (
        vertex_of("orders", 0.1, 0.2, ()),
        vertex_of("prices", 0.05, 0.95, (), width=1),
        vertex_of("check -> clean", 0.3, 0.1, [("orders", "REBALANCE")]),
        vertex_of("join", 0.9, 0.1, [("check -> clean", "HASH"), ("prices", "BROADCAST")]),
        vertex_of("late orders", 0.02, 0.98, [("join", "FORWARD"), ("orders", "HASH")]),
        vertex_of("files", 0.1, 0.9, [("join", "FORWARD")]),
    )
    quantiles = {"0.5": 4.0, "0.95": 61.0, "0.99": 88.0}
    latencies = tuple(
        LatencyView(ident("join"), index, ident("orders"), None, 300 + index, 1, 90, 12.5, 3.5, quantiles)
        for index in range(2)
    )
    view = checkpoints()
    latest = replace(view.history[0], acknowledged_ms=now - 1_900)
    job = replace(
        running_job(job_id), name="shop revenue", vertices=vertices, start_ms=now - 3_600_000, latencies=latencies,
        last_modified_ms=now, checkpoints=replace(view, latest_completed=latest),
        metrics={"currentLowWatermark": now - 5_000, "numRestarts": 1},
    )  # fmt: skip
    return replace(job, **changes)


@dataclass
class ToldCluster(FakeCluster):
    """Tells the state of a job and the records of its operators; remembers what was asked."""

    slow_search: bool = False  #: a filtered page ends before it has found anything
    previews: dict[str, dict[str, Any]] = field(default_factory=dict)  #: what is said of an operator, by its id

    def note_minutes(self, job_id: str, minutes: float) -> None:
        """Let the JobManager have watched a job for some minutes."""
        now = round(time.time() * 1000)
        for at in range(now - round(minutes * 60_000), now, STEP_MS):
            wave = 300 + 80 * ((at // STEP_MS) % 7)
            self.histories.note(replace(self.known[job_id], records_per_second=wave), at)

    def inspect(self, job_id: str, question: Question) -> Future[dict[str, Any]]:
        self.job(job_id)
        self.questions.append(question)
        answer: Future[dict[str, Any]] = Future()
        answer.set_result(self._answer(question))
        return answer

    def _answer(self, question: Any) -> dict[str, Any]:
        now = round(time.time() * 1000)
        match question:
            case ListCheckpoints():
                kept = [{"checkpoint": one, "completed": now - 9000 + one * 1000, "path": f"/c/{one}"} for one in KEPT]
                return {"checkpoints": kept}
            case ListStates():
                states = [_state("cents", 4096), _state("_window-panes", 512)]
                join = {"id": ident("join"), "uid": "join", "name": "join", "parallelism": 2, "max-parallelism": 128}
                at = {"checkpoint": question.checkpoint or KEPT[-1], "completed": now - 2000, "path": "/c"}
                return {**at, "operators": [{**join, "states": states}]}
            case CountKeys():
                return {"checkpoint": 7, "keys": len(KEYS), "entries": len(KEYS), "groups": {}, "complete": True}
            case PageRows():
                return self._page(question)
            case FindKey():
                return {"checkpoint": 7, "found": True, "row": _row(question.key)}
            case TraceKey():
                first = {"checkpoint": 5, "completed": now - 4000, "found": True, "value": _value(17), "changed": False}
                return {"key": _value(question.key), "history": [first], "complete": False}
            case CompareStates():
                both = {"before": _value(1), "after": _value(2)}
                changes = [{"kind": "changed", "key": _value(key), **both} for key in KEYS[: question.limit]]
                counts = {"added": 0, "removed": 0, "changed": len(KEYS), "complete": True}
                state = {"operator": "join", "state": "cents", "kind": "value", **counts, "changes": changes}
                return {"before": question.before, "after": question.after, "states": [state]}
            case PreviewRecords():
                return self.previews[question.operator]
        raise TypeError(f"No answer is known to {question!r}.")

    def _page(self, question: PageRows) -> dict[str, Any]:
        begin = int((question.after or "0.0").partition(".")[2])
        if self.slow_search and question.prefix and begin == 0:
            return {"checkpoint": 7, "rows": [], "next": "0.50"}
        found = [key for key in KEYS[begin:] if key.startswith(question.prefix or "")]
        end = begin + question.limit
        following = f"0.{end}" if len(found) > question.limit else None
        return {"checkpoint": 7, "rows": [_row(f"'{key}'") for key in found[: question.limit]], "next": following}


def records(count: int, epoch: int = 7) -> dict[str, Any]:
    """Return what a preview says of so many records with a number and a text."""
    made = [
        {
            "subtask": index % 2, "port": "", "timestamp": 1_767_225_600_000 + index,
            "value": {**_value(index), "json": {"cents": index, "country": "Norway"}},
        }
        for index in range(count)
    ]  # fmt: skip
    told = {"epoch": epoch, "complete": True, "operator": "", "side": "emitted", "failure": None}
    return {**told, "count": count, "records": made, "truncated": False}


def told_cluster(folder: Any, **settings: object) -> ToldCluster:
    """Return a cluster without any job."""
    cluster = ToldCluster(folder, Configuration.of(settings))
    cluster.known.clear()
    cluster.started_ms = round(time.time() * 1000) - 7_200_000
    return cluster


def _state(name: str, size: int) -> dict[str, Any]:
    types = {"key-type": "str", "value-type": None, "map-key-type": None}
    return {"name": name, "kind": "value", **types, "size": size, "keyed": True, "time-to-live": None}


def _value(value: object) -> dict[str, Any]:
    return {"text": str(value), "type": type(value).__name__, "json": value, "truncated": False}


def _row(key: str) -> dict[str, Any]:
    return {"key": _value(key), "window": None, "value": _value(1700)}

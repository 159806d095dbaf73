"""Every reply has the fields that a real Flink 2.3 sends, with the same JSON types.

The files beside this one in ``contract/`` list them: the path of each field and its type, request by request. ``[]`` is
every element of a list, ``<id>`` every key that is an id; a type with a question mark belongs to a field that only some
objects have. More fields are welcome: Flink's clients skip them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from flott.common.configuration import Configuration
from flott.runtime.jobmanager.views.job_view import TaskManagerView, TaskState, VertexView
from tests.unit.rest.fake_cluster import (
    CANCELED,
    FAILED,
    FINISHED,
    NOW,
    RUNNING,
    START,
    TASK_MANAGER,
    WINDOW,
    FakeCluster,
    task_manager,
)

CONTRACT = Path(__file__).with_name("contract")
HEX = re.compile(r"[0-9a-f]{32}")

#: The job each file is about; the running one for all others. Those with several entries take them in order.
JOBS = {
    "job-finished": [FINISHED],
    "job-failed": [FAILED],
    "job-canceled": [CANCELED],
    "job-execution-result": [RUNNING, FINISHED, CANCELED, FAILED],
    "job-exceptions": [FINISHED, FAILED],
    "application": [RUNNING, FAILED],
}
#: What is not there, and why.
NOT_HERE = {
    "vertex-flamegraph": re.compile(r"data\b"),  # none are drawn
    "job-exceptions": re.compile(r"exceptionHistory\.entries\[\]\.concurrentExceptions\[\]"),  # a failure comes alone
    "taskmanager-thread-dump": re.compile(r"threadInfos\[\]"),  # executors are not asked for them
}
#: The contract lets these be null.
NULLABLE = re.compile(r"memoryConfiguration\.|savepointFormat")


def cases() -> Iterator[Any]:
    for file in sorted(CONTRACT.glob("*.json")):
        for number, entry in enumerate(json.loads(file.read_text(encoding="utf-8"))):
            yield pytest.param(file.stem, number, entry, id=f"{file.stem}-{number}")


def comparable_cluster(folder: Path) -> FakeCluster:
    """The jobs of the fake cluster after the same life as those of the samples: all went through five states."""
    cluster = FakeCluster(folder, Configuration.of({"rest.port": 8081}))
    times = {
        TaskState.CREATED: START - 50,
        TaskState.SCHEDULED: START - 40,
        TaskState.DEPLOYING: START - 30,
        TaskState.INITIALIZING: START - 10,
        TaskState.RUNNING: START,
    }

    def lived(vertex: VertexView) -> VertexView:
        return replace(vertex, subtasks=tuple(replace(one, timestamps=times) for one in vertex.subtasks))

    for ident, job in cluster.known.items():
        completed = tuple(one for one in job.checkpoints.history if one.status == "COMPLETED")
        cluster.known[ident] = replace(
            job,
            vertices=tuple(map(lived, job.vertices)),
            checkpoints=replace(job.checkpoints, history=completed),
            failures=job.failures if ident == FAILED else (),
        )
    collectors = {f"Status.JVM.GarbageCollector.All.{name}": 3 for name in ("Count", "Time")}
    executor: TaskManagerView = task_manager()
    cluster.executors = [replace(executor, metrics={**executor.metrics, **collectors})]
    return cluster


def values_at(value: Any, path: str, optional: bool = False) -> Iterator[Any]:
    """All values a path names; ``KeyError`` if an object on the way lacks the key, unless that is optional."""
    if path in ("", "."):
        yield value
        return
    head, _, rest = path.partition(".")
    name = head.rstrip("[]")
    if name == "<id>":
        inner = [one for key, one in value.items() if HEX.fullmatch(key)]
    elif name:
        inner = [value[name]] if name in value or not optional else []
    else:
        inner = [value]
    for _ in range(head.count("[]")):
        inner = [one for part in inner for one in part]
    for one in inner:
        yield from values_at(one, rest, optional)


def is_of_type(value: Any, kind: str) -> bool:
    return {
        "null": value is None,
        "boolean": isinstance(value, bool),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value),
        "NaN": value == "NaN",
        "string": isinstance(value, str),
        "hex": isinstance(value, str) and HEX.fullmatch(value) is not None,
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }[kind]


def problems_of(name: str, entry: dict[str, Any], content: Any, *, every_field: bool = True) -> list[str]:
    """What is missing from a reply or has another type. ``every_field``: it must have an example of each."""
    problems = []
    optional = {field for field, kinds in entry["fields"].items() if kinds.endswith("?")}
    for field, types in entry["fields"].items():
        kinds = types.rstrip("?")
        if name in NOT_HERE and NOT_HERE[name].match(field):
            continue
        try:
            found = list(values_at(content, field, any(field.startswith(one) for one in optional)))
        except (KeyError, TypeError, AttributeError) as error:
            problems.append(f"{field} is missing: {error!r}")
            continue
        if not found and every_field:
            problems.append(f"{field}: the reply has no example of it")
        allowed = [*kinds.split("|"), *(["null"] if NULLABLE.search(field) else [])]
        problems += [
            f"{field} is {one!r}, not {kinds}" for one in found if not any(is_of_type(one, k) for k in allowed)
        ]
    return problems


@pytest.mark.parametrize(("name", "number", "entry"), list(cases()))
def test_a_reply_has_every_field_of_flinks_with_the_same_type(
    name: str, number: int, entry: dict[str, Any], tmp_path: Path, serve: Callable[..., TestClient]
) -> None:
    job = JOBS.get(name, [RUNNING] * 9)[number]
    client = serve(comparable_cluster(tmp_path))
    path = entry["request"].removeprefix("GET ")
    for parameter, value in {
        ":jobid": job,
        ":applicationid": job,
        ":vertexid": WINDOW,
        ":checkpointid": "7",
        ":taskmanagerid": TASK_MANAGER.replace(":", "%3A"),
    }.items():
        path = path.replace(parameter, value)
    reply = client.get(f"/v1{path}")
    assert reply.status_code == 200, reply.text
    content = json.loads(reply.text, parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    problems = problems_of(name, entry, content)
    assert not problems, "\n".join(["", *problems])


def test_the_check_notices_a_missing_field_and_a_wrong_type() -> None:
    with pytest.raises(KeyError):
        list(values_at({"jobs": [{"id": "a"}, {}]}, "jobs[].id"))
    assert not is_of_type(True, "integer")
    assert not is_of_type("abc", "hex")
    assert not is_of_type(math.nan, "number")
    assert list(values_at({"tasks": {"ab" * 16: {"id": 1}}}, "tasks.<id>.id")) == [1]
    assert list(values_at([{"id": NOW}], "[].id")) == [NOW]

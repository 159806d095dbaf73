"""Stacks of workers: sampled by py-spy where it is installed, and of a job's own processes only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from flott.common.job_status import JobStatus
from flott.errors import UnreachableError
from flott.rest import profiling
from flott.rest.shapes.vertex.stacks import MAX_NODES, FlameGraphNode, folded_tree, stack_threads
from tests.unit.rest.fake_cluster import RUNNING, WINDOW, FakeCluster

VERTEX = f"/jobs/{RUNNING}/vertices/{WINDOW}"
STACKS = f"/jobs/{RUNNING}/flott/vertices/{WINDOW}/stacks"


@pytest.fixture
def worker() -> Iterator[int]:
    """A process that looks like a worker: its command line names Flott."""
    program = "import sys\ndef waiting_for_flott():\n    print('up', flush=True); sys.stdin.read()\nwaiting_for_flott()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def place(cluster: FakeCluster, pid: int, host: str = "127.0.0.1") -> None:
    """Let all subtasks of the running job be in this process."""
    job = cluster.known[RUNNING]
    cluster.known[RUNNING] = replace(
        job,
        vertices=tuple(
            replace(one, subtasks=tuple(replace(task, worker=pid, host=host) for task in one.subtasks))
            for one in job.vertices
        ),
    )


# ---- which processes ------------------------------------------------------------------------------------------------


def test_processes_of_other_machines_other_programs_and_none_are_not_read(cluster: FakeCluster, worker: int) -> None:
    place(cluster, worker)
    vertex = cluster.known[RUNNING].vertices[1]
    assert profiling.workers_here([vertex]) == {worker: ["sum -> Sink: print (1/2)", "sum -> Sink: print (2/2)"]}
    assert profiling.workers_here([vertex], subtask=1) == {worker: ["sum -> Sink: print (2/2)"]}
    place(cluster, worker, host="elsewhere.example")
    assert profiling.workers_here(cluster.known[RUNNING].vertices) == {}
    for pid in (1, 0, 2**22 + 7):  # not of this user or no worker, never set, not there
        place(cluster, pid)
        assert profiling.workers_here(cluster.known[RUNNING].vertices) == {}


# ---- trees ----------------------------------------------------------------------------------------------------------


def total(node: FlameGraphNode) -> int:
    return sum(child["value"] for child in node["children"])


@given(st.lists(st.tuples(st.lists(st.sampled_from("abc"), min_size=1, max_size=5), st.integers(1, 9)), max_size=30))
def test_a_tree_counts_every_stack_once(stacks: list[tuple[list[str], int]]) -> None:
    tree = folded_tree("\n".join(f"{';'.join(frames)} {count}" for frames, count in stacks))
    assert tree["value"] == total(tree) == sum(count for _, count in stacks)
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        assert total(node) <= node["value"]
        assert len({child["name"] for child in node["children"]}) == len(node["children"])
        waiting += node["children"]


@given(st.text())
def test_any_text_becomes_a_tree(text: str) -> None:
    assert folded_tree(text)["name"] == "root"


def test_a_tree_is_bounded() -> None:
    wide = folded_tree("\n".join(f"frame{n} 1" for n in range(2 * MAX_NODES)))
    assert len(wide["children"]) < MAX_NODES
    deep = json.dumps(folded_tree(";".join("f" * 1 for _ in range(5000)) + " 1"))
    assert deep.count("children") == 201


def test_threads_have_names_and_frames() -> None:
    frames = [{"name": "f", "filename": "a.py", "line": 3}]
    [thread] = stack_threads([{"thread_name": None, "os_thread_id": 7, "active": True, "frames": frames}])
    assert thread == {"name": "thread 7", "active": True, "frames": [{"name": "f", "file": "a.py", "line": 3}]}


# ---- answers --------------------------------------------------------------------------------------------------------


def test_without_py_spy_there_are_none(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "sampler", lambda: None)
    assert client.get(f"{VERTEX}/flamegraph").json() == {"endTimestamp": -2}
    reply = client.get(STACKS).json()
    assert (reply["available"], reply["processes"]) == (False, [])
    assert "py-spy is not installed" in reply["reason"]


def test_what_py_spy_finds_is_sent(
    client: TestClient, cluster: FakeCluster, worker: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: Sequence[str], timeout_s: float) -> bytes:
        assert command[command.index("--pid") + 1] == str(worker)
        if "dump" in command:
            return b'[{"thread_name": "Main", "active": false, "frames": []}]'
        with open(command[command.index("--output") + 1], "w") as target:
            target.write("main (a.py:1);work (a.py:2) 5\n")
        return b""

    place(cluster, worker)
    monkeypatch.setattr(profiling, "sampler", lambda: "/bin/py-spy")
    monkeypatch.setattr(profiling, "_run", run)
    graph = client.get(f"{VERTEX}/flamegraph?type=ON_CPU").json()
    assert graph["endTimestamp"] > 0
    assert graph["data"]["children"][0]["children"][0] == {"name": "work (a.py:2)", "value": 5, "children": []}
    reply = client.get(STACKS).json()
    assert reply["processes"][0]["threads"] == [{"name": "Main", "active": False, "frames": []}]


def test_one_sample_is_taken_at_a_time(worker: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "sampler", lambda: "/bin/py-spy")

    def again(command: Sequence[str], timeout_s: float) -> bytes:
        with pytest.raises(UnreachableError, match="already"):
            profiling.sample_threads(worker)
        return b"[]"

    assert profiling.sample_threads(worker, run=again) == []
    assert profiling.sample_threads(worker, run=lambda command, timeout_s: b"[]") == []


def test_a_process_that_cannot_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "sampler", lambda: "/bin/false")
    with pytest.raises(profiling.UnreadableProcess, match="could not read"):
        profiling.sample_threads(os.getpid())


def test_an_answer_about_a_process_that_cannot_be_read_says_why(
    client: TestClient, cluster: FakeCluster, worker: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiling, "sampler", lambda: "/bin/false")
    place(cluster, worker)
    assert client.get(f"{VERTEX}/flamegraph").json() == {"endTimestamp": -2}
    assert "could not read" in client.get(STACKS).json()["reason"]


def test_the_workers_of_a_job_that_has_ended_are_not_read(
    client: TestClient, cluster: FakeCluster, worker: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiling, "sampler", lambda: "/bin/false")
    place(cluster, worker)
    cluster.known[RUNNING] = replace(cluster.known[RUNNING], status=JobStatus.CANCELED)
    assert "No process" in client.get(STACKS).json()["reason"]


def test_pages_of_others_do_not_see_stacks(client: TestClient) -> None:
    for path in (f"{VERTEX}/flamegraph", STACKS):
        assert client.get(path, headers={"Origin": "https://evil.example"}).status_code == 403


@pytest.mark.skipif(profiling.sampler() is None, reason="py-spy is not installed")
def test_a_real_process_is_read(client: TestClient, cluster: FakeCluster, worker: int) -> None:
    place(cluster, worker)
    reply = client.get(STACKS).json()
    if not reply["available"]:
        pytest.skip(reply["reason"])  # the system does not allow it
    names = [frame["name"] for thread in reply["processes"][0]["threads"] for frame in thread["frames"]]
    assert "waiting_for_flott" in names

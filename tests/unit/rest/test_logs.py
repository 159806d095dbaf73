"""Logs through REST: which files there are, what is in them, and that no name leads elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from flott.runtime.logs import log_files
from flott.runtime.logs.entry import LogEntry
from tests.unit.rest.fake_cluster import RUNNING, TASK_MANAGER, UNKNOWN, FakeCluster


def entry(number: int, level: str = "INFO", operator: str = "Map", subtask: int = 0) -> bytes:
    time = f"2026-03-01T12:00:{number:02}.000Z"
    made = LogEntry(
        time, level, "stdout", f"line {number}", RUNNING, operator=operator, subtask=subtask, task_manager=TASK_MANAGER
    )
    return made.encoded() + b"\n"


@pytest.fixture
def job_log(cluster: FakeCluster) -> Path:
    folder = cluster.log_folder / "jobs" / RUNNING
    folder.mkdir(parents=True)
    lines = [entry(1), entry(2, "ERROR"), entry(3, operator="Sum", subtask=1), entry(4, "WARNING", "Sum")]
    (folder / "job.log").write_bytes(b"".join(lines))
    return folder / "job.log"


def lines(client: TestClient, query: str = "") -> list[str]:
    reply = client.get(f"/jobs/{RUNNING}/log?{query}")
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].startswith("text/plain")
    return [line.partition("line ")[2] for line in reply.text.splitlines()]


def test_the_job_managers_files_are_listed_and_read(client: TestClient, cluster: FakeCluster) -> None:
    (cluster.log_folder / "jobmanager.log").write_text("started\nü\n")
    (cluster.log_folder / "jobmanager.out").write_text("printed\n")
    names = {file["name"]: file["size"] for file in client.get("/v1/jobmanager/logs").json()["logs"]}
    assert names == {"jobmanager.log": 11, "jobmanager.out": 8}
    for path, text in (
        ("log", "started\nü\n"),
        ("logs/jobmanager.log", "started\nü\n"),
        ("stdout", "printed\n"),
    ):
        reply = client.get(f"/jobmanager/{path}")
        assert (reply.status_code, reply.text) == (200, text)
        assert reply.headers["content-type"].startswith("text/plain")


def test_a_file_that_is_not_there_is_not_found(client: TestClient) -> None:
    for path in ("/jobmanager/log", "/jobmanager/stdout", "/jobmanager/logs/x", f"/jobs/{RUNNING}/logs/x"):
        reply = client.get(path)
        assert (reply.status_code, reply.json()) == (404, {"errors": ["File not found."]})
    assert client.get("/jobmanager/logs").json() == {"logs": []}
    assert client.get(f"/jobs/{RUNNING}/logs").json() == {"logs": []}


def test_a_log_is_empty_until_the_job_writes_to_it(client: TestClient, cluster: FakeCluster) -> None:
    folder = log_files.job_folder(cluster.log_folder, RUNNING)
    folder.mkdir(parents=True)
    (folder / "job.out").touch()
    for query in ("", "tail=20", "offset=0-0"):
        assert lines(client, query) == []
    cursor = client.get(f"/jobs/{RUNNING}/log?tail=1").headers["x-flott-log-cursor"]
    (folder / "job.log").write_bytes(entry(1))
    assert lines(client, f"offset={cursor}") == ["1"]


@pytest.mark.parametrize(
    "name", ["..%2Fsecret", "%2E%2E%2Fsecret", "link", ".hidden", "jobs", "%00", "a%0A", "x" * 3000]
)
def test_a_name_never_leads_out_of_the_folder(client: TestClient, cluster: FakeCluster, name: str) -> None:
    (cluster.folder / "secret").write_text("secret")
    (cluster.log_folder / "link").symlink_to(cluster.folder / "secret")
    (cluster.log_folder / ".hidden").write_text("secret")
    (cluster.log_folder / "jobs").mkdir()
    for path in (
        f"/jobmanager/logs/{name}",
        f"/jobs/{RUNNING}/logs/{name}",
        f"/taskmanagers/{TASK_MANAGER}/logs/{name}",
    ):
        assert client.get(path).json() == {"errors": ["File not found."]}


def test_a_jobs_log_is_text_for_people(client: TestClient, job_log: Path) -> None:
    assert lines(client) == ["1", "2", "3", "4"]
    assert "{" not in client.get(f"/jobs/{RUNNING}/logs/job.log").text
    [file] = client.get(f"/jobs/{RUNNING}/logs").json()["logs"]
    assert (file["name"], file["size"]) == ("job.log", job_log.stat().st_size)
    assert client.get(f"/jobs/{UNKNOWN}/log").status_code == 404


def test_only_some_lines_may_be_wanted(client: TestClient, job_log: Path) -> None:
    assert lines(client, "tail=2") == ["3", "4"]
    assert lines(client, "level=WARNING") == ["2", "4"]
    assert lines(client, "operator=Sum") == ["3", "4"]
    assert lines(client, "operator=Sum&subtask=1") == ["3"]
    assert lines(client, "tail=1&level=ERROR") == ["2"]
    for wrong in ("tail=x", "tail=-1", "level=LOUD", "subtask=x", "offset=abc", "offset=-1", "offset=1-2-3"):
        assert client.get(f"/jobs/{RUNNING}/log?{wrong}").status_code == 400


def test_a_reader_goes_on_where_it_was(client: TestClient, job_log: Path) -> None:
    first = client.get(f"/jobs/{RUNNING}/log?tail=1")
    cursor = first.headers["x-flott-log-cursor"]
    assert lines(client, f"offset={cursor}") == []
    with job_log.open("ab") as file:
        file.write(entry(5))
    assert lines(client, f"offset={cursor}") == ["5"]
    assert lines(client, "offset=0") == ["1", "2", "3", "4", "5"]


def test_a_log_of_any_size_is_sent_in_blocks(
    client: TestClient, job_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "MAX_BYTES", 1000)
    job_log.write_bytes(b"".join(entry(number % 60) for number in range(500)))
    assert len(lines(client)) == 500


def test_what_a_task_manager_said_is_put_together(client: TestClient, job_log: Path) -> None:
    reply = client.get(f"/taskmanagers/{TASK_MANAGER}/logs/taskmanager.log")
    assert [line.partition("line ")[2] for line in reply.text.splitlines()] == ["1", "2", "3", "4"]
    [file] = client.get(f"/taskmanagers/{TASK_MANAGER}/logs").json()["logs"]
    assert (file["name"], file["size"]) == ("taskmanager.log", len(reply.content))
    assert client.get(f"/taskmanagers/{TASK_MANAGER}/log").text == reply.text


def test_the_log_of_a_task_manager_is_followed_searched_and_filtered(client: TestClient, job_log: Path) -> None:
    def asked(query: str) -> list[str]:
        reply = client.get(f"/taskmanagers/{TASK_MANAGER}/log?{query}")
        assert reply.status_code == 200, reply.text
        return [line.partition("line ")[2] for line in reply.text.splitlines()]

    assert asked("tail=2") == ["3", "4"]
    assert asked("search=LINE 2") == ["2"]
    assert asked("level=WARNING") == ["2", "4"]
    cursor = client.get(f"/taskmanagers/{TASK_MANAGER}/log?tail=1").headers["x-flott-log-cursor"]
    assert asked(f"offset={cursor}") == []
    with job_log.open("ab") as file:
        file.write(entry(5) + entry(6, "ERROR"))
    assert asked(f"offset={cursor}") == ["5", "6"]
    assert asked(f"offset={cursor}&level=ERROR") == ["6"]
    for wrong in ("tail=x", "level=LOUD", "offset=abc", "offset=1-2,x"):
        assert client.get(f"/taskmanagers/{TASK_MANAGER}/log?{wrong}").status_code == 400


def test_a_log_is_searched_whatever_the_case(client: TestClient, job_log: Path, cluster: FakeCluster) -> None:
    assert lines(client, "search=LINE 2") == ["2"]
    assert lines(client, "search=sum&tail=1") == ["4"]
    assert lines(client, "search=") == ["1", "2", "3", "4"]
    assert lines(client, "search=nowhere&offset=0") == []
    (cluster.log_folder / "jobmanager.log").write_bytes(entry(1) + entry(2, "ERROR") + b"a plain Line\n")
    for query, expected in (("search=PLAIN", 1), ("search=line", 3), ("level=ERROR", 1), ("tail=2", 2)):
        assert len(client.get(f"/jobmanager/log?{query}").text.splitlines()) == expected


def test_the_log_of_the_jobmanager_is_followed(client: TestClient, cluster: FakeCluster) -> None:
    log = cluster.log_folder / "jobmanager.log"
    log.write_bytes(entry(1) + entry(2))
    last = client.get("/jobmanager/log?tail=1")
    assert last.text.endswith("line 2\n")
    with log.open("ab") as file:
        file.write(entry(3))
    more = client.get("/jobmanager/log", params={"offset": last.headers["x-flott-log-cursor"]})
    assert more.text.endswith("line 3\n")
    assert len(more.text.splitlines()) == 1
    assert client.get("/jobmanager/log?offset=x").status_code == 400

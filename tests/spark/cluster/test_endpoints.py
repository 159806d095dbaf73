"""Every endpoint of a JobManager that runs, asked about real jobs: what it answers is Flink's form, and true."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from flott.rest.app import all_endpoints
from tests.spark.cluster.conftest import PROGRAMS, TALLY, Jobs, Session, counts, wait_for
from tests.unit.rest.test_contract import cases, problems_of

#: Questions about state, and their parameters.
STATE = {
    "/jobs/{jobid}/flott/state": {},
    "/jobs/{jobid}/flott/state/checkpoints": {},
    "/jobs/{jobid}/flott/state/count": {"operator": "Greet", "state": "visits"},
    "/jobs/{jobid}/flott/state/rows": {"operator": "Greet", "state": "visits"},
    "/jobs/{jobid}/flott/state/key": {"operator": "Greet", "state": "visits", "key": "3"},
    "/jobs/{jobid}/flott/state/history": {"operator": "Greet", "state": "visits", "key": "3"},
    "/jobs/{jobid}/flott/state/diff": {"before": "1"},  # which is deleted by now
}
#: Questions that only some jobs can answer: by path, what becomes of them otherwise.
REFUSED = {
    "/jobs/{jobid}/flott/results/{sinkname}": {404},  # no job here collects
    "/jobmanager/stdout": {404},  # of one that `flott cluster start` has started
    "/jobs/{jobid}/flott/watermark": {409},  # of a job that has ended
    "/jobs/{jobid}/flott/watermark-report": {409},
    "/jobs/{jobid}/checkpoints/details/{checkpointid}": {404},  # a job may have none
    "/jobs/{jobid}/checkpoints/details/{checkpointid}/subtasks/{vertexid}": {404},
    "/": {307},  # to the web UI
    "/index.html": {307},
    **{path: {404} for path in STATE},  # a job that has ended may have no checkpoints
}
#: Those that may be refused of a job that runs, too.
REFUSED_WHILE_RUNNING = ("{sinkname}", "/stdout", "/", "/index.html", "/state/diff")
#: Questions that are orders in truth, and are tested as such.
ORDERS_BY_GET = {"/jobs/{jobid}/yarn-cancel"}
#: The gateway's paths, which tests/unit/rest/test_sql.py asks in sessions.
SQL = "/flott/sql"
FATES = ("running", "finished", "failed", "canceled")


def in_braces(path: str) -> str:
    return "/".join(f"{{{part[1:]}}}" if part.startswith(":") else part for part in path.split("/"))


QUESTIONS = sorted(
    {
        path
        for one in all_endpoints()
        if one.method == "GET" and (path := in_braces(one.path)) not in ORDERS_BY_GET and not path.startswith(SQL)
    }
)


@pytest.fixture(scope="module")
def http(session: Session) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=session.url, trust_env=False, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def document(http: httpx.Client) -> dict[str, Any]:
    return dict(http.get("/openapi.json").json())


class Answers:
    """The values of path parameters, for a job as it is."""

    def __init__(self, http: httpx.Client):
        self._http = http
        self._program = ""
        self._triggers: dict[tuple[str, str], str] = {}

    def get(self, path: str) -> Any:
        return self._http.get(path).raise_for_status().json()

    def paths(self, template: str, job: str) -> list[str]:
        """All that a path can mean for a job: one for each of its vertices, say."""
        paths = [template.replace("{jobid}", job).replace("{applicationid}", job).replace("{sinkname}", "7")]
        if "{vertexid}" in template:
            vertices = [vertex["id"] for vertex in self.get(f"/jobs/{job}")["vertices"]]
            paths = [path.replace("{vertexid}", ident) for path in paths for ident in vertices]
        if "{checkpointid}" in template:
            completed = self.get(f"/jobs/{job}/checkpoints")["latest"]["completed"]
            ident = str(completed["id"]) if completed else "1"
            paths = [path.replace("{checkpointid}", ident) for path in paths]
        if "{taskmanagerid}" in template:
            ident = self.get("/taskmanagers")["taskmanagers"][0]["id"]
            paths = [path.replace("{taskmanagerid}", ident) for path in paths]
        if "{logname}" in template:
            paths = [path.replace("{logname}", self.get(path.rpartition("/")[0])["logs"][0]["name"]) for path in paths]
        if "{triggerid}" in template:
            paths = [path.replace("{triggerid}", self.trigger(template, job)) for path in paths]
        if "{jarid}" in template:
            paths = [path.replace("{jarid}", self.program()) for path in paths]
        return [path.replace("{subtaskindex}", "1").replace("{attempt}", "0") for path in paths]

    def program(self) -> str:
        if not self._program:
            with open(PROGRAMS / "visits.py", "rb") as file:
                uploaded = self._http.post("/jars/upload", files={"jarfile": ("visits.py", file)}).raise_for_status()
            self._program = Path(uploaded.json()["filename"]).name
        return self._program

    def trigger(self, template: str, job: str) -> str:
        """The id of an operation that was ordered of the job while it ran."""
        method, path, body = {
            "savepoints": ("POST", f"/jobs/{job}/savepoints", {"target-directory": f"/tmp/flott-unused-{job}"}),
            "checkpoints": ("POST", f"/jobs/{job}/checkpoints", {}),
            "rescaling": ("PATCH", f"/jobs/{job}/rescaling?parallelism=2", {}),
            "savepoint-disposal": ("POST", "/savepoint-disposal", {"savepoint-path": "/tmp/flott-there-is-none"}),
            "savepoint-export": (
                "POST",
                "/flott/savepoint-export",
                {"savepoint-path": "/tmp/flott-there-is-none", "target-directory": "/tmp/flott-unused"},
            ),
            "preview": ("POST", f"/jobs/{job}/flott/preview", {"operator": "Greet"}),
        }[template.split("/")[-2]]
        reply = self._http.request(method, path, json=body)
        assert reply.status_code in (200, 202, 409), reply.text
        return str(reply.json().get("request-id", "0" * 32))


@pytest.fixture(scope="module")
def answers(http: httpx.Client) -> Answers:
    return Answers(http)


def test_the_document_describes_all_endpoints_and_nothing_else(document: dict[str, Any]) -> None:
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(one.method, in_braces(one.path)) for one in all_endpoints()}
    tested = {("GET", path) for path in {*QUESTIONS, *ORDERS_BY_GET}} | set(ORDERS)
    elsewhere = {(method, path) for method, path in described if path.startswith(SQL)}
    assert described == tested | elsewhere | {("DELETE", "/cluster")}  # that one is given where sessions end


@pytest.mark.parametrize("path", QUESTIONS)
def test_a_question_about_jobs_of_every_fate_is_answered_as_the_document_says(
    path: str, jobs: Jobs, http: httpx.Client, document: dict[str, Any], answers: Answers
) -> None:
    described = document["paths"][path]["get"]["responses"]["200"]["content"]
    for fate in FATES if {"{jobid}", "{applicationid}"} & set(path.split("/")) else FATES[:1]:
        for asked in answers.paths(path, getattr(jobs, fate)):
            parameters = {"programArg": "unused"} if "{jarid}" in path else STATE.get(path, {})
            reply = http.get(f"/v1{asked}" if len(path) > 1 else path, params=parameters)
            media = reply.headers.get("content-type", "").split(";")[0]
            if reply.status_code == 200:
                assert media in described, asked
                if media == "application/json":
                    schema = {**described[media]["schema"], "components": document["components"]}
                    jsonschema_rs.validator_for(schema).validate(reply.json())
                elif media == "text/plain":
                    assert reply.text
                continue
            allowed = REFUSED.get(path, set()) | ({404, 409} if "{triggerid}" in path and fate != "running" else set())
            assert reply.status_code in allowed, f"{fate}: {asked}: {reply.status_code} {reply.text}"
            assert fate != "running" or path.endswith(REFUSED_WHILE_RUNNING), f"{asked}: {reply.text}"
            assert reply.status_code == 307 or all(reply.json()["errors"]), asked


@pytest.mark.parametrize(("name", "number", "entry"), list(cases()))
def test_a_reply_about_a_real_job_has_the_fields_of_flinks(
    name: str, number: int, entry: dict[str, Any], jobs: Jobs, http: httpx.Client, answers: Answers
) -> None:
    fates = {
        "job-finished": ["finished"],
        "job-failed": ["failed"],
        "job-canceled": ["canceled"],
        "job-execution-result": ["running", "finished", "canceled", "failed"],
        "job-exceptions": ["finished", "failed"],
        "application": ["running", "failed"],
    }
    job = getattr(jobs, fates.get(name, ["running"] * 9)[number])
    template = in_braces(entry["request"].removeprefix("GET ").partition("?")[0])
    query = entry["request"].partition("?")[2]
    for path in answers.paths(template, job):
        content = http.get(f"{path}?{query}").raise_for_status().json()
        if name == "checkpoints":  # one that goes on has not all of the fields, in Flink either
            content["history"] = [one for one in content["history"] if one["status"] == "COMPLETED"]
        problems = problems_of(name, entry, content, every_field=False)
        assert not problems, "\n".join([path, *problems])


# ---------------------------------------------------------------------------------------------------- what they say


def metrics(session: Session, path: str, *names: str, **query: str) -> dict[str, Any]:
    found = session.rest.get(path, get=",".join(names), **query)
    return {one["id"]: one.get("value", one) for one in found}


def test_records_and_late_ones_are_counted_from_vertex_to_vertex(session: Session, jobs: Jobs) -> None:
    vertices = session.rest.get(f"/jobs/{jobs.finished}")["vertices"]
    assert [vertex["name"] for vertex in vertices] == ["Source: visits", "Greet", "Seconds -> Sink: File"]
    traffic = [(vertex["metrics"]["read-records"], vertex["metrics"]["write-records"]) for vertex in vertices]
    assert traffic == [(0, jobs.records), (jobs.records, jobs.records), (jobs.records, 0)]
    sent = [vertex["metrics"]["write-bytes"] for vertex in vertices]
    received = [vertex["metrics"]["read-bytes"] for vertex in vertices]
    assert received == [0, *sent[:-1]]
    assert all(sent[:-1])
    for vertex in vertices:
        subtasks = session.rest.get(f"/jobs/{jobs.finished}/vertices/{vertex['id']}")["subtasks"]
        assert [one["status"] for one in subtasks] == ["FINISHED", "FINISHED"]
        assert sum(one["metrics"]["read-records"] for one in subtasks) == vertex["metrics"]["read-records"]
    [_, greet, seconds] = (f"/jobs/{jobs.finished}/vertices/{vertex['id']}/subtasks/metrics" for vertex in vertices)
    assert metrics(session, greet, "Greet.greeted", agg="sum")["Greet.greeted"]["sum"] == jobs.records
    assert metrics(session, seconds, "Seconds.numRecordsIn", agg="sum")["Seconds.numRecordsIn"]["sum"] == jobs.records
    accumulators = session.rest.get(f"/jobs/{jobs.finished}/accumulators")["user-task-accumulators"]
    assert {one["name"]: one["value"] for one in accumulators} == {"seen": str(jobs.records)}
    assert metrics(session, f"/jobs/{jobs.finished}/metrics", "numRecordsIn", "pendingRecords", "numRestarts") == {
        "numRecordsIn": str(jobs.records),
        "pendingRecords": "0",
        "numRestarts": "0",
    }


def test_a_job_that_runs_is_measured_in_flinks_words(session: Session, jobs: Jobs) -> None:
    job = f"/jobs/{jobs.running}"
    names = {one["id"] for one in session.rest.get(f"{job}/metrics")}
    assert names >= {
        "uptime", "numRestarts", "numberOfCompletedCheckpoints", "numberOfFailedCheckpoints", "lastCheckpointDuration",
        "lastCheckpointSize", "lastCheckpointFullSize", "lastCheckpointAge", "currentLowWatermark", "pendingRecords",
        "epochPlanTime", "epochScheduleTime", "epochRunTime", "epochAckTime", "epochCommitTime",
    }  # fmt: skip
    source, _, seconds = session.rest.get(job)["vertices"]
    names = {one["id"] for one in session.rest.get(f"{job}/vertices/{seconds['id']}/metrics")}
    words = (
        "numRecordsIn", "numRecordsOut", "numBytesIn", "numBytesOut", "numRecordsInPerSecond", "busyTimeMsPerSecond",
        "idleTimeMsPerSecond", "backPressuredTimeMsPerSecond", "Seconds.currentInputWatermark",
        "Sink__File.numRecordsIn", "Seconds.currentOutputWatermark", "Seconds.numLateRecordsDropped",
    )  # fmt: skip
    assert names >= {f"{subtask}.{word}" for subtask in (0, 1) for word in words}

    def late() -> float:
        path = f"{job}/vertices/{seconds['id']}/subtasks/metrics"
        return float(metrics(session, path, "Seconds.numLateRecordsDropped", agg="sum").popitem()[1]["sum"])

    assert wait_for(lambda: late() > 0, 300)
    for vertex in (source, seconds):
        for one in session.rest.get(f"{job}/vertices/{vertex['id']}/backpressure")["subtasks"]:
            assert 0 <= one["busyRatio"] <= 1
            assert 0 <= one["idleRatio"] <= 1
            assert one["busyRatio"] + one["idleRatio"] + one["ratio"] == pytest.approx(1, abs=0.01)


def test_event_time_moves_on_and_no_vertex_is_ahead_of_its_input(session: Session, jobs: Jobs) -> None:
    def watermarks() -> list[int]:
        found = []
        # From the last to the first: what is asked later may have moved on meanwhile, and only the first may be ahead.
        for vertex in reversed(session.rest.get(f"/jobs/{jobs.running}")["vertices"]):
            path = f"/jobs/{jobs.running}/vertices/{vertex['id']}/watermarks"
            found.append(min(int(one["value"]) for one in session.rest.get(path)))
        assert found == sorted(found)
        return found

    source = watermarks()[-1]
    assert 0 < source < 10_000_000  # event time begins with 0
    wait_for(lambda: watermarks()[0] > source, 300)
    report = session.rest.get(f"/jobs/{jobs.running}/flott/watermark")
    assert report["watermark"] > 0
    assert {place["name"] for place in report["places"]} == {"Sink: File"}


def test_checkpoints_are_counted_timed_and_weighed(session: Session, jobs: Jobs) -> None:
    found = session.rest.get(f"/jobs/{jobs.running}/checkpoints")
    assert found["counts"]["failed"] == 0
    assert found["counts"]["total"] == found["counts"]["completed"] + found["counts"]["in_progress"]
    identities = [one["id"] for one in found["history"]]
    assert identities == sorted(identities, reverse=True)
    latest = found["latest"]["completed"]
    assert latest["state_size"] >= latest["checkpointed_size"] > 0
    assert latest["num_acknowledged_subtasks"] == latest["num_subtasks"] == 6
    assert 0 < latest["end_to_end_duration"] < 60_000
    assert latest["trigger_timestamp"] + latest["end_to_end_duration"] == latest["latest_ack_timestamp"]
    configured = session.rest.get(f"/jobs/{jobs.running}/checkpoints/config")
    assert configured["mode"] == "exactly_once"


def test_the_executors_are_task_managers_with_their_slots_and_memory(session: Session, jobs: Jobs) -> None:
    [manager] = session.rest.get("/taskmanagers")["taskmanagers"]
    assert (manager["slotsNumber"], manager["hardware"]["cpuCores"]) == (2, 2)
    assert 0 <= manager["freeSlots"] <= 2
    assert 0 < manager["hardware"]["freeMemory"] <= manager["hardware"]["physicalMemory"]
    overview = session.rest.get("/overview")
    assert (overview["taskmanagers"], overview["slots-total"]) == (1, 2)
    heap = metrics(session, f"/taskmanagers/{manager['id']}/metrics", "Status.JVM.Memory.Heap.Used")
    assert 0 < float(heap["Status.JVM.Memory.Heap.Used"]) < manager["hardware"]["physicalMemory"] * 2
    states = {job["jid"]: job["state"] for job in session.rest.get("/jobs/overview")["jobs"]}
    assert [states[job] for job in jobs.all] == ["RUNNING", "FINISHED", "FAILED", "CANCELED"]
    assert overview["jobs-running"] == sum(state == "RUNNING" for state in states.values())


def test_logs_hold_what_functions_printed_with_operator_and_subtask(session: Session, jobs: Jobs) -> None:
    said = session.rest.text(f"/jobs/{jobs.finished}/log")
    printed = [line for line in said.splitlines() if "had 20 visits" in line]
    assert len(printed) == 7  # one for each page
    assert {line.partition("[")[2].partition("]")[0] for line in printed} == {"Greet (1/2)", "Greet (2/2)"}
    assert sum("WARNING" in line and "is popular" in line for line in said.splitlines()) >= 7
    assert "number 700 is not to my liking" in session.rest.text(f"/jobs/{jobs.failed}/log")
    assert f"Job {jobs.finished} ('visits') ended: FINISHED" in session.rest.text("/jobmanager/log")


def test_a_failure_names_the_task_and_the_users_line(session: Session, jobs: Jobs) -> None:
    [entry] = session.rest.get(f"/jobs/{jobs.failed}/exceptions")["exceptionHistory"]["entries"]
    assert (entry["exceptionName"], entry["taskManagerId"]) == ("ValueError", "driver")
    assert entry["taskName"].startswith("Source: numbers (")
    assert "number 700 is not to my liking" in entry["stacktrace"]
    assert "tally.py" in entry["stacktrace"]
    result = session.rest.get(f"/jobs/{jobs.failed}/execution-result")["job-execution-result"]
    assert result["application-status"] == "FAILED"
    assert "number 700" in result["failure-cause"]["stack-trace"]


# ------------------------------------------------------------------------------------------------------------- orders

ORDERS: dict[tuple[str, str], Callable[..., None]] = {}


def gives(*orders: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Marks the test of these orders."""

    def mark(test: Callable[..., None]) -> Callable[..., None]:
        for order in orders:
            method, _, path = order.partition(" ")
            ORDERS[method, path] = test
        return test

    return mark


def operation(session: Session, path: str) -> dict[str, Any]:
    """The outcome of something that was ordered."""

    def outcome() -> Any:
        reply = session.rest.get(path)
        return [reply["operation"]] if reply["status"]["id"] == "COMPLETED" else None

    [found] = wait_for(outcome, 300)
    return dict(found or {})


@gives(
    "POST /jobs",
    "POST /jobs/{jobid}/savepoints",
    "POST /jobs/{jobid}/checkpoints",
    "PATCH /jobs/{jobid}/rescaling",
    "PUT /jobs/{jobid}/resource-requirements",
    "PATCH /jobs/{jobid}/clientHeartbeat",
    "POST /jobs/{jobid}/stop",
    "POST /savepoint-disposal",
    "POST /flott/savepoint-export",
    "POST /jobs/{jobid}/flott/preview",
    "POST /jobs/{jobid}/flott/restore",
)
def test_a_job_is_checkpointed_savepointed_rescaled_and_stopped(
    session: Session, http: httpx.Client, tmp_path: Path
) -> None:
    job_id = session.submit(tmp_path / "out", "--rate", "100")
    job = f"/jobs/{job_id}"
    session.await_epochs(job_id, 1)
    trigger = session.rest.post(f"{job}/checkpoints", json={"checkpointType": "FULL"})["request-id"]
    assert operation(session, f"{job}/checkpoints/{trigger}")["checkpointId"] > 0
    trigger = session.rest.post(f"{job}/savepoints", json={"target-directory": str(tmp_path / "sp")})["request-id"]
    taken = operation(session, f"{job}/savepoints/{trigger}")["location"]
    assert list(Path(taken.removeprefix("file:")).glob("_metadata"))
    assert session.rest.get(f"{job}/checkpoints")["latest"]["savepoint"]["external_path"] == taken
    trigger = session.rest.post(f"{job}/flott/preview", json={"operator": "count"})["request-id"]
    assert "failure-cause" not in (shown := operation(session, f"{job}/flott/preview/{trigger}")), shown
    assert shown["failure"] is None
    trigger = session.rest.patch(f"{job}/rescaling", parallelism=1)["request-id"]
    assert "failure-cause" not in operation(session, f"{job}/rescaling/{trigger}")
    assert {vertex["parallelism"] for vertex in session.rest.get(job)["vertices"]} == {1}
    wanted = session.rest.get(f"{job}/resource-requirements")
    for bounds in wanted.values():
        bounds["parallelism"] = {"lowerBound": 1, "upperBound": 2}
    http.put(f"{job}/resource-requirements", json=wanted).raise_for_status()
    wait_for(lambda: {vertex["parallelism"] for vertex in session.rest.get(job)["vertices"]} == {2}, 300)
    session.rest.patch(f"{job}/clientHeartbeat", json={"expiredTimestamp": 2**52})
    order = {"targetDirectory": str(tmp_path / "sp"), "drain": False}
    trigger = session.rest.post(f"{job}/stop", json=order)["request-id"]
    last = operation(session, f"{job}/savepoints/{trigger}")["location"]
    session.await_status(job_id, "FINISHED")
    assert counts(tmp_path / "out")
    wanted = {"savepoint-path": last, "target-directory": str(tmp_path / "backup")}
    trigger = session.rest.post("/flott/savepoint-export", json=wanted)["request-id"]
    copy = operation(session, f"/flott/savepoint-export/{trigger}")["location"]
    again = session.rest.post(f"{job}/flott/restore", json={"savepoint-path": copy})["jobid"]
    session.await_epochs(again, 1)
    session.rest.patch(f"/jobs/{again}", mode="cancel")
    session.await_status(again, "CANCELED")
    for path in (taken, last):
        trigger = session.rest.post("/savepoint-disposal", json={"savepoint-path": path})["request-id"]
        assert "failure-cause" not in operation(session, f"/savepoint-disposal/{trigger}")
        assert not Path(path.removeprefix("file:")).exists()
    trigger = session.rest.post("/savepoint-disposal", json={"savepoint-path": taken})["request-id"]
    assert "failure-cause" in operation(session, f"/savepoint-disposal/{trigger}")


@gives("POST /flott/session", "DELETE /flott/session")
def test_without_a_token_nobody_has_to_log_in(session: Session, http: httpx.Client) -> None:
    for reply in (http.post("/flott/session", json={"token": "any"}), http.delete("/flott/session")):
        assert reply.json() == {"token-required": False, "logged-in": True}


@gives("PATCH /jobs/{jobid}", "POST /applications/{applicationid}/cancel")
def test_jobs_are_cancelled_by_each_of_flinks_ways(session: Session, tmp_path: Path, http: httpx.Client) -> None:
    ways = [("PATCH", "/jobs/{}?mode=cancel"), ("GET", "/jobs/{}/yarn-cancel"), ("POST", "/applications/{}/cancel")]
    started = [session.submit(tmp_path / str(number), "--rate", "10") for number in range(len(ways))]
    for (method, path), job in zip(ways, started, strict=True):
        assert http.request(method, path.format(job)).status_code == 202
        session.await_status(job, "CANCELED")
        assert http.patch(f"/jobs/{job}?mode=cancel").status_code in (202, 404, 409)
        assert http.get(f"/jobs/{job}/execution-result").json()["status"]["id"] == "COMPLETED"


@gives("POST /jars/upload", "POST /jars/{jarid}/run", "POST /jars/{jarid}/plan", "DELETE /jars/{jarid}")
def test_an_uploaded_program_is_shown_run_and_deleted(session: Session, tmp_path: Path, http: httpx.Client) -> None:
    with open(TALLY, "rb") as file:
        refused = http.post("/jars/upload", files={"jarfile": ("../../tally.py", file)})
    assert ".." not in Path(refused.json().get("filename", "")).parts, refused.text
    archive = tmp_path / "tally.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.write(TALLY, "__main__.py")
        packed.write(PROGRAMS / "counter.py", "counter.py")
    with open(archive, "rb") as file:
        uploaded = http.post("/jars/upload", files={"jarfile": ("tally.zip", file)}).raise_for_status().json()
    assert uploaded["status"] == "success"
    program = Path(uploaded["filename"]).name
    assert program in {one["id"] for one in http.get("/jars").json()["files"]}
    arguments = {"programArgsList": [str(tmp_path / "out"), "--records", "1000"], "parallelism": 2}
    plan = http.post(f"/jars/{program}/plan", json=arguments).raise_for_status().json()["plan"]
    assert [node["description"] for node in plan["nodes"]]
    assert not (tmp_path / "out").exists()
    job = http.post(f"/jars/{program}/run", json=arguments).raise_for_status().json()["jobid"]
    assert http.get(f"/jobs/{job}/plan").json()["plan"]["name"] == "tally"
    session.await_status(job, "FINISHED")
    assert counts(tmp_path / "out") == dict.fromkeys(range(5), 200)
    assert http.delete(f"/jars/{program}").status_code == 200
    assert program not in {one["id"] for one in http.get("/jars").json()["files"]}
    assert http.post(f"/jars/{program}/run").status_code in (400, 404)
    failing = {"programArgsList": ["out", "--no-such-option"]}
    again = http.post("/jars/upload", files={"jarfile": ("tally.zip", archive.read_bytes())}).json()
    refused = http.post(f"/jars/{Path(again['filename']).name}/run", json=failing)
    assert refused.status_code >= 400
    assert "unrecognized arguments" in json.dumps(refused.json()), refused.text

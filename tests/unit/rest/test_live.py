"""Answers for open pages: what they say, that they are sent only if they changed, and what many pages cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from flott.common.job_status import JobStatus
from flott.rest.app import all_endpoints, create_app
from flott.rest.endpoints import live as live_endpoints
from flott.rest.shapes.job.failures import job_failures, replay_line
from flott.rest.shapes.live.numbers import skew_of
from flott.rest.shapes.live.vertices import live_edges, live_job, vertex_skew
from flott.runtime.jobmanager.programs import ProgramStore
from flott.runtime.jobmanager.views.job_history import STEP_MS
from flott.runtime.jobmanager.views.job_view import InputView, JobView, LatencyView, Traffic, VertexView
from tests.unit.rest.fake_cluster import (
    CARD,
    FINISHED,
    NOW,
    RUNNING,
    SOURCE,
    TASK_MANAGER,
    UNKNOWN,
    WINDOW,
    FakeCluster,
    running_job,
)
from tests.unit.rest.test_replies_of_any_job import calls_of, wide_job


class HandClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now_ms(self) -> int:
        return NOW + round(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def client(cluster: FakeCluster, clock: HandClock, tmp_path: Path) -> Iterator[TestClient]:
    app = create_app(cluster, ProgramStore(tmp_path / "programs", cluster.configuration), clock)
    with TestClient(app, base_url="http://localhost:8081", raise_server_exceptions=False) as client:
        yield client


# ---- only what has changed ------------------------------------------------------------------------------------------

LIVE_PATHS = [endpoint.path for endpoint in live_endpoints.ENDPOINTS]


@pytest.mark.parametrize("path", LIVE_PATHS)
def test_an_answer_that_the_page_has_is_not_sent_again(client: TestClient, clock: HandClock, path: str) -> None:
    path = path.replace(":jobid", RUNNING).replace(":vertexid", WINDOW)
    first = client.get(path)
    assert first.status_code == 200, first.text
    tag = first.headers["etag"]
    for seconds in (0.0, 10.0):  # as it is kept, and built again with the same content
        clock.seconds += seconds
        again = client.get(path, headers={"If-None-Match": f'"other", {tag}'})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
        assert again.headers["x-flott-now"] == str(clock.now_ms())
    assert client.get(path, headers={"If-None-Match": '"other"'}).json() == first.json()


def test_an_answer_that_changed_is_sent(client: TestClient, cluster: FakeCluster, clock: HandClock) -> None:
    first = client.get("/flott/live")
    cluster.known[RUNNING] = replace(cluster.known[RUNNING], status=JobStatus.FAILING)
    clock.seconds += 2
    second = client.get("/flott/live", headers={"If-None-Match": first.headers["etag"]})
    assert second.status_code == 200
    assert second.headers["etag"] != first.headers["etag"]
    assert next(job for job in second.json()["jobs"] if job["id"] == RUNNING)["status"] == "FAILING"


def test_twenty_pages_cost_no_more_building_than_one(
    client: TestClient, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = 0
    build = live_endpoints.live_overview

    def counted(*arguments: object) -> object:
        nonlocal built
        built += 1
        return build(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(live_endpoints, "live_overview", counted)
    tags = [""] * 20
    sent = 0
    for _ in range(30):  # half a minute, every page asks once a second
        for page in range(20):
            reply = client.get("/flott/live", headers={"If-None-Match": tags[page]})
            tags[page] = reply.headers["etag"]
            sent += reply.status_code == 200
            clock.seconds += 1 / 20
    assert built <= 31
    assert sent == 20  # each page once: nothing has changed


def test_an_unchanged_answer_for_fifty_jobs_costs_a_handful_of_calls(
    client: TestClient, cluster: FakeCluster
) -> None:
    cluster.known = {f"{n:032x}": wide_job(f"{n:032x}", vertices=10, parallelism=2) for n in range(50)}
    tag = client.get("/flott/live").headers["etag"]
    live = client.app.router.default._live  # type: ignore[attr-defined]
    headers = {"if-none-match": tag}
    built = live.built

    def refuse() -> object:
        raise AssertionError("a kept answer was built again")

    kept = calls_of(lambda: live.reply(("/flott/live",), headers, refuse))
    assert live.built == built
    assert kept < 100  # building it makes tens of thousands


def test_pages_that_are_not_open_any_more_leave_nothing(client: TestClient, cluster: FakeCluster) -> None:
    cluster.known = {f"{n:032x}": running_job(f"{n:032x}") for n in range(300)}
    for job_id in cluster.known:
        assert client.get(f"/jobs/{job_id}/flott/live").status_code == 200
    live = client.app.router.default._live  # type: ignore[attr-defined]
    assert len(live._kept) == 256


# ---- answers in Flink's form ----------------------------------------------------------------------------------------

PAGE = {"X-Requested-With": "flott-web"}
SHARED_PATHS = [endpoint.path for endpoint in all_endpoints() if endpoint.shared]


def with_names(path: str) -> str:
    names = {":jobid": RUNNING, ":vertexid": WINDOW, ":checkpointid": "7", ":taskmanagerid": TASK_MANAGER}
    for name, value in names.items():
        path = path.replace(name, value)
    return path


@pytest.mark.parametrize("path", SHARED_PATHS)
def test_open_pages_share_an_answer_and_a_script_gets_a_new_one(client: TestClient, path: str) -> None:
    path = with_names(path)
    live = client.app.router.default._live  # type: ignore[attr-defined]
    first = client.get(path, headers=PAGE)
    assert first.status_code == 200, first.text
    assert live.built == 1
    again = client.get(path, headers={**PAGE, "If-None-Match": first.headers["etag"]})
    assert (again.status_code, live.built) == (304, 1)
    script = client.get(path)
    assert "etag" not in script.headers
    assert type(script.json()) is type(first.json())
    assert live.built == 1


def test_pages_that_ask_what_holds_event_time_back_ask_the_job_once(client: TestClient, cluster: FakeCluster) -> None:
    path = f"/jobs/{RUNNING}/flott/watermark"
    for _ in range(5):
        assert client.get(path, headers=PAGE).json()["epoch"] == 7
    assert len(cluster.orders) == 1
    client.get(path)
    assert len(cluster.orders) == 2


def test_an_answer_that_is_refused_is_not_kept(client: TestClient, cluster: FakeCluster) -> None:
    path = f"/jobs/{UNKNOWN}/flott/watermark"
    assert client.get(path, headers=PAGE).status_code == 404
    cluster.known[UNKNOWN] = running_job(UNKNOWN)
    assert client.get(path, headers=PAGE).status_code == 200


def test_savepoints_have_a_history_of_their_own_in_which_disposed_ones_are_marked(
    client: TestClient, cluster: FakeCluster, clock: HandClock
) -> None:
    def told() -> list[tuple[str, bool]]:
        clock.seconds += 2
        reply = client.get(f"/jobs/{RUNNING}/flott/savepoints").json()
        return [(one["external_path"], one["discarded"]) for one in reply["savepoints"]]

    assert told() == [("/s/savepoint-1", False)]
    client.post("/savepoint-disposal", json={"savepoint-path": "/s/savepoint-1"})
    assert told() == [("/s/savepoint-1", True)]


# ---- what they say --------------------------------------------------------------------------------------------------


def test_the_overview_has_what_an_operator_looks_for_first(client: TestClient) -> None:
    reply = client.get("/flott/live").json()
    assert (reply["executors"], reply["slots-total"], reply["slots-available"]) == (1, 4, 2)
    job = next(one for one in reply["jobs"] if one["id"] == RUNNING)
    assert job["records-per-second"] == 21.0
    assert job["last-checkpoint"] == NOW - 1900
    assert (job["busy"], job["backpressured"]) == (0.4, 0.0)
    assert job["tasks"] == {"RUNNING": 4}
    assert next(one for one in reply["jobs"] if one["id"] == FINISHED)["busy"] == 0.0


def test_series_have_one_column_per_number(client: TestClient, cluster: FakeCluster) -> None:
    for step in range(3):
        cluster.histories.note(cluster.known[RUNNING], NOW + step * STEP_MS)
    reply = client.get("/flott/series").json()
    series = reply["jobs"][RUNNING]
    assert len(series["at"]) == 3
    assert {len(column) for column in series.values()} == {3}
    assert FINISHED not in reply["jobs"]
    own = client.get(f"/jobs/{RUNNING}/flott/series").json()
    assert own["series"] == series
    assert own["vertices"][SOURCE]["records-in-per-second"] == [21.0] * 3


def test_the_graph_has_shares_rates_and_counts_on_its_edges(client: TestClient) -> None:
    reply = client.get(f"/jobs/{RUNNING}/flott/live").json()
    source, window = reply["vertices"]
    assert (window["busy"], window["idle"], window["backpressured"]) == (0.4, 0.6, 0.0)
    assert window["records-in"] == 201
    assert window["late"] == 3
    assert [operator["source-line"] for operator in window["operators"]] == ["program.py:5", "program.py:6"]
    assert reply["edges"] == [
        {
            "source": source["id"], "target": window["id"], "input": 0, "ship-strategy": "HASH", "records": 201,
            "bytes": 2000, "records-per-second": 21.0, "bytes-per-second": 210.0,
        }
    ]  # fmt: skip


def test_an_edge_of_a_job_that_an_earlier_version_archived_has_no_counts() -> None:
    job = running_job()
    former = replace(job.vertices[1], inputs=(InputView(SOURCE, "HASH", 0),))
    [edge] = live_edges(replace(job, vertices=(job.vertices[0], former)))
    assert [edge[name] for name in ("records", "bytes", "records-per-second", "bytes-per-second")] == [None] * 4  # type: ignore[literal-required]


@pytest.mark.parametrize(
    ("values", "ratio", "subtask"),
    [([1, 1, 1], 1.0, 0), ([0, 0, 6], 3.0, 2), ([], None, None), ([0, 0], None, None), ([float("nan"), 4], 2.0, 1)],
)
def test_skew_is_the_largest_against_the_mean(values: list[float], ratio: float | None, subtask: int | None) -> None:
    found = skew_of(values)
    assert (found["ratio"], found["subtask"]) == (ratio, subtask)


def test_the_skew_of_a_source_is_that_of_what_it_emits() -> None:
    def vertex(*sent: int) -> VertexView:
        template = running_job().vertices[0]
        subtasks = [
            replace(template.subtasks[0], index=i, traffic=Traffic(records_out=n)) for i, n in enumerate(sent)
        ]
        return replace(template, subtasks=tuple(subtasks))

    assert vertex_skew(vertex(30, 10).subtasks)["records"]["ratio"] == 1.5


def test_a_vertex_shows_its_subtasks(client: TestClient) -> None:
    reply = client.get(f"/jobs/{RUNNING}/flott/vertices/{WINDOW}").json()
    assert [subtask["records-in"] for subtask in reply["subtasks"]] == [100, 101]
    assert reply["subtasks"][1]["watermark"] == NOW - 5000
    assert reply["skew"]["state"] == {"largest": 2048.0, "mean": 2048.0, "ratio": 1.0, "subtask": 0}
    assert client.get(f"/jobs/{RUNNING}/flott/vertices/{'f' * 32}").status_code == 404


def test_a_vertex_shows_the_ages_of_markers_at_its_operators(client: TestClient, cluster: FakeCluster) -> None:
    path = f"/jobs/{RUNNING}/flott/vertices/{WINDOW}"
    assert client.get(path).json()["latencies"] == []
    quantiles = {"0.5": 11.0, "0.95": 60.0, "0.99": 88.0}
    at_sink, at_sum, elsewhere = (
        LatencyView(operator, 1, "11" * 16, None, 300, -2, 90, 12.54, 3.5, quantiles)
        for operator in ("22" * 16, "21" * 16, "11" * 16)
    )
    bare = LatencyView("21" * 16, 0)
    cluster.known[RUNNING] = replace(cluster.known[RUNNING], latencies=(at_sink, elsewhere, at_sum, bare))
    cluster.known["f" * 32] = cluster.known.pop(RUNNING)  # another path, so that no answer is kept
    found = client.get(path.replace(RUNNING, "f" * 32)).json()["latencies"]
    assert [(one["operator"], one["subtask"]) for one in found] == [("21" * 16, 0), ("21" * 16, 1), ("22" * 16, 1)]
    assert found[0]["source"] is None
    assert found[1] == {
        "operator": "21" * 16, "subtask": 1, "source": "11" * 16, "source-subtask": None, "count": 300, "min": -2.0,
        "mean": 12.5, "p50": 11.0, "p95": 60.0, "p99": 88.0, "max": 90.0,
    }  # fmt: skip


def test_the_timeline_has_epochs_with_phases_and_what_happened(client: TestClient) -> None:
    reply = client.get(f"/jobs/{RUNNING}/flott/timeline").json()
    assert [(epoch["epoch"], epoch["status"]) for epoch in reply["epochs"]] == [(5, "FAILED"), (7, "COMPLETED")]
    assert reply["epochs"][1]["phases"] == {"run": 80.0}
    kinds = [event["kind"] for event in reply["events"]]
    assert set(kinds) == {"status", "failure", "restored", "rescale", "savepoint"}
    assert [event["at"] for event in reply["events"]] == sorted(event["at"] for event in reply["events"])


def test_late_records_are_counted_and_shown_as_text(client: TestClient) -> None:
    [entry] = client.get(f"/jobs/{RUNNING}/flott/late").json()["operators"]
    assert (entry["records-in"], entry["processed"], entry["late"], entry["dropped"]) == (100, 97, 1, 2)
    assert (entry["vertex"], entry["operator"]) == (WINDOW, "sum")
    [sample] = entry["samples"]
    assert (sample["record"], sample["behind"]) == ("<script>alert(1)</script>", 9000)


def test_a_failure_card_comes_in_parts_with_the_line_that_replays_it(client: TestClient) -> None:
    [failure] = client.get(f"/jobs/{RUNNING}/flott/failures").json()["failures"]
    assert failure["card"]["record"] == "('x', 1)"
    assert failure["card"]["origin"] == ["orders-0@10", "orders-0@12"]
    assert failure["replay"] == f"flott replay {RUNNING} --epoch=5 '--operator=the sum; rm -rf'"


def test_a_failure_without_a_task_has_no_line_to_replay() -> None:
    job = running_job()
    bare = replace(job, failures=(replace(job.failures[0], card=None),))
    assert job_failures(bare)["failures"][0]["replay"] is None
    assert replay_line("a" * 32, replace(CARD, uid=None, operator=None)) == f"flott replay {'a' * 32} --epoch=5"


def test_a_job_without_anything_is_shown(client: TestClient, cluster: FakeCluster) -> None:
    bare = JobView("9" * 32, "new", JobStatus.INITIALIZING, start_ms=NOW)
    cluster.known[bare.job_id] = bare
    for path in LIVE_PATHS:
        if ":vertexid" not in path:
            assert client.get(path.replace(":jobid", bare.job_id)).status_code == 200
    assert live_job(bare)["vertices"] == []


Serve = Callable[..., TestClient]


def test_without_the_token_nothing_is_shown(serve: Serve) -> None:
    client = serve(**{"flott.rest.token": "s3cret"})
    for path in LIVE_PATHS:
        assert client.get(path.replace(":jobid", RUNNING).replace(":vertexid", WINDOW)).status_code == 401

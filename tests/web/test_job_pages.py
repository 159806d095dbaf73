"""The pages of jobs and programs in a real browser, over a cluster made of data: what readers see and do there."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flott.common.job_status import JobStatus
from flott.runtime.jobmanager.inspection.questions import PageRows
from flott.runtime.jobmanager.views.job_view import JobView, TaskState
from tests.unit.rest.fake_cluster import FINISHED, RESTARTING, RUNNING, ended_job
from tests.web.browser import Viewer, until, viewer
from tests.web.fake_job_manager import served
from tests.web.told_cluster import ToldCluster, ident, records, shop_job, told_cluster

pytestmark = pytest.mark.xdist_group("web")  # one browser

JOB = f"/jobs/{RUNNING}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ToldCluster:
    cluster = told_cluster(tmp_path_factory.mktemp("cluster"))
    cluster.known[RUNNING] = shop_job(RUNNING)
    cluster.known[FINISHED] = ended_job(FINISHED, JobStatus.FINISHED, TaskState.FINISHED)
    cluster.note_minutes(RUNNING, 10)
    return cluster


@pytest.fixture(scope="module")
def seen(browser: Any, cluster: ToldCluster) -> Iterator[Viewer]:
    with served(cluster) as url:
        yield viewer(browser, url)


@pytest.fixture
def problems(seen: Viewer) -> Iterator[None]:
    """No page of the test logs an error."""
    seen.problems.clear()
    yield
    assert seen.problems == []


# ---- the graph ------------------------------------------------------------------------------------------------------


def test_a_box_has_the_colour_of_what_its_vertex_mostly_does(seen: Viewer, problems: None) -> None:
    page = seen.open(JOB)
    colour = "(box) => getComputedStyle(box).borderLeftColor"
    found = {}
    for name, load in (("join", "busy"), ("check", "backpressured"), ("files", "idle")):
        box = page.locator(".vertex", has_text=name).first
        assert load in str(box.get_attribute("class")).split()
        swatch = page.locator(f".legend .swatch.{load}").first
        found[load] = box.evaluate(colour)
        assert found[load] == swatch.evaluate("(one) => getComputedStyle(one).backgroundColor")
    assert len(set(found.values())) == 3
    page.close()


def test_the_numbers_of_an_edge_change_while_the_page_is_open(
    seen: Viewer, cluster: ToldCluster, problems: None
) -> None:
    page = seen.open(JOB)
    page.locator(".edge-label", has_text="21/s").first.wait_for()
    job = cluster.known[RUNNING]
    faster = [
        replace(one, inputs=tuple(replace(edge, records_per_second=4321.0) for edge in one.inputs))
        for one in job.vertices
    ]
    cluster.known[RUNNING] = replace(job, vertices=tuple(faster))
    page.locator(".edge-label", has_text="4.32 k/s").first.wait_for()
    cluster.known[RUNNING] = job
    page.close()


def test_how_records_are_distributed_is_told_in_words(seen: Viewer, problems: None) -> None:
    page = seen.open(JOB)
    told = page.locator(".edge-label .strategy", has_text="hash").first.get_attribute("title")
    assert "records of a key" in told
    page.close()


def test_back_from_a_vertex_returns_to_the_graph(seen: Viewer, problems: None) -> None:
    page = seen.open("/")
    page.get_by_role("link", name="shop revenue").click()
    page.get_by_role("button", name=re.compile("^join")).click()
    page.get_by_role("heading", name="Subtasks").wait_for()
    page.go_back()
    page.get_by_role("heading", name="The last minutes").wait_for()
    assert page.inner_text("main h1") == "shop revenue"
    page.go_back()
    page.get_by_role("heading", name="Overview").wait_for()
    page.close()


def test_until_another_vertex_has_come_the_former_one_stays(seen: Viewer, problems: None) -> None:
    page = seen.open(f"{JOB}?vertex={ident('join')}")
    heading = page.locator("h2.large")
    assert heading.inner_text() == "join"
    held: list[Any] = []
    page.route(f"**/flott/vertices/{ident('files')}", lambda route: held.append(route))
    page.get_by_role("button", name=re.compile("^files")).click()
    page.get_by_label("Find a metric").fill("numRecordsIn")
    page.get_by_label("numRecordsIn", exact=True).wait_for()
    assert heading.inner_text() == "join"
    assert page.locator(".vertex[aria-pressed=true]").inner_text().count("join")
    until(page, lambda: held)
    page.unroute(f"**/flott/vertices/{ident('files')}")  # lets the answer come
    page.locator("h2.large", has_text="files").wait_for()
    page.close()


def test_an_ended_job_promises_no_values(seen: Viewer, problems: None) -> None:
    page = seen.open(f"/jobs/{FINISHED}")
    page.get_by_text("are not kept any more").wait_for()
    assert "first values come" not in page.inner_text("main")
    page.close()


def test_a_job_page_says_where_it_is(seen: Viewer, problems: None) -> None:
    page = seen.open(f"{JOB}/state")
    trail = page.get_by_role("navigation", name="Where this page is")
    assert trail.inner_text().split("\n") == ["Overview", "›", "shop revenue", "›", "State"]
    assert page.locator(".top nav a[aria-current]").count() == 0
    trail.get_by_role("link", name="shop revenue").click()
    page.get_by_role("heading", name="Graph").wait_for()
    page.close()


# ---- a vertex and its metrics ---------------------------------------------------------------------------------------


def test_the_watermark_that_is_charted_is_that_of_the_slowest_subtask(seen: Viewer, problems: None) -> None:
    page = seen.open(f"{JOB}?vertex={ident('join')}")
    page.get_by_label("Find a metric").fill("currentInputWatermark")
    page.get_by_role("checkbox").first.check()
    chart = page.locator("figure", has_text="currentInputWatermark (least of subtasks)")
    chart.locator("path.series").wait_for(state="attached")
    year = time.strftime("%Y")
    assert year in chart.locator(".reading").inner_text(), "a sum of two times would be in the next century"
    labels = chart.locator("text.axis").all_text_contents()
    assert len(labels) >= 2
    assert all(re.fullmatch(r"\d\d:\d\d(:\d\d)?", label) for label in labels), labels
    page.get_by_role("button", name="Least, mean, largest").click()
    assert page.locator("figure", has_text="currentInputWatermark").locator("path.series").count() == 3
    page.close()


def test_a_ninth_metric_replaces_the_first_and_its_box_says_so(seen: Viewer, problems: None) -> None:
    page = seen.open(f"{JOB}?vertex={ident('join')}")
    boxes = page.get_by_role("group", name="Metrics to chart").get_by_role("checkbox")
    boxes.nth(8).wait_for()
    for box in boxes.all():
        if box.is_checked():
            box.uncheck()
    for index in range(9):
        boxes.nth(index).check()
    until(page, lambda: page.locator(".metric-list input:checked").count() == 8)
    assert not boxes.nth(0).is_checked()
    assert boxes.nth(8).is_checked()
    page.close()


def test_metrics_that_are_picked_before_the_page_is_drawn_again_are_all_picked(seen: Viewer, problems: None) -> None:
    page = seen.open(f"{JOB}?vertex={ident('join')}")
    boxes = page.get_by_role("group", name="Metrics to chart").get_by_role("checkbox")
    boxes.nth(8).wait_for()
    charts = page.locator(".charts figure")
    boxes.evaluate_all("boxes => boxes.forEach(box => { if (box.checked) box.click(); })")
    until(page, lambda: charts.count() == 0)
    boxes.evaluate_all("boxes => boxes.slice(2, 5).forEach(box => box.click())")
    charts.nth(2).wait_for()
    assert [boxes.nth(index).is_checked() for index in range(6)] == [False, False, True, True, True, False]
    page.close()


def test_the_ages_of_latency_markers_are_told_with_the_vertex(seen: Viewer, problems: None) -> None:
    page = seen.open(f"{JOB}?vertex={ident('join')}")
    table = page.get_by_role("table", name="Latency")
    cells = table.locator("tbody tr").first.locator("td").all_inner_texts()
    assert cells == ["join", "1", "orders", "1 ms", "4 ms", "61 ms", "88 ms", "90 ms", "300"]
    page.get_by_role("button", name=re.compile("^files")).click()
    table.wait_for(state="detached")
    page.close()


def test_values_of_a_chart_are_read_with_the_pointer_and_with_keys(seen: Viewer, problems: None) -> None:
    page = seen.open(JOB)
    chart = page.locator("figure", has_text="Records read").first
    reading = chart.locator(".reading")
    chart.locator("svg").hover(position={"x": 200, "y": 60})
    page.locator("figure .cursor").wait_for()
    assert re.fullmatch(r"\d\d:\d\d:\d\d  \S+/s", reading.inner_text())
    page.mouse.move(5, 5)
    page.locator("figure .cursor").wait_for(state="detached")
    last = reading.inner_text()
    chart.locator("svg").focus()
    page.keyboard.press("Home")
    first = reading.inner_text()
    page.keyboard.press("ArrowRight")
    assert len({last, first, reading.inner_text()}) == 3
    page.close()


def test_no_label_of_a_chart_is_cut_off_and_one_series_has_no_legend(seen: Viewer, problems: None) -> None:
    page = seen.open(JOB)
    page.locator("figure.chart path.series").nth(3).wait_for(state="attached")
    assert page.locator("figure.chart .legend").count() == 0
    outside = """() => Array.from(document.querySelectorAll('figure.chart text.axis')).filter((text) => {
      const box = text.getBoundingClientRect(), whole = text.closest('svg').getBoundingClientRect();
      return box.left < whole.left - 0.5 || box.right > whole.right + 0.5;
    }).map((text) => text.textContent)"""
    assert page.evaluate(outside) == []
    ticks = page.locator("figure.chart", has_text="Records read").locator("text.axis").all_text_contents()
    assert len([text for text in ticks if re.fullmatch(r"\d\d:\d\d", text)]) >= 3
    page.close()


# ---- orders of a pipelined job --------------------------------------------------------------------------------------


def test_orders_to_a_pipelined_job_do_not_speak_of_epochs(seen: Viewer, cluster: ToldCluster, problems: None) -> None:
    pipelined = "7" * 32
    cluster.known[pipelined] = shop_job(pipelined, name="fast shop", mode="pipelined", configured_mode="pipelined")
    page = seen.open(f"/jobs/{pipelined}")
    for order, says in (
        ("Rescale", "A checkpoint is taken now"), ("Savepoint", "a checkpoint that is taken now"),
        ("Stop", "a last checkpoint"), ("Cancel", "since its last checkpoint"),
    ):  # fmt: skip
        page.get_by_role("button", name=order, exact=True).click()
        text = page.get_by_role("dialog").inner_text()
        assert says in text
        assert "epoch" not in text.lower()
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="detached")
    page.close()
    del cluster.known[pipelined]


# ---- state ----------------------------------------------------------------------------------------------------------


def keys(page: Any) -> list[str]:
    found: list[str] = page.get_by_role("table", name="Keys and values").locator("tbody button").all_inner_texts()
    return found


def test_state_is_filtered_and_paged_forward_and_back(seen: Viewer, cluster: ToldCluster, problems: None) -> None:
    cluster.slow_search = False
    page = seen.open(f"{JOB}/state")
    page.get_by_role("button", name="Next page").click()
    page.wait_for_url("**after=0.50*")
    second = page.get_by_role("button", name="'customer 50'")
    second.wait_for()
    assert len(keys(page)) == 50
    page.get_by_role("button", name="Next page").click()
    until(page, lambda: len(keys(page)) == 20)
    assert page.get_by_role("button", name="Next page").is_disabled()
    page.get_by_role("button", name="Previous page").click()
    second.wait_for()
    page.get_by_role("button", name="First page").click()
    page.get_by_role("button", name="'customer 0'").wait_for()
    page.get_by_label("Keys that begin with").fill("customer 11")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("button", name="Next page").wait_for(state="detached")
    assert keys(page) == ["'customer 11'", *(f"'customer {number}'" for number in range(110, 120))], "sorted"
    assert "customer 11" in {one.prefix for one in cluster.questions if isinstance(one, PageRows)}
    page.close()


def test_a_search_that_has_found_nothing_yet_says_that_it_can_go_on(
    seen: Viewer, cluster: ToldCluster, problems: None
) -> None:
    cluster.slow_search = True
    page = seen.open(f"{JOB}/state?prefix=customer+5")
    page.get_by_text("No such key so far").wait_for()
    assert "No key has this state" not in page.inner_text("main")
    page.get_by_role("button", name="Next page").click()
    page.get_by_role("button", name="'customer 5'").wait_for()
    cluster.slow_search = False
    page.close()


def test_the_field_of_a_key_has_the_key_that_is_shown(seen: Viewer, problems: None) -> None:
    page = seen.open(f"{JOB}/state")
    page.get_by_label("Keys that begin with").fill("customer 1")
    page.get_by_role("button", name="'customer 37'").click()
    field = page.get_by_label("A key", exact=True)
    field.wait_for()
    assert field.input_value() == "'customer 37'"
    page.get_by_text("later checkpoints are missing here").wait_for()
    page.get_by_role("button", name="Rows").click()
    filtered = page.get_by_label("Keys that begin with")
    filtered.wait_for()
    assert filtered.input_value() == ""
    page.close()


def test_only_earlier_checkpoints_are_offered_for_comparison(seen: Viewer, problems: None) -> None:
    page = seen.open(f"{JOB}/state?view=diff&checkpoint=6")
    offered = page.get_by_label("Compare with").locator("option")
    offered.nth(1).wait_for(state="attached")
    assert [text.split(",")[0] for text in offered.all_inner_texts()] == ["choose one", "5"]
    page.get_by_label("Compare with").select_option("5")
    page.get_by_text("The first 50 of 120 are shown").wait_for()
    assert "Checkpoint 6 is the later one" in page.inner_text("main")
    page.close()


def test_a_chosen_checkpoint_that_is_gone_is_still_named(seen: Viewer, problems: None) -> None:
    page = seen.open(f"{JOB}/state?checkpoint=3")
    chosen = page.get_by_label("Checkpoint").first
    chosen.wait_for()
    assert chosen.input_value() == "3"
    assert "not there any more" in chosen.locator("option:checked").inner_text()
    page.close()


# ---- preview --------------------------------------------------------------------------------------------------------


def test_a_preview_of_a_job_without_vertices_says_so(seen: Viewer, cluster: ToldCluster, problems: None) -> None:
    cluster.known["9" * 32] = JobView("9" * 32, "new", JobStatus.INITIALIZING, start_ms=1)
    page = seen.open(f"/jobs/{'9' * 32}/preview")
    page.get_by_text("The graph of the job is not known").wait_for()
    page.close()
    del cluster.known["9" * 32]


def test_records_of_another_operator_are_named_after_it(seen: Viewer, cluster: ToldCluster, problems: None) -> None:
    cluster.previews = {ident("orders"): records(60), ident("clean"): records(3)}
    page = seen.open(f"{JOB}/preview?operator={ident('orders')}")
    show = page.get_by_role("button", name="Show records")
    show.click()
    page.get_by_role("heading", name="Emitted by orders").wait_for()
    table = page.get_by_role("table", name="Records")
    assert table.locator("td.number").count() == 2 * 60, "numbers stand on the right"
    assert re.search(r":00\.059$", table.locator("tbody tr").nth(59).locator("td").nth(1).inner_text())
    assert page.evaluate("document.documentElement.scrollHeight") < 1600, "many records scroll in their own place"
    page.get_by_label("Operator").select_option(label="clean")
    page.get_by_role("button", name="Received").click()
    assert page.get_by_role("heading", name="Emitted by orders").is_visible(), "the records are those of before"
    show.click()
    page.get_by_role("heading", name="Received by clean").wait_for()
    assert table.locator("tbody tr").count() == 3
    page.close()


# ---- submit ---------------------------------------------------------------------------------------------------------


def test_a_plan_is_a_picture_with_a_table_and_a_program_starts_from_a_savepoint(
    seen: Viewer, tmp_path: Path, problems: None
) -> None:
    (tmp_path / "shop.py").write_text("pass")
    nodes = [
        {"id": "a", "parallelism": 2, "description": "Source: orders", "inputs": []},
        {
            "id": "b", "parallelism": 1, "description": "Check<br/>+- Sink: files",
            "inputs": [{"id": "a", "ship_strategy": "HASH"}],
        },
    ]  # fmt: skip
    page = seen.open("/submit")
    page.get_by_label("A program").set_input_files(tmp_path / "shop.py")
    page.get_by_role("button", name="Upload").click()
    page.route("**/plan", lambda route: route.fulfill(json={"plan": {"nodes": nodes}}))
    page.get_by_role("button", name="Show its plan").click()
    page.get_by_role("heading", name="Its plan").wait_for()
    boxes = page.locator(".vertex")
    assert boxes.count() == 2
    assert page.locator("button.vertex").count() == 0, "nothing opens"
    page.get_by_text("The plan as a table").click()
    rows = page.get_by_role("table", name="Vertices of the plan").locator("tbody tr")
    assert rows.nth(1).locator("td").all_inner_texts() == ["Check → Sink: files", "1", "Source: orders (hash)"]
    sent: list[Any] = []

    def take(route: Any) -> None:
        sent.append(route.request.post_data_json)
        route.fulfill(json={"jobid": RUNNING})

    page.route("**/run", take)
    page.get_by_label("Savepoint to start from").fill("/savepoints/one")
    page.get_by_label("Allow state").check()
    page.get_by_label("Parallelism").fill("3")
    page.get_by_role("button", name="Run it").click()
    page.get_by_role("heading", name="shop revenue").wait_for()
    [body] = sent
    assert (body["savepointPath"], body["allowNonRestoredState"], body["parallelism"]) == ("/savepoints/one", True, 3)
    page.close()


# ---- overview -------------------------------------------------------------------------------------------------------


def test_a_cluster_without_jobs_says_how_to_run_one(browser: Any, tmp_path: Path) -> None:
    with served(told_cluster(tmp_path)) as url:
        page = viewer(browser, url).open("/")
        page.get_by_role("heading", name="No job yet").wait_for()
        page.get_by_role("link", name="submit a program").click()
        page.get_by_role("heading", name="Submit a program").wait_for()
        page.context.close()


def test_jobs_are_found_sorted_and_have_their_minutes_as_a_table(browser: Any, tmp_path: Path) -> None:
    cluster = told_cluster(tmp_path)
    for index, (name, rate) in enumerate((("beta", 5.0), ("alpha", 700.0), ("gamma", 40.0))):
        cluster.known[f"{index}" * 32] = shop_job(f"{index}" * 32, name=name, records_per_second=rate)
    cluster.known[FINISHED] = ended_job(FINISHED, JobStatus.FAILED, TaskState.FAILED)
    cluster.note_minutes("1" * 32, 10)
    cluster.note_minutes("2" * 32, 1)
    with served(cluster) as url:
        page = viewer(browser, url).open("/")
        table = page.get_by_role("table", name="Running jobs")

        def names() -> list[str]:
            found: list[str] = table.locator("tbody td:first-child a").all_inner_texts()
            return found

        assert names() == ["beta", "alpha", "gamma"]
        page.get_by_role("button", name="Records read").first.click()
        assert names() == ["alpha", "gamma", "beta"]
        assert table.locator("th[aria-sort=descending]").inner_text().startswith("Records read")
        page.get_by_role("button", name="Job", exact=True).first.click()
        assert names() == ["alpha", "beta", "gamma"]
        row = table.locator("tbody tr", has_text="alpha")
        cells = row.locator("td").all_inner_texts()
        assert cells[1] == "running"
        assert re.fullmatch(r"700/s", cells[3])
        assert re.fullmatch(r"max 780/s", cells[4].strip())
        assert re.fullmatch(r"\d+ s", cells[6]), "the watermark lag"
        assert re.fullmatch(r"\d+ s", cells[7]), "the age of the checkpoint"
        long, short = (table.locator("tbody tr", has_text=name).locator(".curve") for name in ("alpha", "gamma"))
        assert long.bounding_box()["width"] > 8 * short.bounding_box()["width"], "one minute is a tenth of ten"
        page.get_by_text("The small charts as a table").click()
        minutes = page.get_by_role("table", name="Records per second")
        assert minutes.locator("tbody tr", has_text="alpha").locator("td").nth(9).inner_text() != "–"
        assert minutes.locator("tbody tr", has_text="gamma").locator("td").nth(9).inner_text() == "–"
        ended = page.locator(".fact", has_text="Jobs ended")
        assert "1 failed" in ended.inner_text()
        page.get_by_label("Find a job").fill("GAM")
        assert names() == ["gamma"]
        page.get_by_text("No job ended this way").wait_for()
        page.context.close()


def test_the_overview_says_that_a_job_restarts(seen: Viewer, cluster: ToldCluster, problems: None) -> None:
    cluster.known[RESTARTING] = shop_job(RESTARTING, name="again", status=JobStatus.RESTARTING)
    page = seen.open("/")
    page.get_by_text("some are restarting").wait_for()
    page.close()
    del cluster.known[RESTARTING]

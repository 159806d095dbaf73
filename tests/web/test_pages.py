"""Every page and every order of the web UI in a real browser, at a real JobManager with real jobs on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster.conftest import SELDOM, Session, start_session, wait_for
from tests.web.browser import Viewer, viewer

pytestmark = pytest.mark.spark

PROGRAM = Path(__file__).parent / "programs" / "shop.py"
#: What the customer of every 25th order is called (programs/shop.py).
MARKUP = "<script>document.title='owned'</script>"
OPERATOR = "Revenue <b>per country</b>"


@dataclass(frozen=True)
class Shop:
    """A JobManager with a job that runs and one that has failed, and a browser that looks at it."""

    session: Session
    running: str
    failed: str
    visit: Viewer

    def vertex(self) -> str:
        """The vertex with keyed state."""
        vertices = self.session.rest.get(f"/jobs/{self.running}")["vertices"]
        return str(next(one["id"] for one in vertices if one["name"] == OPERATOR))


@pytest.fixture(scope="module")
def shop(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    session = start_session(folder / "session")
    try:
        often = {**SELDOM, "flott.epoch.min-interval": "300ms", "parallelism.default": "2"}
        running = session.submit(folder / "running", program=PROGRAM, settings=often)
        once = {**SELDOM, "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "1"}
        quickly = {**once, "restart-strategy.fixed-delay.delay": "100ms", "parallelism.default": "1"}
        failing = [folder / "failed", "--fail-at", "24", "--records", "200", "--name", "broken shop"]
        failed = session.submit(*map(str, failing), program=PROGRAM, settings=quickly)
        session.await_status(failed, "FAILED")
        session.await_epochs(running, 3)
        yield Shop(session, running, failed, viewer(browser, session.url))
    finally:
        session.rest.close()
        session.process.kill_tree()


#: The pages of the running job and of the cluster, with a text that each shows when its data is there.
PAGES = {
    "/": "Watermark lag",
    "/executors": "Memory in use",
    "/executors/driver": "Subtasks placed here",
    "/submit": "No program has been uploaded",
    "/configuration": "spark.master",
    "/logs": "This JobManager leads",
    "/jobs/{job}": "Source: price changes",
    "/jobs/{job}?vertex={vertex}": "The largest against the mean",
    "/jobs/{job}/timeline": "Where the time went",
    "/jobs/{job}/time": "Event time after epoch",
    "/jobs/{job}/checkpoints": "Acknowledged",
    "/jobs/{job}/state": "last customer",
    "/jobs/{job}/failure": "The job has not failed",
    "/jobs/{job}/preview": "Records of the last epoch",
    "/jobs/{job}/log": "The job is RUNNING",
    "/jobs/{job}/configuration": "flott.epoch.min-interval",
}


@pytest.mark.parametrize("address", PAGES)
def test_a_page_shows_its_data_and_keeps_to_its_width(shop: Shop, address: str) -> None:
    page = shop.visit.open(address.format(job=shop.running, vertex=shop.vertex()))
    page.get_by_text(PAGES[address]).first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "on a phone"
    page.close()
    assert shop.visit.problems == []


@pytest.mark.long
@pytest.mark.parametrize("address", PAGES)
def test_axe_finds_nothing_on_a_page(shop: Shop, browser: Any, address: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    # The policy forbids what axe does to the page; the page itself is the same.
    for scheme in ("light", "dark"):
        page = viewer(browser, shop.session.url, bypass_csp=True, color_scheme=scheme).open(
            address.format(job=shop.running, vertex=shop.vertex())
        )
        page.get_by_text(PAGES[address]).first.wait_for()
        found = axe.run(page).response["violations"]
        page.context.close()
        told = [(one["id"], one["nodes"][0]["target"], one["nodes"][0]["failureSummary"]) for one in found]
        assert told == [], scheme


def test_a_vertex_shows_its_subtasks_late_records_accumulators_and_metrics(shop: Shop) -> None:
    page = shop.visit.open(f"/jobs/{shop.running}")
    page.get_by_role("button", name=OPERATOR).first.click()
    page.get_by_role("table", name="Subtasks").locator("tbody tr").nth(1).wait_for()
    accumulators = page.get_by_role("table", name="Accumulators")
    assert "orders" in accumulators.inner_text()
    page.get_by_label("Find a metric").fill("largeOrders")
    page.get_by_role("checkbox").first.check()
    page.get_by_text("largeOrders (sum of subtasks)").wait_for()
    page.get_by_role("button", name="Close").click()
    wait_for(lambda: _late(shop) > 0, 300)
    page.get_by_role("button", name="Seconds").first.click()
    page.get_by_role("heading", name="Late records").wait_for()
    page.close()


def _late(shop: Shop) -> int:
    return sum(int(vertex["late"]) for vertex in shop.session.rest.get(f"/jobs/{shop.running}/flott/live")["vertices"])


def test_a_failure_is_told_with_its_record_and_how_to_replay_it(shop: Shop) -> None:
    page = shop.visit.open("/")
    page.get_by_role("link", name="failed").click()
    page.get_by_role("heading", name="The last failure").wait_for()
    text = page.inner_text("main")
    assert f"order 24 of {MARKUP}" in text, "text of users is shown as it is"
    assert f"flott replay {shop.failed}" in text
    assert "has no price" in text
    assert page.title() != "owned"
    assert page.locator("main img").count() == 0
    page.get_by_role("table", name="All failures").locator("button").last.click()
    page.get_by_role("heading", name="A failure before").wait_for()
    page.close()
    assert shop.visit.problems == []


def test_state_is_paged_and_a_key_is_looked_up(shop: Shop) -> None:
    page = shop.visit.open(f"/jobs/{shop.running}/state")
    page.get_by_role("button", name="cents").click()
    rows = page.get_by_role("table", name="Keys and values")
    rows.locator("tbody tr").nth(5).wait_for()
    assert rows.locator("tbody tr").count() == 6, "one row for each country"
    rows.get_by_role("button", name="'Norway'").click()
    page.get_by_role("table", name="The key", exact=True).wait_for()
    page.get_by_role("table", name="History of the key").wait_for()
    page.close()


def test_records_of_a_stream_are_shown_as_text_in_columns(shop: Shop) -> None:
    page = shop.visit.open(f"/jobs/{shop.running}/preview")
    page.get_by_label("Operator").select_option(label="Source: orders")
    page.get_by_role("button", name="Show records").click()
    records = page.get_by_role("table", name="Records")
    records.wait_for()
    assert {"country", "customer", "cents"} <= set(records.locator("th").all_inner_texts())
    assert page.locator("main script, main img").count() == 0
    assert page.title() != "owned"
    page.close()
    assert shop.visit.problems == []


def test_a_savepoint_is_taken_and_disposed_of(shop: Shop) -> None:
    page = shop.visit.open(f"/jobs/{shop.running}/checkpoints")
    folder = shop.session.folder / "savepoints"
    page.get_by_role("button", name="Take a savepoint").click()
    dialog = page.get_by_role("dialog")
    assert "The job goes on" in dialog.inner_text()
    dialog.get_by_label("Folder").fill(str(folder))
    dialog.get_by_role("button", name="Take it").click()
    page.get_by_text("The savepoint is at").wait_for()
    [savepoint] = folder.iterdir()
    row = page.get_by_role("table", name="Savepoints").locator("tr", has_text=savepoint.name)
    row.get_by_role("button", name="Dispose").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete it").click()
    page.get_by_text("The savepoint was deleted").wait_for()
    assert list(folder.iterdir()) == []
    page.close()


def test_a_vertex_is_rescaled_with_plus(shop: Shop) -> None:
    page = shop.visit.open(f"/jobs/{shop.running}?vertex={shop.vertex()}")
    page.get_by_role("button", name="Rescale this vertex").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="One more").click()
    dialog.get_by_role("button", name="Rescale", exact=True).click()
    page.get_by_text("The job runs with 3 subtasks").wait_for()
    page.get_by_role("table", name="Subtasks").locator("tbody tr").nth(2).wait_for()
    page.get_by_role("link", name="Timeline").click()
    page.get_by_role("table", name="Events").get_by_text("rescale").first.wait_for()
    page.close()


def test_a_program_is_uploaded_run_and_cancelled(shop: Shop, tmp_path: Path) -> None:
    page = shop.visit.open("/submit")
    page.get_by_label("A program").set_input_files(PROGRAM)
    page.get_by_role("button", name="Upload").click()
    page.get_by_text("shop.py was uploaded").wait_for()
    page.get_by_label("Arguments").fill(f"'{tmp_path}' --name 'from the browser'")
    page.get_by_label("Parallelism").fill("1")
    page.get_by_role("button", name="Show its plan").click()
    page.get_by_role("heading", name="Its plan").wait_for()
    page.get_by_role("button", name="Run it").click()
    page.get_by_role("heading", name="from the browser").wait_for()
    job = page.url.rpartition("/")[2]
    shop.session.await_epochs(job, 1)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    shop.session.await_status(job, "CANCELED")
    page.locator(".badge", has_text="canceled").wait_for()
    page.close()


def test_the_log_is_searched(shop: Shop) -> None:
    page = shop.visit.open(f"/jobs/{shop.running}/log")
    page.get_by_label("Search the log").fill("RUNNING")
    page.get_by_role("button", name="Search").click()
    page.locator(".log mark").first.wait_for()
    assert all("RUNNING" in line for line in page.locator(".log div").all_inner_texts())
    page.close()


@pytest.mark.long
def test_a_job_is_stopped_with_a_savepoint(shop: Shop, tmp_path: Path) -> None:
    job = shop.session.submit(tmp_path / "out", program=PROGRAM, settings={**SELDOM, "parallelism.default": "1"})
    shop.session.await_epochs(job, 1)
    page = shop.visit.open(f"/jobs/{job}")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_label("Folder").fill(str(tmp_path / "savepoints"))
    page.get_by_role("dialog").get_by_role("button", name="Stop it").click()
    page.get_by_text("The job has stopped").wait_for()
    page.locator(".badge", has_text="finished").first.wait_for()
    assert len(list((tmp_path / "savepoints").iterdir())) == 1
    page.close()


@pytest.mark.long
def test_a_savepoint_is_exported_and_restored_as_a_new_job(shop: Shop, tmp_path: Path) -> None:
    job = shop.session.submit(tmp_path / "out", program=PROGRAM, settings={**SELDOM, "parallelism.default": "1"})
    shop.session.await_epochs(job, 1)
    shop.session.rest.post(f"/jobs/{job}/stop", {"targetDirectory": str(tmp_path / "savepoints")})
    shop.session.await_status(job, "FINISHED")
    page = shop.visit.open(f"/jobs/{job}/checkpoints")
    row = page.get_by_role("table", name="Savepoints").locator("tbody tr").first
    row.get_by_role("button", name="Export").click()
    page.get_by_role("dialog").get_by_label("Folder").fill(str(tmp_path / "copy"))
    page.get_by_role("dialog").get_by_role("button", name="Export").click()
    page.get_by_text("The copy is at").wait_for()
    row.get_by_role("button", name="Restore").click()
    page.get_by_role("dialog").get_by_role("button", name="Start the job").click()
    page.wait_for_url(lambda url: "/jobs/" in url and job not in url)
    again = page.url.rpartition("/")[2]
    shop.session.await_epochs(again, 1)
    restored = shop.session.rest.get(f"/jobs/{again}/checkpoints")["latest"]["restored"]
    assert restored["is_savepoint"]
    shop.session.rest.patch(f"/jobs/{again}", mode="cancel")
    shop.session.await_status(again, "CANCELED")
    page.close()


@pytest.mark.long
def test_a_real_job_manager_goes_away_and_comes_back(browser: Any, tmp_path: Path) -> None:
    first = start_session(tmp_path / "own", rest__port="0")
    port = first.url.rpartition(":")[2]
    page = viewer(browser, first.url).open("/")
    first.process.kill_tree()
    (tmp_path / "own" / "cluster.json").unlink()  # the killed one has left it, and its successor is awaited by it
    page.get_by_text("does not answer").wait_for()
    again = start_session(tmp_path / "own", rest__port=port)
    try:
        page.get_by_text("does not answer").wait_for(state="hidden")
    finally:
        again.rest.close()
        again.process.kill_tree()

"""Every page and every order of the web UI in a real browser, at a real JobManager with real jobs on Spark."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster.conftest import SELDOM, Session, start_session, wait_for
from tests.web.browser import Viewer, logged_in, viewer, wide_tables

pytestmark = pytest.mark.spark

PROGRAM = Path(__file__).parent / "programs" / "shop.py"
#: What the customer of every 25th order is called (programs/shop.py).
MARKUP = "<script>document.title='owned'</script>"
OPERATOR = "Revenue <b>per country</b>"
#: What the JobManager wants to be shown.
TOKEN = "the-token-of-the-shop"


@dataclass(frozen=True)
class Shop:
    """A JobManager with a job that runs and one that has failed, and a browser that looks at it."""

    session: Session
    running: str
    failed: str
    pipelined: str  #: takes checkpoints only when it is told to, so that those of a test stay
    visit: Viewer

    def vertex(self) -> str:
        """The vertex with keyed state."""
        vertices = self.session.rest.get(f"/jobs/{self.running}")["vertices"]
        return str(next(one["id"] for one in vertices if one["name"] == OPERATOR))


@pytest.fixture(scope="module")
def shop(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    session = start_session(folder / "session", flott__rest__token=TOKEN)
    try:
        often = {**SELDOM, "flott.epoch.min-interval": "300ms", "parallelism.default": "2"}
        running = session.submit(folder / "running", program=PROGRAM, settings=often)
        once = {**SELDOM, "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "1"}
        quickly = {**once, "restart-strategy.fixed-delay.delay": "100ms", "parallelism.default": "1"}
        failing = [folder / "failed", "--fail-at", "24", "--records", "200", "--name", "broken shop"]
        failed = session.submit(*map(str, failing), program=PROGRAM, settings=quickly)
        session.await_status(failed, "FAILED")
        session.await_epochs(running, 3)
        seldom = {"execution.mode": "pipelined", "execution.checkpointing.interval": "1 h", "parallelism.default": "1"}
        kept = {"execution.checkpointing.num-retained": "5", "flott.progress": "off"}
        pipelined = session.submit(folder / "pipelined", "--name", "fast shop", program=PROGRAM, settings=seldom | kept)
        session.await_status(pipelined, "RUNNING")
        while len(filled(session, pipelined)) < 2:
            session.cli("checkpoint", pipelined)
        yield Shop(session, running, failed, pipelined, logged_in(browser, session.url, TOKEN))
    finally:
        session.rest.close()
        session.process.kill_tree()


def filled(session: Session, job: str) -> list[int]:
    """Return the checkpoints since whose predecessor the job has read something, newest first."""
    history = session.rest.get(f"/jobs/{job}/checkpoints")["history"]
    return [int(one["id"]) for one in history if one["status"] == "COMPLETED" and one["records"] > 0]


#: The pages of the running job and of the cluster, with a text that each shows when its data is there.
PAGES = {
    "/": "Watermark lag",
    "/executors": "Memory in use",
    "/executors/driver": "Subtasks placed here",
    "/submit": "No program has been uploaded",
    "/sql": "Tables appear here once a session is open",
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
    assert wide_tables(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "on a phone"
    page.close()
    assert shop.visit.problems == []


def test_a_wrong_token_opens_nothing(shop: Shop, browser: Any) -> None:
    page = viewer(browser, shop.session.url).open(f"/jobs/{shop.running}")
    for token in ("wrong", TOKEN):
        assert page.inner_text("main h1") == "Log in"
        assert "shop revenue" not in page.content()
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        if token == "wrong":
            page.get_by_text("This is not the token").wait_for()
    page.get_by_role("heading", name="The last minutes").wait_for()
    page.context.close()


#: Those whose data cannot be made up are looked at always; the others over a cluster made of data, and here seldom.
REAL = {"/jobs/{job}/state"}


@pytest.mark.parametrize("address", [pytest.param(one, marks=() if one in REAL else pytest.mark.long) for one in PAGES])
def test_axe_finds_nothing_on_a_page(shop: Shop, browser: Any, address: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    # The policy forbids what axe does to the page; the page itself is the same.
    for scheme in ("light", "dark"):
        page = logged_in(browser, shop.session.url, TOKEN, bypass_csp=True, color_scheme=scheme).open(
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
    page.get_by_role("button", name="Sum").click()
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


def test_two_checkpoints_are_compared(shop: Shop) -> None:
    page = shop.visit.open(f"/jobs/{shop.pipelined}/state")
    page.get_by_role("button", name="cents").click()
    page.get_by_role("button", name="Compare").click()
    latest, before, *_ = filled(shop.session, shop.pipelined)
    page.get_by_label("Compare with").select_option(str(before))
    changes = page.get_by_role("table", name="Changes")
    changes.locator("tbody tr").nth(5).wait_for()
    assert changes.locator("tbody tr").count() == 6, "every country has sold something since"
    assert "'Norway'" in changes.inner_text()
    assert f"Checkpoint {latest} is the later one" in page.inner_text("main")
    page.close()


def test_a_key_is_followed_over_checkpoints(shop: Shop) -> None:
    page = shop.visit.open(f"/jobs/{shop.pipelined}/state")
    page.get_by_role("button", name="last customer").click()
    page.get_by_role("table", name="Keys and values").get_by_role("button", name="'Kenya'").click()
    history = page.get_by_role("table", name="History of the key")
    history.locator("tbody tr").nth(1).wait_for()
    assert history.locator("tbody tr").count() >= 2
    assert page.locator("main script, main img").count() == 0
    page.close()


def test_a_pipelined_checkpoint_is_shown_by_subtask_and_on_the_timeline(shop: Shop) -> None:
    page = shop.visit.open(f"/jobs/{shop.pipelined}/checkpoints")
    latest = filled(shop.session, shop.pipelined)[0]
    page.get_by_role("table", name="Checkpoints").get_by_role("button", name=str(latest), exact=True).click()
    page.get_by_text("aligned checkpoint").wait_for()
    vertices = page.get_by_role("table", name="By vertex")
    vertices.get_by_role("button", name=OPERATOR).click()
    subtasks = page.get_by_role("table", name="By subtask")
    subtasks.wait_for()
    titles = subtasks.locator("th").all_inner_texts()
    assert {"Start delay", "Alignment", "Snapshot", "Files"} <= set(titles)
    times = subtasks.locator("tbody tr").first.locator("td").all_inner_texts()[titles.index("Start delay") :][:4]
    assert all(text.endswith(("ms", "s")) for text in times), times
    page.get_by_role("link", name="Timeline").click()
    page.get_by_role("heading", name="What checkpoints spent their time on").wait_for()
    assert page.locator("rect.phase-align").count() >= 2 * len(filled(shop.session, shop.pipelined))
    page.close()
    assert shop.visit.problems == []


def test_a_preview_of_a_pipelined_job_says_what_it_shows(shop: Shop) -> None:
    page = shop.visit.open(f"/jobs/{shop.pipelined}/preview")
    page.get_by_text("A pipelined job does not record its input").wait_for()
    page.get_by_label("Operator").select_option(label="Source: orders")
    page.get_by_role("button", name="Show records").click()
    page.get_by_role("table", name="Records").wait_for()
    latest = filled(shop.session, shop.pipelined)[0]
    assert f"Read on from checkpoint {latest}:" in page.inner_text("main")
    page.close()
    assert shop.visit.problems == []


def test_a_flame_graph_of_a_vertex_is_drawn(shop: Shop) -> None:
    if shutil.which("py-spy") is None and not Path(sys.prefix, "bin", "py-spy").exists():
        pytest.skip("py-spy is not installed")
    vertices = shop.session.rest.get(f"/jobs/{shop.pipelined}")["vertices"]
    page = shop.visit.open(f"/jobs/{shop.pipelined}?vertex={vertices[0]['id']}")
    page.get_by_role("button", name="Flame graph").click()
    page.locator("svg .flame").first.wait_for()
    page.get_by_text("The flame graph as a table").click()
    functions = page.get_by_role("table", name="Functions by their own time")
    assert functions.locator("tbody tr").count() > 0
    page.get_by_role("button", name="Stacks now").click()
    page.get_by_role("heading", name="Process ").first.wait_for()
    assert "main" in page.locator("details", has_text="MainThread").first.inner_text().lower()
    page.close()
    assert shop.visit.problems == []


def test_records_of_a_stream_are_shown_as_text_in_columns(shop: Shop) -> None:
    page = shop.visit.open(f"/jobs/{shop.running}/preview")
    page.get_by_label("Operator").select_option(label="Source: orders")
    page.get_by_role("button", name="Show records").click()
    records = page.get_by_role("table", name="Records")
    records.wait_for()
    assert {"country", "customer", "cents"} <= set(records.locator("th").all_inner_texts())
    assert page.locator("main script, main img").count() == 0
    assert page.title() != "owned"
    page.get_by_label("Operator").select_option(label=OPERATOR)
    page.get_by_role("button", name="Received").click()
    page.get_by_role("button", name="Show records").click()
    page.get_by_role("heading", name=f"Received by {OPERATOR}").wait_for()
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


def test_a_vertex_is_rescaled_with_plus_and_minus(shop: Shop) -> None:
    page = shop.visit.open(f"/jobs/{shop.running}?vertex={shop.vertex()}")
    page.get_by_role("button", name="Rescale this vertex").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="One more").click()
    dialog.get_by_role("button", name="Rescale", exact=True).click()
    page.get_by_text("The job runs with 3 subtasks").wait_for()
    page.get_by_role("table", name="Subtasks").locator("tbody tr").nth(2).wait_for()
    page.get_by_role("button", name="Rescale this vertex").click()
    dialog.get_by_role("button", name="One less").click()
    dialog.get_by_role("button", name="Rescale", exact=True).click()
    page.get_by_text("The job runs with 2 subtasks").wait_for()
    page.get_by_role("table", name="Subtasks").locator("tbody tr").nth(2).wait_for(state="detached")
    page.get_by_role("link", name="Timeline").click()
    page.get_by_role("table", name="Events").get_by_text("rescale").nth(1).wait_for()
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


QUERY = f"""CREATE TEMPORARY TABLE clicks (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '50',
  'fields.n.min' = '1', 'fields.n.max' = '3');
SELECT n, COUNT(*) AS clicked, CAST(NULL AS INT) AS missing, '{MARKUP.replace("'", "''")}' AS shown
FROM clicks GROUP BY n;
"""


def test_a_query_is_a_job_whose_rows_are_shown_as_they_change_until_it_is_stopped(shop: Shop) -> None:
    page = shop.visit.open("/sql")
    page.get_by_label("SQL statements").fill(QUERY)
    page.get_by_role("button", name="Run all").click()
    rows = page.get_by_role("table", name="Rows")
    rows.locator("tbody tr").nth(2).wait_for()
    assert rows.get_by_text(MARKUP).count() == 3
    assert rows.locator(".null").count() == 3
    before = rows.inner_text()
    wait_for(lambda: rows.inner_text() != before, 300)
    wait_for(lambda: rows.locator("tbody tr").count() == 3, 300)
    page.get_by_role("button", name="Changes").click()
    page.get_by_role("table", name="Changes").get_by_text("+U").first.wait_for()
    page.get_by_role("button", name="Chart").click()
    page.get_by_role("img", name="bar chart").wait_for()
    assert page.locator("main script").count() == 0
    assert page.title() != "owned"
    job = page.locator(".result-head a")
    job_id = str(job.get_attribute("href")).rpartition("/")[2]
    assert shop.session.rest.get(f"/jobs/{job_id}")["state"] == "RUNNING"
    page.get_by_role("button", name="Stop").click()
    shop.session.await_status(job_id, "CANCELED")
    page.close()
    assert shop.visit.problems == []


def test_the_log_is_searched(shop: Shop) -> None:
    page = shop.visit.open(f"/jobs/{shop.running}/log")
    page.get_by_label("Search the log").fill("RUNNING")
    page.get_by_role("button", name="Search").click()
    page.locator(".log mark").first.wait_for()
    assert all("RUNNING" in line for line in page.locator(".log div").all_inner_texts())
    page.close()


def test_a_job_is_stopped_with_a_savepoint_which_is_exported_and_restored_as_a_new_job(
    shop: Shop, tmp_path: Path
) -> None:
    job = shop.session.submit(tmp_path / "out", program=PROGRAM, settings={**SELDOM, "parallelism.default": "1"})
    shop.session.await_epochs(job, 1)
    page = shop.visit.open(f"/jobs/{job}/checkpoints")
    page.get_by_role("button", name="Stop with one").click()
    page.get_by_role("dialog").get_by_label("Folder").fill(str(tmp_path / "savepoints"))
    page.get_by_role("dialog").get_by_role("button", name="Stop it").click()
    page.get_by_text("The job has stopped").wait_for()
    page.locator(".badge", has_text="finished").first.wait_for()
    [savepoint] = (tmp_path / "savepoints").iterdir()
    row = page.get_by_role("table", name="Savepoints").locator("tr", has_text=savepoint.name)
    row.get_by_role("button", name="Export").click()
    page.get_by_role("dialog").get_by_label("Folder").fill(str(tmp_path / "copy"))
    page.get_by_role("dialog").get_by_role("button", name="Export").click()
    page.get_by_text("The copy is at").wait_for()
    [copy] = (tmp_path / "copy").iterdir()
    page.get_by_role("button", name="Restore from a path").click()
    page.get_by_role("dialog").get_by_label("Savepoint").fill(str(copy))
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

"""The SQL page in a real browser with a real process of SQL sessions, over a cluster made of data: no query runs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flott.rest.sql_mount import SqlMount
from flott.runtime.jobmanager.sql_process import EndedProcess, SqlProcess
from flott.runtime.logs.rotation import Rotation
from tests.unit.rest.fake_cluster import FakeCluster
from tests.web.browser import Viewer, viewer
from tests.web.fake_job_manager import served

pytestmark = pytest.mark.xdist_group("web")  # one browser

HOSTILE = "<img src=x onerror=alert(1)>"
TABLE = f"CREATE TABLE `{HOSTILE}` (id BIGINT, `<b>name</b>` STRING) WITH ('connector' = 'datagen')"


@dataclass(frozen=True)
class Served:
    visit: Viewer
    mount: SqlMount

    def open(self) -> Any:
        """Open the page in a tab with a session of its own, with nothing in the editor."""
        page = self.visit.open("/sql")
        page.get_by_role("heading", name="SQL", exact=True).wait_for()
        return page


def mount_of(cluster: FakeCluster, missing: Sequence[str] = ()) -> SqlMount:
    def start(on_end: Callable[[EndedProcess, Sequence[str]], None]) -> SqlProcess:
        return SqlProcess(dict, cluster.folder / "sql.out", Rotation(1 << 20, 2), on_end)

    return SqlMount(cluster.configuration, start, lambda job_id: None, lambda: missing)


@pytest.fixture(scope="module")
def sql(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    cluster = FakeCluster(tmp_path_factory.mktemp("cluster"))
    mount = mount_of(cluster)
    with served(cluster, sql=mount) as url:
        yield Served(viewer(browser, url), mount)
    mount.close()


def run(page: Any, text: str) -> None:
    page.get_by_label("SQL statements").fill(text)
    page.get_by_label("SQL statements").press("Control+a")
    page.get_by_label("SQL statements").press("Control+Enter")


def test_statements_run_in_order_and_tables_appear_in_the_tree(sql: Served) -> None:
    page = sql.open()
    run(page, f"{TABLE};\nSHOW TABLES;")
    rows = page.get_by_role("table", name="Rows")
    rows.get_by_text(HOSTILE).wait_for()
    assert page.get_by_role("group", name="Statements").get_by_role("button").count() == 2
    tree = page.get_by_role("list", name="Catalogs")
    tree.get_by_role("button", name=HOSTILE, exact=True).click()
    tree.get_by_role("button", name="Insert the column <b>name</b>").click()
    assert "`<b>name</b>`" in page.get_by_label("SQL statements").input_value()
    assert page.locator("main img, main b").count() == 0
    page.get_by_text("Sessions of this JobManager").click()
    page.get_by_text("(this page)").wait_for()
    page.close()
    assert sql.visit.problems == []


def test_a_tab_that_is_duplicated_has_a_session_of_its_own(sql: Served) -> None:
    page = sql.open()
    run(page, "SHOW CATALOGS")
    page.get_by_role("table", name="Rows").wait_for()
    kept = page.evaluate("sessionStorage.getItem('flott.sql.session')")
    twin = sql.visit.context.new_page()  # a browser copies what the tab keeps
    twin.add_init_script(f"sessionStorage.setItem('flott.sql.session', {json.dumps(kept)})")
    twin.goto(page.url)
    run(twin, "SHOW CATALOGS")
    twin.get_by_role("table", name="Rows").wait_for()
    own = json.loads(twin.evaluate("sessionStorage.getItem('flott.sql.session')"))["handle"]
    assert own != json.loads(kept)["handle"]
    handle = json.loads(kept)["handle"]
    page.close()
    again = sql.visit.context.new_page()  # the tab is loaded again, or was restored: no other one has the session now
    again.add_init_script(f"sessionStorage.setItem('flott.sql.session', {json.dumps(kept)})")
    again.goto(twin.url)
    run(again, "SHOW CATALOGS")
    again.get_by_role("table", name="Rows").wait_for()
    assert json.loads(again.evaluate("sessionStorage.getItem('flott.sql.session')"))["handle"] == handle
    twin.close()
    again.close()
    assert sql.visit.problems == []


def test_the_statement_at_the_cursor_is_run_and_a_selection_instead(sql: Served) -> None:
    page = sql.open()
    editor = page.get_by_label("SQL statements")
    editor.fill("SHOW CATALOGS;\nSHOW DATABASES;\nSHOW MODULES;")
    editor.evaluate("area => area.setSelectionRange(20, 20)")
    editor.press("Control+Enter")
    page.get_by_role("table", name="Rows").get_by_text("default_database").wait_for()
    editor.evaluate("area => area.setSelectionRange(0, 14)")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("table", name="Rows").get_by_text("default_catalog").wait_for()
    page.get_by_text("History (").click()
    page.get_by_role("button", name="SHOW CATALOGS", exact=True).wait_for()
    page.close()


def test_an_error_is_marked_where_it_is(sql: Served) -> None:
    page = sql.open()
    page.get_by_label("SQL statements").fill("SHOW CATALOGS;\nSELECT\n  nosuch FROM (VALUES (1)) AS t(a);")
    page.get_by_role("button", name="Run all").click()
    page.get_by_role("alert").get_by_text("'nosuch' is not known").wait_for()
    assert page.locator(".sql-wrong").all_inner_texts() == ["nosuch"]
    assert page.get_by_label("SQL statements").evaluate("area => area.selectionStart") == 24
    page.get_by_label("SQL statements").press("x")
    assert page.locator(".sql-wrong").count() == 0
    page.close()
    sql.visit.problems.clear()  # the browser logs the 400 that this test asks for


def test_words_are_suggested_and_taken_with_the_keyboard(sql: Served) -> None:
    page = sql.open()
    editor = page.get_by_label("SQL statements")
    editor.type("SELECT coal")
    page.get_by_role("option", name="COALESCE").wait_for()
    editor.press("Escape")
    assert page.get_by_role("listbox").count() == 0
    editor.press("Control+Space")
    page.get_by_role("option", name="COALESCE").wait_for()
    editor.press("ArrowDown")
    editor.press("Enter")
    assert editor.input_value() == "SELECT COALESCE"
    page.close()


def test_a_plan_is_drawn_with_its_text(sql: Served) -> None:
    page = sql.open()
    page.get_by_label("SQL statements").fill("SELECT a, COUNT(*) FROM (VALUES (1), (2)) AS t(a) GROUP BY a")
    page.get_by_role("button", name="Explain").click()
    page.locator(".vertex").nth(1).wait_for()
    page.get_by_role("heading", name="Optimized Physical Plan").wait_for()
    assert "GroupAggregate(groupBy=[a]" in page.inner_text(".results")
    page.close()


def test_the_text_and_the_session_stay_when_the_page_is_left_or_loaded_again(sql: Served) -> None:
    page = sql.open()
    run(page, "CREATE TEMPORARY TABLE kept (a INT) WITH ('connector' = 'datagen')")
    page.get_by_text("The statement succeeded").wait_for()
    page.get_by_role("link", name="Submit", exact=True).click()
    page.get_by_role("heading", name="Submit a program").wait_for()
    page.get_by_role("link", name="SQL", exact=True).click()
    page.get_by_text("The statement succeeded").wait_for()
    page.reload()
    assert "TABLE kept" in page.get_by_label("SQL statements").input_value()
    run(page, "SHOW TABLES")
    page.get_by_role("table", name="Rows").get_by_text("kept").wait_for()
    page.close()


def test_a_killed_process_is_told_and_the_next_statement_opens_another_session(sql: Served) -> None:
    page = sql.open()
    run(page, "SHOW CATALOGS")
    page.get_by_role("table", name="Rows").get_by_text("default_catalog").wait_for()
    killed = sql.mount.running
    assert killed is not None
    os.kill(killed.pid, signal.SIGKILL)
    run(page, "SHOW DATABASES")
    page.get_by_role("alert").get_by_text("temporary tables and settings are gone").wait_for()
    sentence = page.get_by_text("ended unexpectedly")
    sentence.wait_for()  # from the state of the JobManager, which the page asks for then
    page.get_by_label("SQL statements").focus()
    run(page, "SHOW DATABASES")
    sentence.wait_for(state="detached")  # it goes with the next answer
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "SQL statements"
    page.get_by_role("table", name="Rows").get_by_text("default_database").wait_for()
    assert sql.mount.running is not None
    page.close()
    sql.visit.problems.clear()  # the browser logs the 404


def test_a_statement_with_a_secret_is_not_kept(sql: Served) -> None:
    page = sql.open()
    run(page, "CREATE TEMPORARY TABLE s (a INT) WITH ('connector' = 'datagen', 'password' = 'hunter2')")
    page.locator(".result-head .badge.calm, .result-head .badge.bad").first.wait_for()
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert "hunter2" not in kept
    page.close()
    sql.visit.problems.clear()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_the_page_with_a_result(sql: Served, browser: Any, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = viewer(browser, sql.visit.url, bypass_csp=True, color_scheme=scheme).open("/sql")
    run(page, "SHOW FUNCTIONS;\nSELECT\n nosuch")
    page.locator(".sql-wrong").wait_for()
    page.get_by_role("group", name="Statements").get_by_role("button").first.click()
    page.get_by_role("button", name="Next").wait_for()
    page.get_by_text("Sessions of this JobManager").click()
    found = axe.run(page).response["violations"]
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "on a phone"
    page.context.close()
    assert [(one["id"], one["nodes"][0]["target"], one["nodes"][0]["failureSummary"]) for one in found] == []


def test_without_the_extra_the_page_says_what_to_install(browser: Any, tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path)
    with served(cluster, sql=mount_of(cluster, ("pyarrow",))) as url:
        page = viewer(browser, url).open("/sql")
        page.get_by_text("pip install 'flott[sql]'").wait_for()
        assert page.get_by_label("SQL statements").count() == 0

"""The frame of the web UI in a real browser, over a cluster made of data: log-in, reconnection, hostile names, keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flott.common.configuration import Configuration
from tests.unit.rest.fake_cluster import RUNNING, FakeCluster, running_job
from tests.web.browser import PATIENCE, Viewer, viewer
from tests.web.fake_job_manager import HOSTILE, busy_cluster, served

pytestmark = pytest.mark.xdist_group("web")  # one browser


@pytest.fixture(scope="module")
def seen(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """A viewer of a cluster in which one job has a hostile name."""
    cluster = FakeCluster(tmp_path_factory.mktemp("cluster"))
    cluster.known[RUNNING] = replace(running_job(), name=HOSTILE)
    with served(cluster) as url:
        yield viewer(browser, url)


def test_a_name_that_is_markup_is_shown_as_text(seen: Viewer) -> None:
    page = seen.open("/")
    page.get_by_role("link", name=HOSTILE).click()
    page.wait_for_selector(f"h1:has-text({HOSTILE[:8]!r})")
    assert page.inner_text("main h1") == HOSTILE
    assert page.query_selector("main img") is None
    assert page.query_selector("main script") is None
    assert "owned" not in page.title().split("document")[0]
    assert seen.problems == []


def test_a_wrong_token_is_refused_and_the_right_one_opens_the_page(browser: Any, tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, Configuration.of({"flott.rest.token": "s3cret"}))
    with served(cluster) as url:
        visit = viewer(browser, url)
        page = visit.open("/")
        assert page.inner_text("main h1") == "Log in"
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        page.get_by_text("This is not the token").wait_for()
        page.get_by_label("Token").fill("s3cret")
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", name="Overview").wait_for()
        assert "s3cret" not in page.url
        kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
        assert "s3cret" not in kept
        page.reload()
        page.get_by_role("heading", name="Overview").wait_for()
        page.get_by_role("button", name="Log out").click()
        page.get_by_role("heading", name="Log in").wait_for()


def test_a_job_manager_that_goes_away_and_comes_back(browser: Any, tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path)
    with served(cluster) as url:
        page = viewer(browser, url).open("/")
        page.get_by_role("link", name="orders-window").wait_for()
    page.get_by_text("does not answer").wait_for()
    assert page.get_by_role("link", name="orders-window").is_visible(), "what was known last stays"
    with served(cluster, port=int(url.rpartition(":")[2])):
        page.get_by_text("does not answer").wait_for(state="hidden", timeout=PATIENCE)
        assert page.get_by_role("link", name="orders-window").is_visible()


def test_the_keyboard_reaches_pages_and_vertices(seen: Viewer) -> None:
    page = seen.open(f"/jobs/{RUNNING}")
    page.locator(".vertex").first.focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Subtasks").wait_for()
    assert "vertex=" in page.url
    page.get_by_role("button", name="Close").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Subtasks").wait_for(state="detached")


def test_an_update_keeps_what_the_reader_types_and_opens(seen: Viewer) -> None:
    page = seen.open("/configuration")
    field = page.get_by_label("Find a setting")
    field.type("abc")
    page.evaluate("location.hash = '#/configuration?again=1'")  # the same page asks again and shows its data again
    page.wait_for_timeout(300)
    assert field.input_value() == "abc"
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Find a setting"


def test_an_unknown_job_and_an_unknown_page_say_so(seen: Viewer) -> None:
    page = seen.open(f"/jobs/{'0' * 32}")
    assert page.inner_text("main h1") == "Not available"
    page.evaluate("location.hash = '#/nosuch'")
    page.get_by_text("There is no such page").wait_for()
    seen.problems.clear()  # the browser logs the 404 that this test asks for


def test_the_theme_is_chosen_and_kept(seen: Viewer) -> None:
    page = seen.open("/")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    button = page.get_by_role("button", name=re.compile("Colours"))
    button.click()
    button.click()
    dark = page.evaluate(paper)
    assert dark != light
    page.reload()
    page.get_by_role("heading", name="Overview").wait_for()
    assert page.evaluate(paper) == dark


def test_an_order_is_asked_about_before_it_is_sent(seen: Viewer) -> None:
    page = seen.open(f"/jobs/{RUNNING}")
    page.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    assert "without a savepoint" in dialog.inner_text()
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    page.get_by_text("The job is being cancelled.").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("address", ["/", f"/jobs/{RUNNING}", f"/jobs/{RUNNING}/checkpoints", "/submit"])
def test_axe_finds_nothing(seen: Viewer, browser: Any, address: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    # The policy forbids what axe does to the page; the page itself is the same.
    page = viewer(browser, seen.url, bypass_csp=True, color_scheme=scheme).open(address)
    found = axe.run(page).response["violations"]
    page.context.close()
    assert [(one["id"], one["nodes"][0]["target"], one["nodes"][0]["failureSummary"]) for one in found] == []


def test_fifty_jobs_of_ten_vertices_are_shown(browser: Any, tmp_path: Path) -> None:
    cluster = busy_cluster(tmp_path)
    with served(cluster) as url:
        visit = viewer(browser, url)
        page = visit.open("/")
        assert page.locator("tbody tr").count() == 50
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("link", name="pipeline 7", exact=True).click()
        page.locator(".vertex").nth(9).wait_for()
        assert page.locator(".vertex").count() == 10
        assert visit.problems == []

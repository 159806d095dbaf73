"""The frame of the web UI in a real browser, over a cluster made of data: log-in, reconnection, hostile names, keys."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flott.common.configuration import Configuration
from tests.unit.rest.fake_cluster import RUNNING, FakeCluster, running_job
from tests.web.browser import PATIENCE, Viewer, logged_in, until, viewer, wide_tables
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
        assert logged_in(browser, url, "s3cret").open("/").inner_text("main h1") == "Overview"


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


def again(page: Any) -> None:
    """Let the page ask again and show what comes: the number in its address is a query that it does not know."""
    page.evaluate("""async () => {
      const asked = performance.getEntriesByType('resource').length;
      location.hash = `${location.hash.split('?')[0]}?again=${Math.random()}`;
      while (performance.getEntriesByType('resource').length === asked) await new Promise((go) => setTimeout(go, 10));
    }""")
    page.evaluate("() => new Promise((go) => requestAnimationFrame(() => setTimeout(go, 100)))")


def test_an_update_keeps_what_the_reader_types_and_opens(browser: Any, tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path)
    with served(cluster) as url:
        page = viewer(browser, url).open("/")
        field = page.get_by_label("Find a job")
        field.type("orders")
        page.get_by_text("The small charts as a table").click()
        cluster.known[RUNNING] = replace(cluster.known[RUNNING], name="orders-changed")
        page.get_by_role("link", name="orders-changed").wait_for()  # the update has come
        assert field.input_value() == "orders"
        assert page.evaluate("document.activeElement.tagName") != "BODY"
        assert page.get_by_role("table", name="Records per second").is_visible()
        page.context.close()


FIELDS = """async () => {
  const { h, morphChildren } = await import('./elements.js');
  const place = document.body.appendChild(h('div', null));
  const show = (...children) => morphChildren(place, h('div', null, ...children));
  const text = (value, name = 'a') => h('input', { type: 'text', name, value });
  const box = (checked) => h('input', { type: 'checkbox', checked });
  const list = (value, ...names) => h('select', { value }, names.map((name) => h('option', { value: name }, name)));
  const said = {};
  show(text('one'), box(true), list('x', 'x', 'y'));
  const [field, tick, choice] = place.children;
  const now = () => [field.value, tick.checked, choice.value];
  field.value = 'typed'; tick.checked = false; choice.value = 'y';
  show(text('one'), box(true), list('x', 'x', 'y'));
  said.same = now();
  show(text('two'), box(false), list('x', 'x', 'y'));
  show(text('two'), box(true), list('z', 'x', 'y', 'z'));
  said.other = now();
  field.focus(); field.value = 'being typed';
  show(text('three'), box(true), list('y', 'x', 'z', 'y'));
  said.focused = now();
  field.blur();
  show(text('four'), box(true), list('x', 'x'));
  said.gone = now();
  field.value = 'for a';
  show(text('four', 'b'), box(true), list('x', 'x'));
  said.renamed = [place.firstChild.value, place.children.length, place.children[1] === tick];
  place.remove();
  return said;
}"""


def test_a_field_follows_the_data_without_destroying_what_is_typed(seen: Viewer) -> None:
    page = seen.open("/")
    said = page.evaluate(FIELDS)
    assert said["same"] == ["typed", True, "x"], "the data says what it said before: a text stays, a choice does not"
    assert said["other"] == ["two", True, "z"], "the data says something else"
    assert said["focused"] == ["being typed", True, "y"], "a text that is being typed stays, a choice does not"
    assert said["gone"] == ["four", True, "x"], "an option that is gone cannot stay chosen"
    assert said["renamed"] == ["four", 3, True], "the text of a field is not taken for another field"


NEIGHBOURS = """async () => {
  const { h, morphChildren } = await import('./elements.js');
  const place = document.body.appendChild(h('div', null));
  const show = (...children) => morphChildren(place, h('div', null, ...children));
  const editor = h('textarea', { 'aria-label': 'editor' });
  const holder = (name) => h(name, null, h('div', { key: 'editor', island: editor }));
  const row = (key) => h('div', { key }, h('input', { type: 'text', name: key }));
  const said = {};
  const now = () => [editor.isConnected && place.contains(editor), document.activeElement === editor];
  show(h('h1', null, 'title'), holder('div'));
  editor.focus();
  said.before = now();
  show(h('h1', null, 'title'), h('p', null, 'a sentence'), holder('div'));
  said.sentence = now();
  show(h('h1', null, 'title'), holder('div'));
  said.gone = now();
  show(holder('div'));
  show(holder('div'), h('p', null, 'behind'));
  said.first = now();
  show(h('p', null, 'another'), holder('section'));
  said.elsewhere = now()[0]; // in another element, so it was moved
  show(h('p', null, 'a sentence'), row('a'), row('b'), row('c'));
  place.querySelector('[name=c]').focus();
  show(row('b'), row('c'));
  said.rows = [place.children.length, document.activeElement.name];
  show(h('p', null, 'one'), h('ul', null), h('p', null, 'two'));
  show(h('ul', null), h('p', null, 'three'), h('p', null, 'four'));
  said.order = Array.from(place.children, (one) => one.localName + one.textContent).join();
  place.remove();
  return said;
}"""


def test_what_stands_behind_a_sentence_that_comes_and_goes_stays_with_its_focus(seen: Viewer) -> None:
    page = seen.open("/")
    said = page.evaluate(NEIGHBOURS)
    assert said["before"] == [True, True]
    assert said["sentence"] == [True, True]
    assert said["gone"] == [True, True]
    assert said["first"] == [True, True]
    assert said["elsewhere"], "an editor is not lost when it comes into another element"
    assert said["rows"] == [2, "c"]
    assert said["order"] == "ul,pthree,pfour"
    page.close()


def test_updates_do_not_move_what_the_reader_looks_at(browser: Any, tmp_path: Path) -> None:
    cluster = busy_cluster(tmp_path, jobs=40)
    with served(cluster) as url:
        page = viewer(browser, url).open("/")
        link = page.get_by_role("link", name="pipeline 30", exact=True)
        link.scroll_into_view_if_needed()
        columns = """Array.from(document.querySelectorAll('thead')[0].querySelectorAll('th'), (cell) =>
          Math.round(cell.getBoundingClientRect().left))"""
        before, widths = link.bounding_box(), page.evaluate(columns)
        assert before["y"] > 100
        for rate in (0.0, 12345.6):
            for job_id, job in list(cluster.known.items()):
                cluster.known[job_id] = replace(job, records_per_second=rate)
            page.locator("td", has_text="12.3 k/s" if rate else re.compile("^0/s$")).nth(30).wait_for()
            assert link.bounding_box() == before
            assert page.evaluate(columns) == widths
            assert wide_tables(page) == []
        page.context.close()


def test_the_focus_moves_to_the_heading_of_a_page_that_was_gone_to(seen: Viewer) -> None:
    focused = "document.activeElement.tagName + ' ' + document.activeElement.textContent"
    page = seen.open("/")
    assert page.evaluate("document.activeElement.tagName") == "BODY", "the first page takes nothing"
    for name, heading in (("Executors", "Executors"), ("Submit", "Submit a program"), ("Overview", "Overview")):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).focus()
        page.keyboard.press("Enter")
        page.locator("h1", has_text=heading).wait_for()
        until(page, lambda: str(page.evaluate(focused)).startswith("H1 "))
    again(page)
    page.get_by_role("link", name="restarting-job").focus()
    again(page)
    assert page.evaluate(focused) == "A restarting-job", "an update takes nothing"
    page.close()


def test_a_text_is_copied_where_the_browser_has_no_clipboard(browser: Any, seen: Viewer) -> None:
    visit = viewer(browser, seen.url)
    visit.context.add_init_script("delete Navigator.prototype.clipboard")  # as on plain http beyond localhost
    page = visit.open(f"/jobs/{RUNNING}/failure")
    page.evaluate("""document.addEventListener('copy', () => {
      window.copied = document.activeElement.value ?? String(getSelection());
    })""")
    button = page.get_by_role("button", name="Copy")
    button.click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("window.copied").startswith("flott replay")
    assert page.locator("textarea").count() == 0
    page.context.close()


def test_pages_are_shown_over_tls(browser: Any, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "own.key", tmp_path / "own.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", "-x509", *curve, *subject, *files], check=True, capture_output=True)
    settings = {"flott.rest.ssl.certificate": str(certificate), "flott.rest.ssl.key": str(key)}
    token = {"flott.rest.token": "s3cret", "security.ssl.rest.enabled": "true"}
    cluster = FakeCluster(tmp_path / "cluster", Configuration.of({**settings, **token}))
    with served(cluster) as url:
        visit = viewer(browser, url.replace("http://", "https://"), ignore_https_errors=True)
        page = visit.open("/")
        page.get_by_label("Token").fill("s3cret")
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", name="Overview").wait_for()
        [cookie] = visit.context.cookies()
        assert cookie["secure"]
        assert cookie["httpOnly"]
        page.context.close()


def test_the_banner_of_a_page_that_failed_is_gone_on_the_next(browser: Any, tmp_path: Path) -> None:
    with served(FakeCluster(tmp_path)) as url:
        page = viewer(browser, url).open("/")
        page.route("**/flott/live", lambda route: route.abort())
        page.get_by_text("does not answer").wait_for()
        page.evaluate("location.hash = '#/nosuch'")
        page.get_by_role("heading", name="No such page").wait_for()
        assert not page.get_by_text("does not answer").is_visible()
        page.context.close()


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
        assert page.locator("tbody tr:visible").count() == 50
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("link", name="pipeline 7", exact=True).click()
        page.locator(".vertex").nth(9).wait_for()
        assert page.locator(".vertex").count() == 10
        assert visit.problems == []

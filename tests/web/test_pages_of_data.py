"""Pages of jobs with a past, in a real browser over a cluster made of data: what they show, and what orders become."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from flott.errors import FlottError
from flott.runtime.logs.entry import LogEntry
from tests.unit.rest.fake_cluster import NOW, RUNNING, TASK_MANAGER
from tests.web.browser import PATIENCE, Viewer, viewer, wide_tables
from tests.web.fake_job_manager import PIPELINED, StoryCluster, served

pytestmark = pytest.mark.xdist_group("web")  # one browser

EXECUTOR = f"/executors/{quote(TASK_MANAGER, safe='')}"


@dataclass(frozen=True)
class Story:
    """A cluster whose jobs have a past, and a viewer who lives in Oslo."""

    cluster: StoryCluster
    visit: Viewer

    def log(self, *numbers: int, level: str = "INFO") -> None:
        """Add lines to the log of the running job."""
        path = self.cluster.log_folder / "jobs" / RUNNING / "job.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            for number in numbers:
                line = LogEntry(
                    "2026-03-01T12:00:00.000Z", level, "stdout", f"line {number}.", RUNNING, task_manager=TASK_MANAGER
                )
                file.write(line.encoded() + b"\n")


@pytest.fixture(scope="module")
def story(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    cluster = StoryCluster(tmp_path_factory.mktemp("cluster"))
    with served(cluster) as url:
        yield Story(cluster, viewer(browser, url, timezone_id="Europe/Oslo"))


# ---- orders ---------------------------------------------------------------------------------------------------------


def test_a_refusal_that_comes_when_its_dialog_is_closed_is_told(story: Story) -> None:
    page = story.visit.open(f"/jobs/{RUNNING}/checkpoints")
    story.cluster.held = True
    try:
        page.get_by_role("button", name="Take a savepoint").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Take it").click()
        dialog.get_by_role("button", name="Working…").wait_for()
        page.keyboard.press("Escape")
        dialog.wait_for(state="detached")
        page.get_by_role("link", name="Timeline").click()
        page.get_by_role("heading", name="Events").wait_for()
    finally:
        story.cluster.held = False
    while not story.cluster.promises:  # the order is on its way
        page.wait_for_timeout(20)
    story.cluster.release(FlottError("the disk is full"))
    notice = page.locator(".notice.bad")
    notice.wait_for()
    assert notice.inner_text().startswith("Take a savepoint: ")
    assert "the disk is full" in notice.inner_text()
    page.close()


def test_a_dialog_ends_with_its_page(story: Story) -> None:
    page = story.visit.open(f"/jobs/{RUNNING}/checkpoints")
    page.goto(page.url.replace(RUNNING, PIPELINED))
    page.get_by_role("heading", name="fast shop").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").wait_for()
    page.go_back()
    page.get_by_role("heading", name="shop", exact=True).wait_for()
    assert page.get_by_role("dialog").count() == 0
    page.close()


def test_a_notice_with_the_place_of_a_savepoint_stays_until_it_is_closed(story: Story) -> None:
    page = story.visit.context.new_page()
    page.set_default_timeout(PATIENCE)
    page.clock.install()
    page.goto(f"{story.visit.url}/web/#/jobs/{RUNNING}/checkpoints")
    page.get_by_role("button", name="Stop with one").click()
    page.get_by_role("dialog").get_by_label("Folder").fill("/kept")
    page.get_by_role("dialog").get_by_role("button", name="Stop it").click()
    notice = page.locator(".notice")
    notice.get_by_text(f"/kept/savepoint-{RUNNING[:6]}").wait_for()
    page.clock.fast_forward(120_000)
    assert notice.is_visible()
    story.visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
    notice.get_by_role("button", name="Copy").click()
    notice.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == f"/kept/savepoint-{RUNNING[:6]}"
    notice.get_by_role("button", name="Close").click()
    assert notice.count() == 0
    page.close()


def test_any_savepoint_of_a_job_is_shown_exported_restored_and_disposed_of(story: Story) -> None:
    page = story.visit.open(f"/jobs/{RUNNING}/checkpoints")
    savepoints = page.get_by_role("table", name="Savepoints")
    assert savepoints.locator("tbody tr").count() == 12, "more than the history of checkpoints has"
    oldest = savepoints.locator("tbody tr").last
    path = oldest.locator("code").inner_text()
    oldest.get_by_role("button", name="savepoint of").click()
    page.get_by_role("heading", name="Savepoint", exact=True).wait_for()
    shown = page.locator("section", has=page.get_by_role("heading", name="Savepoint", exact=True))
    assert shown.locator("code").inner_text() == path
    assert page.locator("tr.chosen").count() == 1, "a checkpoint with the same number is another one"

    shown.get_by_role("button", name="Export").click()
    page.get_by_role("dialog").get_by_label("Folder").fill("/elsewhere")
    page.get_by_role("dialog").get_by_role("button", name="Export").click()
    page.get_by_text("/elsewhere/copy").wait_for()
    shown.get_by_role("button", name="Dispose").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete it").click()
    page.get_by_text("The savepoint was deleted").wait_for()
    assert ("export", path, "/elsewhere") in story.cluster.orders
    assert ("dispose", path) in story.cluster.orders
    savepoints.get_by_text(path).wait_for(state="detached")
    page.get_by_text("It was disposed of").wait_for()

    page.get_by_role("button", name="Restore from a path").click()
    page.get_by_role("dialog").get_by_label("Savepoint").fill("/far/savepoint-1")
    page.get_by_role("dialog").get_by_role("button", name="Start the job").click()
    page.wait_for_url(lambda url: "f" * 32 in url)
    assert ("restore", RUNNING, "/far/savepoint-1", False) in story.cluster.orders
    page.close()
    story.visit.problems.clear()  # the job that was restored is not there, because the cluster is made of data


def test_a_text_is_copied_where_the_browser_has_no_clipboard_object(story: Story) -> None:
    page = story.visit.context.new_page()
    page.set_default_timeout(PATIENCE)
    # As on a page that comes over http from another host. What is read afterwards is the same clipboard.
    page.add_init_script("window.there = navigator.clipboard; delete Navigator.prototype.clipboard;")
    page.goto(f"{story.visit.url}/web/#/jobs/{RUNNING}/failure")
    story.visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("window.there.readText()")
    assert copied.startswith(f"flott replay {RUNNING}")
    assert page.locator("textarea").count() == 0
    page.close()


# ---- what pages show ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("job", [RUNNING, PIPELINED])
def test_failures_and_restarts_are_marked_also_after_the_last_bar(story: Story, job: str) -> None:
    page = story.visit.open(f"/jobs/{job}/timeline")
    page.locator(".event-line").first.wait_for(state="attached")  # a line has no width
    strip = page.get_by_role("region", name="Epochs over time")
    titles = strip.locator("g title").all_text_contents()
    assert sum("failure: ValueError" in title and "restart: RESTARTING" in title for title in titles) == 1
    bars = [one["x"] + one["width"] for one in boxes(strip.locator(".phase-commit"))]
    lines = [one["x"] for one in boxes(strip.locator(".event-line.bad"))]
    assert max(lines) > max(bars), "it has failed since its last checkpoint"
    assert strip.locator(".event-label.bad").count() >= 1
    labels = boxes(strip.locator(".event-label"))
    assert not any(overlap(one, other) for one in labels for other in labels if one is not other)
    page.close()
    assert story.visit.problems == []


def boxes(found: Any) -> list[dict[str, float]]:
    places: list[dict[str, float]] = found.evaluate_all(
        """(nodes) => nodes
            .map((node) => node.getBoundingClientRect())
            .map(({ x, y, width, height }) => ({ x, y, width, height }))"""
    )
    return places


def overlap(one: dict[str, float], other: dict[str, float]) -> bool:
    beside = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
    # Lines of text are a little higher than their letters.
    below = one["y"] + one["height"] <= other["y"] + 3 or other["y"] + other["height"] <= one["y"] + 3
    return not (beside or below)


def test_sentences_on_event_time_are_in_the_zone_of_the_viewer(story: Story) -> None:
    page = story.visit.open(f"/jobs/{RUNNING}/time")
    sentence = page.get_by_text("has had no record since")
    sentence.wait_for()
    assert "since 2023-11-14 23:14:16 (4 s ago)" in sentence.inner_text(), "it is an hour later in Oslo"
    assert NOW == 1_700_000_060_000
    assert "UTC" not in page.inner_text("main")
    assert page.locator(".held").count() == 4, "from the split through its source and the join to both sinks"
    assert page.locator(".time-place").count() == 9
    page.get_by_text("Event time as a table").click()
    assert page.get_by_role("table", name="Event time by place").locator("tbody tr").count() == 10
    page.close()
    assert story.visit.problems == []


def test_the_log_of_an_executor_is_searched_filtered_followed_and_held(story: Story) -> None:
    story.log(1, 2, 3)
    story.log(4, level="ERROR")
    page = story.visit.open(EXECUTOR)
    lines = page.locator(".log div")
    page.get_by_label("Search the log").fill("LINE 2.")
    page.get_by_role("button", name="Search").click()
    page.locator(".log mark").wait_for()
    assert lines.count() == 1
    page.get_by_label("Search the log").fill("")
    page.get_by_role("button", name="Search").click()
    page.get_by_label("Level").select_option("ERROR")
    page.locator(".log div:only-child").filter(has_text="line 4.").wait_for()
    page.get_by_text("1 line.").wait_for()
    page.get_by_label("Level").select_option("")
    page.get_by_text("4 lines").wait_for()
    page.get_by_role("button", name="Hold").click()
    story.log(5)
    with page.expect_response(lambda reply: "/flott/subtasks" in reply.url):  # the page goes on asking for the rest
        pass
    assert lines.count() == 4, "nothing comes while it is held"
    page.get_by_role("button", name="Follow").click()
    page.get_by_text("5 lines").wait_for()
    story.log(6)
    page.get_by_text("6 lines").wait_for()
    assert "line 6." in lines.last.inner_text()
    page.close()
    assert story.visit.problems == []


def test_memory_of_an_executor_elsewhere_is_said_to_be_the_most_so_far(story: Story) -> None:
    [here] = story.cluster.executors
    metrics = {
        **here.metrics, "Status.Python.Memory.Used": 3 << 30, "Status.Shuffle.Read.Bytes": 2048,
        "Status.Shuffle.Write.Bytes": 4096,
    }  # fmt: skip
    urls = {"stderr": "http://worker:8081/logPage?logType=stderr"}
    story.cluster.executors[:] = [replace(here, metrics=metrics, log_urls=urls, memory_is_peak=True)]
    try:
        page = story.visit.open("/executors")
        listed = page.get_by_role("table", name="Executors")
        assert "Memory, most so far" in listed.inner_text()
        assert "2023-11-14 23:13:20" in listed.inner_text(), "when it has started"
        page.get_by_role("link", name=TASK_MANAGER).click()
        memory = page.get_by_role("table", name="Memory")
        memory.get_by_text("Python workers").wait_for()  # an answer of a moment ago may be shown first
        rows = memory.locator("tbody tr").all_inner_texts()
        assert [row.split("\t")[-1].strip() for row in rows] == ["the most so far"] * 3
        assert "3 GiB" in rows[2]
        main = page.inner_text("main")
        assert "2 KiB read" in main
        assert "4 KiB written" in main
        assert "take turns" in main, "why more subtasks run than slots are in use"
        placed = page.get_by_role("table", name="Subtasks").locator("tbody tr").first
        assert "40 %" in placed.inner_text()
        assert "2 KiB" in placed.inner_text()
        page.get_by_text("Logs that Spark serves itself").click()
        assert page.get_by_text(urls["stderr"]).is_visible()
        page.close()
    finally:
        story.cluster.executors[:] = [here]
    assert story.visit.problems == []


def test_what_is_read_and_selected_in_a_long_log_stays(story: Story) -> None:
    folder = story.cluster.log_folder
    log = folder / "jobmanager.log"
    log.write_text("".join(f"first {number}\n" for number in range(400)))
    page = story.visit.open("/logs")
    page.get_by_text("400 lines").wait_for()
    with log.open("a") as file:
        file.writelines(f"more {number}\n" for number in range(4_000))
    page.get_by_text("3,000 lines, the last ones").wait_for()
    line = page.locator(".log div").nth(5)
    text = line.inner_text()
    line.scroll_into_view_if_needed()
    line.evaluate("(node) => getSelection().selectAllChildren(node)")
    before = line.bounding_box()
    with log.open("a") as file:
        file.writelines(f"later {number}\n" for number in range(50))
    page.get_by_text("3,050 lines").wait_for()
    same = page.get_by_text(text, exact=True)
    assert same.bounding_box() == before
    assert page.evaluate("getSelection().toString()") == text
    page.close()
    assert story.visit.problems == []


def test_the_banner_goes_with_the_page(browser: Any, tmp_path: Path) -> None:
    with served(StoryCluster(tmp_path)) as url:
        page = viewer(browser, url).open("/")
    page.get_by_text("does not answer").wait_for()
    page.evaluate("location.hash = '#/nosuch'")
    page.get_by_text("There is no such page").wait_for()
    assert page.locator(".banner").is_hidden()
    page.close()


def test_the_failure_page_reads_as_sentences(story: Story) -> None:
    page = story.visit.open(f"/jobs/{RUNNING}/failure")
    page.get_by_text("Restart at most 1 time, 1 s after a failure").wait_for()
    assert page.get_by_text("File program.py, line 5", exact=True).is_visible(), "the traceback is open"
    page.close()
    assert story.visit.problems == []


PAGES = {
    f"/jobs/{RUNNING}/timeline": "Where the time went",
    f"/jobs/{PIPELINED}/timeline": "Where the time went",
    f"/jobs/{RUNNING}/time": "has had no record since",
    f"/jobs/{RUNNING}/checkpoints?checkpoint=7&vertex={'20' * 16}": "By subtask",
    f"/jobs/{RUNNING}/failure": "The last failure",
    f"/jobs/{RUNNING}/log": "Times of lines",
    f"/jobs/{RUNNING}/configuration": "input",
    "/executors": "Memory in use",
    EXECUTOR: "Subtasks placed here",
    "/configuration": "Threads",
    "/logs": "Times of lines",
}


@pytest.mark.parametrize("address", PAGES)
def test_axe_finds_nothing_and_the_page_keeps_to_its_width(story: Story, browser: Any, address: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    (story.cluster.log_folder / "jobmanager.log").touch()
    # The policy forbids what axe does to the page; the page itself is the same.
    page = viewer(browser, story.visit.url, bypass_csp=True).open(address)
    page.locator("main").get_by_text(re.compile(re.escape(PAGES[address]))).first.wait_for(state="attached")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = axe.run(page).response["violations"]
        told = [(one["id"], one["nodes"][0]["target"], one["nodes"][0]["failureSummary"]) for one in found]
        assert told == [], scheme
    assert wide_tables(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "on a phone"
    page.context.close()

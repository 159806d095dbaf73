"""Takes docs/images/web-*.png, the pictures of the web UI, from real jobs at a real JobManager: ``make screenshots``.

It needs Chromium and a Java, takes about a minute, and is the last part of ``make docs``. PNGs are taken at the width
that the docs show, so that they stay small.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from tests.spark.cluster.conftest import Session, start_session
from tests.web.browser import started_browser, viewer, why_not

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
PROGRAM = ROOT / "tests" / "web" / "programs" / "shop.py"
ONCE = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1",
    "restart-strategy.fixed-delay.delay": "1s",
}
OFTEN = {"parallelism.default": "2", "flott.epoch.min-interval": "500ms"}
CONTINUOUS = {"execution.mode": "pipelined", "parallelism.default": "1"}
LIGHT = {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}}
DARK = {**LIGHT, "color_scheme": "dark"}
PHONE = {"color_scheme": "light", "viewport": {"width": 390, "height": 844}, "has_touch": True}


def main() -> None:
    reason = why_not()
    if reason is not None:
        raise SystemExit(f"No pictures: {reason}.")
    with (
        tempfile.TemporaryDirectory(prefix="shop-") as folder,
        running_shop(Path(folder)) as (session, addresses),
        started_browser() as browser,
    ):
        for name, (address, settings) in pictures(addresses).items():
            take(browser, session.url, name, address, settings)


@contextmanager
def running_shop(folder: Path) -> Iterator[tuple[Session, dict[str, str]]]:
    """Start a JobManager with a job that runs and one that has failed; yield the addresses of their pages."""
    session = start_session(folder / "cluster", spark__master="local[4]")
    program = Path(shutil.copy(PROGRAM, folder))  # pages show where operators are defined
    try:
        revenue = [folder / "revenue", "--rate", "400", "--name", "revenue per second", "--plain"]
        running = session.submit(*revenue, program=program, settings=OFTEN)
        check = [folder / "check", "--fail-at", "700", "--name", "price check", "--plain"]
        failed = session.submit(*check, program=program, settings=ONCE)
        fast = [folder / "fast", "--rate", "400", "--name", "pipelined revenue", "--plain"]
        pipelined = session.submit(*fast, program=program, settings=CONTINUOUS)
        session.await_status(failed, "FAILED")
        session.await_epochs(running, 25)
        session.cli("rescale", running, "3")
        session.cli("savepoint", running, folder / "savepoints")
        session.await_epochs(running, 35)
        session.await_epochs(pipelined, 25)
        job = f"/jobs/{running}"
        vertices = session.rest.get(job)["vertices"]
        chosen = next(one["id"] for one in vertices if one["name"].startswith("Seconds"))
        yield session, {"job": job, "failed": f"/jobs/{failed}", "pipelined": f"/jobs/{pipelined}", "vertex": chosen}
    finally:
        session.rest.close()
        session.process.kill_tree()


def pictures(addresses: dict[str, str]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return each picture's page and the settings of the browser."""
    job = addresses["job"]
    return {
        "web-overview": ("/", LIGHT),
        "web-overview-phone": ("/", PHONE),
        "web-timeline": (f"{job}/timeline", LIGHT),
        "web-timeline-pipelined": (f"{addresses['pipelined']}/timeline", LIGHT),
        "web-job": (job, LIGHT),
        "web-job-dark": (job, DARK),
        "web-vertex": (f"{job}?vertex={addresses['vertex']}", LIGHT),
        "web-time": (f"{job}/time", LIGHT),
        "web-checkpoints": (f"{job}/checkpoints", LIGHT),
        "web-state": (f"{job}/state", LIGHT),
        "web-failure": (f"{addresses['failed']}/failure", LIGHT),
        "web-preview": (f"{job}/preview", LIGHT),
        "web-executors": ("/executors/driver", LIGHT),
        "web-submit": ("/submit", LIGHT),
        "web-sql": ("/sql", LIGHT),
    }


def take(browser: Any, url: str, name: str, address: str, settings: dict[str, Any]) -> None:
    """Take one picture, after the page has been updated a few times."""
    visit = viewer(browser, url, timezone_id="UTC", **settings)
    page = visit.open(address)
    if name == "web-preview":
        page.get_by_role("button", name="Show records").click()
        page.get_by_role("table", name="Records").wait_for()
    if name == "web-submit":
        page.get_by_label("A program").set_input_files(PROGRAM)
        page.get_by_role("button", name="Upload").click()
        page.get_by_label("Arguments").wait_for()
        page.locator(".notices button").click()
    if name == "web-sql":
        page.get_by_role("button", name="Count generated orders").click()
        page.get_by_role("button", name="Run all").click()
        page.get_by_role("table", name="Rows").locator("tbody tr").nth(5).wait_for()
        page.get_by_role("button", name="generated_orders", exact=True).click()
    page.wait_for_timeout(2500)
    page.mouse.move(0, 0)
    height = min(1200, page.evaluate("document.documentElement.scrollHeight"))
    page.set_viewport_size({**settings["viewport"], "height": max(settings["viewport"]["height"], height)})
    write_small(page.screenshot(), IMAGES / f"{name}.png")
    for problem in visit.problems:
        print(f"{name}: {problem}")
    print(f"{name}.png: {(IMAGES / f'{name}.png').stat().st_size // 1024} KiB")
    visit.context.close()


def write_small(png: bytes, file: Path) -> None:
    """Write a picture with a palette that keeps rare colours: pages have few, so it is smaller and looks the same."""
    with Image.open(io.BytesIO(png)) as picture:
        few = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
        few.save(file, optimize=True)


if __name__ == "__main__":
    main()

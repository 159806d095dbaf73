"""``python -m bench.first_paint``: how soon pages of the web UI show something, and how smoothly they are updated.

The same server as in ``open_pages``, whose jobs change twice a second, and one Chromium. A page is opened several
times, each time without a cache. *First paint* is what the browser calls so; *complete* is when all jobs, or all
vertices, are shown. Then the page stays open: the longest time between two frames is how long an update blocks it. A
blank page of the same browser has such times too, if the machine is busy: they are printed beside. Results go to
``bench/results/web.json``.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from bench.open_pages import JOBS, VERTICES, record
from tests.web.browser import started_browser, why_not

OPENED = 7
WATCHED_MS = 15_000

#: Resolves with the milliseconds since navigation at which so many elements are shown.
_COMPLETE = """([selector, count]) => new Promise((resolve) => {
  const look = () =>
    document.querySelectorAll(selector).length >= count ? resolve(performance.now()) : requestAnimationFrame(look);
  look();
})"""
#: Resolves with the time of the first paint. A frame is reported a little after it was painted.
_FIRST_PAINT = """() => new Promise((resolve) => {
  const look = () => {
    const [entry] = performance.getEntriesByName('first-contentful-paint');
    entry === undefined ? requestAnimationFrame(look) : resolve(entry.startTime);
  };
  look();
})"""
#: Resolves with the times between frames while the page is watched.
_FRAMES = """(duration) => new Promise((resolve) => {
  const gaps = [];
  const began = performance.now();
  let last = began;
  const frame = (now) => {
    gaps.push(now - last);
    last = now;
    now - began < duration ? requestAnimationFrame(frame) : resolve(gaps);
  };
  requestAnimationFrame((now) => { last = now; requestAnimationFrame(frame); });
})"""


def opened(browser: Any, url: str, selector: str, count: int) -> tuple[float, float]:
    """Open a page without a cache; return the milliseconds until its first paint, and until it is complete."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(url, wait_until="commit")
    complete = page.evaluate(_COMPLETE, [selector, count])
    painted = page.evaluate(_FIRST_PAINT)
    context.close()
    return painted, complete


def frames(browser: Any, url: str, selector: str | None) -> tuple[float, float]:
    """Return the 99th percentile of the times between frames of an open page, and the longest."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(url)
    if selector is not None:
        page.locator(selector).first.wait_for()
    gaps = sorted(page.evaluate(_FRAMES, WATCHED_MS))
    context.close()
    return gaps[len(gaps) * 99 // 100], gaps[-1]


def main() -> None:
    """Measure the overview and a job."""
    reason = why_not()
    if reason is not None:
        raise SystemExit(f"Nothing measured: {reason}.")
    command = [sys.executable, "-m", "bench.open_pages", "serve"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        started_browser() as browser,
    ):
        assert process.stdout is not None
        assert process.stdin is not None
        root = f"http://localhost:{int(process.stdout.readline())}/web/"
        pages = {
            f"overview of {JOBS} jobs": (f"{root}#/", "tbody tr", JOBS),
            f"job of {VERTICES} vertices": (f"{root}#/jobs/{7:032x}", ".vertex", VERTICES),
        }
        measured = {}
        for name, (url, selector, count) in pages.items():
            times = [opened(browser, url, selector, count) for _ in range(OPENED)]
            painted, complete = (sorted(one)[OPENED // 2] for one in zip(*times, strict=True))
            slowest = max(one[1] for one in times)
            p99, longest = frames(browser, url, selector)
            print(f"{name}: first paint {painted:.0f} ms, complete {complete:.0f} ms (slowest {slowest:.0f} ms),")
            print(f"  then {p99:.0f} ms between frames at p99, {longest:.0f} ms at most.")
            numbers = (painted, complete, slowest, p99, longest)
            names = ("first_paint_ms", "complete_ms", "slowest_ms", "frame_p99_ms", "frame_longest_ms")
            measured[name] = {key: round(value) for key, value in zip(names, numbers, strict=True)}
        p99, longest = frames(browser, "about:blank", None)
        print(f"blank page: {p99:.0f} ms between frames at p99, {longest:.0f} ms at most.")
        record("first_paint", measured)
        process.stdin.close()


if __name__ == "__main__":
    main()

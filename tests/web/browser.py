"""Chromium for the tests and pictures of the web UI: the machine's own, driven by Playwright."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

#: A browser that is not on PATH.
VARIABLE = "FLOTT_TEST_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
#: Milliseconds until an expectation is given up: a bound for hangs only.
PATIENCE = 120_000


def found_browser() -> str | None:
    """Return the path of a Chromium, or None."""
    named = os.environ.get(VARIABLE)
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


def why_not() -> str | None:
    """Return why no browser can be had; None: it can."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "playwright is not installed (pip install flott[dev])"
    if found_browser() is None:
        return f"no Chromium on PATH (apt-get install chromium), and {VARIABLE} is not set"
    return None


@contextmanager
def started_browser() -> Iterator[Any]:
    """Start Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # As root in a container, Chromium cannot make the namespaces of its sandbox. It opens only pages of the tests.
        browser = playwright.chromium.launch(executable_path=found_browser(), args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Viewer:
    """A browser context at one JobManager, which remembers what went wrong in its pages."""

    context: Any
    url: str
    problems: list[str] = field(default_factory=list)

    def open(self, address: str = "/") -> Any:
        """Open a page of the web UI and wait until it shows its data."""
        page = self.context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: self._note(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self._note(str(error)))
        page.goto(f"{self.url}/web/#{address}")
        page.wait_for_selector("main h1")
        return page

    def _note(self, text: str) -> None:
        self.problems.append(text)


def until(page: Any, check: Callable[[], Any]) -> None:
    """Wait until a check says yes. The policy of the web UI forbids that Playwright waits for an expression."""
    deadline = time.monotonic() + PATIENCE / 1000
    while not check():
        assert time.monotonic() < deadline, "it has not come"
        page.wait_for_timeout(20)


def wide_tables(page: Any) -> list[str]:
    """Return the tables of a page that do not fit into their place, so that a reader has to scroll sideways.

    The tables behind pictures, which are closed at first, may be wide.
    """
    found: list[str] = page.evaluate(
        """Array.from(document.querySelectorAll("main .scroll:has(> table):not(details *)"))
          .filter((holder) => holder.scrollWidth > holder.clientWidth)
          .map((holder) => holder.getAttribute("aria-label"))"""
    )
    return found


def viewer(browser: Any, url: str, **settings: Any) -> Viewer:
    """Return a new context: other cookies, other storage."""
    values = {"viewport": {"width": 1280, "height": 800}, **settings}
    return Viewer(browser.new_context(**values), url)


def logged_in(browser: Any, url: str, token: str, **settings: Any) -> Viewer:
    """Return a viewer whose browser has shown the token."""
    visit = viewer(browser, url, **settings)
    reply = visit.context.request.post(f"{url}/flott/session", data={"token": token})
    assert reply.ok, reply.text()
    return visit

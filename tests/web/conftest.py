"""One browser for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.web.browser import started_browser, why_not


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; without one, the tests are skipped and say why."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with started_browser() as started:
        yield started

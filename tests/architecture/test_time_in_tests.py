"""No test depends on how busy the machine is: times are limits of patience, never what is asserted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SOURCES = sorted(path for path in TESTS.rglob("*.py") if path != Path(__file__))

#: What makes a test depend on the load, and what to do instead.
FORBIDDEN = {
    r"\bdeadline=(?!None)": "there is one profile of hypothesis, in tests/conftest.py, and it has no deadline",
    r"register_profile|load_profile": "there is one profile of hypothesis, in tests/conftest.py",
    r"perf_counter|process_time\b|thread_time|timeit": "count calls, records or files instead of measuring seconds",
}


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_no_test_depends_on_how_busy_the_machine_is(pattern: str) -> None:
    found = [
        f"{path.relative_to(TESTS)}:{number}: {FORBIDDEN[pattern]}"
        for path in SOURCES
        if path != TESTS / "conftest.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert found == []

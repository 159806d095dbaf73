"""Every page about a connector has a program that a test runs, a guarantee, and what happens when things fail."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.connectors.pages import run_page

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs" / "connectors").glob("*.md"))
INDEX = (ROOT / "docs" / "connectors" / "README.md").read_text("utf-8")
#: They tell about one database each what the page about all of them does not.
DIALECTS = {"mysql.md", "postgres.md", "sqlite.md"}
#: Needs a Spark; tests/spark/test_spark_tables.py runs the same calls with other names.
ON_SPARK = {"spark.md"}
ABOUT_ALL = {"README.md", "bad-records.md", "formats.md", "write-your-own.md"}


def sources_of_tests() -> str:
    folders = ("connectors", "spark", "unit/docs")
    return "".join(
        path.read_text("utf-8") for folder in folders for path in (ROOT / "tests" / folder).rglob("test_*.py")
    )


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name not in ON_SPARK and "```python" in page.read_text("utf-8")],
    ids=lambda p: p.stem,
)
def test_a_program_of_a_page_is_run_by_a_test(page: Path) -> None:
    assert f'"{page.name}"' in sources_of_tests(), f"no test calls run_page({page.name!r}, ...)"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in ABOUT_ALL], ids=lambda page: page.stem)
def test_a_page_is_listed_and_says_what_it_guarantees(page: Path) -> None:
    assert f"({page.name})" in INDEX, "the table of connectors does not have it"
    text = page.read_text("utf-8")
    if page.name in DIALECTS:
        assert "(jdbc.md)" in text
        return
    assert "```python" in text
    assert re.search(r"guarantee", text, re.IGNORECASE)


def test_the_test_on_the_page_for_authors_passes() -> None:
    test = run_page("write-your-own.md", {})["TestNumbers"]()
    for name in ("test_every_record_is_read_once", "test_failures_between_any_two_calls_lose_and_repeat_nothing"):
        getattr(test, name)()

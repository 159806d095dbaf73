"""The programs of the page about databases run."""

from __future__ import annotations

from pathlib import Path

from tests.connectors.databases import TestedDatabase
from tests.connectors.pages import run_page


def test_the_programs_of_the_page_run(database: TestedDatabase, tmp_path: Path) -> None:
    run_page("jdbc.md", {"/tmp/shop.db": str(tmp_path / "test.db")})
    assert database.content("orders") == [(1, "tea", 2.5), (2, "jam", 4.0)]

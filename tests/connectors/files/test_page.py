"""The program on the page about files runs."""

from __future__ import annotations

from pathlib import Path

from tests.connectors.pages import run_page


def test_the_program_of_the_page_runs(tmp_path: Path) -> None:
    run_page("files.md", {"/data/orders": str(tmp_path)})
    parts = [path for path in (tmp_path / "by-country").rglob("part-*") if path.is_file()]
    found = {path.parent.name: path.read_text() for path in parts}
    assert found == {
        "country=no": "{'country': 'no', 'item': 'tea'}\n",
        "country=se": "{'country': 'se', 'item': 'jam'}\n",
    }

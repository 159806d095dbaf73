"""The programs on the page about Delta run: one writes a table, one follows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connectors.pages import run_page

pytest.importorskip("deltalake", reason="the extra flott[delta] is not installed")


def test_the_programs_of_the_page_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    printed: list[str] = []

    def all_rows() -> bool:
        printed.append(capfd.readouterr().out)
        return "book" in "".join(printed) and "pen" in "".join(printed)

    run_page("delta.md", {"/data/orders": str(tmp_path / "orders")}, until=all_rows)
    assert all_rows()

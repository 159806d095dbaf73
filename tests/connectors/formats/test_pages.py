"""The programs on the pages about formats and bad records run."""

from __future__ import annotations

import pytest

from flott.testing.harness import in_process
from tests.connectors.pages import run_page


@pytest.mark.parametrize("page", ["formats.md", "bad-records.md"])
def test_the_programs_of_a_page_run(page: str, monkeypatch: pytest.MonkeyPatch):
    from flott.datastream import StreamExecutionEnvironment

    monkeypatch.setattr(StreamExecutionEnvironment, "get_execution_environment", staticmethod(lambda: in_process(1)))
    run_page(page, {})

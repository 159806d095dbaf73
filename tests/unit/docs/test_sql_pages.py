"""The SQL on the pages about tables runs, and gives what the pages show.

Blocks of a page that begin with ```` ```sql ```` are run one after the other in one session, as the shell runs them. If
a block ```` ```text ```` follows directly, it is what they write. The number of a job differs from run to run.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from flott.cli.sql.executing import StatementRunner, reporting_errors
from flott.cli.sql.statement_session import LocalSession
from flott.table import EnvironmentSettings, TableEnvironment
from flott.table._environment import settings
from flott.testing.harness import in_process

ROOT = Path(__file__).parents[3]
TABLES = ROOT / "docs" / "table"
PAGES = (
    ROOT / "README.md",
    *(TABLES / f"{name}.md" for name in ("README", "concepts", "joins-and-top-n", "shell", "tuning")),
)
BLOCK = re.compile(r"^```sql\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
JOB = re.compile(r"Job ID: \w+")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_sql_of_a_page_gives_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(page.read_text("utf-8"))
    assert any(shown for _, shown in blocks)
    runner = StatementRunner(LocalSession(TableEnvironment(in_process(1), EnvironmentSettings.in_streaming_mode())))
    for text, shown in blocks:
        runner.out = out = io.StringIO()
        monkeypatch.setattr(sys, "stdout", out)  # the print connector writes there
        done = reporting_errors(lambda text=text: runner.run_script(text), out)  # type: ignore[misc]
        assert done or shown, out.getvalue()
        if shown:
            found, expected = (JOB.sub("Job ID: ...", one).splitlines() for one in (out.getvalue(), shown))
            if any("Job ID" in line for line in expected):  # what a job prints comes between the shell's own lines
                found, expected = sorted(found), sorted(expected)
            assert found == expected, text


def test_every_option_of_tables_is_explained() -> None:
    page = (TABLES / "tuning.md").read_text("utf-8")
    keys = [value for value in vars(settings).values() if isinstance(value, str) and value.startswith("table.")]
    assert len(keys) > 10
    assert [key for key in keys if f"`{key}" not in page] == []

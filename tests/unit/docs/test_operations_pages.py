"""What the pages for operators name is there, and what there is they name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flott.common import _settings
from flott.metrics._engine_metrics import ROWS, Scope

ROOT = Path(__file__).parents[3]
OPERATIONS = ROOT / "docs" / "operations"
PAGES = [*sorted(OPERATIONS.glob("*.md")), ROOT / "docs" / "operations.md"]
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_metric_of_the_engine_is_explained() -> None:
    text = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    named = set(re.findall(r"`(\w+)`", text))
    names = {name for rows in ROWS.values() for name in rows}
    assert sorted(names - named) == []


def test_every_metric_that_the_page_watches_exists() -> None:
    text = (OPERATIONS / "observability.md").read_text("utf-8")
    watched = set(re.findall(r"flink_jobmanager_job_(\w+)", text))
    assert len(watched) > 3
    assert sorted(watched - set(ROWS[Scope.JOB])) == []


def test_the_example_of_a_configuration_is_in_order() -> None:
    assert _settings.findings(ROOT / "examples" / "flott.yaml") == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_configurations_on_a_page_are_in_order(page: Path, tmp_path: Path) -> None:
    for number, block in enumerate(YAML.findall(page.read_text("utf-8"))):
        if "scrape_configs" not in block:  # Prometheus' own
            file = tmp_path / f"{number}.yaml"
            file.write_text(block, "utf-8")
            assert _settings.findings(file) == []

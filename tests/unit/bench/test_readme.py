"""The README's numbers are those of the last benchmark run, and nobody's memory of them."""

from __future__ import annotations

import json

import pytest

from bench import readme


def test_the_table_in_the_readme_is_made_from_the_latest_results() -> None:
    if not readme.LATEST.exists():
        pytest.skip("there is no bench/results/latest.json in this tree: run make bench")
    text = readme.README.read_text()
    assert readme.with_block(text, json.loads(readme.LATEST.read_text()), readme.latest_latency()) == text


def test_a_peer_without_a_number_is_called_missing() -> None:
    document = {
        "machine": dict.fromkeys(("cores", "python", "spark", "java", "flink", "date"), "x"),
        "results": [
            {"workload": "keyed_sum", "runner": "flott", "rates": [2e6]},
            {"workload": "keyed_sum", "runner": "limit", "missing": "no cores"},
        ],
    }
    row = next(line for line in readme.block(document).splitlines() if "10,000 keys" in line)
    assert row.count("missing") == 4
    assert "2.00 M" in row

"""State on the command line: of checkpoints, savepoints and job directories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flott.common import Types
from flott.state import new_savepoint, split_state, value_state
from tests.unit.cli.cluster import without_client


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    rows = {("user", n): n * n for n in range(30)}
    path = tmp_path / "one"
    (
        new_savepoint()
        .with_operator(
            "totals",
            keyed={"total": value_state(rows.items(), key_type=Types.TUPLE([Types.STRING(), Types.LONG()]))},
            operator_state={"seen": split_state(["a", "b"])},
        )
        .with_operator("names", keyed={"name": value_state({"alice": "A", "7": "seven"}.items())})
        .write(str(path))
    )
    return path


def test_operators_and_states_are_listed(savepoint: Path) -> None:
    result = without_client("state", "ls", savepoint, "--count")
    assert result.exit_code == 0, result.output
    cells = [line.split() for line in result.stdout.splitlines()]
    assert ["totals", "total", "value"] in [row[:3] for row in cells]
    assert ["30"] in [row[-3:-2] for row in cells]
    found = json.loads(without_client("state", "ls", savepoint, "--json").stdout)
    assert {state["state"] for state in found["states"]} == {"total", "seen", "name"}


def test_a_value_is_got_by_a_key_written_as_a_literal(savepoint: Path) -> None:
    assert without_client("state", "get", savepoint, "totals", "total", "('user', 5)").stdout == "25\n"
    assert without_client("state", "get", savepoint, "names", "name", "alice").stdout == "'A'\n"
    assert without_client("state", "get", savepoint, "names", "name", "7").stdout == "'seven'\n", "a text, after all"
    missing = without_client("state", "get", savepoint, "names", "name", "nobody")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "holds nothing for the key 'nobody'" in missing.stderr


def test_a_scan_stops_at_its_limit_and_says_so(savepoint: Path) -> None:
    result = without_client("state", "scan", savepoint, "totals", "total", "--limit", "3")
    assert len(result.stdout.splitlines()) == 4
    assert "more than 3" in result.stderr
    whole = json.loads(without_client("state", "scan", savepoint, "totals", "total", "-n", "0", "--json").stdout)
    assert (len(whole["entries"]), whole["more"]) == (30, False)
    some = json.loads(without_client("state", "scan", savepoint, "names", "name", "--where-key", "al", "--json").stdout)
    assert some["entries"] == [{"key": "alice", "value": "A"}]
    items = json.loads(without_client("state", "scan", savepoint, "totals", "seen", "--json").stdout)
    assert [entry["value"] for entry in items["entries"]] == ["a", "b"]


def test_two_snapshots_are_compared(savepoint: Path, tmp_path: Path) -> None:
    other = tmp_path / "two"
    new_savepoint().with_operator("names", keyed={"name": value_state({"alice": "B", "bob": "C"}.items())}).write(
        str(other)
    )
    result = without_client("state", "diff", savepoint, other, "--operator", "names", "--limit", "5", "--json")
    (state,) = json.loads(result.stdout)["states"]
    assert (state["added"], state["removed"], state["changed"]) == (1, 1, 1)
    assert {"kind": "changed", "key": "alice", "before": "A", "after": "B"} in state["changes"]
    assert "no difference" in without_client("state", "diff", savepoint, savepoint).stdout


def test_a_place_that_is_none_is_refused(tmp_path: Path) -> None:
    result = without_client("state", "ls", tmp_path)
    assert result.exit_code == 1
    assert "no completed checkpoint" in result.stderr


def test_a_savepoint_is_exported_without_a_cluster(savepoint: Path, tmp_path: Path) -> None:
    result = without_client("savepoint", "export", savepoint, tmp_path / "elsewhere")
    assert result.stdout.startswith(f"Savepoint exported. Path: {tmp_path}/elsewhere/savepoint-")
    copied = result.stdout.strip().removeprefix("Savepoint exported. Path: ")
    assert without_client("state", "get", copied, "names", "name", "alice").stdout == "'A'\n"

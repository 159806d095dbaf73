"""``flott config``: every option, and what is wrong with a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flott.common._options import ALL_OPTIONS
from tests.unit.cli.conftest import Ran

Cli = Callable[..., Ran]


def test_all_options_are_shown_with_value_default_source_and_meaning(cli: Cli) -> None:
    found = {entry["key"]: entry for entry in cli("config", "--json").document}
    assert found.keys() == {option.key for option in ALL_OPTIONS}
    assert found["rest.port"] == {
        "key": "rest.port", "value": "8081", "default": "8081", "origin": None, "type": "integer",
        "expected": "a whole number", "variable": "FLOTT_REST_PORT", "older-keys": [],
        "meaning": found["rest.port"]["meaning"],
    }  # fmt: skip
    assert all(entry["meaning"] for entry in found.values())


def test_only_what_is_set_is_shown_as_changed(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("config", "--changed").err == "Nothing is set: every option has its default.\n"
    (tmp_path / "flott.yaml").write_text("pipeline:\n  name: orders\nspark.ui.enabled: false\n")
    monkeypatch.setenv("FLOTT_REST_PORT", "1")
    found = cli("config", "--changed", "-D", "parallelism.default=2", "--json").document
    assert [(entry["key"], entry["value"], entry["origin"]["place"]) for entry in found] == [
        ("parallelism.default", "2", "-D"),
        ("pipeline.name", "orders", "flott.yaml:2"),
        ("rest.port", "1", "FLOTT_REST_PORT"),
        ("spark.ui.enabled", "false", "flott.yaml:3"),
    ]
    assert "flott.yaml:2" in cli("config", "--changed").out


def test_an_option_is_found_by_its_key_an_older_one_or_words(cli: Cli) -> None:
    def keys(*words: str) -> list[str]:
        return [entry["key"] for entry in cli("config", *words, "--json").document]

    assert keys("rest.port") == ["rest.port"]
    assert keys("state.checkpoints.dir") == ["execution.checkpointing.dir"]
    assert keys("rest.port", "rest.address") == ["rest.address", "rest.port"]
    assert "execution.checkpointing.savepoint-dir" in keys("directory", "SAVEPOINTS")


def test_a_key_nobody_knows_is_answered_with_the_nearest_one(cli: Cli) -> None:
    ran = cli("config", "rest.prt")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean 'rest.port'?" in ran.err


def test_secrets_are_not_shown(cli: Cli) -> None:
    ran = cli("config", "-D", "flott.rest.token=hunter2", "--changed")
    assert "******" in ran.out
    assert "hunter2" not in ran.out


def test_a_file_is_checked_entry_by_entry(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("rest.prt: 1\nrest.port: x\nweb.timeout: 1 s\n")
    ran = cli("config", "check", "bad.yaml", "--json")
    assert ran.code == 2
    assert [(finding["place"], finding["wrong"]) for finding in ran.document["findings"]] == [
        ("bad.yaml:1", True),
        ("bad.yaml:2", True),
        ("bad.yaml:3", False),
    ]
    assert ran.document["valid"] is False
    assert "bad.yaml:1: Unknown option 'rest.prt': did you mean 'rest.port'?" in cli("config", "check", "bad.yaml").out


def test_a_file_in_order_is_said_to_be(cli: Cli, tmp_path: Path) -> None:
    assert "There is no flott.yaml" in cli("config", "check").err
    (tmp_path / "flott.yaml").write_text("rest.port: 1\n")
    ran = cli("config", "check")
    assert (ran.code, ran.out, ran.err) == (0, "", "flott.yaml is in order.\n")

"""``flott cep``: rules tried on files and on retained epochs, and explanations from state."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.unit.cli.cluster import without_client
from tests.unit.runtime.replay import recorded
from tests.unit.runtime.replay.recorded import Kept

PROGRAM = '''
from flott.cep import CEP, Pattern
from flott.common import Duration, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.testing.sources import EndOfEpoch, ScriptedSource

RULE = {"rule": "hot", "pattern": {"within": "1 h", "stages": [
    {"name": "warm", "where": "degrees > 80"}, {"name": "hot", "where": "degrees > 90"}]}}
SCRIPT = [{"m": "a", "t": 1, "degrees": 85}, {"m": "b", "t": 2, "degrees": 95}, EndOfEpoch(),
          {"m": "a", "t": 3, "degrees": 70}, {"m": "b", "t": 4, "degrees": 99}, EndOfEpoch(),
          {"m": "a", "t": 5, "degrees": 1}, EndOfEpoch(), {"m": "zz", "t": 6, "degrees": None}]

def check(event):
    if event["m"] == "zz":
        raise ValueError("the end")
    return event

def build(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda event, _: event["t"])
    events = env.from_source(ScriptedSource(SCRIPT), strategy, "events").map(check).key_by(lambda event: event["m"])
    rules = env.from_source(ScriptedSource([RULE]), WatermarkStrategy.no_watermarks(), "rules")
    CEP.rules(events, rules).select(lambda found: found.rule).uid("rules").print()
    warm = Pattern.begin("warm").where(is_warm).followed_by("hot").where(is_hot).within(Duration.of_hours(1))
    CEP.pattern(events, warm).select(str).uid("pattern").print()

def is_warm(event):
    return event["degrees"] > 80

def is_hot(event):
    return event["degrees"] > 90

if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    build(env)
    env.execute("machines")
'''
RULE = {"rule": "cold", "pattern": {"stages": [{"name": "low", "where": "degrees < 80"}]}}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "machines.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture(scope="module")
def job(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """A job that failed in its fourth epoch, so that its checkpoints are there."""
    parts: dict[str, Any] = {"__name__": "machines"}
    exec(compile(PROGRAM, str(program), "exec"), parts)
    return recorded.run(parts["build"], tmp_path_factory.mktemp("job"), **{"restart-strategy.type": "none"})


@pytest.fixture(autouse=True)
def own_main() -> Iterator[None]:
    """A program becomes the process's main script, and stays it."""
    before, path, argv = sys.modules["__main__"], list(sys.path), list(sys.argv)
    yield
    sys.modules["__main__"], sys.path[:], sys.argv[:] = before, path, argv


@pytest.fixture
def rule(tmp_path: Path) -> Path:
    path = tmp_path / "rule.json"
    path.write_text(json.dumps(RULE))
    return path


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    lines = [{"m": "a", "t": 5, "degrees": 70}, {"m": "b", "t": 3, "degrees": 90}, {"m": "a", "t": 2, "degrees": 60}]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    return path


def test_a_rule_is_tried_on_a_file(rule: Path, events: Path) -> None:
    result = without_client("cep", "try", rule, events, "--key-field", "m", "--time-field", "t", "--json")
    found = json.loads(result.stdout)
    assert (found["events"], found["keys"], found["matches"]) == (3, 2, 2)
    assert [(match["key"], match["timestamp"]) for match in found["found"]] == [("a", 2), ("a", 5)]
    shown = without_client("cep", "try", rule, events)
    assert "3 events of 1 keys: 2 matches" in shown.stdout


def test_a_rule_is_tried_on_the_retained_epochs_of_a_job(job: Kept, rule: Path, program: Path) -> None:
    before = job.digest
    result = without_client(
        "cep", "try", rule, job.directory, "--program", program, "--operator", "rules", "--json"
    )
    found = json.loads(result.stdout)
    assert (found["events"], found["keys"]) == (5, 2)
    assert [(match["key"], match["timestamp"]) for match in found["found"]] == [("a", 3), ("a", 5)]
    assert job.digest == before


def test_several_operators_must_be_told_apart(job: Kept, rule: Path, program: Path) -> None:
    result = without_client("cep", "try", rule, job.directory, "--program", program)
    assert result.exit_code == 1
    assert "found rules, pattern" in result.stderr


@pytest.mark.parametrize("operator", ["rules", "pattern"])
def test_partial_matches_of_a_job_are_explained(job: Kept, program: Path, operator: str, tmp_path: Path) -> None:
    drawing = tmp_path / "automaton.svg"
    rule = ["--rule", "hot"] if operator == "rules" else []
    result = without_client(
        "cep", "explain", job.directory, "--key", "a", "--program", program, "--operator", operator, *rule,
        "--svg", drawing, "--json",
    )  # fmt: skip
    (attempt,) = json.loads(result.stdout)["partial-matches"]
    assert attempt["match"] == {"warm": [{"m": "a", "t": 1, "degrees": 85}]}
    assert (attempt["fate"], attempt["times-out"]) == ("open", 3_600_001)
    assert attempt["waits-for"][0].startswith("hot, relaxed: ")
    assert ElementTree.parse(drawing).getroot().tag.endswith("svg")


def test_all_events_of_a_key_in_the_retained_epochs_are_explained(job: Kept, program: Path) -> None:
    result = without_client(
        "cep", "explain", job.directory, "--key", "a", "--program", program, "--operator", "rules", "--rule", "hot",
        "--replay", "--json",
    )  # fmt: skip
    found = json.loads(result.stdout)
    (attempt,) = found["partial-matches"]
    assert found["events"] == 3
    assert attempt["match"] == {"warm": [{"m": "a", "t": 1, "degrees": 85}]}
    assert [(r["event"], r["reason"]) for r in attempt["refusals"]] == [
        (2, "degrees > 90 is false"),
        (3, "degrees > 90 is false"),
    ]


def test_a_rule_that_the_job_does_not_have_is_named(job: Kept, program: Path) -> None:
    result = without_client(
        "cep", "explain", job.directory, "--key", "a", "--program", program, "--operator", "rules", "--rule", "cold"
    )
    assert result.exit_code == 1
    assert "The job has hot, found --rule 'cold'" in result.stderr


def test_events_of_a_file_are_explained(rule: Path, events: Path) -> None:
    strict = json.loads(rule.read_text())
    strict["pattern"]["stages"].append({"name": "high", "link": "next", "where": "degrees > 90"})
    rule.write_text(json.dumps(strict))
    result = without_client(
        "cep", "explain", events, "--key", "a", "--rule", rule, "--key-field", "m", "--time-field", "t"
    )
    assert "event 2, {'m': 'a', 't': 5, 'degrees': 70}, is not high, and no event may come between" in result.stdout
    assert without_client("cep", "explain", events, "--key", "a").exit_code == 2


def test_a_file_that_is_no_rule_and_lines_that_are_no_events_are_refused(tmp_path: Path, rule: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text("{")
    assert "is no JSON" in without_client("cep", "try", bad, bad).stderr
    assert "Line 1 of" in without_client("cep", "try", rule, bad).stderr

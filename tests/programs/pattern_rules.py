"""Readings of machines are judged by rules that change while they come in; one of the rules is broken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flott.cep import CEP, RuleFailure, RuleMatch, rule_failures_tag
from flott.common import Duration, WatermarkStrategy
from flott.datastream import OutputTag, StreamExecutionEnvironment
from flott.testing.sources import EndOfEpoch, ScriptedSource
from tests.programs.runner import lines_to

OVER = OutputTag("over")

#: (machine, time, degrees)
READINGS = {
    "hall": [
        ("m1", 1, 50), ("m2", 2, 95), ("m1", 3, 91), EndOfEpoch(), ("m1", 11, 93), ("m2", 12, 97), EndOfEpoch(),
        ("m3", 21, 99), ("m1", 22, 80), ("m2", 23, 96), EndOfEpoch(), ("m3", 31, 98), ("m1", 32, 94), EndOfEpoch(),
        ("m2", 41, 61), ("m3", 42, 60), EndOfEpoch(), ("m1", 51, 60), ("m2", 52, 90), EndOfEpoch(), ("m3", 61, 7),
    ],
    "yard": [
        ("m4", 1, 92), EndOfEpoch(), ("m4", 9, 96), ("m5", 12, 20), EndOfEpoch(), ("m4", 22, 30), EndOfEpoch(),
        ("m5", 33, 91), EndOfEpoch(), ("m5", 41, 92), EndOfEpoch(), ("m4", 52, 93), EndOfEpoch(), ("m5", 66, 99),
    ],
}  # fmt: skip


def rule(name: str, *where: str, **fields: Any) -> dict[str, Any]:
    stages = [{"name": f"s{number}", "where": condition} for number, condition in enumerate(where, 1)]
    return {"rule": name, "pattern": {"stages": stages, "within": "30 ms"}, **fields}


RULES = [
    rule("overheated", "degrees > 90", "degrees > 90 and degrees > last(s1).degrees"), rule("broken", "colour = 3"),
    EndOfEpoch(), rule("cold", "degrees < 70"), EndOfEpoch(),
    rule("overheated", "degrees > 90", "degrees > 95 and count(s1) = 1", partial_matches="keep"), EndOfEpoch(),
    {"rule": "cold", "enabled": False}, rule("broken", "degrees = 61"), EndOfEpoch(),
    {"rule": "cold", "enabled": True}, {"rule": "nothing", "pattern": 1}, EndOfEpoch(),
    {"rule": "overheated", "remove": True},
]  # fmt: skip


def listed(found: RuleMatch[Any]) -> str:
    events = [event for taken in found.match.values() for event in taken]
    return f"{found.rule} v{found.version} {events[0].machine}: {' '.join(str(event.time) for event in events)}"


def failed(failure: RuleFailure) -> str:
    return f"{failure.rule} v{failure.version}"


def build(env: StreamExecutionEnvironment, folder: str) -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3)).with_timestamp_assigner(
        lambda reading, _: reading[1]
    )
    readings = env.from_source(ScriptedSource(READINGS), strategy, "readings").uid("readings")
    rules = env.from_source(ScriptedSource(RULES), WatermarkStrategy.no_watermarks(), "rules").uid("rules")
    by_machine = readings.map(lambda reading: Reading(*reading)).key_by(lambda reading: reading.machine)
    found = CEP.rules(by_machine, rules).side_output_timed_out(OVER).select(listed).uid("judge")
    found.sink_to(lines_to(folder, "found"))
    found.get_side_output(OVER).map(listed).sink_to(lines_to(folder, "over"))
    # A broken rule is quarantined in each subtask where it raises: how often depends on the parallelism.
    found.get_side_output(rule_failures_tag()).filter(lambda failure: failure.rule == "nothing").map(failed).sink_to(
        lines_to(folder, "failed")
    )


@dataclass(frozen=True)
class Reading:
    """What a machine reports."""

    machine: str
    time: int
    degrees: int

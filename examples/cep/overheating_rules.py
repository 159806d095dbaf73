"""Change a rule while the job runs: ``python examples/cep/overheating_rules.py``.

Machines report their temperature. A rule comes as JSON through a stream of its own; in the middle of the readings a
stricter version replaces it, and keeps the partial matches of the first one. A broken rule is quarantined and reported,
and the other goes on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from flott.cep import CEP, RuleMatch, rule_failures_tag
from flott.common import WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.testing import EndOfEpoch, ScriptedSource


@dataclass(frozen=True)
class Reading:
    machine: str
    second: int
    degrees: int


READINGS = [
    Reading("press", 0, 85), Reading("lathe", 1, 60), Reading("press", 2, 91), Reading("press", 3, 92), EndOfEpoch(),
    Reading("lathe", 4, 95), Reading("press", 5, 93), EndOfEpoch(),
    Reading("press", 6, 94), Reading("lathe", 7, 97), Reading("press", 8, 99), Reading("lathe", 9, 98),
]  # fmt: skip


def overheated(limit: int) -> str:
    return json.dumps(
        {
            "rule": "overheated",
            "partial_matches": "keep",
            "pattern": {
                "stages": [
                    {"name": "warm", "where": f"degrees > {limit}"},
                    {"name": "hotter", "where": f"degrees > {limit} and degrees > last(warm).degrees"},
                ],
                "within": "10 s",
                "skip": "past-last-event",
            },
        }
    )


RULES = [
    overheated(90),
    json.dumps({"rule": "broken", "pattern": {"stages": [{"name": "any", "where": "pressure > 3"}]}}),
    EndOfEpoch(),
    json.dumps({"rule": "broken", "remove": True}),
    EndOfEpoch(),
    overheated(96),
]


def alarm(found: RuleMatch[Reading]) -> str:
    degrees = [reading.degrees for events in found.match.values() for reading in events]
    return f"{found.rule} v{found.version}: {found.match['warm'][0].machine} {degrees}"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda reading, _: reading.second * 1000
    )
    readings = env.from_source(ScriptedSource(READINGS), in_event_time, "readings")
    rules = env.from_source(ScriptedSource(RULES), WatermarkStrategy.no_watermarks(), "rules")
    found = CEP.rules(readings.key_by(lambda reading: reading.machine), rules).select(alarm).uid("rules")
    found.print()
    found.get_side_output(rule_failures_tag()).map(lambda failure: f"{failure.rule}: {failure.error}").print("failed")
    env.execute("overheating rules")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())

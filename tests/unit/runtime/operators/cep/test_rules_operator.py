"""Rules that change while a job runs: added, replaced, disabled, removed, refused, quarantined."""

from __future__ import annotations

from typing import Any

import pytest

from flott.cep import CEP, RuleMatch, rule_failures_tag
from flott.datastream import DataStream, OutputTag
from flott.runtime.operators.cep.rules import RULE_MATCHES
from flott.testing import TwoInputHarness

LATE, OVER = OutputTag("late"), OutputTag("over")


def rule(name: str, first: str, second: str | None = None, **fields: Any) -> dict[str, Any]:
    stages = [{"name": "one", "where": first}]
    if second is not None:
        stages.append({"name": "two", "where": second})
    within = {"within": fields.pop("within")} if "within" in fields else {}
    return {"rule": name, "pattern": {"stages": stages, **within}, **fields}


def piece(events: DataStream[Any], rules: DataStream[Any]) -> DataStream[Any]:
    keyed = events.key_by(lambda event: event["key"])
    found = CEP.rules(keyed, rules).side_output_late_data(LATE).side_output_timed_out(OVER)
    result = found.matches().uid("rules")
    result.get_side_output(rule_failures_tag())
    return result


def event(key: str, n: int) -> dict[str, Any]:
    return {"key": key, "n": n}


def numbers(matches: list[RuleMatch[Any]]) -> list[tuple[str, int, list[int]]]:
    return [(m.rule, m.version, [e["n"] for events in m.match.values() for e in events]) for m in matches]


class Harness(TwoInputHarness):
    """Events in, matches out."""

    def __init__(self, **settings: Any):
        super().__init__(piece, **settings)
        self._time = 0

    def epoch(self, *events: dict[str, Any], rules: tuple[Any, ...] = ()) -> list[Any]:
        """Run an epoch; return its matches."""
        before = len(self.output)
        for definition in rules:
            self.process_element2(definition, self._time)
        for value in events:
            self._time += 1
            self.process_element1(value, self._time)
        self.process_watermark(self._time)
        return numbers(self.output[before:])

    @property
    def partial_matches(self) -> int:
        return sum(
            operator.context.keyed_state.find(RULE_MATCHES).size()
            for _, operator in self._piece.operators()
            if operator.context.keyed_state is not None
        )


def test_a_rule_takes_effect_for_the_events_of_the_epoch_that_reads_it() -> None:
    with Harness(parallelism=2) as harness:
        assert harness.epoch(event("a", 5)) == []
        found = harness.epoch(event("a", 5), event("b", 7), event("b", 1), rules=(rule("high", "n > 3"),))
        assert sorted(found) == [("high", 1, [5]), ("high", 1, [7])]


def test_a_replaced_rule_drops_its_partial_matches_unless_they_are_kept() -> None:
    for kept, expected in (("drop", []), ("keep", [("pair", 2, [1, 9])])):
        with Harness() as harness:
            harness.epoch(event("a", 1), rules=(rule("pair", "n = 1", "n = 2"),))
            assert harness.partial_matches == 1
            changed = rule("pair", "n = 1", "n = 9", partial_matches=kept)
            assert harness.epoch(event("a", 9), rules=(changed,)) == expected
            assert harness.partial_matches == 0


def test_partial_matches_cannot_be_kept_in_another_structure() -> None:
    with Harness() as harness:
        harness.epoch(event("a", 1), rules=(rule("pair", "n = 1", "n = 2"),))
        harness.epoch(rules=(rule("pair", "n = 1", partial_matches="keep"),))
        (failure,) = harness.side_output(rule_failures_tag())
        assert "asks to keep its partial matches" in failure.error
        assert harness.epoch(event("a", 2)) == [("pair", 1, [1, 2])]


def test_a_rule_is_disabled_enabled_again_and_removed() -> None:
    with Harness() as harness:
        harness.epoch(event("a", 1), rules=(rule("pair", "n = 1", "n = 2"), rule("one", "n = 1")))
        assert harness.epoch(event("a", 2), rules=({"rule": "pair", "enabled": False},)) == []
        assert harness.partial_matches == 0
        harness.epoch(event("a", 1), rules=({"rule": "pair", "enabled": True},))
        assert harness.epoch(event("a", 2)) == [("pair", 1, [1, 2])]
        harness.epoch(event("a", 1), rules=({"rule": "one", "remove": True}, {"rule": "pair", "remove": True}))
        assert harness.partial_matches == 0
        assert harness.epoch(event("a", 1), event("a", 2)) == []


def test_versions_go_up() -> None:
    with Harness() as harness:
        harness.epoch(rules=(rule("high", "n > 3", version=7),))
        harness.epoch(rules=(rule("high", "n > 5", version=7),))
        (failure,) = harness.side_output(rule_failures_tag())
        assert "has version 7 already" in failure.error
        assert harness.epoch(event("a", 9), rules=(rule("high", "n > 8"),)) == [("high", 8, [9])]


def test_a_definition_that_is_none_is_reported_once_and_changes_nothing() -> None:
    with Harness(parallelism=3) as harness:
        found = harness.epoch(event("a", 5), rules=({"rule": "bad", "pattern": 3}, rule("high", "n > 3")))
        assert found == [("high", 1, [5])]
        (failure,) = harness.side_output(rule_failures_tag())
        assert failure.rule == "bad"
        assert "reading a rule" in failure.card


def test_any_record_that_is_no_rule_is_reported_and_the_job_goes_on() -> None:
    odd = [{"rule": "r", "pattern": {"stages": [{"name": "a"}, {"name": "b", "link": ["next"]}]}}, 7, None, "[" * 9]
    with Harness() as harness:
        assert harness.epoch(event("a", 5), rules=(*odd, rule("high", "n > 3"))) == [("high", 1, [5])]
        assert len(harness.side_output(rule_failures_tag())) == len(odd)


def test_a_rule_that_raises_is_quarantined_with_a_card_and_the_others_go_on() -> None:
    with Harness() as harness:
        rules = (rule("broken", "missing > 3"), rule("high", "n > 3"))
        assert harness.epoch(event("a", 5), event("b", 6), rules=rules) == [("high", 1, [5]), ("high", 1, [6])]
        (failure,) = harness.side_output(rule_failures_tag())
        assert (failure.rule, failure.version) == ("broken", 1)
        assert "KeyError: 'missing'" in failure.card
        assert "key        'a'" in failure.card
        assert "{'key': 'a', 'n': 5}" in failure.card
        assert harness.epoch(event("a", 7)) == [("high", 1, [7])]
        assert len(harness.side_output(rule_failures_tag())) == 1
        snapshot = harness.snapshot()
    with Harness(snapshot=snapshot, parallelism=2) as harness:
        harness._time = 10
        assert harness.epoch(event("a", 8)) == [("high", 1, [8])]
        assert harness.side_output(rule_failures_tag()) == []
        mended = rule("broken", "n > 100")
        assert harness.epoch(event("a", 101), rules=(mended,)) == [("broken", 2, [101]), ("high", 1, [101])]


def test_rules_and_partial_matches_are_restored_at_another_parallelism() -> None:
    harness = Harness(parallelism=2)
    harness.epoch(*(event(key, 1) for key in "abcdef"), rules=(rule("pair", "n = 1", "n = 2"),))
    snapshot = harness.snapshot()
    for parallelism in (1, 3):
        with Harness(parallelism=parallelism, snapshot=snapshot) as restored:
            restored._time = 10
            assert len(restored.epoch(*(event(key, 2) for key in "abcdef"))) == 6
            assert restored.partial_matches == 0


def test_partial_matches_of_rules_time_out_and_late_events_go_aside() -> None:
    with Harness() as harness:
        harness.epoch(event("a", 1), event("b", 0), rules=(rule("pair", "n = 1", "n = 2", within=5),))
        harness.process_element1(event("z", 1), 1)
        harness.process_watermark(100)
        assert harness.side_output(LATE) == [event("z", 1)]
        assert numbers(harness.side_output(OVER)) == [("pair", 1, [1])]
        assert harness.partial_matches == 0


def test_events_wait_for_the_watermark_once_for_all_rules() -> None:
    with Harness() as harness:
        rules = (rule("up", "n = 1", "n = 2"), rule("two", "n = 2"))
        for definition in rules:
            harness.process_element2(definition, 0)
        harness.process_element1(event("a", 2), 50)
        harness.process_element1(event("a", 1), 40)
        harness.process_watermark(30)
        assert harness.output == []
        harness.process_watermark(60)
        assert sorted(numbers(harness.output)) == [("two", 1, [2]), ("up", 1, [1, 2])]
        assert harness.partial_matches == 0


def test_every_rule_counts_its_matches_its_events_and_its_cost() -> None:
    with Harness() as harness:
        harness.epoch(event("a", 5), event("a", 1), rules=(rule("high", "n > 3"),))
        metrics = {name.split(".", 1)[1]: value for name, value in harness.metrics.items()}
        assert metrics["rule.high.matches"] == 1
        assert metrics["rule.high.events"] == 2
        assert metrics["rule.high.nanoseconds"] > 0


@pytest.mark.parametrize("parallelism", [1, 3])
def test_matches_can_be_turned_into_records(parallelism: int) -> None:
    def selected(events: DataStream[Any], rules: DataStream[Any]) -> DataStream[Any]:
        keyed = events.key_by(lambda event: event["key"])
        return CEP.rules(keyed, rules).in_processing_time().select(lambda found: f"{found.rule} v{found.version}")

    with TwoInputHarness(selected, parallelism=parallelism) as harness:
        harness.process_element2(rule("high", "n > 3"))
        harness.process_element1(event("a", 4))
        harness.end_epoch()
        assert harness.output == ["high v1"]

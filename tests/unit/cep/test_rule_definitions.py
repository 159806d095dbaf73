"""Rules as JSON: what they mean, and how they are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flott.cep import parse_pattern, parse_rule
from flott.errors import ProgramError
from tests.unit.cep.running import Run


def test_a_definition_has_everything_that_a_pattern_of_a_program_has() -> None:
    pattern = parse_pattern(
        {
            "stages": [
                {"name": "a", "where": "kind = 'a'", "times": [1, None], "greedy": True, "until": "kind = 'x'"},
                {"name": "n", "link": "not-next", "where": "kind = 'n'"},
                {
                    "link": "followed-by-any",
                    "group": [{"name": "b", "where": "kind = 'b'"}, {"name": "c", "link": "next", "within": "2 s"}],
                    "times": [0, 2],
                    "inside": "consecutive",
                },
                {"name": "d", "optional": True, "times": 2, "inside": "combinations"},
            ],
            "within": "1 min",
            "skip": {"to-first": "b"},
        }
    )
    assert str(pattern) == (
        "a {1+} [greedy until], not next n, followed by any (b, next c [since the event before 2 s]) {1,2}"
        " [optional consecutive], followed by d {2} [optional combinations], within 1 min (SKIP_TO_FIRST['b'])"
    )


def test_a_rule_finds_what_its_pattern_finds() -> None:
    change = parse_rule(
        json.dumps(
            {
                "rule": "rising",
                "pattern": {
                    "stages": [
                        {"name": "up", "where": "n > max(up.n) or count(up) = 0", "times": [2, None], "greedy": True},
                        {"name": "down", "link": "next", "where": "n < last(up).n"},
                    ],
                    "skip": "past-last-event",
                },
            }
        )
    )
    assert change.pattern is not None
    run = Run(change.pattern)
    run.feed(*((time, {"n": n}) for time, n in enumerate([1, 3, 5, 2, 4, 1])))
    matches = [run.matcher.match_of(node) for _, node in run.found]
    found = [[event["n"] for events in match.values() for event in events] for match in matches]
    assert found == [[1, 3, 5, 2]]  # the next match would start with the event that ended this one


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ("{", "a text that is none"),
        ("[]", "is a JSON object"),
        ({"pattern": {}}, "has a name in 'rule'"),
        ({"rule": "r", "colour": 1}, "found 'colour'"),
        ({"rule": "r", "version": 0}, "at least 1, found 0"),
        ({"rule": "r", "partial_matches": "some"}, "\"keep\" or \"drop\""),
        ({"rule": "r", "enabled": "yes"}, "true or false"),
        ({"rule": "r", "remove": True, "pattern": {"stages": [{"name": "a"}]}}, "Leave one of them out"),
        ({"rule": "r", "pattern": []}, "an object with 'stages'"),
        ({"rule": "r", "pattern": {"stages": []}}, "at least one stage"),
        ({"rule": "r", "pattern": {"stages": [{}]}}, "either a 'name' or a 'group'"),
        ({"rule": "r", "pattern": {"stages": [{"name": "a", "link": "next"}]}}, "first stage has no 'link'"),
        ({"rule": "r", "pattern": {"stages": [{"name": "a"}, {"name": "b", "link": "then"}]}}, "is one of next"),
        ({"rule": "r", "pattern": {"stages": [{"name": "a", "times": "2"}]}}, "'times' of a stage"),
        ({"rule": "r", "pattern": {"stages": [{"name": "a", "times": 2, "inside": "x"}]}}, "'inside' of a stage"),
        ({"rule": "r", "pattern": {"stages": [{"name": "a"}], "within": "soon"}}, "a duration such as"),
        ({"rule": "r", "pattern": {"stages": [{"name": "a"}], "skip": "all"}}, "'skip' of a pattern"),
        ({"rule": "r", "pattern": {"stages": [{"name": "a", "where": "a >"}]}}, "expected a value"),
        ({"rule": "r", "pattern": {"stages": [{"name": "a"}, {"name": "b", "link": "not-followed-by"}]}}, "never be"),
    ],
)
def test_a_definition_is_refused_with_a_sentence(record: Any, sentence: str) -> None:
    with pytest.raises(ProgramError, match=sentence):
        parse_rule(record)

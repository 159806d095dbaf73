"""The language of conditions: what it computes, and what it refuses."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.cep._rules.expressions import parse_expression
from flott.errors import ProgramError


@dataclass(frozen=True)
class Reading:
    degrees: float
    machine: str = "m1"
    tags: tuple[str, ...] = ()

    def secret(self) -> str:
        return "no field"


class Partial:
    """A partial match of a test."""

    def __init__(self, **events: list[Any]):
        self._events = events

    def get_events_for_pattern(self, name: str) -> list[Any]:
        return self._events.get(name, [])

    def timestamp(self) -> int:
        return 42


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("degrees > 90", True),
        ("degrees >= 95.5 and degrees <= 95.5", True),
        ("degrees = 1 or machine == 'm1'", True),
        ("not machine = 'm1'", False),
        ("not not true", True),
        ("degrees + 1 * 2 - 3 / 2 > 95", True),
        ("(degrees - 0.5) % 5 = 0", True),
        ("-degrees < 0", True),
        ("machine in ['m2', \"m1\"]", True),
        ("machine not in ['m2']", True),
        ("machine != null", True),
        ("starts_with(machine, 'm') and ends_with(machine, '1') and length(machine) = 2", True),
        ("upper(machine) = 'M1' and lower('A') = 'a' and abs(-3) = 3", True),
        ("contains(tags, 'hot')", True),
        ("'it\\'s' = \"it's\"", True),
        ("false or null", False),
        ("1 < 2 and 2 < 1", False),
    ],
)
def test_it_computes(text: str, expected: bool) -> None:
    condition = parse_expression(text).condition()
    assert condition(Reading(95.5, tags=("hot",))) is expected


def test_fields_are_keys_of_dicts_and_attributes_also_nested() -> None:
    assert parse_expression("place.room = 7").condition()({"place": {"room": 7}})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("degrees > last(warm).degrees", True),
        ("degrees > last(warm.degrees)", True),
        ("degrees > first(warm).degrees + 30", False),
        ("count(warm) = 2 and sum(warm.degrees) = 130", True),
        ("avg(warm.degrees) = 65 and min(warm.degrees) = 60 and max(warm.degrees) = 70", True),
        ("last(none).degrees = null", True),
        ("timestamp() = 42", True),
    ],
)
def test_it_looks_at_the_partial_match(text: str, expected: bool) -> None:
    expression = parse_expression(text)
    context = Partial(warm=[Reading(60), Reading(70)])
    assert expression.condition()(Reading(80), context) is expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "A condition is an expression"),
        ("degrees >", "has the end at 10, expected a value"),
        ("degrees > 1 2", "expected an operator or the end"),
        ("degrees ! 1", "a character that it cannot have, at 9"),
        ("__class__ = 1", "such names are private"),
        ("a.__class__.__bases__ = 1", "such names are private"),
        ("open('x')", r"calls open\(\), which is none of"),
        ("__import__('os')", r"calls __import__\(\)"),
        ("lambda: 1", "at 7"),
        ("x[0]", "expected an operator or the end"),
        ("abs(1, 2)", "with 2 arguments, expected 1"),
        ("not in [1]", "expected a value"),
        ("a not b", "expected 'in'"),
        ("count(3)", "expected a name"),
        ("(" * 200 + "1" + ")" * 200, "brackets inside each other"),
        ("1 " * 6000, "at most 10000 characters"),
    ],
)
def test_it_refuses_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ProgramError, match=sentence):
        parse_expression(text)


@pytest.mark.parametrize("text", ["secret = 1", "missing = 1", "machine * 1000000000 = ''", "tags + tags = 1"])
def test_what_is_no_field_or_no_number_raises_when_it_is_computed(text: str) -> None:
    condition = parse_expression(text).condition()
    with pytest.raises((TypeError, AttributeError)):
        condition(Reading(1))


@given(st.text(alphabet="abc_ .()[]<>=!'\"\\0129+-*/%,andortin\n", max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with suppress(ProgramError):
        parse_expression(text)

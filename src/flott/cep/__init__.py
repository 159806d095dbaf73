"""Complex event processing: patterns in streams. Flink's API in Python's case; PyFlink has none."""

from flott.cep._automaton.explanation import Attempt, Explanation, RefusedEvent, explain
from flott.cep._conditions import IterativeCondition, SimpleCondition
from flott.cep._functions import (
    Match,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    TimedOutPartialMatchHandler,
)
from flott.cep._pattern import Pattern, WithinType
from flott.cep._rules.definition import parse_pattern, parse_rule
from flott.cep._rules.results import RuleFailure, RuleMatch, rule_failures_tag
from flott.cep._rules.stream import RuleStream
from flott.cep._skip import AfterMatchSkipStrategy
from flott.cep._stream import CEP, PatternStream

__all__ = [
    "CEP",
    "Pattern",
    "PatternStream",
    "WithinType",
    "AfterMatchSkipStrategy",
    "Match",
    "SimpleCondition",
    "IterativeCondition",
    "PatternProcessFunction",
    "TimedOutPartialMatchHandler",
    "PatternSelectFunction",
    "PatternFlatSelectFunction",
    "PatternTimeoutFunction",
    "PatternFlatTimeoutFunction",
    "RuleStream",
    "RuleMatch",
    "RuleFailure",
    "rule_failures_tag",
    "parse_rule",
    "parse_pattern",
    "explain",
    "Explanation",
    "Attempt",
    "RefusedEvent",
]

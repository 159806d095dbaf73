"""Complex event processing: patterns in streams. Flink's API in Python's case; PyFlink has none."""

from flott.cep._automaton.explanation import Attempt, Explanation, Refusal, explain
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
    "explain",
    "Explanation",
    "Attempt",
    "Refusal",
]

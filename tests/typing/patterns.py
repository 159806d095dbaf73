"""What type checkers know about patterns and rules. Checked by mypy, never run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_type

from flott.cep import (
    CEP,
    IterativeCondition,
    Match,
    Pattern,
    PatternProcessFunction,
    PatternStream,
    RuleMatch,
    RuleStream,
)
from flott.datastream import DataStream, StreamExecutionEnvironment


@dataclass(frozen=True)
class Payment:
    account: str
    amount: float


env = StreamExecutionEnvironment.get_execution_environment()
payments = env.from_collection([Payment("ada", 3.5)])
small = Pattern[Payment].begin("small").where(lambda payment: payment.amount < 10)


def larger(payment: Payment, ctx: IterativeCondition.Context[Payment]) -> bool:
    return payment.amount > ctx.get_events_for_pattern("small")[0].amount


pattern = small.followed_by("large").where(larger).one_or_more()
assert_type(pattern, Pattern[Payment])
small.where(lambda payment: payment.colour == 3)  # type: ignore[attr-defined]

found = CEP.pattern(payments.key_by(lambda payment: payment.account), pattern)
assert_type(found, PatternStream[Payment])


def total(match: Match[Payment]) -> float:
    return sum(payment.amount for payment in match["large"])


class Accounts(PatternProcessFunction[Payment, str]):
    def process_match(self, match: Match[Payment], ctx: PatternProcessFunction.Context) -> Iterator[str]:
        yield match["small"][0].account


assert_type(found.select(total), DataStream[float])
assert_type(found.process(Accounts()), DataStream[str])
CEP.pattern(env.from_collection(["word"]), pattern)  # type: ignore[misc]

rules = CEP.rules(payments, env.from_collection(["{}"]))
assert_type(rules, RuleStream[Payment])
assert_type(rules.matches(), DataStream[RuleMatch[Payment]])


def ruled(match: RuleMatch[Payment]) -> Any:
    return match.match["small"][0].account

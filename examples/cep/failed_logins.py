"""Detect attempts to guess a password: ``python examples/cep/failed_logins.py``.

Three failed logins or more directly behind each other, then a successful one, within five minutes. A match skips past
its last event, so that one attack is one alarm.
"""

from __future__ import annotations

from typing import NamedTuple

from flott.cep import CEP, AfterMatchSkipStrategy, Match, Pattern
from flott.common import Duration, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment


class Login(NamedTuple):
    user: str
    second: int
    succeeded: bool


LOGINS = [
    Login("ada", 0, False), Login("ada", 4, True), Login("bob", 10, False), Login("bob", 12, False),
    Login("eve", 13, False), Login("bob", 15, False), Login("bob", 16, False), Login("eve", 20, False),
    Login("bob", 21, True), Login("eve", 700, False), Login("eve", 701, True), Login("ada", 800, True),
]  # fmt: skip


def alarm(match: Match[Login]) -> str:
    failed, opened = match["failed"], match["opened"][0]
    return f"{opened.user}: {len(failed)} failures from {failed[0].second} s, opened at {opened.second} s"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda login, _: login.second * 1000
    )
    logins = env.from_collection(LOGINS).assign_timestamps_and_watermarks(in_event_time)
    guessed = (
        Pattern[Login].begin("failed", AfterMatchSkipStrategy.skip_past_last_event())
        .where(lambda login: not login.succeeded).times_or_more(3).consecutive().greedy()
        .next("opened").where(lambda login: login.succeeded)
        .within(Duration.of_minutes(5))
    )  # fmt: skip
    CEP.pattern(logins.key_by(lambda login: login.user), guessed).select(alarm).uid("guessed").print()
    env.execute("failed logins")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())

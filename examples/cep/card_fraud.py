"""Detect a small payment followed by a large one: ``python examples/cep/card_fraud.py``.

Thieves try a stolen card with a small amount first. The pattern is per card: a payment below 10, then one above 500
within a minute. Small payments that nothing follows are reported to a side output when their minute is over.
"""

from __future__ import annotations

from typing import NamedTuple

from flott.cep import CEP, Match, Pattern
from flott.common import Duration, WatermarkStrategy
from flott.datastream import OutputTag, StreamExecutionEnvironment


class Payment(NamedTuple):
    card: str
    second: int
    amount: float


PAYMENTS = [
    Payment("1111", 0, 1.50), Payment("2222", 5, 20), Payment("1111", 12, 40), Payment("3333", 20, 2),
    Payment("1111", 31, 720), Payment("2222", 40, 900), Payment("3333", 95, 800), Payment("2222", 100, 3),
    Payment("2222", 130, 501),
]  # fmt: skip

HARMLESS = OutputTag("harmless", str)


def alarm(match: Match[Payment]) -> str:
    small, large = match["small"][0], match["large"][0]
    return f"card {small.card}: {small.amount} at {small.second} s, then {large.amount} at {large.second} s"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10)).with_timestamp_assigner(
        lambda payment, _: payment.second * 1000
    )
    payments = env.from_collection(PAYMENTS).assign_timestamps_and_watermarks(in_event_time)
    fraud = (
        Pattern[Payment].begin("small").where(lambda payment: payment.amount < 10)
        .followed_by("large").where(lambda payment: payment.amount > 500)
        .within(Duration.of_minutes(1))
    )  # fmt: skip
    alarms = (
        CEP.pattern(payments.key_by(lambda payment: payment.card), fraud)
        .select(
            alarm,
            timeout_tag=HARMLESS,
            timeout_function=lambda match, time: f"card {match['small'][0].card}: nothing until {time // 1000} s",
        )
        .uid("fraud")
    )
    alarms.print()
    alarms.get_side_output(HARMLESS).print("harmless")
    env.execute("card fraud")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())

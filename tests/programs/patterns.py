"""Patterns of every shape over one out-of-order stream: loops, groups, absences, skip strategies, time-outs."""

from __future__ import annotations

from typing import Any

from flott.cep import CEP, AfterMatchSkipStrategy, IterativeCondition, Pattern
from flott.common import Duration, WatermarkStrategy
from flott.datastream import OutputTag, RuntimeContext, StreamExecutionEnvironment
from flott.datastream.state import ValueStateDescriptor
from flott.testing.sources import EndOfEpoch, ScriptedSource
from tests.programs.runner import lines_to

LATE, OVER = OutputTag("late"), OutputTag("over")

#: (account, event time, amount); some payments of "west" come very late.
SCRIPT = {
    "east": [
        ("ann", 1, 5), ("bob", 3, 1), ("ann", 2, 2), EndOfEpoch(), ("ann", 9, 40), ("bob", 14, 700), EndOfEpoch(),
        ("cid", 30, 3), ("ann", 31, 800), EndOfEpoch(), ("bob", 33, 2), ("cid", 29, 600), EndOfEpoch(), ("ann", 60, 1),
        ("bob", 61, 900), EndOfEpoch(), ("cid", 75, 4), ("ann", 66, 7), ("ann", 71, 8),
    ],
    "west": [
        ("ann", 4, 3), EndOfEpoch(), ("cid", 11, 2), ("ann", 8, 6), EndOfEpoch(), ("cid", 28, 1), EndOfEpoch(),
        ("ann", 12, 9), ("dan", 35, 5), EndOfEpoch(), ("dan", 62, 700), ("ann", 13, 1), EndOfEpoch(), ("dan", 70, 2),
        ("bob", 1, 8), ("ann", 72, 2),
    ],
}  # fmt: skip

Payment = tuple[str, int, int]


def is_small(payment: Payment) -> bool:
    return payment[2] < 10


def is_large(payment: Payment) -> bool:
    return payment[2] > 500


class Rising(IterativeCondition[Payment]):
    """Accepts amounts above all before it in the match, and no amount that the account's last match ended with."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.asked = runtime_context.get_state(ValueStateDescriptor("asked"))

    def filter(self, value: Payment, ctx: IterativeCondition.Context[Payment]) -> bool:
        self.asked.update((self.asked.value() or 0) + 1)
        return all(before[2] < value[2] for before in ctx.get_events_for_pattern("up")) and ctx.timestamp() == value[1]


def listed(match: dict[str, list[Payment]]) -> str:
    return f"{next(iter(match.values()))[0][0]} " + ", ".join(
        f"{name}: {' '.join(str(payment[1]) for payment in events)}" for name, events in match.items()
    )


def build(env: StreamExecutionEnvironment, folder: str) -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).with_timestamp_assigner(
        lambda payment, _: payment[1]
    )
    payments = env.from_source(ScriptedSource(SCRIPT), strategy, "payments").uid("payments")
    accounts = payments.key_by(lambda payment: payment[0])
    fraud = (
        Pattern[Payment].begin("small").where(is_small).followed_by("large").where(is_large)
        .within(Duration.of_millis(25))
    )  # fmt: skip
    found = (
        CEP.pattern(accounts, fraud)
        .side_output_late_data(LATE)
        .select(listed, timeout_tag=OVER, timeout_function=lambda match, time: f"{listed(match)} until {time}")
        .uid("fraud")
    )
    found.sink_to(lines_to(folder, "fraud"))
    found.get_side_output(OVER).sink_to(lines_to(folder, "over"))
    found.get_side_output(LATE).sink_to(lines_to(folder, "late"))

    past = AfterMatchSkipStrategy.skip_past_last_event()
    rising = Pattern[Payment].begin("up", past).where(Rising()).times_or_more(2).greedy().followed_by("down")
    CEP.pattern(accounts, rising.within(Duration.of_millis(40))).select(listed).uid("rising").sink_to(
        lines_to(folder, "rising")
    )
    quiet = Pattern[Payment].begin("paid").where(is_small).not_followed_by("again").where(is_small)
    CEP.pattern(accounts, quiet.within(Duration.of_millis(20))).flat_select(lambda match: [listed(match)]).uid(
        "quiet"
    ).sink_to(lines_to(folder, "quiet"))
    pair = Pattern[Payment].begin("one").where(is_small).next("other").where(is_small)
    pairs = Pattern[Payment].begin(pair).times(1, 2).allow_combinations().followed_by_any("end").where(is_large)
    CEP.pattern(accounts, pairs.within(Duration.of_millis(60))).select(listed).uid("pairs").sink_to(
        lines_to(folder, "pairs")
    )
    anywhere = Pattern[Payment].begin("first").where(is_large).next("second").where(is_small)
    CEP.pattern(payments, anywhere, _by_account).select(listed).uid("anywhere").sink_to(
        lines_to(folder, "anywhere")
    ).set_parallelism(1)


def _by_account(one: Any, other: Any) -> int:
    return (one[0] > other[0]) - (one[0] < other[0])

"""Payments are judged by limits that change while they come in; some accounts are blocked; three alarms make a report.

A limit and a block hold for payments of the same epoch already. A reset clears what every account has spent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flott.common import Types, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.functions import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    FlatMapFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedBroadcastProcessFunction,
    RuntimeContext,
)
from flott.datastream.output_tag import OutputTag
from flott.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flott.testing.sources import EndOfEpoch, ScriptedSource
from tests.programs.runner import lines_to

LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.INT())
BLOCKED = MapStateDescriptor("blocked")
SPENT = ValueStateDescriptor("spent", Types.INT())
REFUSED = OutputTag("refused")

#: (account, amount, time)
PAYMENTS = [
    ("ada", 30, 1), ("bob", 20, 2), ("eve", 90, 3), EndOfEpoch(), ("ada", 30, 11), ("cem", 5, 12), EndOfEpoch(),
    ("bob", 50, 21), ("eve", 1, 22), ("ada", 10, 23), EndOfEpoch(), ("dan", 70, 31), ("ada", 1, 32), EndOfEpoch(),
    ("eve", 61, 41), ("cem", 60, 42), EndOfEpoch(), ("bob", 60, 51), ("ada", 90, 52), EndOfEpoch(), ("dan", 7, 61),
]  # fmt: skip
#: (what, whom or how much, time)
RULES = [
    ("limit", 60, 0), EndOfEpoch(), ("block", "bob", 10), EndOfEpoch(), ("limit", 50, 20), ("block", "eve", 20),
    EndOfEpoch(), ("unblock", "bob", 30), EndOfEpoch(), ("reset", None, 40), EndOfEpoch(), ("limit", 80, 50),
    EndOfEpoch(), ("unblock", "eve", 60),
]  # fmt: skip


class Screen(BroadcastProcessFunction[Any, Any, Any]):
    """Sends payments of blocked accounts to the side."""

    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        yield (REFUSED, value) if value[0] in ctx.get_broadcast_state(BLOCKED) else value

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> None:
        what, who, _ = value
        if what == "block":
            ctx.get_broadcast_state(BLOCKED).put(who, True)
        elif what == "unblock":
            ctx.get_broadcast_state(BLOCKED).remove(who)


class Judge(KeyedBroadcastProcessFunction[str, Any, Any, str]):
    """Adds up what an account spends, and says so when it is more than the limit; also later, if the limit falls."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.spent = runtime_context.get_state(SPENT)

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext[str]) -> Iterator[str]:
        account, amount, at = value
        self.spent.update((self.spent.value() or 0) + amount)
        limit = ctx.get_broadcast_state(LIMITS).get("limit")
        if limit is not None and self.spent.value() > limit:
            yield f"{account} spent {self.spent.value()} of {limit} at {at}"
        ctx.timer_service().register_event_time_timer(at + 15)

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        what, amount, _ = value
        if what == "limit":
            ctx.get_broadcast_state(LIMITS).put(what, amount)
        elif what == "reset":
            ctx.apply_to_keyed_state(SPENT, lambda account, spent: spent.clear())

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext[str]) -> Iterator[str]:
        spent, limit = self.spent.value() or 0, ctx.get_broadcast_state(LIMITS).get("limit")
        if limit is not None and spent > limit:
            yield f"{ctx.get_current_key()} still over {limit} at {timestamp}"


class Reports(FlatMapFunction[str, str], CheckpointedFunction):
    """Every three alarms as one report, in the order of the alphabet."""

    def __init__(self) -> None:
        self.alarms: list[str] = []
        self.number = 0

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.saved_alarms = store.get_list_state(ListStateDescriptor("alarms", Types.STRING()))
        self.saved_number = store.get_list_state(ListStateDescriptor("number", Types.INT()))
        self.alarms.extend(self.saved_alarms.get())
        self.number += sum(self.saved_number.get())

    def flat_map(self, value: str) -> Iterator[str]:
        self.number += 1
        self.alarms.append(value)
        if len(self.alarms) == 3:
            yield f"after {self.number}: {' | '.join(sorted(self.alarms))}"
            self.alarms.clear()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.saved_alarms.update(self.alarms)
        self.saved_number.update([self.number])


def build(env: StreamExecutionEnvironment, folder: str) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda item, _: item[2])
    payments = env.from_source(ScriptedSource(PAYMENTS), strategy, "payments").uid("payments")
    rules = env.from_source(ScriptedSource(RULES), strategy, "rules").uid("rules")
    allowed = payments.rebalance().connect(rules.broadcast(BLOCKED)).process(Screen()).uid("screen")
    allowed.get_side_output(REFUSED).sink_to(lines_to(folder, "refused"))
    alarms = allowed.key_by(lambda payment: payment[0]).connect(rules.broadcast(LIMITS)).process(Judge()).uid("judge")
    alarms.sink_to(lines_to(folder, "alarms"))
    # One subtask, and one account: what a report holds must not depend on how subtasks take turns.
    ada = alarms.filter(lambda alarm: alarm.startswith("ada"))
    ada.flat_map(Reports()).uid("reports").set_parallelism(1).sink_to(lines_to(folder, "reports")).set_parallelism(1)

"""Apply rules that change while the job runs: ``python examples/broadcast_state.py``.

Payments are keyed by account. The limits are a broadcast stream, so every subtask has every limit. A limit already
applies to the payments of its own epoch. The marks in the two scripts end an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator

from flott.common import WatermarkStrategy
from flott.datastream import KeyedBroadcastProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flott.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flott.testing import EndOfEpoch, ScriptedSource

LIMITS = MapStateDescriptor("limits", str, int)  #: kind of account -> its limit
SPENT = ValueStateDescriptor("spent", int)

Payment = tuple[str, str, int]  #: account, its kind, amount
Limit = tuple[str, int | None]  #: kind of account, its limit; None: reset all sums

PAYMENTS = [
    ("ada", "basic", 40), ("bob", "gold", 400), EndOfEpoch(),
    ("ada", "basic", 40), ("bob", "gold", 400), EndOfEpoch(),
    ("ada", "basic", 40), ("bob", "gold", 40),
]  # fmt: skip
LIMIT_CHANGES = [
    ("basic", 50), ("gold", 1_000), EndOfEpoch(),
    ("basic", 100), ("gold", 500), EndOfEpoch(),
    ("gold", None),
]  # fmt: skip


class Limiter(KeyedBroadcastProcessFunction[str, Payment, Limit, str]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.spent = runtime_context.get_state(SPENT)

    def process_element(
        self, value: Payment, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext[str]
    ) -> Iterator[str]:
        account, kind, amount = value
        limit = ctx.get_broadcast_state(LIMITS).get(kind)
        spent = (self.spent.value() or 0) + amount
        if limit is not None and spent > limit:
            yield f"{account}: {amount} refused, {spent} would be more than {limit}"
            return
        self.spent.update(spent)
        yield f"{account}: {amount} paid, {spent} spent"

    def process_broadcast_element(self, value: Limit, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        kind, limit = value
        if limit is not None:
            ctx.get_broadcast_state(LIMITS).put(kind, limit)
        else:  # a new month: the function can access the state of all keys
            ctx.apply_to_keyed_state(SPENT, lambda account, spent: spent.clear())


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    no_time = WatermarkStrategy.no_watermarks()
    payments = env.from_source(ScriptedSource(PAYMENTS), no_time, "payments")
    limits = env.from_source(ScriptedSource(LIMIT_CHANGES), no_time, "limits")
    payments.key_by(lambda payment: payment[0]).connect(limits.broadcast(LIMITS)).process(Limiter()).print()
    env.execute("broadcast state")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())

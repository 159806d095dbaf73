"""Broadcast state: every subtask knows the same rules, before the records that they are for, also after a restart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pytest

from flott.common import Types, WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.datastream import DataStream, StreamExecutionEnvironment
from flott.datastream.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedBroadcastProcessFunction,
    RuntimeContext,
)
from flott.datastream.output_tag import OutputTag
from flott.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flott.datastream.time_domain import TimeDomain
from flott.errors import JobFailedError
from flott.testing.clock import ManualClock
from flott.testing.harness import Cancel, Crash, Incarnation, collect, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import EndOfEpoch, ScriptedSource, Wait
from tests.unit.runtime.epoch.wandering import wandering
from tests.unit.runtime.jobmaster.test_protocol import STEPS, patient

NO_TIME = WatermarkStrategy.no_watermarks()
STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])

RULES, LIMITS = MapStateDescriptor("rules"), MapStateDescriptor("limits", Types.STRING(), Types.INT())
ODD = OutputTag("odd")


def streams(
    env: StreamExecutionEnvironment, data: Sequence[Any], rules: Sequence[Any], strategy: WatermarkStrategy = NO_TIME
) -> tuple[DataStream[Any], DataStream[Any]]:
    return (
        env.from_source(ScriptedSource(data), strategy, "data").uid("data"),
        env.from_source(ScriptedSource(rules), strategy, "rules").uid("rules"),
    )


class Apply(BroadcastProcessFunction[Any, Any, Any]):
    """Shows each record together with all rules."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value, dict(ctx.get_broadcast_state(RULES).items())

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        rules = ctx.get_broadcast_state(RULES)
        name, content = value
        if content is None:
            rules.remove(name)
        else:
            rules.put(name, content)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("redistribution", ["forward", "rebalance"])
def test_rules_that_arrive_with_a_record_or_before_it_are_known_in_every_subtask(
    parallelism: int, redistribution: str
) -> None:
    env = in_process(parallelism)
    data, rules = streams(
        env,
        [*range(6), EndOfEpoch(), *range(6, 12), EndOfEpoch(), *range(12, 18)],
        [("a", 1), EndOfEpoch(), ("b", 2), ("a", 3), EndOfEpoch(), ("a", None)],
    )
    spread = data.rebalance().map(lambda n: n)  # then forward: a neighbour in the same task pushes the records in
    if redistribution == "rebalance":
        spread = spread.rebalance()
    found = dict(collect(spread.connect(rules.broadcast(RULES)).process(Apply())))
    assert found == {
        **{n: {"a": 1} for n in range(6)},
        **{n: {"a": 3, "b": 2} for n in range(6, 12)},
        **{n: {"b": 2} for n in range(12, 18)},
    }


class LastWins(Apply):
    """What the rules are depends on the order in which they come."""

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        rules = ctx.get_broadcast_state(RULES)
        rules.put(value % 5, (value, rules.get((value + 1) % 5)))


def test_rules_of_many_subtasks_come_in_the_same_order_to_every_subtask() -> None:
    env = in_process(4)
    splits = {
        str(s): [entry for n in range(s, 60, 4) for entry in ([n, EndOfEpoch()] if n % 7 == s else [n])]
        for s in range(4)
    }
    rules = env.from_source(ScriptedSource(splits), NO_TIME, "rules").rebalance().map(lambda n: n).set_parallelism(3)
    data = env.from_source(ScriptedSource([*range(40), EndOfEpoch(), *range(40, 80)]), NO_TIME, "data").rebalance()
    found = collect(data.connect(rules.broadcast(RULES)).process(LastWins()))
    for epoch in (found[:40], found[40:]):
        assert len({str(known) for _, known in epoch}) == 1


def test_rules_come_first_also_along_a_row_of_such_operators() -> None:
    """What the first operator makes of a rule is a record to the second one, which knows its own rules by then."""

    class Announce(Apply):
        def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
            super().process_broadcast_element(value, ctx)
            yield "news", value[0]

    env = in_process(2)
    data, rules = streams(env, [1, 2], [("a", 1)])
    both = rules.broadcast(RULES)
    first = data.rebalance().map(lambda n: n).connect(both).process(Announce())
    found = collect(first.connect(both).process(Apply()))
    assert [known for _, known in found] == [{"a": 1}] * 4


class Several(BroadcastProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        limit = ctx.get_broadcast_state(LIMITS).get("limit")
        if value % 2:
            yield ODD, value
        elif limit is None or value <= limit:
            yield value, list(ctx.get_broadcast_state(RULES))

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        if isinstance(value, int):
            ctx.get_broadcast_state(LIMITS)["limit"] = value
        else:
            ctx.get_broadcast_state(RULES).put(value, True)
            return [(ODD, value)]


def test_several_states_and_side_outputs() -> None:
    ledger = Ledger(uuid4().hex)
    env = in_process(2)
    data, rules = streams(env, range(8), ["r", 4])
    made = data.rebalance().connect(rules.broadcast(RULES, LIMITS)).process(Several())
    made.get_side_output(ODD).sink_to(LedgerSink(ledger))
    assert sorted(collect(made)) == [(0, ["r"]), (2, ["r"]), (4, ["r"])]
    assert sorted(map(str, ledger.records)) == ["1", "3", "5", "7", "r", "r"], "a rule is seen once in every subtask"


class Misuse(Apply):
    def __init__(self, how: str):
        self.how = how

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if self.how == "write":
            ctx.get_broadcast_state(RULES)["x"] = 1
        elif self.how == "undeclared":
            ctx.get_broadcast_state(MapStateDescriptor("others"))
        elif self.how == "timer":
            ctx.timer_service().register_event_time_timer(1)
        yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        if self.how == "undeclared":
            ctx.get_broadcast_state(MapStateDescriptor("others"))
        if self.how == "type":
            ctx.get_broadcast_state(LIMITS)["limit"] = "many"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("write", "The broadcast state 'rules' can only be read here"),
        ("undeclared", "asks for the broadcast state 'others', which was not declared. Declared are 'rules', 'limits'"),
        ("timer", "sets a timer, but its input is not keyed"),
        ("type", "State 'limits': .*found 'many'"),
    ],
)
def test_misuse_is_refused_in_words(how: str, message: str) -> None:
    env = in_process(1)
    data, rules = streams(env, [1], [("a", 1)])
    with pytest.raises(JobFailedError, match=message):
        collect(data.connect(rules.broadcast(RULES, LIMITS)).process(Misuse(how)))


# --- keyed -----------------------------------------------------------------------------------------------------------


class Sum(AggregateFunction[int, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


DESCRIPTORS: list[StateDescriptor] = [
    ValueStateDescriptor("value"),
    ListStateDescriptor("list"),
    MapStateDescriptor("map"),
    ReducingStateDescriptor("reduced", max),
    AggregatingStateDescriptor("sum", Sum()),
]


class Everything(KeyedBroadcastProcessFunction[int, int, str, Any]):
    """Keeps a record in state of every kind; a rule shows and clears that of one kind, of all keys."""

    def open(self, runtime_context: RuntimeContext) -> None:
        value, listed, mapped, reduced, added = DESCRIPTORS
        self.value = runtime_context.get_state(value)  # type: ignore[arg-type]
        self.list = runtime_context.get_list_state(listed)  # type: ignore[arg-type]
        self.map = runtime_context.get_map_state(mapped)  # type: ignore[arg-type]
        self.reduced = runtime_context.get_reducing_state(reduced)  # type: ignore[arg-type]
        self.sum = runtime_context.get_aggregating_state(added)  # type: ignore[arg-type]

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        if value % 10 != 9:  # such keys have no state
            self.value.update(value)
            self.list.add(value)
            self.map.put(value, -value)
            self.reduced.add(value)
            self.sum.add(value)
        yield from ()

    def process_broadcast_element(self, value: str, ctx: Any) -> Iterator[Any]:
        (descriptor,) = [known for known in DESCRIPTORS if known.name == value]
        shown: list[Any] = []

        def show(key: Any, state: Any) -> None:
            read = {"value": "value", "map": "items"}.get(value, "get")
            shown.append((key, getattr(state, read)()))
            state.clear()

        ctx.apply_to_keyed_state(descriptor, show)
        yield value, tuple(sorted(shown, key=lambda pair: pair[0]))


@pytest.mark.parametrize("workers", [1, 3])
def test_a_rule_reaches_the_state_of_all_keys_that_have_it(workers: int) -> None:
    env = in_process(1)
    data, rules = streams(
        env,
        [12, 1, 21, 9, 10, EndOfEpoch(), 2],
        [EndOfEpoch(), "value", "list", "map", EndOfEpoch(), "reduced", "sum", "value", EndOfEpoch(), "value"],
    )
    stream = data.key_by(lambda n: n % 10).connect(rules.broadcast(RULES)).process(Everything())
    with wandering(0, workers):
        found = collect(stream)
    assert found == [
        ("value", ((0, 10), (1, 21), (2, 12))),
        ("list", ((0, [10]), (1, [1, 21]), (2, [12]))),
        ("map", ((0, [(10, -10)]), (1, [(1, -1), (21, -21)]), (2, [(12, -12)]))),
        # Now 2 comes, in the epoch of the rules above.
        ("reduced", ((0, 10), (1, 21), (2, 12))),
        ("sum", ((0, 10), (1, 22), (2, 14))),
        ("value", ((2, 2),)),
        ("value", ()),
    ]


class KeyMisuse(Everything):
    def __init__(self, how: str):
        self.how = how

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        self.timers = ctx.timer_service()
        yield from super().process_element(value, ctx)

    def process_broadcast_element(self, value: str, ctx: Any) -> Any:
        match self.how:
            case "read":
                self.value.value()
            case "write":
                self.value.update(1)
            case "list":
                self.list.add(1)
            case "map":
                self.map.contains(1)
            case "clear":
                self.map.clear()
            case "timer":
                self.timers.register_event_time_timer(1)
            case "after":
                ctx.apply_to_keyed_state(DESCRIPTORS[0], lambda key, state: None)
                self.value.value()
            case "descriptor":
                ctx.apply_to_keyed_state("value", lambda key, state: None)
            case "inside":
                ctx.apply_to_keyed_state(DESCRIPTORS[0], lambda key, state: [].pop())


@pytest.mark.parametrize("how", ["read", "write", "list", "map", "clear", "timer", "after"])
def test_a_record_of_the_broadcast_stream_has_no_key(how: str) -> None:
    env = in_process(1)
    data, rules = streams(env, [1, EndOfEpoch()], [EndOfEpoch(), "value"])
    with pytest.raises(JobFailedError, match="A record of the broadcast stream has no key") as failed:
        collect(data.key_by(lambda n: n).connect(rules.broadcast(RULES)).process(KeyMisuse(how)))
    assert "apply_to_keyed_state" in str(failed.value)
    assert "record     'value'" in str(failed.value)


def test_what_goes_wrong_in_apply_to_keyed_state_is_shown() -> None:
    misuses = {"descriptor": "takes the descriptor of a keyed state, found 'value'", "inside": "IndexError: pop from"}
    for how, message in misuses.items():
        env = in_process(1)
        data, rules = streams(env, [1, EndOfEpoch()], [EndOfEpoch(), "value"])
        with pytest.raises(JobFailedError, match=message):
            collect(data.key_by(lambda n: n).connect(rules.broadcast(RULES)).process(KeyMisuse(how)))


class Alarm(KeyedBroadcastProcessFunction[str, Any, Any, Any]):
    """A record is answered by a timer, with the rules as they are when it fires. Checks what contexts say."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        key, at = value
        assert (ctx.get_current_key(), ctx.timestamp()) == (key, at)
        assert ctx.current_watermark() == ctx.timer_service().current_watermark()
        ctx.timer_service().register_event_time_timer(at + 10)
        ctx.timer_service().register_processing_time_timer(ctx.current_processing_time() + 500)
        yield "set", key, list(ctx.get_broadcast_state(RULES))

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        assert ctx.timestamp() == value[1]
        assert not hasattr(ctx, "timer_service")
        ctx.get_broadcast_state(RULES).put(value[0], (ctx.current_watermark(), ctx.current_processing_time()))

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        assert ctx.timestamp() == timestamp
        with pytest.raises(Exception, match="can only be read here"):
            ctx.get_broadcast_state(RULES).clear()
        event = ctx.time_domain() is TimeDomain.EVENT_TIME
        yield "event" if event else "clock", timestamp, ctx.get_current_key(), list(ctx.get_broadcast_state(RULES))


def test_timers_fire_in_both_times_and_read_the_rules(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    env = in_process(2)
    data, rules = streams(
        env,
        [("a", 1), EndOfEpoch(), Wait(1_000), ("b", 5), EndOfEpoch(), ("a", 90)],
        [("r", 0), EndOfEpoch(), Wait(1_000), ("s", 50), EndOfEpoch(), ("t", 91)],
        STAMPED,
    )
    keyed = data.key_by(lambda pair: pair[0]).connect(rules.broadcast(RULES)).process(Alarm())
    keyed.sink_to(LedgerSink(ledger)).set_parallelism(1)
    incarnation = live(env, tmp_path, clock=ManualClock(0))
    assert incarnation.failure is None, incarnation.failure
    assert ("clock", 500, "a", ["r"]) in ledger.records
    assert ("set", "b", ["r", "s"]) in ledger.records
    events = [record for record in ledger.records if record[0] == "event"]
    assert sorted(events) == [
        ("event", 11, "a", ["r", "s", "t"]), ("event", 15, "b", ["r", "s", "t"]), ("event", 100, "a", ["r", "s", "t"]),
    ]  # fmt: skip


# --- restarts --------------------------------------------------------------------------------------------------------


class Tariff(KeyedBroadcastProcessFunction[int, int, Any, Any], CheckpointedFunction):
    """Broadcast state, keyed state and a field, all at once."""

    def __init__(self) -> None:
        self.seen = 0

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.saved = context.get_operator_state_store().get_list_state(ListStateDescriptor("seen"))
        self.seen += sum(self.saved.get())

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        self.seen += 1
        self.total.update((self.total.value() or 0) + ctx.get_broadcast_state(RULES).get("price"))
        yield value, ctx.get_current_key(), self.total.value()

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        prices = ctx.get_broadcast_state(RULES)
        prices.put("price", value)
        prices.put(f"price {value}", len(list(prices)))
        ctx.apply_to_keyed_state(ValueStateDescriptor("total"), lambda key, total: total.update(total.value() + 1000))

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.saved.update([self.seen])


DATA = [entry for n in range(30) for entry in ((n, EndOfEpoch()) if n % 5 == 4 else (n,))]
PRICES = [1, EndOfEpoch(), 2, EndOfEpoch(), EndOfEpoch(), 3, 4]


def tariffs(env: StreamExecutionEnvironment, ledger: Ledger) -> None:
    data, prices = streams(env, DATA, PRICES)
    charged = data.key_by(lambda n: n % 4).connect(prices.broadcast(RULES)).process(Tariff()).uid("tariff")
    charged.sink_to(LedgerSink(ledger)).uid("sink")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    ledger = Ledger(uuid4().hex)
    env = in_process(1)
    tariffs(env, ledger)
    live(env, tmp_path_factory.mktemp("undisturbed"))
    return sorted(ledger.records)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("epoch", [1, 2, 3, 5])
def test_rules_survive_crashes_and_changes_of_parallelism(
    step: str, epoch: int, tmp_path: Path, undisturbed: list[Any]
) -> None:
    ledger = Ledger(uuid4().hex)

    def life(parallelism: int, signal: type[BaseException] | None, at: int) -> Incarnation:
        def interrupt(now: str, epoch_now: int) -> None:
            if signal is not None and (now, epoch_now) == (step, at):
                raise signal

        env = patient(parallelism)
        tariffs(env, ledger)
        return live(env, tmp_path, on_step=interrupt)

    with wandering(epoch):
        assert life(1, Crash, epoch).crashed
        assert life(3, Cancel, epoch + 1).status is JobStatus.CANCELED
        assert life(2, None, 0).status is JobStatus.FINISHED
    assert sorted(ledger.records) == undisturbed


class Flaky(Tariff):
    """Fails once in every subtask, in the middle of an epoch, after it has changed all its state."""

    failed: ClassVar[set[int]] = set()

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        yield from super().process_element(value, ctx)
        if value > 12 and self.subtask not in self.failed:
            self.failed.add(self.subtask)
            raise RuntimeError("once")


def test_a_failed_attempt_leaves_no_trace_in_the_rules(tmp_path: Path, undisturbed: list[Any]) -> None:
    ledger = Ledger(uuid4().hex)
    env = patient(3)
    data, prices = streams(env, DATA, PRICES)
    keyed = data.key_by(lambda n: n % 4).connect(prices.broadcast(RULES))
    keyed.process(Flaky()).uid("tariff").sink_to(LedgerSink(ledger))
    Flaky.failed.clear()
    incarnation = live(env, tmp_path)
    assert incarnation.status is JobStatus.FINISHED
    assert len(incarnation.history.restarts) >= 1
    assert sorted(ledger.records) == undisturbed

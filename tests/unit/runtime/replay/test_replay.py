"""A retained epoch run again gives what it gave, touches nothing, and says so where it does not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from flott.common import Types, WatermarkStrategy
from flott.datastream import KeyedProcessFunction, MapFunction, RuntimeContext, StreamExecutionEnvironment
from flott.datastream.connectors.base import Sink, SinkWriter, WriterContext
from flott.datastream.functions import CheckpointedFunction
from flott.datastream.state import ListStateDescriptor, ValueStateDescriptor
from flott.errors import ProgramError, StateError
from flott.graph.operator_ids import OperatorId, id_of_uid, operator_ids
from flott.runtime.replay.comparison import Difference, differences, two_replays
from flott.runtime.replay.observation import SeenRecord, Watch
from flott.runtime.replay.recorded_epoch import held, read_epoch, replayable
from flott.runtime.replay.replay import Replayed, replayed
from flott.state import export_savepoint
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource, Wait
from tests.programs import keyed_sum_two_sinks, kinds_of_state, runner
from tests.unit.runtime.replay import recorded
from tests.unit.runtime.replay.recorded import Kept

#: Its order is that of the answers, which is nobody's.
UNORDERED = "async_lookup"


def found(kept: Kept, epoch: int, *, twice: bool = False) -> list[Difference]:
    """What is different from what was recorded; ``twice``: also between two replays."""
    epoch_then = read_epoch(str(kept.directory), epoch)
    with ExitStack() as stack:
        one = stack.enter_context(replayed(epoch_then, kept.graph, kept.configuration))
        assert one.card is None, one.card
        different = list(differences(epoch_then, one))
        if twice:
            other = stack.enter_context(replayed(epoch_then, kept.graph, kept.configuration))
            different += two_replays(one, other)
        return different


# --- what it promises ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", runner.PROGRAMS)
def test_every_retained_epoch_of_a_golden_program_is_identical_and_nothing_is_touched(
    name: str, tmp_path: Path
) -> None:
    kept = recorded.golden(name, tmp_path)
    before, output = kept.digest, runner.output(tmp_path)
    epochs = replayable(str(kept.directory))
    assert len(epochs) >= 4
    for epoch in {epochs[2], epochs[-1]}:
        allowed = "in another order" if name == UNORDERED else None
        assert [str(d) for d in found(kept, epoch, twice=True) if allowed is None or allowed not in str(d)] == []
    assert kept.digest == before
    assert runner.output(tmp_path) == output == runner.golden(name)
    hidden = [path for path in (tmp_path / "out").rglob(".*") if path.is_file()]
    assert hidden == [], "a sink has staged something where its output is"


def test_a_replay_with_rocksdb_is_identical_and_leaves_the_databases_of_the_job_alone(tmp_path: Path) -> None:
    def same(live: Kept) -> None:
        epoch = replayable(str(live.directory))[-1]
        if epoch in (2, 3):
            before = sorted((tmp_path / "local").rglob("*"))
            assert found(live, epoch) == []
            assert sorted((tmp_path / "local").rglob("*")) == before != []

    recorded.run(
        lambda env: kinds_of_state.build(env, str(tmp_path)),
        tmp_path,
        after_epoch=same,
        **{"state.backend.type": "rocksdb"},
    )
    assert runner.output(tmp_path) == runner.golden("kinds_of_state")


def test_a_job_is_replayed_while_it_runs_and_comes_to_the_same_end(tmp_path: Path) -> None:
    replays = []

    def replay(live: Kept) -> None:
        before = live.digest
        for epoch in replayable(str(live.directory)):
            assert found(live, epoch) == []
            replays.append(epoch)
        assert live.digest == before

    recorded.run(
        lambda env: keyed_sum_two_sinks.build(env, str(tmp_path)),
        tmp_path,
        after_epoch=replay,
        **{"execution.checkpointing.num-retained": "2"},
    )
    assert sorted(set(replays)) == [1, 2, 3, 4, 5, 6]
    assert runner.output(tmp_path) == runner.golden("keyed_sum_two_sinks")


def test_the_records_of_sinks_are_shown_as_they_were_committed(tmp_path: Path) -> None:
    kept = recorded.run(lambda env: doubled(env, ledger := Ledger("shown")).sink_to(LedgerSink(ledger)), tmp_path)
    sink = next(i for i, op in operators(kept).items() if op.startswith("Sink"))
    epoch = read_epoch(str(kept.directory), 2)
    with replayed(epoch, kept.graph, kept.configuration, watch=Watch(frozenset({sink}))) as replay:
        assert sorted(seen.value for seen in replay.traffic[sink].received.records()) == [6, 8]


def test_committers_are_never_called_and_writers_only_if_one_wants_it(tmp_path: Path) -> None:
    ledger = Ledger("committed")
    kept = recorded.run(lambda env: doubled(env, ledger).sink_to(LedgerSink(ledger)), tmp_path)
    commits, visible, staged = list(ledger.commits), dict(ledger.committed), dict(ledger.staged)
    assert found(kept, 2) == []
    assert (ledger.commits, ledger.committed, ledger.staged) == (commits, visible, staged)
    epoch = read_epoch(str(kept.directory), 2)
    with replayed(epoch, kept.graph, kept.configuration, run_writers=True) as replay:
        assert list(differences(epoch, replay)) == []
    assert (ledger.commits, ledger.committed) == (commits, visible)
    assert sorted(record for records in ledger.staged.values() for record in records) == [6, 8]


def test_an_epoch_that_makes_the_job_fail_can_be_replayed_and_shows_its_card(tmp_path: Path) -> None:
    def fails(value: int) -> int:
        if value == 4:
            raise ValueError("four")
        return value

    kept = recorded.run(
        lambda env: numbers(env).map(fails).uid("touchy").sink_to(LedgerSink(Ledger("failing"))),
        tmp_path,
        **{"restart-strategy.type": "none"},
    )
    assert replayable(str(kept.directory)) == [1, 2]
    epoch = read_epoch(str(kept.directory), 2)
    assert epoch.after is None
    with replayed(epoch, kept.graph, kept.configuration) as replay:
        assert replay.card is not None
        assert (replay.card.uid, replay.card.record, replay.card.epoch) == ("touchy", "4", 2)
        assert "ValueError: four" in str(replay.card)
        assert isinstance(replay.failure.__cause__, ValueError)  # type: ignore[union-attr]


def test_an_epoch_that_was_tried_several_times_is_replayed_as_the_attempt_that_counts(tmp_path: Path) -> None:
    class Attempt(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.context = runtime_context

        def map(self, value: int) -> tuple[int, int, float]:
            return value, self.context.get_attempt_number(), self.context.get_random().random()

    kept = recorded.run(
        lambda env: numbers(env, [1, EndOfEpoch(), Abort(2), 2, EndOfEpoch(), 3])
        .map(Attempt())
        .key_by(lambda told: told[0], key_type=Types.INT())
        .reduce(lambda one, other: other)  # so that it is in the checkpoint
        .sink_to(LedgerSink(Ledger("attempts"))),
        tmp_path,
        **{"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "5",
           "restart-strategy.fixed-delay.delay": "0s"},
    )  # fmt: skip
    assert read_epoch(str(kept.directory), 2).attempt == 2
    for epoch in (1, 2, 3):
        assert found(kept, epoch) == []


# --- what it finds ---------------------------------------------------------------------------------------------------


def test_a_function_that_is_different_every_time_is_found_where_it_is(tmp_path: Path) -> None:
    kept = recorded.run(
        lambda env: (
            numbers(env)
            .map(lambda value: value + 1)
            .uid("sane")
            .map(lambda value: (value, int.from_bytes(os.urandom(3), "big")))
            .uid("moody")
            .sink_to(LedgerSink(Ledger("moody")))
        ),
        tmp_path,
    )
    first = found(kept, 2, twice=True)[0]
    assert (first.operator, first.what.startswith("the records it emitted are different")) == ("moody", True)


def test_state_that_comes_out_otherwise_is_found_by_key(tmp_path: Path) -> None:
    class Moody(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.INT()))

        def process_element(self, value: int, ctx: Any) -> Iterator[int]:
            self.last.update(int.from_bytes(os.urandom(3), "big") if value == 4 else value)
            yield value

    kept = recorded.run(
        lambda env: (
            numbers(env)
            .key_by(lambda value: value, key_type=Types.INT())
            .process(Moody())
            .uid("keeper")
            .sink_to(LedgerSink(Ledger("keeper")))
        ),
        tmp_path,
    )
    assert [(d.operator, d.what) for d in found(kept, 2)] == [("keeper", "state 'last' of key 4")]
    assert found(kept, 1) == []


def test_another_version_of_the_program_is_compared_with_what_was_recorded(tmp_path: Path) -> None:
    kept = recorded.run(lambda env: summed(env, 1), tmp_path / "first")
    other = StreamExecutionEnvironment.get_execution_environment(kept.configuration).set_parallelism(2)
    summed(other, 10)
    epoch = read_epoch(str(kept.directory), 2)
    with replayed(epoch, other.get_stream_graph(), kept.configuration) as replay:
        changed = list(differences(epoch, replay))
    assert {d.operator for d in changed} == {"sum"}
    assert {(d.one, d.other) for d in changed} == {("4", "1"), ("6", "72")}, "all that came were even this time"


def test_a_program_with_other_sources_is_refused(tmp_path: Path) -> None:
    kept = recorded.run(lambda env: doubled(env, ledger := Ledger("other")).sink_to(LedgerSink(ledger)), tmp_path)
    other = StreamExecutionEnvironment.get_execution_environment(kept.configuration).set_parallelism(2)
    other.from_collection([1]).uid("something else").sink_to(LedgerSink(Ledger("other")))
    with (
        pytest.raises(ProgramError, match="not the one that ran: epoch 2 read the sources"),
        replayed(read_epoch(str(kept.directory), 2), other.get_stream_graph(), kept.configuration),
    ):
        pass


# --- what is retained ------------------------------------------------------------------------------------------------


def test_of_an_epoch_that_is_gone_it_is_said_what_is_there_and_what_keeps_more(tmp_path: Path) -> None:
    kept = recorded.run(
        lambda env: doubled(env, ledger := Ledger("gone")).sink_to(LedgerSink(ledger)),
        tmp_path,
        **{"execution.checkpointing.num-retained": "2"},
    )
    assert replayable(str(kept.directory)) == [3]
    with pytest.raises(StateError) as refusal:
        read_epoch(str(kept.directory), 2)
    assert "begins with checkpoint 1, which is gone. The job keeps 2, 3" in str(refusal.value)
    assert "execution.checkpointing.num-retained" in str(refusal.value)
    assert str(refusal.value).endswith("can be replayed: 3.")
    with pytest.raises(StateError, match="has not come to epoch 9: the last one that completed is 3"):
        read_epoch(str(kept.directory), 9)
    with pytest.raises(StateError, match="is not the directory of a job"):
        read_epoch(str(tmp_path), 1)


def test_an_epoch_that_is_held_can_be_replayed_though_the_job_lets_go_of_it(tmp_path: Path) -> None:
    kept = recorded.run(lambda env: summed(env, 1), tmp_path)
    with held(read_epoch(str(kept.directory), 2)) as epoch:
        for path in (kept.directory / "state").iterdir():
            path.unlink()
        with replayed(epoch, kept.graph, kept.configuration) as replay:
            assert replay.card is None
            assert list(differences(epoch, replay)) == []
    with pytest.raises(StateError, match="has let go of epoch 2 meanwhile"), held(epoch):
        pass


def test_epochs_around_a_change_of_parallelism_have_the_shape_they_had(tmp_path: Path) -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        kinds_of_state.build(env, str(tmp_path))

    kept = recorded.run(build, tmp_path, rescale={2: 3, 4: 1})
    assert {e: max(read_epoch(str(kept.directory), e).parallelism.values()) for e in (2, 3, 4, 5)} == {
        2: 2, 3: 3, 4: 3, 5: 1,
    }  # fmt: skip
    for epoch in (2, 3, 4, 5, 6):
        assert found(kept, epoch) == []


class United(MapFunction, CheckpointedFunction):
    """Tells how many items of a union list it begins with: all, if the job was started from the checkpoint."""

    def initialize_state(self, context: Any) -> None:
        self.items = context.get_operator_state_store().get_union_list_state(ListStateDescriptor("items", Types.INT()))

    def snapshot_state(self, context: Any) -> None:
        self.items.update([1])

    def map(self, value: int) -> tuple[int, int]:
        return value, len(list(self.items.get()))


def test_an_epoch_that_a_job_was_resumed_with_is_replayed_as_one(tmp_path: Path) -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        told = numbers(env).map(United()).uid("united").key_by(lambda pair: pair[0], key_type=Types.INT())
        told.reduce(lambda one, other: other).uid("told").sink_to(LedgerSink(Ledger("united")))

    kept = recorded.run(build, tmp_path, stop_after=1, **{"execution.state-recovery.from-latest": "true"})
    kept = recorded.run(build, tmp_path, **{"execution.state-recovery.from-latest": "true"})
    resumed = {epoch: read_epoch(str(kept.directory), epoch).resumed for epoch in (2, 3)}
    assert resumed == {2: True, 3: False}
    for epoch in (1, 2, 3):
        assert found(kept, epoch) == []


# --- programs --------------------------------------------------------------------------------------------------------

SCRIPT = [1, 2, EndOfEpoch(), 3, 4, EndOfEpoch(), 5, 6]


def numbers(env: StreamExecutionEnvironment, script: list[Any] = SCRIPT) -> Any:
    return env.from_source(ScriptedSource(script), WatermarkStrategy.no_watermarks(), "numbers")


def doubled(env: StreamExecutionEnvironment, ledger: Ledger) -> Any:
    return numbers(env).map(lambda value: value * 2).uid("doubled")


def summed(env: StreamExecutionEnvironment, factor: int) -> Any:
    return (
        numbers(env)
        .map(lambda value: value * factor)
        .key_by(lambda value: value % 2, key_type=Types.INT())
        .reduce(lambda one, other: one + other)
        .uid("sum")
        .sink_to(LedgerSink(Ledger("summed")))
    )


def operators(kept: Kept) -> dict[OperatorId, str]:
    ids = operator_ids(kept.graph)
    return {ids[node.id]: node.name for node in kept.graph.nodes}


class FailingSink(Sink[Any]):
    """A sink whose writer does not like a record."""

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        return _FailingWriter()


class _FailingWriter(SinkWriter[Any]):
    def write(self, values: Any, timestamps: Any) -> None:
        if 3 in values:
            raise OSError("three")


def test_a_sink_that_fails_is_seen_to_fail_if_its_writers_run(tmp_path: Path) -> None:
    kept = recorded.run(lambda env: numbers(env).sink_to(FailingSink()), tmp_path, **{"restart-strategy.type": "none"})
    epoch = read_epoch(str(kept.directory), 2)
    with replayed(epoch, kept.graph, kept.configuration) as muted:
        assert muted.card is None
    with replayed(epoch, kept.graph, kept.configuration, run_writers=True) as replay:
        assert replay.card is not None
        assert "OSError: three" in replay.card.error


# --- one operator, one key -------------------------------------------------------------------------------------------


def test_what_an_operator_got_and_emitted_can_be_narrowed_to_a_key(tmp_path: Path) -> None:
    kept = recorded.run(lambda env: summed(env, 1), tmp_path)
    ident = id_of_uid("sum")
    epoch = read_epoch(str(kept.directory), 2)

    def seen(replay: Replayed) -> tuple[list[SeenRecord], list[SeenRecord]]:
        traffic = replay.traffic[ident]
        return list(traffic.received.records()), list(traffic.emitted.records())

    with replayed(epoch, kept.graph, kept.configuration, watch=Watch(frozenset({ident}))) as replay:
        received, emitted = seen(replay)
        assert sorted(r.value for r in received) == [3, 4]
        assert sorted(r.value for r in emitted) == [4, 6]
    with replayed(epoch, kept.graph, kept.configuration, watch=Watch(frozenset({ident}), 1)) as replay:
        received, emitted = seen(replay)
        assert [r.value for r in received] == [3]
        assert [r.value for r in emitted] == [4]
        assert replay.traffic[ident].unattributed == 0
        assert list(differences(epoch, replay)) == []


# --- jobs of other kinds ---------------------------------------------------------------------------------------------


class Reminder(KeyedProcessFunction):
    """Says something a while after each record, by the clock."""

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        now = ctx.timer_service().current_processing_time()
        ctx.timer_service().register_processing_time_timer(now + 1)
        yield value, now

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, ctx.timer_service().current_processing_time()


def test_the_clock_of_an_epoch_is_the_one_it_had(tmp_path: Path) -> None:
    kept = recorded.run(
        lambda env: (
            numbers(env, [1, EndOfEpoch(), Wait(20), 2, EndOfEpoch(), Wait(20), 3])
            .key_by(lambda value: value, key_type=Types.INT())
            .process(Reminder())
            .sink_to(LedgerSink(Ledger("reminders")))
        ),
        tmp_path,
    )
    epochs = replayable(str(kept.directory))
    assert len(epochs) > 3, "timers have epochs of their own"
    for epoch in epochs:
        assert found(kept, epoch) == []


def test_the_one_epoch_of_a_batch_job_that_fails_can_be_replayed(tmp_path: Path) -> None:
    def fails(value: int) -> int:
        return 1 // (value - 5)

    kept = recorded.run(
        lambda env: numbers(env).map(fails).key_by(lambda v: v).reduce(max).sink_to(LedgerSink(Ledger("batch"))),
        tmp_path,
        **{"restart-strategy.type": "none", "execution.runtime-mode": "BATCH"},
    )
    with replayed(read_epoch(str(kept.directory), 1), kept.graph, kept.configuration) as replay:
        assert replay.card is not None
        assert (replay.card.record, "ZeroDivisionError" in replay.card.error) == ("5", True)


@pytest.mark.parametrize("claim", ["CLAIM", "NO_CLAIM"])
def test_the_first_epochs_of_a_job_that_began_with_a_savepoint_are_identical(claim: str, tmp_path: Path) -> None:
    def build(env: StreamExecutionEnvironment) -> None:
        stream = numbers(env).map(United()).uid("united").map(lambda pair: pair[0])
        keyed = stream.key_by(lambda value: value % 2, key_type=Types.INT())
        keyed.reduce(lambda one, other: one + other).uid("sum").sink_to(LedgerSink(Ledger("begun")))

    first = recorded.run(build, tmp_path / "first", stop_after=1)
    savepoint = export_savepoint(str(first.directory / "chk-1"), str(tmp_path / "savepoints"))
    second = recorded.run(
        build,
        tmp_path / "second",
        parallelism=3,
        **{"execution.state-recovery.path": savepoint, "execution.state-recovery.claim-mode": claim},
    )
    assert replayable(str(second.directory)) == [2, 3]
    if claim == "NO_CLAIM":  # one that was claimed has gone with its job
        for epoch in (2, 3):
            assert found(second, epoch) == []
    with pytest.raises(StateError, match="Epoch 1 has no plan: the job was started from it"):
        read_epoch(str(second.directory), 1)


def test_what_is_printed_or_collected_is_seen_but_not_delivered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = recorded.run(lambda env: numbers(env).print(), tmp_path)
    capsys.readouterr()
    (sink,) = (i for i, name in operators(kept).items() if name.startswith("Sink"))
    epoch = read_epoch(str(kept.directory), 2)
    with replayed(epoch, kept.graph, kept.configuration, watch=Watch(frozenset({sink}))) as replay:
        assert sorted(seen.value for seen in replay.traffic[sink].received.records()) == [3, 4]
        assert replay.writing[sink]
    assert capsys.readouterr().out == ""

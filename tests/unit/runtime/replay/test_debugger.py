"""A replay stops where the user's function begins to work on a record, and where it failed."""

from __future__ import annotations

import io
import pdb
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flott.common import Types, WatermarkStrategy
from flott.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flott.datastream.state import ValueStateDescriptor
from flott.graph.operator_ids import OperatorId, id_of_uid
from flott.runtime.replay.comparison import differences
from flott.runtime.replay.debugger import RecordDebugger
from flott.runtime.replay.observation import ANY_KEY, Watch
from flott.runtime.replay.recorded_epoch import read_epoch
from flott.runtime.replay.replay import Replayed, replayed
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import EndOfEpoch, ScriptedSource
from tests.unit.runtime.replay import recorded
from tests.unit.runtime.replay.recorded import Kept

SCRIPT = [("a", 1), ("b", 2), EndOfEpoch(), ("a", 3), ("b", 4), ("b", 5), EndOfEpoch(), ("a", 6)]


def key_of(record: tuple[str, int]) -> str:
    return record[0]


class Total(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[str]:
        before = self.total.value() or 0
        self.total.update(before + value[1])
        ctx.timer_service().register_event_time_timer(value[1])
        yield f"{value[0]}={before + value[1]}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        yield f"{ctx.get_current_key()} at {timestamp}"


def shout(text: str) -> str:
    return text.upper()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_Stamps())

    def build(env: StreamExecutionEnvironment) -> None:
        (
            env.from_source(ScriptedSource(SCRIPT), strategy, "pairs")
            .key_by(key_of, key_type=Types.STRING())
            .process(Total())
            .uid("total")
            .map(shout)
            .uid("shout")
            .sink_to(LedgerSink(Ledger("debugged")))
        )

    return recorded.run(build, tmp_path_factory.mktemp("debugged"))


class _Stamps:
    def extract_timestamp(self, value: tuple[str, int], record_timestamp: int) -> int:
        return value[1]


def debugged(kept: Kept, uid: str, typed: str, key: Any = ANY_KEY) -> tuple[str, RecordDebugger, list[str], Replayed]:
    """Replay the second epoch with somebody at the debugger: what they saw, and what is different."""
    screen = io.StringIO()
    made = lambda: pdb.Pdb(stdin=io.StringIO(typed), stdout=screen, nosigint=True)  # noqa: E731
    debugger = RecordDebugger(key, made)
    watch = Watch(frozenset({OperatorId(id_of_uid(uid))}), key)
    epoch = read_epoch(str(kept.directory), 2)
    with replayed(epoch, kept.graph, kept.configuration, watch=watch, approach=debugger.approach) as replay:
        return screen.getvalue(), debugger, [str(d) for d in differences(epoch, replay)], replay


def test_it_stops_at_the_first_record_of_an_operator_in_the_function_itself(kept: Kept) -> None:
    seen, debugger, different, _ = debugged(kept, "shout", "args\nwhere\nc\n")
    assert "shout()\n-> return text.upper()" in seen
    assert "text = '" in seen
    assert (debugger.has_stopped, debugger.was_left, different) == (True, False, [])


def test_it_stops_at_the_first_record_of_a_key_and_not_in_the_key_selector(kept: Kept) -> None:
    seen, debugger, different, _ = debugged(kept, "total", "p value\nn\np before\nc\n", "b")
    assert "process_element" in seen
    assert "('b', 4)" in seen
    assert "key_of" not in seen
    assert "(Pdb) 2" in seen, "what state held before"
    assert (debugger.has_stopped, different) == (True, [])


def test_whoever_leaves_the_debugger_ends_the_replay(kept: Kept) -> None:
    _, debugger, _, replay = debugged(kept, "shout", "q\n")
    assert debugger.was_left
    assert replay.manifest is None


def test_a_key_that_never_comes_stops_nowhere(kept: Kept) -> None:
    seen, debugger, different, _ = debugged(kept, "total", "c\n", "nobody")
    assert (seen, debugger.has_stopped, different) == ("", False, [])


def test_post_mortem_is_in_the_frame_that_failed(tmp_path: Path) -> None:
    def fragile(record: tuple[str, int]) -> float:
        divisor = record[1] - 4
        return 1 / divisor

    def build(env: StreamExecutionEnvironment) -> None:
        source = env.from_source(ScriptedSource(SCRIPT), WatermarkStrategy.no_watermarks(), "pairs")
        source.map(fragile).uid("fragile").sink_to(LedgerSink(Ledger("fragile")))

    kept = recorded.run(build, tmp_path, **{"restart-strategy.type": "none"})
    screen = io.StringIO()
    debugger = RecordDebugger(
        make=lambda: pdb.Pdb(stdin=io.StringIO("p record, divisor\nq\n"), stdout=screen, nosigint=True)
    )
    with replayed(read_epoch(str(kept.directory), 2), kept.graph, kept.configuration) as replay:
        assert replay.failure is not None
        debugger.post_mortem(replay.failure)
    assert "(('b', 4), 0)" in screen.getvalue()

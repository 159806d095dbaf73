"""A source that reads several sources one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import Boundedness, Guarantee, SliceRequest, Source
from flott.datastream.connectors.file_system import FileSource, StreamFormat
from flott.datastream.connectors.hybrid_source import HybridSource, SourceSwitchContext
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.errors import ProgramError, StateError
from flott.testing.connectors import SourceConformance
from flott.testing.harness import collect, in_process
from tests.connectors.change_capture import Epochs


def following(context: SourceSwitchContext) -> Source[int]:
    """Continue where the source before ended."""
    assert context.previous_state["ranges"] == []
    return NumberSequenceSource(context.switched_at_ms, context.switched_at_ms + 9)


class TestThreeSources(SourceConformance):
    """The records are divided between a number sequence, one that is made when its turn comes, and a third."""

    ordered = True

    def source(self, count: int) -> Source[Any]:
        first, second = max(1, count // 3), max(2, 2 * count // 3)
        if count == 1:
            return HybridSource.builder(NumberSequenceSource(0, 0)).build()

        def middle(context: SourceSwitchContext) -> Source[int]:
            return NumberSequenceSource(first, second - 1)

        builder = HybridSource.builder(NumberSequenceSource(0, first - 1)).add_source(middle, Boundedness.BOUNDED)
        return builder.add_source(NumberSequenceSource(second, count - 1)).build()


class TestFilesAndThenNumbers(SourceConformance):
    """Two kinds of sources whose splits and states look different."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self._make = tmp_path_factory.mktemp

    def source(self, count: int) -> Source[Any]:
        folder = self._make("history")
        half = max(1, count // 2)
        for start in range(0, half, 7):
            numbers = range(start, min(start + 7, half))
            (folder / f"{start:04}").write_text("".join(f"{number}\n" for number in numbers))
        builder = HybridSource.builder(
            FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder)).build()
        )
        if half < count:
            builder = builder.add_source(NumberSequenceSource(half, count - 1))
        return builder.build()


def test_one_source_follows_the_other_in_a_job():
    source = HybridSource.builder(NumberSequenceSource(1, 5)).add_source(NumberSequenceSource(10, 12)).build()
    env = in_process(1, flott__epoch__max_records="2")
    found = collect(env.from_source(source, WatermarkStrategy.no_watermarks(), "both"))
    assert found == [1, 2, 3, 4, 5, 10, 11, 12]


def test_a_batch_reads_all_sources_in_one_epoch():
    source = HybridSource.builder(NumberSequenceSource(1, 5)).add_source(NumberSequenceSource(10, 12)).build()
    plan = source.create_enumerator().plan(SliceRequest(10**9, 1, 0, everything=True))
    assert plan.finished
    reader = source.create_reader()
    assert [number for part in plan.slices for number in reader.read(part)] == [1, 2, 3, 4, 5, 10, 11, 12]


def test_a_source_is_made_from_what_the_one_before_left():
    source = HybridSource.builder(NumberSequenceSource(1, 5)).add_source(following, Boundedness.BOUNDED).build()
    job = Epochs(source, max_records=2, parallelism=1)
    job.run()
    first = job.output[5]
    assert job.output == [1, 2, 3, 4, 5, *range(first, first + 10)]
    assert first > 1_000_000  # the time of the switch, also for tasks and epochs that came later


def test_the_first_source_is_not_needed_after_the_switch(tmp_path):
    history = tmp_path / "history"
    history.mkdir()
    (history / "a").write_text("old\n")
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(history)).build()
    source = HybridSource.builder(files).add_source(NumberSequenceSource(1, 6)).build()
    job = Epochs(source, max_records=2, parallelism=1)
    while len(job.output) < 3:
        job.step()
    (history / "a").unlink()
    history.rmdir()
    job.die()
    job.run()
    assert job.output == ["old", 1, 2, 3, 4, 5, 6]


def test_event_time_continues_behind_the_switch():
    source = HybridSource.builder(NumberSequenceSource(1, 20)).add_source(NumberSequenceSource(21, 40)).build()
    env = in_process(2, flott__epoch__max_records="4")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Same())
    from flott.common import Time, Types
    from flott.datastream.window import TumblingEventTimeWindows

    numbers = env.from_source(source, strategy, "numbers", Types.LONG())
    sums = (
        numbers.key_by(lambda _: 0)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        .reduce(lambda a, b: a + b)
    )
    assert sorted(collect(sums)) == sorted(sum(n for n in range(1, 41) if n // 10 == tens) for tens in range(5))


class Same:
    """The number is the time."""

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value


def test_it_promises_as_much_as_its_sources_and_ends_if_the_last_does():
    source = HybridSource.builder(NumberSequenceSource(1, 5)).add_source(following).build()
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert source.guarantee is Guarantee.EXACTLY_ONCE


def test_wrong_chains_are_refused():
    first = NumberSequenceSource(1, 5)
    with pytest.raises(ProgramError, match="only the last may be unbounded"):
        HybridSource.builder(first).add_source(following).add_source(first)
    with pytest.raises(ProgramError, match="takes a Source"):
        HybridSource.builder("files")  # type: ignore[arg-type]
    wrong = HybridSource.builder(first).add_source(lambda context: first).build()
    with pytest.raises(ProgramError, match="BOUNDED, but it was added as CONTINUOUS_UNBOUNDED"):
        Epochs(wrong).run()
    job = Epochs(HybridSource.builder(first).add_source(first).build())
    job.run()
    with pytest.raises(StateError, match="Do not remove"):
        Epochs(HybridSource.builder(first).build(), state=job.state).run()

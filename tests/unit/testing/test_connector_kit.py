"""The conformance kit passes over the connectors of the core, and finds planted defects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flott.common.serialization import Encoder
from flott.datastream.connectors.base import (
    CommitPermit,
    Committer,
    Guarantee,
    Records,
    Sink,
    SinkWriter,
    Slice,
    SlicePlan,
    Source,
    SourceReader,
    SplitEnumerator,
    WriterContext,
)
from flott.datastream.connectors.file_system import FileSink, FileSource, RollingPolicy, StreamFormat
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.runtime.connectors.number_seq import NumberSequenceEnumerator, NumberSequenceReader
from flott.testing.connectors import SinkConformance, SourceConformance
from flott.testing.connectors.source_run import through_json


@pytest.fixture(autouse=True)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if request.instance is not None:
        request.instance.folder = tmp_path


class TestNumberSequence(SourceConformance):
    def source(self, count: int) -> Source[Any]:
        return NumberSequenceSource(0, count - 1)


class TestFileSource(SourceConformance):
    folder: Path

    def source(self, count: int) -> Source[Any]:
        path = self.folder / f"{uuid4().hex}.txt"
        path.write_text("".join(f"{number}\n" for number in range(count)))
        return FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()


class TestFileSink(SinkConformance):
    folder: Path

    def sink(self) -> Sink[Any]:
        self.place = self.folder / uuid4().hex
        sink = FileSink.for_row_format(str(self.place), Encoder.simple_string_encoder())
        return sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()

    def visible(self) -> Sequence[Any]:
        parts = [path for path in self.place.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
        return [line for path in parts for line in path.read_text().splitlines()]


# --- planted defects: each is found by the test that names its promise ------------------------------------------------


@dataclass(frozen=True)
class _Folder(Sink[Any]):
    """A right sink: a draft for each subtask and epoch, renamed by the committer."""

    folder: str

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.EXACTLY_ONCE

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        return _Draft(Path(self.folder), context.attempt_id, context.epoch)

    def create_committer(self) -> Committer:
        return _Rename(Path(self.folder))


@dataclass
class _Draft(SinkWriter[Any]):
    folder: Path
    attempt: str
    epoch: int
    text: str = ""

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        self.text += "".join(f"{value}\n" for value in values)

    def prepare_commit(self) -> list[Any]:
        name = f"{self.epoch}-{self.attempt}"
        (self.folder / f".{name}").write_text(self.text)
        return [name]


@dataclass
class _Rename(Committer):
    folder: Path

    def commit(self, permit: CommitPermit, committables: Sequence[Any]) -> None:
        for name in committables:
            if not (self.folder / name).exists():
                try:
                    (self.folder / f".{name}").rename(self.folder / name)
                except FileNotFoundError:
                    assert (self.folder / name).exists()


class _WritesAtOnce(_Folder):
    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        return _Visible(Path(self.folder), context.attempt_id, context.epoch)


class _Visible(_Draft):
    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        super().write(values, timestamps)
        (self.folder / f"{self.epoch}-{self.attempt}").write_text(self.text)


class _CopiesAgain(_Folder):
    def create_committer(self) -> Committer:
        return _Copy(Path(self.folder))


class _Copy(_Rename):
    def commit(self, permit: CommitPermit, committables: Sequence[Any]) -> None:
        for name in committables:
            (self.folder / f"{name}-{uuid4().hex}").write_text((self.folder / f".{name}").read_text())


class _KeepsInMemory(_Folder):
    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        return _Forgets(Path(self.folder), context.attempt_id, context.epoch)

    def create_committer(self) -> Committer:
        return _Recalls(Path(self.folder))


_remembered: dict[str, str] = {}


class _Forgets(_Draft):
    def prepare_commit(self) -> list[Any]:
        name = f"{self.epoch}-{self.attempt}"
        _remembered[name] = self.text
        return [name]


class _Recalls(_Rename):
    def commit(self, permit: CommitPermit, committables: Sequence[Any]) -> None:
        for name in committables:
            (self.folder / name).write_text(_remembered[name])


class _ShowsPassword(_Folder):
    def __repr__(self) -> str:
        return "Sink(password=tiger)"


def _kit_of(sink_class: Callable[[str], Sink[Any]], folder: Path) -> SinkConformance:
    class Kit(SinkConformance):
        secrets = ("tiger",)

        def sink(self) -> Sink[Any]:
            self.place = folder / uuid4().hex
            self.place.mkdir()
            return sink_class(str(self.place))

        def visible(self) -> Sequence[Any]:
            parts = [path for path in self.place.iterdir() if not path.name.startswith(".")]
            return [line for path in parts for line in path.read_text().splitlines()]

    return Kit()


class TestRightSink(SinkConformance):
    folder: Path

    def sink(self) -> Sink[Any]:
        self.kit = _kit_of(_Folder, self.folder)
        return self.kit.sink()

    def visible(self) -> Sequence[Any]:
        return self.kit.visible()


@pytest.mark.parametrize(
    ("sink_class", "test"),
    [
        (_WritesAtOnce, "test_nothing_is_visible_before_its_commit"),
        (_WritesAtOnce, "test_a_writer_that_never_prepared_leaves_nothing"),
        (_WritesAtOnce, "test_a_failed_attempt_is_removed"),
        (_WritesAtOnce, "test_a_zombie_writer_changes_nothing"),
        (_CopiesAgain, "test_a_commit_can_be_repeated"),
        (_CopiesAgain, "test_random_failures_lose_and_repeat_nothing"),
        (_KeepsInMemory, "test_a_writing_process_may_be_killed"),
        (_ShowsPassword, "test_a_sink_can_be_pickled_and_shows_no_secret"),
    ],
)
def test_the_kit_finds_a_broken_sink(sink_class: Callable[[str], Sink[Any]], test: str, tmp_path: Path):
    with pytest.raises((AssertionError, KeyError)):
        getattr(_kit_of(sink_class, tmp_path), test)()


class _PlanMoves(NumberSequenceEnumerator):
    """Takes the planned slices for read at once."""

    def plan(self, request: Any) -> SlicePlan:
        plan = super().plan(request)
        self.advance(plan, {part.split: part.stop for part in plan.slices})
        return plan


class _ForgetsState(NumberSequenceEnumerator):
    def restore(self, state: Any) -> None:
        pass


class _Drifting(NumberSequenceReader):
    """Gives other records when it reads a slice again."""

    readings = 0

    def read_batches(self, part: Slice) -> Iterator[Records[int]]:
        _Drifting.readings += 1
        for batch in super().read_batches(part):
            yield Records([number + _Drifting.readings for number in batch.values])


def _broken_source(enumerator: type[NumberSequenceEnumerator], reader: type[NumberSequenceReader]) -> SourceConformance:
    @dataclass(frozen=True)
    class Broken(NumberSequenceSource):
        def create_enumerator(self) -> SplitEnumerator:
            return enumerator(self.start, self.end)

        def create_reader(self) -> SourceReader[int]:
            return reader()

    class Kit(SourceConformance):
        patience_seconds = 0.5

        def source(self, count: int) -> Source[Any]:
            return Broken(0, count - 1)

    return Kit()


@pytest.mark.parametrize(
    ("enumerator", "reader", "test"),
    [
        (_PlanMoves, NumberSequenceReader, "test_every_record_is_read_once"),
        (_ForgetsState, NumberSequenceReader, "test_a_source_continues_at_every_position"),
        (_ForgetsState, NumberSequenceReader, "test_failures_between_any_two_calls_lose_and_repeat_nothing"),
        (NumberSequenceEnumerator, _Drifting, "test_every_record_is_read_once"),
    ],
)
def test_the_kit_finds_a_broken_source(enumerator: Any, reader: Any, test: str):
    with pytest.raises(AssertionError):
        getattr(_broken_source(enumerator, reader), test)()


def test_committables_go_through_json():
    assert through_json((1, {"a": None})) == [1, {"a": None}]

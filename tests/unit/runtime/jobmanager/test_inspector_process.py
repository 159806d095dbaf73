"""A real inspector in a process of its own: it knows the job's classes, runs an epoch again, and touches nothing."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flott.common import Configuration, Types, WatermarkStrategy
from flott.common._ids import EpochId
from flott.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flott.datastream.state import ValueStateDescriptor
from flott.errors import ClusterError, ProgramError, StateError
from flott.runtime.checkpoint import paths
from flott.runtime.jobmanager.inspection.inspectors import InspectorProcess, Inspectors, decoded
from flott.runtime.jobmanager.inspection.preview import preview
from flott.runtime.jobmanager.inspection.questions import (
    FindKey,
    InspectionSubject,
    ListStates,
    PageRows,
    PreviewRecords,
)
from flott.runtime.jobmanager.processes.graph_pickle import pickle_graph
from flott.runtime.jobmanager.submission import JobSubmission
from flott.testing.sources import EndOfEpoch, ScriptedSource
from tests.unit.runtime.replay import recorded

JOB = "ab" * 16


@dataclass
class Visit:
    """A class of the program, which state holds pickled."""

    page: str
    count: int


class Visits(KeyedProcessFunction[Any, Any, Any]):
    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: tuple[str, str], ctx: Any) -> Iterator[tuple[str, int]]:
        user, page = value
        visit = Visit(page, (self.last.value().count if self.last.value() else 0) + 1)
        self.last.update(visit)
        yield user, visit.count


def visits(env: StreamExecutionEnvironment) -> None:
    script = [("ann", "<script>"), ("ann", "home"), EndOfEpoch(), ("bob", "home"), ("ann", "end"), EndOfEpoch()]
    source = env.from_source(ScriptedSource(script), WatermarkStrategy.no_watermarks(), "visits")
    source.key_by(lambda visit: visit[0], Types.STRING()).process(Visits()).uid("visits").print()


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> InspectionSubject:
    """A job that has run, with everything that a JobManager keeps of it."""
    folder = tmp_path_factory.mktemp("visits")
    kept = recorded.run(visits, folder)
    (folder / "files").mkdir()
    submission = JobSubmission(JOB, "visits", kept.configuration.to_dict(), pickle_graph(kept.graph))
    return InspectionSubject(
        JOB, str(kept.directory), kept.configuration.to_dict(), submission, folder / "files"
    )


def files_of(subject: InspectionSubject) -> dict[str, bytes]:
    folder = Path(subject.checkpoint_directory)
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_state_of_the_programs_classes_is_shown_and_the_epoch_is_run_again(subject: InspectionSubject) -> None:
    before = files_of(subject)
    pool = Inspectors()
    try:
        rows = pool.ask(subject, PageRows("visits", "last")).result(120)["rows"]
        shown = {row["key"]["json"]: row["value"] for row in rows}
        assert shown["ann"]["json"] == {"page": "end", "count": 3}
        assert shown["ann"]["type"] == "Visit"
        assert pool.ask(subject, FindKey("visits", "last", "bob")).result(120)["row"]["value"]["json"]["count"] == 1
        with pytest.raises(StateError, match="no operator"):
            pool.ask(subject, FindKey("nosuch", "last", "bob")).result(120)
        emitted = pool.ask(subject, PreviewRecords("visits", epoch=2)).result(240)
        assert (emitted["epoch"], emitted["count"], emitted["truncated"], emitted["failure"]) == (2, 2, False, None)
        assert sorted(record["value"]["json"] for record in emitted["records"]) == [["ann", 3], ["bob", 1]]
        received = pool.ask(subject, PreviewRecords("visits", "received", epoch=1, limit=1)).result(240)
        assert (received["count"], len(received["records"]), received["truncated"]) == (2, 1, True)
        assert received["records"][0]["value"]["json"] == ["ann", "<script>"]
        with pytest.raises(ProgramError, match="nosuch"):
            pool.ask(subject, PreviewRecords("nosuch")).result(240)
    finally:
        pool.close()
    assert files_of(subject) == before


def test_of_a_job_that_keeps_one_checkpoint_the_epoch_that_runs_is_shown(
    subject: InspectionSubject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / Path(subject.checkpoint_directory).name
    shutil.copytree(subject.checkpoint_directory, directory)
    shutil.rmtree(directory / paths.checkpoint(EpochId(2)))  # epoch 2 has not completed
    (directory / paths.epoch_input(EpochId(1))).unlink()
    later = EpochId(3)
    if (directory / paths.checkpoint(later)).exists():
        shutil.rmtree(directory / paths.checkpoint(later))
    assert subject.submission is not None
    graph, configuration = unpickle_graph_here(subject), Configuration.of(subject.configuration)
    shown = preview(PreviewRecords("visits"), str(directory), graph, configuration)
    assert (shown["epoch"], shown["complete"], shown["count"]) == (2, False, 2)
    (directory / paths.epoch_input(EpochId(2))).unlink()
    monkeypatch.setattr("flott.runtime.jobmanager.inspection.preview._ATTEMPTS", 1)
    shown = preview(PreviewRecords("visits"), str(directory), graph, configuration)
    assert (shown["epoch"], shown["recorded"]) == (2, False)  # read on from checkpoint 1
    assert sorted(record["value"]["json"] for record in shown["records"])[:2] == [["ann", 3], ["bob", 1]]


def unpickle_graph_here(subject: InspectionSubject) -> Any:
    """Return the graph, without replacing the main module of this process."""
    assert subject.submission is not None
    _, graph = pickle.loads(subject.submission.graph.partition(b"\n")[2])
    return graph


def test_without_its_program_a_job_is_not_run_again_but_its_states_are_listed(subject: InspectionSubject) -> None:
    bare = InspectionSubject(JOB, subject.checkpoint_directory)
    line = InspectorProcess(bare)
    try:
        assert decoded(line.ask(ListStates(), 120))["operators"]
        with pytest.raises(StateError, match="not kept any more"):
            decoded(line.ask(PreviewRecords("visits"), 120))
    finally:
        line.close()


class Deadly:
    """A class whose objects end the process that unpickles them."""

    def __reduce__(self) -> Any:
        import os

        return os._exit, (7,)


def deadly(env: StreamExecutionEnvironment) -> None:
    class Keeps(KeyedProcessFunction[Any, Any, Any]):
        def open(self, runtime_context: Any) -> None:
            self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            self.last.update(Deadly())
            yield value

    source = env.from_source(ScriptedSource(["x", EndOfEpoch()]), WatermarkStrategy.no_watermarks(), "source")
    source.key_by(lambda value: value, Types.STRING()).process(Keeps()).uid("keeps").print()


def test_state_that_ends_its_reader_does_not_end_the_jobmanager(tmp_path: Path) -> None:
    kept = recorded.run(deadly, tmp_path)
    pool = Inspectors()
    try:
        with pytest.raises(ClusterError, match="has ended"):
            pool.ask(InspectionSubject(JOB, str(kept.directory)), PageRows("keeps", "last")).result(120)
    finally:
        pool.close()

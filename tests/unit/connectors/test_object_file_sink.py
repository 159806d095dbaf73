"""The file sink in an object store: crashes between any two requests, and a committer that was deposed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from flott.common import Encoder
from flott.datastream.connectors.base import CommitPermit, Json, WriterContext
from flott.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from flott.errors import LeadershipLostError, StateError
from flott.runtime.connectors.files.object_committer import ObjectFileCommitter
from flott.runtime.storage import object_client, object_head
from flott.testing.sinks import commit_permit
from tests.unit.runtime.storage.memory_objects import MemoryObjects

BASE = "s3://bucket/out"
SECOND = 1000


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> MemoryObjects:
    store = MemoryObjects()
    monkeypatch.setattr(object_client, "client_of", lambda location, settings: store)
    monkeypatch.setattr(object_head, "RETRY_DELAYS", ())
    return store


class Killed(BaseException):
    """The driver dies."""


def sink_of(part_size: int | None = None, encoder: Encoder | None = None) -> FileSink:
    policy = (
        RollingPolicy.on_checkpoint_rolling_policy()
        if part_size is None
        else RollingPolicy.default_rolling_policy(part_size=part_size)
    )
    builder = FileSink.for_row_format(BASE, encoder or Encoder.simple_string_encoder())
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    return builder.with_rolling_policy(policy).build()


def staged(sink: FileSink, epoch: int, *values: str, attempt: str = "a", job: str = "job") -> list[Json]:
    """Write records of an epoch, as a task does."""
    writer = sink.create_writer(WriterContext(0, 2, epoch, f"{attempt}-{epoch}", job, "sink", epoch * SECOND))
    writer.write(list(values), None)
    committables = writer.prepare_commit()
    writer.close()
    return list(committables)


def committer_of(sink: FileSink, job: str = "job") -> ObjectFileCommitter:
    committer = ObjectFileCommitter(sink)
    committer.open(job, "sink")
    return committer


def permit(epoch: int, *, replay: bool = False, final: bool = False, leader: int = 0) -> CommitPermit:
    return commit_permit(epoch, epoch * SECOND, replay=replay, final=final, leader=leader)


def visible(objects: MemoryObjects) -> Counter[str]:
    """What a reader reads."""
    found: Counter[str] = Counter()
    for key, (data, _) in objects.objects.items():
        if not any(part.startswith((".", "_")) for part in key.split("/")):
            found.update(data.decode().split())
    return found


def hidden(objects: MemoryObjects) -> list[str]:
    return [key for key in objects.objects if "/." in key and not key.endswith("head")]


def test_output_is_visible_when_it_is_committed_and_the_staged_objects_go(objects: MemoryObjects) -> None:
    sink = sink_of()
    committer = committer_of(sink)
    first = staged(sink, 1, "a", "b")
    assert not visible(objects)
    committer.commit(permit(1), first)
    assert visible(objects) == Counter("ab")
    assert hidden(objects) == []
    committer.commit(permit(1, replay=True), first)
    committer_of(sink).commit(permit(1, replay=True), first)
    assert visible(objects) == Counter("ab")


def test_epochs_are_collected_until_the_rolling_policy_says_so(objects: MemoryObjects) -> None:
    class WithHeader(Encoder):
        header = b"header\n"

        def encode(self, value: Any) -> bytes:
            return f"{value}\n".encode()

    sink = sink_of(part_size=6, encoder=WithHeader())
    committer = committer_of(sink)
    for epoch, value in enumerate("abcdefg", 1):
        committer.commit(permit(epoch), staged(sink, epoch, value))
    committer.commit(permit(8, final=True), [])
    assert visible(objects) == Counter(["header"] * 3) + Counter("abcdefg")
    assert hidden(objects) == []


def test_what_attempts_that_do_not_count_staged_is_discarded_and_nothing_else(objects: MemoryObjects) -> None:
    sink = sink_of(part_size=1000)
    committer = committer_of(sink)
    committer.commit(permit(1), staged(sink, 1, "pending"))
    staged(sink, 2, "of the attempt that counts", attempt="live")
    staged(sink, 2, "in vain", attempt="dead")
    committer.discard(frozenset({"live-2"}))
    assert len(hidden(objects)) == 2
    assert not any("dead" in key for key in hidden(objects))


def test_a_job_that_was_set_back_is_noticed(objects: MemoryObjects) -> None:
    sink = sink_of()
    committer = committer_of(sink)
    committer.commit(permit(1), staged(sink, 1, "a"))
    committer.commit(permit(2), staged(sink, 2, "b"))
    with pytest.raises(StateError, match="set back"):
        committer.commit(permit(1), staged(sink, 1, "again", attempt="other"))


def test_output_that_was_deleted_is_noticed(objects: MemoryObjects) -> None:
    sink = sink_of()
    lost = staged(sink, 1, "a")
    for key in hidden(objects):
        del objects.objects[key]
    with pytest.raises(StateError, match="neither staged nor published"):
        committer_of(sink).commit(permit(1), lost)


def test_what_a_stopped_job_left_pending_is_published_after_a_while(objects: MemoryObjects) -> None:
    sink = sink_of(part_size=1000)
    stopped = committer_of(sink)
    stopped.commit(permit(1), staged(sink, 1, "left"))
    stopped.close()
    committer_of(sink, "next").commit(permit(2, replay=True), staged(sink, 2, "own", job="next"))
    assert not visible(objects)
    committer_of(sink, "next").commit(permit(10_000, final=True), [])
    assert visible(objects) == Counter(["left", "own"])


# --- crashes ----------------------------------------------------------------------------------------------------------


def course(objects: MemoryObjects, part_size: int | None, crash: Callable[[], None]) -> int:
    """Three epochs, with a driver that dies and is replaced; how many requests the commits made."""
    sink = sink_of(part_size)
    committer = committer_of(sink)
    committables = {epoch: staged(sink, epoch, f"x{epoch}", f"y{epoch}") for epoch in (1, 2, 3)}
    objects.requests.clear()
    crash()
    for epoch in (1, 2, 3):
        final = epoch == 3
        try:
            committer.commit(permit(epoch, final=final), committables[epoch])
        except Killed:
            objects.before = objects.after = lambda verb, key: None
            committer = committer_of(sink)
            committer.commit(permit(epoch, replay=True, final=final), committables[epoch])
    objects.before = objects.after = lambda verb, key: None
    return len(objects.requests)


@pytest.mark.parametrize("part_size", [None, 10, 1000])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_driver_that_dies_at_any_request_publishes_everything_once(
    objects: MemoryObjects, part_size: int | None, moment: str
) -> None:
    total = course(objects, part_size, lambda: None)
    expected = visible(objects)
    assert expected == Counter(f"{name}{epoch}" for name in "xy" for epoch in (1, 2, 3))
    for last in range(1, total + 1):
        objects.objects.clear()
        left = [last]

        def die(verb: str, key: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise Killed

        course(objects, part_size, lambda: setattr(objects, moment, die))
        assert visible(objects) == expected, f"killed {moment} request {last}"
        assert hidden(objects) == [], f"killed {moment} request {last}"


@pytest.mark.parametrize("part_size", [None, 10, 1000])
def test_a_committer_that_was_deposed_at_any_request_does_no_harm(
    objects: MemoryObjects, part_size: int | None
) -> None:
    sink = sink_of(part_size)
    for last in range(1, 60):
        objects.objects.clear()
        deposed, successor = committer_of(sink), committer_of(sink)
        first, second = staged(sink, 1, "a"), staged(sink, 2, "b")
        left = [last]

        def take_over(verb: str, key: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                successor.commit(permit(1, replay=True, leader=3), first)  # noqa: B023
                successor.commit(permit(2, final=True, leader=3), second)  # noqa: B023

        objects.before = take_over
        with suppress(LeadershipLostError):
            deposed.commit(permit(1, leader=2), first)
        objects.before = lambda verb, key: None
        if left[0] > 0:
            return  # it was done before
        assert visible(objects) == Counter("ab"), f"deposed at request {last}"
    raise AssertionError("a commit has fewer requests")

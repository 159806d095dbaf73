"""The pipe between a JobManager and a job: what comes out on the JobManager's side needs no module of the user's."""

from __future__ import annotations

import enum
import multiprocessing
import numbers
import pickle
import pickletools
from decimal import Decimal
from pathlib import Path

import pytest

from flott.common.job_status import JobStatus
from flott.errors import ClusterError, FlottError, SavepointError, TypeMismatchError, UserCodeError
from flott.runtime.jobmanager.processes.channel import Assignment, Line, Reply, Viewed, _plain_pickle
from flott.runtime.jobmanager.submission import JobSubmission
from flott.runtime.jobmanager.views.job_view import JobView


class Colour(enum.IntEnum):
    RED = 3


class Share(float):
    pass


@numbers.Integral.register
class Count:
    """As numpy has them."""

    def __int__(self) -> int:
        return 7


class Strange:
    def __str__(self) -> str:
        return "strange"


class OwnError(FlottError):
    def __init__(self, first: int, second: int):
        super().__init__(f"{first} {second}")


def view(**metrics: object) -> JobView:
    return JobView("ab" * 16, "job", JobStatus.RUNNING, 1, metrics=metrics)


@pytest.mark.parametrize(
    ("value", "arrives"),
    [(Colour.RED, 3), (Share(0.5), 0.5), (Count(), 7), (Strange(), "strange"),
     (Decimal("1.5"), Decimal("1.5"))],
)  # fmt: skip
def test_objects_of_foreign_classes_arrive_as_numbers_and_texts(value, arrives):
    data = _plain_pickle(Viewed(view(gauge=value)))
    assert pickle.loads(data) == Viewed(view(gauge=arrives))
    assert type(pickle.loads(data).view.metrics["gauge"]) is type(arrives)
    texts = [str(argument) for _, argument, _ in pickletools.genops(data)]
    assert not [text for text in texts if text.startswith("tests")]


def test_what_flott_itself_says_arrives_as_it_is():
    submission = JobSubmission("ab" * 16, "job", {"a": "b"}, bytes(range(256)))
    assignment = Assignment(submission, {"a": "b"}, Path("/files"), Path("/logs"), 3, None)
    assert pickle.loads(_plain_pickle(assignment)) == assignment


@pytest.mark.parametrize(
    "error",
    [SavepointError("no room"), UserCodeError("card"), TypeMismatchError("no int", 3), OwnError(1, 2), OSError(5)],
)
def test_every_failure_of_an_order_arrives(error):
    reply = pickle.loads(_plain_pickle(Reply.failed(4, error)))
    assert isinstance(reply.failure, FlottError)
    assert str(error) in str(reply.failure)
    if type(error).__module__ != "flott.errors":
        assert type(reply.failure) is ClusterError


def test_a_line_that_is_broken_says_so_at_both_ends():
    ours, theirs = map(Line, multiprocessing.Pipe())
    assert theirs.send(Reply(1))
    assert ours.has_news(1.0)
    assert ours.receive() == Reply(1)
    assert not ours.has_news(0.0)
    theirs.close()
    assert ours.has_news(0.0)
    with pytest.raises(EOFError):
        ours.receive()
    assert not ours.send(Reply(2))
    ours.close()
    with pytest.raises(EOFError):
        ours.receive()
    assert ours.has_news(0.0)

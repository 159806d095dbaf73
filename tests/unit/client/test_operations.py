"""Orders that take their time: how long they are waited for, and what is raised if they fail."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from flott import errors
from flott.client.operations import await_operation
from flott.errors import ClusterError, EpochFailure, FlottError

KINDS = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, FlottError)),
    key=lambda kind: kind.__name__,
)


class Answering:
    """Says these things, one after the other, and the last one for ever."""

    def __init__(self, *answers: dict[str, Any]):
        self._answers = list(answers)

    def get(self, path: str, **query: Any) -> Any:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


class CountingClock:
    """Remembers how long somebody waited."""

    def __init__(self) -> None:
        self.waits: list[int] = []

    def now_ms(self) -> int:
        return sum(self.waits)

    def monotonic(self) -> float:
        return sum(self.waits) / 1000

    def wait(self, stop: threading.Event, delay_ms: int) -> bool:
        self.waits.append(delay_ms)
        return False


def failed(name: str, text: str) -> Answering:
    cause = {"class": name, "stack-trace": text}
    return Answering({"status": {"id": "COMPLETED"}, "operation": {"failure-cause": cause}})


def test_it_is_asked_until_there_is_an_outcome_with_pauses_that_grow_up_to_a_second() -> None:
    clock = CountingClock()
    progress = [{"status": {"id": "IN_PROGRESS"}}] * 30
    done = {"status": {"id": "COMPLETED"}, "operation": {"location": "/s"}}
    assert await_operation(Answering(*progress, done), "/x", clock) == {"location": "/s"}
    assert len(clock.waits) == 30
    assert clock.waits == sorted(clock.waits)
    assert (clock.waits[0] < 100, clock.waits[-1]) == (True, 1000)


def test_an_order_without_an_outcome_has_an_empty_one() -> None:
    assert await_operation(Answering({"status": {"id": "COMPLETED"}}), "/x") == {}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_failure_is_raised_as_the_error_it_was(kind: type[FlottError]) -> None:
    name = f"flott.errors.{kind.__name__}"
    with pytest.raises(FlottError) as caught:
        await_operation(failed(name, f"{name}: It went wrong.\n"), "/x")
    assert type(caught.value) is kind
    assert str(caught.value) == "It went wrong."


@pytest.mark.parametrize("name", ["java.io.IOException", "FlottErr", "flott.errors.annotations", ""])
def test_a_failure_nobody_knows_is_the_clusters(name: str) -> None:
    with pytest.raises(ClusterError, match="It went wrong"):
        await_operation(failed(name, "It went wrong."), "/x")


def test_a_checkpoint_that_failed_is_raised_though_flink_spells_it_otherwise() -> None:
    cause = {"class": "flott.errors.EpochFailure", "stack-trace": "It went wrong."}
    with pytest.raises(EpochFailure, match="It went wrong"):
        await_operation(Answering({"status": {"id": "COMPLETED"}, "operation": {"failureCause": cause}}), "/x")

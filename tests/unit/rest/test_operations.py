"""Outcomes are kept for a while, and not more of them than memory allows."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from flott.rest import operations as module
from flott.rest.operations import Operations
from flott.rest.refusal import Refusal
from flott.runtime.clock import SystemClock


class Hand(SystemClock):
    """A clock that is set by hand."""

    now = 0

    def now_ms(self) -> int:
        return self.now


def done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def test_an_outcome_is_forgotten_when_its_time_is_over_and_not_before() -> None:
    clock = Hand()
    operations = Operations(clock, kept_ms=300_000)
    waiting: Future[int] = Future()
    first, second = operations.trigger("x", lambda: done(1)), operations.trigger("x", lambda: waiting)
    clock.now = 300_000
    assert operations.outcome("x", first).value == 1
    clock.now = 300_001
    with pytest.raises(Refusal):
        operations.outcome("x", first)
    assert not operations.outcome("x", second).ended  # in progress: kept however long it takes
    waiting.set_result(2)
    clock.now = 600_001
    assert operations.outcome("x", second).value == 2


def test_the_number_of_outcomes_is_bounded_and_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 10)
    operations = Operations(Hand(), kept_ms=300_000)
    idents = [operations.trigger("x", lambda: done(None)) for _ in range(50)]
    assert len(operations) == 10
    assert [operations.outcome("x", ident).ended for ident in idents[-10:]] == [True] * 10
    with pytest.raises(Refusal):
        operations.outcome("x", idents[0])


def test_operations_in_progress_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_IN_PROGRESS", 3)
    operations = Operations(Hand(), kept_ms=300_000)
    for _ in range(3):
        operations.trigger("x", Future)
    with pytest.raises(Refusal) as refused:
        operations.trigger("x", Future)
    assert refused.value.status == 503


def test_a_cancelled_operation_has_failed() -> None:
    operations = Operations(Hand(), kept_ms=300_000)
    future: Future[Any] = Future()
    ident = operations.trigger("x", lambda: future)
    future.cancel()
    reply = operations.outcome("x", ident).reply(lambda value: {})
    assert reply["operation"]["failure-cause"]["stack-trace"] == "builtins.RuntimeError: The operation was cancelled."


def test_a_failure_of_any_length_is_cut() -> None:
    cause = module.cause_of(ValueError("x" * 10_000_000))
    assert len(cause["stack-trace"]) == module.MAX_FAILURE
    assert len(cause["serialized-throwable"]) < 400_000

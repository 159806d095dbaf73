"""The thread of a statement, and the job that it waits for."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from flott.common.job_client import JobClient
from flott.rest.gateway.operation import Executed, StatementOperation


class Job:
    """A job that runs until it is cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def cancel(self) -> None:
        self.cancelled.set()

    def get_job_execution_result(self) -> Job:
        return self

    def result(self) -> None:
        assert self.cancelled.wait(120)
        raise InterruptedError("cancelled")


@pytest.mark.parametrize("starts_before", [True, False], ids=["while it runs", "before it is known"])
@pytest.mark.parametrize("orders", [["cancel"], ["close"], ["cancel", "close"]], ids="+".join)
def test_a_statement_that_ends_takes_the_job_with_it_that_it_waits_for(orders: list[str], starts_before: bool) -> None:
    job, submitted, go_on = Job(), threading.Event(), threading.Event()
    if starts_before:
        go_on.set()

    def execute(operation: StatementOperation) -> Executed:
        submitted.set()
        assert go_on.wait(120)
        operation.await_job(cast(JobClient, job))
        raise AssertionError("not reached")

    operation = StatementOperation(execute, lambda: None, lambda: None)
    operation.start()
    assert submitted.wait(120)
    for order in orders:
        cast(Any, getattr(operation, order))()
    go_on.set()
    operation.join(120)
    assert not operation.is_active
    assert job.cancelled.is_set()

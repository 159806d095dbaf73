"""What a program sees of its job: id, status, result, futures."""

from __future__ import annotations

import pickle
from concurrent.futures import InvalidStateError

import pytest

from flott.common.completable_future import CompletableFuture
from flott.common.job_client import JobClient
from flott.common.job_execution_result import JobExecutionResult
from flott.common.job_id import JobID
from flott.common.job_status import JobStatus
from flott.errors import ConfigurationError


def test_a_job_id_is_32_hexadecimal_digits():
    job_id = JobID.from_bytes(bytes(range(16)))
    assert str(job_id) == "000102030405060708090a0b0c0d0e0f"
    assert JobID(str(job_id)) == job_id
    with pytest.raises(ConfigurationError):
        JobID("nonsense")


def test_terminal_states_are_flinks():
    assert {status.name for status in JobStatus if status.is_globally_terminal_state()} == {
        "FAILED", "CANCELED", "FINISHED",
    }  # fmt: skip
    assert {status.name for status in JobStatus if status.is_terminal_state()} == {
        "FAILED", "CANCELED", "FINISHED", "SUSPENDED",
    }  # fmt: skip


def test_a_result_gives_its_accumulators_and_prints():
    result = JobExecutionResult(JobID.from_bytes(bytes(16)), 1234, {"records": 3})
    assert result.get_net_runtime() == 1234
    assert result.get_accumulator_result("records") == 3
    assert result.get_accumulator_result("other") is None
    assert "Job Runtime: 1234 ms" in str(result)
    assert "- records: 3" in str(result)
    assert pickle.loads(pickle.dumps(result)) == result


def test_a_future_is_completed_once():
    future: CompletableFuture[int] = CompletableFuture()
    assert not future.done()
    assert future.exception() is None
    with pytest.raises(TimeoutError):
        future.result(timeout=0)
    future.set_result(3)
    assert (future.done(), future.result(), future.exception()) == (True, 3, None)
    with pytest.raises(InvalidStateError):
        future.set_result(4)


def test_a_future_can_fail_and_be_cancelled():
    failed: CompletableFuture[int] = CompletableFuture.failed(ValueError("x"))
    assert isinstance(failed.exception(), ValueError)
    with pytest.raises(ValueError, match="x"):
        failed.result()
    waiting: CompletableFuture[int] = CompletableFuture()
    assert waiting.cancel()
    assert waiting.cancelled()
    assert waiting.exception() is None
    assert "cancelled" in str(waiting)
    assert "failed" in str(failed)


def test_a_job_client_is_an_interface():
    with pytest.raises(TypeError):
        JobClient()  # type: ignore[abstract]

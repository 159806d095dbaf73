"""Which job somebody means."""

from __future__ import annotations

from typing import Any

import pytest

from flott.cli.jobs import choose_job
from flott.errors import JobNotFoundError


def job(jid: str, name: str = "demo", state: str = "RUNNING") -> dict[str, Any]:
    return {"jid": jid, "name": name, "state": state}


def test_the_beginning_of_an_id_is_enough_if_it_is_the_only_one() -> None:
    assert choose_job([job("abc1"), job("abd2")], "ABC") == "abc1"


def test_a_job_may_be_meant_by_its_name() -> None:
    assert choose_job([job("abc1", "orders"), job("abd2", "clicks")], "clicks") == "abd2"


def test_of_several_the_one_that_runs_is_meant() -> None:
    assert choose_job([job("a1", state="FINISHED"), job("a2"), job("a3", state="FAILED")], "demo") == "a2"


def test_several_that_run_are_too_many_and_none_is_too_few() -> None:
    with pytest.raises(JobNotFoundError, match="may be any of 2 jobs: a1"):
        choose_job([job("a1"), job("a2")], "a")
    with pytest.raises(JobNotFoundError, match="may be any of 2 jobs"):
        choose_job([job("a1", state="FAILED"), job("a2", state="FINISHED")], "a")
    with pytest.raises(JobNotFoundError, match="No job has the id or the name 'b'"):
        choose_job([job("a1")], "b")

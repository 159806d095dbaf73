"""The file that says how a job ended: whatever is written is read, also by a version that knows other fields."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common._late_records import LateSample, LedgerEntry
from flott.common.job_status import JobStatus
from flott.runtime.jobmanager.ended_job_file import (
    VERSION,
    decode_end,
    decode_former_end,
    decode_ledger,
    encode_end,
    encode_ledger,
)
from flott.runtime.jobmanager.views.job_view import FailureView, JobResultView, JobView
from tests.unit.rest.fake_cluster import FAILED, FINISHED, RUNNING, FakeCluster

numbers = st.integers() | st.floats(allow_nan=False)
texts = st.text(max_size=20)
counts = st.integers(0, 2**63)
failures = st.builds(FailureView, texts, texts, counts, st.none() | texts, st.none() | texts, st.none() | texts)
results = st.builds(
    JobResultView, texts, st.sampled_from(JobStatus), counts, st.dictionaries(texts, st.binary()), st.none() | failures,
    st.binary(), st.dictionaries(texts, numbers),
)  # fmt: skip
views = st.builds(
    JobView, texts, texts, st.sampled_from(JobStatus), counts, failures=st.tuples(failures),
    timestamps=st.dictionaries(st.sampled_from(JobStatus), counts), metrics=st.dictionaries(texts, numbers),
    accumulators=st.dictionaries(texts, st.tuples(texts, texts)), configuration=st.dictionaries(texts, texts),
)  # fmt: skip
samples = st.builds(LateSample, texts, counts, counts)
ledgers = st.lists(
    st.builds(LedgerEntry, texts, counts, counts, counts, st.lists(samples, max_size=2).map(tuple)),
    max_size=3,
).map(tuple)  # fmt: skip


@given(views, results)
def test_what_is_written_is_read(view: JobView, result: JobResultView) -> None:
    assert decode_end(encode_end(view, result)) == (view, result)


@pytest.mark.parametrize("job_id", [RUNNING, FINISHED, FAILED])
def test_a_view_with_everything_in_it_is_read_as_it_was(tmp_path: Any, job_id: str) -> None:
    view = FakeCluster(tmp_path).job(job_id)
    assert view.vertices[0].subtasks
    assert view.checkpoints.history
    result = JobResultView(job_id, view.status, 5)
    assert decode_end(encode_end(view, result)) == (view, result)


def test_the_file_names_none_of_our_classes_or_modules(tmp_path: Any) -> None:
    view = FakeCluster(tmp_path).job(FAILED)
    data = encode_end(replace(view, failures=(), configuration={}), JobResultView(FAILED, view.status, 5))
    assert b"flott." not in data
    assert b"View" not in data


def test_numbers_that_are_not_jsons_are_read_back() -> None:
    result = JobResultView("a", JobStatus.FINISHED, 1, metrics={"inf": math.inf, "true": True})
    view = JobView("a", "b", JobStatus.FINISHED, 1)
    assert decode_end(encode_end(view, result))[1].metrics == {"inf": math.inf, "true": True}


def test_fields_of_a_later_version_are_left_out_and_missing_ones_have_their_defaults() -> None:
    view, result = JobView("a", "b", JobStatus.FINISHED, 1, restarts=3), JobResultView("a", JobStatus.FINISHED, 1)
    document = json.loads(encode_end(view, result))
    document["view"]["mood"] = "good"
    del document["view"]["restarts"]
    assert decode_end(json.dumps(document).encode()) == (replace(view, restarts=0), result)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"version": 2}', b'{"version": 1, "view": {}}', b"\x80\x05K\x01."]
)
def test_a_file_that_cannot_be_read_is_refused(data: bytes) -> None:
    with pytest.raises((ValueError, LookupError, TypeError)):
        decode_end(data)
    with pytest.raises((ValueError, EOFError, TypeError, pickle.UnpicklingError)):
        decode_former_end(data)


@given(ledgers)
def test_a_ledger_is_read_as_it_was_written_now_and_by_an_earlier_version(entries: tuple[LedgerEntry, ...]) -> None:
    assert decode_ledger(encode_ledger(entries)) == entries
    assert decode_ledger(pickle.dumps(entries, protocol=5)) == entries


def test_a_job_without_a_ledger_has_an_empty_one() -> None:
    assert decode_ledger(b"") == ()


def test_every_field_of_a_view_has_a_type_that_the_file_can_hold() -> None:
    """A new field of another type would be written in a form that is not read back: extend ``_plain`` and ``_made``."""
    held = ("str", "int", "float", "bool", "bytes", "Mapping", "tuple", "View", "JobStatus", "TaskState", "None")
    held += ("Traffic", "Spread", "CheckpointTask", "JobId", "EpochId", "SubtaskIndex", "LedgerEntry")
    for kind in (JobView, JobResultView):
        for field in dataclasses.fields(kind):
            names = str(field.type).replace("[", " ").replace("]", " ").replace(",", " ").replace("|", " ").split()
            assert all(any(name.endswith(known) for known in (*held, "...")) for name in names), field
    assert VERSION == 1

"""Saving the state of a subtask and reporting its operators. Task side.

Saving is a step of its own: it needs a subtask whose operators are between two batches, and changes nothing that the
next batch would see. Epochs call it when event time has advanced.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flott.graph.job_graph import ChainedOperator
from flott.graph.operator_ids import OperatorId
from flott.runtime.epoch.accumulators import encode_accumulators
from flott.runtime.epoch.report import OperatorReport
from flott.runtime.epoch.subtask import OperatorSlot, Subtask
from flott.runtime.epoch.wire import encode_batch
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.managed_state.operator.operator_shares import OperatorStateFile
from flott.runtime.operators.batch import RowBatch
from flott.runtime.operators.operator import RecordFailure
from flott.runtime.operators.outcome import OperatorOutcome
from flott.runtime.storage import Storage


def save_subtask(subtask: Subtask, attempt_id: str) -> dict[OperatorId, OperatorReport]:
    """Make the changes of a subtask durable, and report all its operators."""
    reports = {}
    for slot in subtask.slots:
        name = f"state/{slot.described.id[:16]}-{subtask.index}-{subtask.scope.epoch}-{attempt_id}"
        reports[slot.described.id] = _save_operator(slot, subtask.image.storage, name)
    return reports


def _save_operator(slot: OperatorSlot, storage: Storage, name: str) -> OperatorReport:
    slot.operator.records_in = slot.counts.records_in
    slot.operator.snapshot()
    outcome = slot.operator.outcome()
    results = _encode_results(slot.described, outcome)
    sequence = _save_keyed_state(slot, storage, name)
    operator_state = _save_operator_state(slot, storage, f"{name}-operator")
    sizes = {file.name: file.size for file in sequence or ()}
    if operator_state is not None:
        sizes[operator_state.name] = operator_state.size
    return OperatorReport(
        watermark=slot.operator.watermark,
        watermark_in=slot.time_in.watermark,
        watermark_out=slot.time_out.watermark,
        sequence=sequence,
        operator_state=operator_state,
        written_bytes=sum(size for file, size in sizes.items() if file.startswith(name)),
        state_entries=(slot.keyed_state.entry_count() if slot.keyed_state else 0) + slot.operator_state.size(),
        progress=outcome.progress,
        splits=dict(outcome.splits),
        committables=outcome.committables,
        results=results,
        records_in=slot.counts.records_in,
        records_out=slot.counts.records_out,
        next_event_time_ms=outcome.next_event_time_ms,
        late=outcome.late,
        metrics=dict(outcome.metrics),
        accumulators=_encode_accumulators(slot.described, outcome),
    )


def _save_keyed_state(slot: OperatorSlot, storage: Storage, name: str) -> FileSequence | None:
    if slot.keyed_state is None:
        return None
    with _failing_as(slot.described, "saving its keyed state"):
        return slot.keyed_state.save(slot.files, storage, name)


def _save_operator_state(slot: OperatorSlot, storage: Storage, name: str) -> OperatorStateFile | None:
    with _failing_as(slot.described, "saving its operator state"):
        return slot.operator_state.save(storage, name)


def _encode_results(operator: ChainedOperator, outcome: OperatorOutcome) -> bytes | None:
    with _failing_as(operator, "sending results to the driver"):
        return encode_batch(RowBatch(outcome.results)) if outcome.results else None


def _encode_accumulators(operator: ChainedOperator, outcome: OperatorOutcome) -> bytes | None:
    with _failing_as(operator, "sending its accumulators to the driver"):
        return encode_accumulators(outcome.accumulators) if outcome.accumulators else None


@contextmanager
def _failing_as(operator: ChainedOperator, activity: str) -> Iterator[None]:
    """Attribute every failure inside to an operator."""
    try:
        yield
    except Exception as error:
        raise RecordFailure(operator, activity) from error

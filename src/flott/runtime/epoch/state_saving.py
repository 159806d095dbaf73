"""Saving the state of a subtask and reporting its operators. Task side.

Saving is a step of its own: it needs a subtask whose operators are between two batches, and changes nothing that the
next batch would see. Epochs call it when event time has advanced.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flott.graph.job_graph import ChainedOperator
from flott.graph.operator_ids import OperatorId
from flott.metrics import _engine_metrics as table
from flott.runtime.checkpoint import paths
from flott.runtime.epoch.accumulators import encode_accumulators
from flott.runtime.epoch.report import OperatorReport
from flott.runtime.epoch.subtask import OperatorSlot, Subtask
from flott.runtime.epoch.wire import encode_batch
from flott.runtime.managed_state.files.file_sequence import FileSequence, StateFile
from flott.runtime.managed_state.operator.operator_shares import OperatorStateFile
from flott.runtime.operators.batch import RowBatch
from flott.runtime.operators.operator import RecordFailure
from flott.runtime.operators.outcome import OperatorOutcome
from flott.runtime.storage import Storage


def save_subtask(
    subtask: Subtask, attempt_id: str, storage: Storage | None = None
) -> dict[OperatorId, OperatorReport]:
    """Write the changes of a subtask to the job's storage, or to another, and report all its operators."""
    storage = storage or subtask.image.storage
    reports = {}
    for slot in subtask.slots:
        name = paths.state_file(slot.described.id, subtask.index, subtask.scope.epoch, attempt_id)
        reports[slot.described.id] = _save_operator(slot, storage, name)
    return reports


def _save_operator(slot: OperatorSlot, storage: Storage, name: str) -> OperatorReport:
    slot.operator.records_in = slot.counts.records_in
    slot.operator.snapshot()
    outcome = slot.operator.outcome()
    results = _encode_results(slot.described, outcome)
    sequence = _save_keyed_state(slot, storage, name)
    operator_state = _save_operator_state(slot, storage, f"{name}-operator")
    files: list[StateFile | OperatorStateFile] = [*(sequence or ())]
    if operator_state is not None:
        files.append(operator_state)
    written_bytes = sum(file.size for file in files if file.name.startswith(name))
    slot.operator.measure(table.STATE_BYTES_WRITTEN, written_bytes)
    return OperatorReport(
        watermark=slot.operator.watermark,
        sequence=sequence,
        operator_state=operator_state,
        written_bytes=written_bytes,
        progress=outcome.progress,
        splits=dict(outcome.splits),
        committables=outcome.committables,
        results=results,
        records_in=slot.counts.records_in,
        records_out=slot.counts.records_out,
        next_event_time_ms=outcome.next_event_time_ms,
        late=outcome.late,
        measures=_measures(slot, outcome, sum(file.size for file in files)),
        metrics=dict(outcome.metrics),
        accumulators=_encode_accumulators(slot.described, outcome),
    )


def _measures(slot: OperatorSlot, outcome: OperatorOutcome, state_bytes: int) -> dict[str, int | float]:
    """Return the values of the engine's metrics: those that every operator has, and those that it measured itself."""
    late, dropped = outcome.late.late, outcome.late.dropped
    keyed_entries = slot.keyed_state.entry_count() if slot.keyed_state is not None else 0
    return {
        table.RECORDS_IN.name: slot.counts.records_in + sum(split.records for split in outcome.splits.values()),
        table.RECORDS_OUT.name: slot.counts.records_out,
        table.LATE_RECORDS_DROPPED.name: dropped,
        table.LATE_RECORDS.name: late + dropped,
        table.WATERMARK_IN.name: slot.time_in.watermark,
        table.WATERMARK_OUT.name: slot.time_out.watermark,
        table.STATE_BYTES.name: state_bytes,
        table.STATE_ENTRIES.name: keyed_entries + slot.operator_state.size(),
        **slot.operator.measures,
    }


def _save_keyed_state(slot: OperatorSlot, storage: Storage, name: str) -> FileSequence | None:
    if slot.keyed_state is None:
        return None
    with _failing_as(slot.described, "saving its keyed state"):
        slot.files = slot.keyed_state.save(slot.files, storage, name)
    return slot.files


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

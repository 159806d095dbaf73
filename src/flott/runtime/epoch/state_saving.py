"""Saving the state of a subtask and reporting its operators. Task side.

Saving is a step of its own: it needs a subtask whose operators are between two batches, and changes nothing that the
next batch would see. Epochs call it when event time has advanced. A continuous task takes only the first step of it
before it processes the next batch, and the others in between.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace

from flott.common._stepwise import Stepwise
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

SAVING_KEYED = "saving its keyed state"


def save_subtask(subtask: Subtask, attempt_id: str) -> dict[OperatorId, OperatorReport]:
    """Write the changes of a subtask and report all its operators."""
    storage = subtask.image.storage
    reports = {}
    for slot in subtask.slots:
        name = _file_of(slot, subtask, attempt_id)
        report, files = _report(slot), slot.files
        if slot.keyed_state is not None:
            with _failing_as(slot.described, SAVING_KEYED):
                files = slot.keyed_state.save(files, storage, name)
        reports[slot.described.id] = _with_files(slot, report, files, _save_operator_state(slot, storage, name), name)
    return reports


def saving_subtask(
    subtask: Subtask, attempt_id: str, storage: Storage
) -> Generator[None, None, dict[OperatorId, OperatorReport]]:
    """Do the same in small steps, and to another storage. In the first one everything is taken aside that is saved."""
    begun = []
    for slot in subtask.slots:
        name = _file_of(slot, subtask, attempt_id)
        report, steps = _report(slot), None
        if slot.keyed_state is not None:
            with _failing_as(slot.described, SAVING_KEYED):
                steps = Stepwise(slot.keyed_state.saving(storage, name))
        begun.append((slot, report, steps, _save_operator_state(slot, storage, name), name))
    reports = {}
    for slot, report, steps, operator_state, name in begun:
        files = slot.files
        if steps is not None:
            while not steps.is_done:
                yield
                with _failing_as(slot.described, SAVING_KEYED):
                    steps.step()
            # What was there before may have been compacted meanwhile.
            files = slot.files if (file := steps.finish()) is None else (*slot.files, file)
        reports[slot.described.id] = _with_files(slot, report, files, operator_state, name)
    return reports


def _file_of(slot: OperatorSlot, subtask: Subtask, attempt_id: str) -> str:
    return paths.state_file(slot.described.id, subtask.index, subtask.scope.epoch, attempt_id)


def _report(slot: OperatorSlot) -> OperatorReport:
    """Return all of an operator's report but its files."""
    slot.operator.records_in = slot.counts.records_in
    slot.operator.snapshot()
    outcome = slot.operator.outcome()
    return OperatorReport(
        watermark=slot.operator.watermark,
        progress=outcome.progress,
        splits=dict(outcome.splits),
        committables=outcome.committables,
        results=_encode_results(slot.described, outcome),
        records_in=slot.counts.records_in,
        records_out=slot.counts.records_out,
        next_event_time_ms=outcome.next_event_time_ms,
        late=outcome.late,
        measures=_measures(slot, outcome),
        metrics=dict(outcome.metrics),
        accumulators=_encode_accumulators(slot.described, outcome),
    )


def _with_files(
    slot: OperatorSlot,
    report: OperatorReport,
    sequence: FileSequence,
    operator_state: OperatorStateFile | None,
    name: str,
) -> OperatorReport:
    """Return a report with the files of an operator. It continues with them."""
    slot.files = sequence
    files: list[StateFile | OperatorStateFile] = [*sequence]
    if operator_state is not None:
        files.append(operator_state)
    written_bytes = sum(file.size for file in files if file.name.startswith(name))
    sizes = {table.STATE_BYTES.name: sum(file.size for file in files), table.STATE_BYTES_WRITTEN.name: written_bytes}
    return replace(
        report,
        sequence=None if slot.keyed_state is None else sequence,
        operator_state=operator_state,
        written_bytes=written_bytes,
        measures={**report.measures, **sizes},
    )


def _measures(slot: OperatorSlot, outcome: OperatorOutcome) -> dict[str, int | float]:
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
        table.STATE_ENTRIES.name: keyed_entries + slot.operator_state.size(),
        **slot.operator.measures,
    }


def _save_operator_state(slot: OperatorSlot, storage: Storage, name: str) -> OperatorStateFile | None:
    with _failing_as(slot.described, "saving its operator state"):
        return slot.operator_state.save(storage, f"{name}-operator")


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

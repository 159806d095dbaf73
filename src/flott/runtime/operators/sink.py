"""The sink operator: hands batches to a writer that lives for one epoch. Task side."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from flott.common.typeinfo import TypeInformation
from flott.datastream.connectors.base import DriverSink, Json, Sink, SinkWriter, WriterContext
from flott.errors import ProgramError
from flott.runtime.operators.batch import ColumnBatch, Form, RowBatch
from flott.runtime.operators.operator import Operator, OperatorContext
from flott.runtime.operators.outcome import OperatorOutcome


class SinkOperator(Operator):
    """Writes to a sink."""

    def __init__(self, context: OperatorContext, sink: Sink[Any], record_type: TypeInformation | None = None):
        super().__init__(context)
        self._sink = sink
        self._record_type = record_type
        self._writer: SinkWriter[Any] | None = None

        if sink.takes_columns:
            self.accepts, self.takes_kinds = Form.COLUMNS, True

    @property
    def waits_for_commits(self) -> bool:
        """Return whether nothing may be written while what was prepared before is not committed."""
        return self._sink.waits_for_commits

    def column_type(self, input_index: int) -> TypeInformation:
        if self._record_type is None:
            raise ProgramError(f"Sink {self.context.operator.label} takes columns: declare the type of its records.")
        return self._record_type

    def begin(self) -> None:
        scope = self.context.scope
        self.abandon()
        try:
            self._writer = self._sink.create_writer(
                WriterContext(
                    subtask=self.context.subtask,
                    parallelism=self.context.parallelism,
                    epoch=scope.epoch,
                    attempt_id=scope.attempt_id,
                    job_id=self.context.job_id,
                    operator_id=self.context.operator.id,
                    now_ms=scope.now_ms,
                    record_type=self._record_type,
                )
            )
        except Exception as error:
            raise self.failure("creating the sink's writer") from error

    def process(self, batch: RowBatch | ColumnBatch) -> None:
        assert self._writer is not None
        try:
            if isinstance(batch, ColumnBatch):
                kinds = None if batch.kinds is None else batch.kinds.to_numpy(zero_copy_only=False)
                self._writer.write_columns(batch.columns, kinds)
            else:
                self._writer.write(batch.values, batch.timestamps)
        except Exception as error:
            activity = f"writing a batch of {len(batch)} records to the sink"
            if isinstance(batch, ColumnBatch):
                raise self.failure(activity) from error
            raise self.failure(activity, record=batch.values[0], has_record=True) from error

    def outcome(self) -> OperatorOutcome:
        committables, results = self.prepare_commit()
        return replace(super().outcome(), committables=committables, results=results)

    def prepare_commit(self) -> tuple[list[Json], list[Any] | None]:
        """End the epoch: the committables, and for a driver sink the records that go back to the driver."""
        assert self._writer is not None
        try:
            committables = self._writer.prepare_commit()
        except Exception as error:
            raise self.failure("prepare_commit() of the sink") from error
        _check_json(committables, self.context.operator.label)
        results = getattr(self._writer, "values", None) if isinstance(self._sink, DriverSink) else None
        self._writer.close()
        self._writer = None
        return committables, results

    def abandon(self) -> None:
        """Drop what an attempt that did not complete has staged."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def close(self) -> None:
        self.abandon()


def _check_json(committables: list[Json], label: str) -> None:
    try:
        json.dumps(committables)
    except (TypeError, ValueError) as error:
        raise ProgramError(
            f"The writer of sink {label} returned committables that are not JSON values ({error}). They are written to"
            " checkpoints: return strings, numbers, lists and dicts."
        ) from error

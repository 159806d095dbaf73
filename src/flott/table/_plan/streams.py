"""Streams as tables: how the records of a DataStream become columns."""

from __future__ import annotations

from flott.graph.specs import ColumnarSpec
from flott.graph.transformations import Operation, Program, TransformationId
from flott.table._plan import logical
from flott.table._plan.operations import ConvertFromRecords
from flott.table._plan.physical import PlannerSettings, Step
from flott.table._types.record_types import record_type_of


def converted(
    program: Program, step: Step, scan: logical.StreamScan, settings: PlannerSettings, uid: str
) -> TransformationId:
    """Add the conversion of a stream to columns. Its event time and watermarks pass through."""
    operation = ConvertFromRecords(
        output=step.schema, settings=settings.session, fields=scan.fields, watermark=step.watermark
    )
    made = program.add(
        step.label,
        Operation(ColumnarSpec(operation), output_type=record_type_of(step.schema)),
        (scan.stream._id,),
        uid=uid,
    )
    return made.id

"""Lowering: the physical plan as transformations of a program, which runs as every other program does.

Operators get ids from the plan: the kind of the step and its number among those of its kind, in the order of the plan.
A filter or a projection that is added to a query therefore leaves the ids of its stateful operators as they are.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from flott.graph.column_key import ColumnKey
from flott.graph.partitioning import Hash
from flott.graph.specs import ColumnarSpec, KeySpec, SinkSpec, SourceSpec
from flott.graph.transformations import Operation, Partition, TransformationId, Union
from flott.table._connectors.memory import MemorySource
from flott.table._expressions.compiled import compile_expressions
from flott.table._functions.function import Session
from flott.table._plan import logical
from flott.table._plan.physical import PlannerSettings, Step
from flott.table._plan.watermarks import watermark_strategy
from flott.table._types.arrow import arrow_schema
from flott.table._types.record_types import record_type_of

if TYPE_CHECKING:
    from flott.graph.transformations import Program


class Lowering:
    """Adds physical plans to a program. Plans that share a step (a statement set) share its transformation."""

    def __init__(self, program: Program, settings: PlannerSettings, prefix: str = "table"):
        self._program = program
        self._settings = settings
        self._prefix = prefix
        self._numbers: Counter[str] = Counter()
        self._made: dict[Step, TransformationId] = {}
        self.uids: dict[Step, str] = {}  #: the ids of operators by step
        self._fixed: dict[TransformationId, int] = {}  #: the number of subtasks, where it is not the job's

    def add(self, step: Step) -> TransformationId:
        """Add a step and everything below it; return the transformation that gives its rows."""
        known = self._made.get(step)
        if known is None:
            known = self._made[step] = self._add(step)
        return known

    def _add(self, step: Step) -> TransformationId:
        match step.node:
            case logical.Scan() as scan if step.operation is None and step.kind == "source":
                return self._source(step, scan.source.build(), scan.identifier.summary)
            case logical.StreamScan() as scan if step.operation is None and step.kind == "stream":
                return self._stream(step, scan)
            case logical.Values() as values if step.operation is None:
                return self._source(step, values_source(values), "values")
        inputs = tuple(self.add(one) for one in step.inputs)
        if step.kind == "union":
            return self._program.add("union", Union(), inputs).id
        moved = tuple(
            self._moved(ident, distribution) for ident, distribution in zip(inputs, step.distributions, strict=True)
        )
        if step.kind == "sink":
            return self._sink(step, moved, self._followed(step, inputs))
        keys = tuple(None if d is None else KeySpec(ColumnKey(d)) for d in step.distributions)
        operation = Operation(ColumnarSpec(step.operation), keys if step.stateful else (), record_type_of(step.schema))
        parallelism = 1 if step.singleton else self._followed(step, inputs)
        return self._fix(
            self._program.add(step.label, operation, moved, uid=self._uid(step), parallelism=parallelism).id,
            parallelism,
        )

    def _followed(self, step: Step, inputs: tuple[TransformationId, ...]) -> int | None:
        """Return the number of subtasks of the only input, if it is fixed and its rows are not moved.

        Changes that a subtask sends in order would lose their order if others shared them.
        """
        return self._fixed.get(inputs[0]) if step.distributions == (None,) else None

    def _fix(self, ident: TransformationId, parallelism: int | None) -> TransformationId:
        if parallelism is not None:
            self._fixed[ident] = parallelism
        return ident

    def _moved(self, ident: TransformationId, distribution: tuple[int, ...] | None) -> TransformationId:
        if distribution is None:
            return ident
        return self._program.add("exchange", Partition(Hash(KeySpec(ColumnKey(distribution)))), (ident,)).id

    def _uid(self, step: Step) -> str:
        self._numbers[step.kind] += 1
        self.uids[step] = f"{self._prefix}.{step.kind}-{self._numbers[step.kind]}"
        return self.uids[step]

    def _source(self, step: Step, source: Any, name: str) -> TransformationId:
        strategy = watermark_strategy(step.watermark, self._settings.session, self._settings.idle_timeout_ms)
        operation = Operation(SourceSpec(source, strategy), output_type=record_type_of(step.schema))
        return self._fix(
            self._program.add(f"Source: {name}", operation, uid=self._uid(step)).id, source.preferred_parallelism
        )

    def _stream(self, step: Step, scan: logical.StreamScan) -> TransformationId:
        from flott.table._plan.streams import converted

        return converted(self._program, step, scan, self._settings, self._uid(step))

    def _sink(self, step: Step, inputs: tuple[TransformationId, ...], followed: int | None) -> TransformationId:
        node = step.node
        assert isinstance(node, logical.SinkNode)
        sink = self._overwriting(node) if node.overwrite else node.sink.make()
        name = "collect" if node.identifier is None else node.identifier.summary
        operation = Operation(SinkSpec(sink, record_type_of(step.schema)))
        parallelism = node.sink.parallelism or followed
        return self._program.add(f"Sink: {name}", operation, inputs, uid=self._uid(step), parallelism=parallelism).id

    def _overwriting(self, node: logical.SinkNode) -> Any:
        assert node.sink.overwrite is not None
        constants = compile_expressions([value for _, value in node.static_partition])
        values = constants.over([], 1, Session(time_zone=self._settings.session.time_zone))
        names = [name for name, _ in node.static_partition]
        return node.sink.overwrite(dict(zip(names, values, strict=True)))


def values_source(node: logical.Values) -> MemorySource:
    """Return the source of constant rows."""
    import pyarrow as pa

    schema = arrow_schema(node.schema.names, node.schema.types)
    columns = []
    for place, field in enumerate(schema):
        cells = compile_expressions([row[place] for row in node.rows]).over([], 1, Session())
        pieces = [cell if cell.type.equals(field.type) else cell.cast(field.type) for cell in cells]
        columns.append(pa.chunked_array(pieces, type=field.type))
    return MemorySource(pa.Table.from_arrays(columns, schema=schema), record_type_of(node.schema))

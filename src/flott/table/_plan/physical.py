"""The physical plan: which operator runs each step, how rows are distributed to it, and which changes it gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flott.errors import ProgramError
from flott.table._catalog.catalog_table import ComputedColumn
from flott.table._connectors.table_source import ChangelogMode
from flott.table._expressions.expression import Expression, InputRef, replaced
from flott.table._plan import logical, operations, window_partials
from flott.table._plan.changelog import INSERTS, Kinds, check_sink, first_updating, kinds_of
from flott.table._plan.logical import Node, Schema
from flott.table._plan.operations import ColumnarOperation, SessionSettings
from flott.table._plan.rules.joins import equi_keys
from flott.table._plan.traits import smallest_key, upsert_keys
from flott.table._plan.window_clock import ends_by_clock, is_zoned
from flott.table._types.logical import (
    ArrayType,
    LogicalType,
    MapType,
    MultisetType,
    RowType,
    is_proctime,
    is_rowtime,
    plain,
)

#: Types with values inside of values.
_NESTED = RowType | ArrayType | MapType | MultisetType

#: How the rows of an input find their subtask: None: where they are; otherwise by these columns (none: all to one).
Distribution = tuple[int, ...] | None


@dataclass(frozen=True)
class PlannerSettings:
    """What of a session's configuration decides how a query runs."""

    session: SessionSettings = field(default_factory=SessionSettings)
    mini_batch: bool = False
    two_phase: bool = True
    ttl_ms: int = 0
    early_fire_ms: int | None = None
    late_fire_ms: int | None = None
    allow_lateness_ms: int = 0
    upsert_materialize: str = "AUTO"
    not_null_enforcer: str = "ERROR"
    type_length_enforcer: str = "IGNORE"
    nested_enforcer: str = "IGNORE"
    idle_timeout_ms: int | None = None
    bounded: bool = False  #: all input ends
    batch: bool = False  #: all input ends, and only final results are wanted: every step gives inserts


@dataclass(frozen=True)
class Step:
    """A node of the physical plan."""

    kind: str  #: a short name, part of the operator's id
    label: str  #: what plans print
    inputs: tuple[Step, ...]
    distributions: tuple[Distribution, ...]
    schema: Schema
    changes: Kinds
    operation: ColumnarOperation | None = None  #: None: a source, a union or a sink
    node: Node | None = field(default=None, compare=False, repr=False)
    watermark: Expression | None = None  #: of a source
    update_before: bool = True
    singleton: bool = False  #: runs in one subtask
    #: What tells steps apart that have no operation: two sources are one if they read the same, two sinks never are.
    identity: Any = None

    @property
    def stateful(self) -> bool:
        """Return whether the step keeps state by key."""
        return isinstance(self.operation, operations.StatefulOperation)


def walk_steps(step: Step) -> Iterator[Step]:
    """Return a step and everything below it, inputs first."""
    for one in step.inputs:
        yield from walk_steps(one)
    yield step


def plan_physically(root: Node, settings: PlannerSettings) -> Step:
    """Return the physical plan of an optimized logical plan."""
    return _Planner(settings).step(root, update_before=True)


def _text(expressions: tuple[Expression, ...], names: tuple[str, ...]) -> str:
    return ", ".join(
        name if isinstance(one, InputRef) else f"{one} AS {name}" for one, name in zip(expressions, names, strict=True)
    )


class _Planner:
    def __init__(self, settings: PlannerSettings):
        self._settings = settings

    def step(self, node: Node, update_before: bool) -> Step:
        """Return the step of a node. ``update_before``: whether what follows needs the former rows of updates."""
        method = getattr(self, "_" + type(node).__name__.lower(), None)
        if method is None:
            raise ProgramError(f"Flott cannot run the step {type(node).__name__} of this query yet.")
        made: Step = method(node, update_before)
        return self._folded(node, made) if self._settings.batch and _takes_back(node) else made

    def _folded(self, node: Node, step: Step) -> Step:
        """Return a step with its final rows only, for a batch job."""
        fold = operations.FoldChanges(**self._common(node))
        return self._one("fold", "Fold()", node, fold, (step,), (None,))

    def _kinds(self, node: Node) -> Kinds:
        if self._settings.batch and not any(_is_changelog(one) for one in logical.walk(node)):
            return INSERTS
        settings = self._settings
        updating = settings.early_fire_ms is not None or settings.late_fire_ms is not None
        return kinds_of(node, updating, settings.bounded)

    def _common(self, node: Node) -> dict[str, Any]:
        return {"output": node.schema, "settings": self._settings.session}

    def _stateful(self, node: Node, update_before: bool, *inputs: Node) -> dict[str, Any]:
        settings = self._settings
        return {
            **self._common(node),
            "mini_batch": settings.mini_batch,
            "ttl_ms": settings.ttl_ms,
            "update_before": update_before,
            "retracts": tuple(not self._kinds(one).insert_only for one in inputs),
        }

    def _one(
        self,
        kind: str,
        label: str,
        node: Node,
        operation: ColumnarOperation,
        inputs: tuple[Step, ...],
        distributions: tuple[Distribution, ...],
        update_before: bool = True,
    ) -> Step:
        singleton = any(one == () for one in distributions)
        return Step(
            kind, label, inputs, distributions, node.schema, self._kinds(node), operation, node,
            update_before=update_before, singleton=singleton,
        )  # fmt: skip

    # --- leaves ------------------------------------------------------------------------------------------------------

    def _scan(self, node: logical.Scan, update_before: bool, watermark: Expression | None = None) -> Step:
        label = f"TableSourceScan(table=[[{node.identifier.summary}]], fields=[{', '.join(node.schema.names)}])"
        identity = _reads(node)
        kinds = self._kinds(node)
        step = Step("source", label, (), (), node.schema, kinds, node=node, watermark=watermark, identity=identity)
        if node.source.changelog is not ChangelogMode.UPSERT:
            return step
        return self._normalized(node, step, node.primary_key, update_before)

    def _normalized(self, node: Node, step: Step, keys: tuple[int, ...], update_before: bool) -> Step:
        if not keys:
            raise ProgramError(
                "A table whose changelog has no former rows (an upsert source) needs a primary key, and the query must"
                " be able to read its columns."
            )
        operation = operations.NormalizeChanges(
            **{**self._stateful(node, update_before, node), "input": node.schema, "keys": keys}
        )
        label = f"ChangelogNormalize(key=[{_names(node.schema, keys)}])"
        return self._one("changelog-normalize", label, node, operation, (step,), (keys,), update_before)

    def _streamscan(self, node: logical.StreamScan, update_before: bool, watermark: Expression | None = None) -> Step:
        label = f"DataStreamScan(stream=[{node.name}], fields=[{', '.join(node.schema.names)}])"
        identity = (node.stream._id, node.fields)
        kinds = self._kinds(node)
        step = Step("stream", label, (), (), node.schema, kinds, node=node, watermark=watermark, identity=identity)
        if node.changelog is not ChangelogMode.UPSERT:
            return step
        return self._normalized(node, step, node.primary_key, update_before)

    def _values(self, node: logical.Values, update_before: bool) -> Step:
        label = f"Values(tuples=[{len(node.rows)} rows], fields=[{', '.join(node.schema.names)}])"
        return Step("values", label, (), (), node.schema, self._kinds(node), node=node, identity=node.rows)

    def _watermarkassigner(self, node: logical.WatermarkAssigner, update_before: bool) -> Step:
        inner = node.input
        # Computed columns may stand between a table and its watermark: the source then computes what it needs itself.
        watermark, below = node.watermark, inner
        if isinstance(below, logical.Project):
            watermark, below = replaced(watermark, below.expressions), below.input
        if isinstance(below, logical.Scan) and below.source.changelog is not ChangelogMode.UPSERT:
            step = self._scan(below, update_before, watermark)
            if inner is below:
                return replace(step, schema=node.schema)
            assert isinstance(inner, logical.Project)
            return self._calc(node, step, below.schema, None, inner.expressions)
        if isinstance(below, logical.StreamScan) and inner is below and below.changelog is not ChangelogMode.UPSERT:
            return replace(self._streamscan(below, update_before, watermark), schema=node.schema)
        operation = operations.AssignWatermarks(
            **self._common(node), input=inner.schema, rowtime=node.rowtime, watermark=node.watermark,
            idle_ms=self._settings.idle_timeout_ms or 0,
        )  # fmt: skip
        label = f"WatermarkAssigner(rowtime=[{node.schema.names[node.rowtime]}], watermark=[{node.watermark}])"
        return self._one("watermark", label, node, operation, (self.step(inner, update_before),), (None,))

    # --- row by row --------------------------------------------------------------------------------------------------

    def _project(self, node: logical.Project, update_before: bool) -> Step:
        if isinstance(node.input, logical.Filter):
            inner = node.input.input
            return self._calc(node, self.step(inner, True), inner.schema, node.input.condition, node.expressions)
        step = self.step(node.input, update_before)
        return self._calc(node, step, node.input.schema, None, node.expressions)

    def _filter(self, node: logical.Filter, update_before: bool) -> Step:
        refs = tuple(InputRef(of, i) for i, of in enumerate(node.schema.types))
        # A row that no longer passes the filter must be taken back, which needs the former row.
        return self._calc(node, self.step(node.input, True), node.input.schema, node.condition, refs)

    def _calc(
        self,
        node: Node,
        step: Step,
        schema: Schema,
        condition: Expression | None,
        expressions: tuple[Expression, ...],
    ) -> Step:
        operation = operations.Calc(
            **self._common(node),
            input=schema,
            condition=condition,
            expressions=expressions,
        )
        where = "" if condition is None else f", where=[{condition}]"
        label = f"Calc(select=[{_text(expressions, node.schema.names)}]{where})"
        return self._one("calc", label, node, operation, (step,), (None,), step.update_before)

    def _correlate(self, node: logical.Correlate, update_before: bool) -> Step:
        operation = operations.Unnest(
            **self._common(node), input=node.input.schema, call=node.call, outer=node.outer,
            condition=node.condition,
        )  # fmt: skip
        label = f"Correlate(invocation=[{node.call}], joinType=[{'LEFT' if node.outer else 'INNER'}])"
        return self._one("correlate", label, node, operation, (self.step(node.input, True),), (None,))

    def _expand(self, node: logical.Expand, update_before: bool) -> Step:
        operation = operations.ExpandSets(
            **self._common(node),
            input=node.input.schema,
            keys=node.keys,
            sets=node.sets,
        )
        label = f"Expand(sets=[{', '.join(str(one) for one in node.sets)}])"
        return self._one("expand", label, node, operation, (self.step(node.input, True),), (None,))

    def _union(self, node: logical.Union, update_before: bool) -> Step:
        steps = tuple(self.step(branch, True) for branch in node.branches)
        label = f"Union(all=[true], union=[{', '.join(node.schema.names)}])"
        return Step("union", label, steps, (None,) * len(steps), node.schema, self._kinds(node), node=node)

    # --- aggregation -------------------------------------------------------------------------------------------------

    def _aggregate(self, node: logical.Aggregate, update_before: bool) -> Step:
        inner = node.input
        step = self.step(inner, True)
        described = f"groupBy=[{_names(inner.schema, node.keys)}], select=[{', '.join(node.schema.names)}]"
        common = {
            **self._stateful(node, update_before, inner),
            "input": inner.schema,
            "keys": node.keys,
            "calls": node.calls,
        }
        if node.ttl_ms is not None:
            common["ttl_ms"] = node.ttl_ms
        if two := self._two_phases(node, step, common, described, update_before):
            return two
        operation = operations.GroupAggregate(**common)
        label = f"GroupAggregate({described})"
        return self._one("group-aggregate", label, node, operation, (step,), (node.keys,), update_before)

    def _two_phases(
        self, node: logical.Aggregate, step: Step, common: dict[str, Any], described: str, update_before: bool
    ) -> Step | None:
        """Return an aggregation before and behind the exchange; None if it is not asked for, or cannot be merged."""
        from flott.table._functions.aggregates.partial import in_two_phases, partial_schema

        asked = self._settings.mini_batch and self._settings.two_phase
        if not asked or not node.keys or not in_two_phases(node.calls):
            return None
        inner, retracts = node.input, any(common["retracts"])
        partial = partial_schema(inner.schema, node.keys, node.calls, retracts=retracts)
        local = operations.LocalAggregate(
            output=partial, settings=self._settings.session, input=inner.schema, keys=node.keys, calls=node.calls,
            retracts=retracts,
        )  # fmt: skip
        first = Step(
            "local-group-aggregate", f"LocalGroupAggregate({described})", (step,), (None,), partial, INSERTS, local,
        )  # fmt: skip
        keys = tuple(range(len(node.keys)))
        label = f"GlobalGroupAggregate({described})"
        operation = operations.GlobalAggregate(**common)
        return self._one("global-group-aggregate", label, node, operation, (first,), (keys,), update_before)

    def _tableaggregate(self, node: logical.TableAggregate, update_before: bool) -> Step:
        operation = operations.TableAggregateGroups(
            **self._stateful(node, update_before, node.input),
            input=node.input.schema, keys=node.keys, call=node.call,
        )  # fmt: skip
        label = f"GroupTableAggregate(groupBy=[{_names(node.input.schema, node.keys)}], select=[{node.call.function}])"
        return self._one(
            "table-aggregate", label, node, operation, (self.step(node.input, True),), (node.keys,), update_before
        )

    def _windowtable(self, node: logical.WindowTable, update_before: bool) -> Step:
        window, inner = node.window, node.input
        label = f"WindowTableFunction(window=[{_window_text(window, inner.schema)}])"
        operation: ColumnarOperation
        keys: Distribution = None
        if window.kind is logical.WindowKind.SESSION:
            stateful = self._stateful(node, update_before, inner)
            operation, keys = operations.AssignSessions(**stateful, input=inner.schema, window=window), window.partition
        else:
            operation = operations.AssignWindows(**self._common(node), input=inner.schema, window=window)
        return self._one("window-table", label, node, operation, (self.step(inner, True),), (keys,))

    def _windowaggregate(self, node: logical.WindowAggregate, update_before: bool) -> Step:
        settings, inner = self._settings, node.input
        window = node.window
        shown = "attached" if window is None else _window_text(window, inner.schema)
        label = f"WindowAggregate(groupBy=[{_names(inner.schema, node.keys)}], window=[{shown}])"
        common = {
            **self._stateful(node, update_before, inner), "input": inner.schema, "keys": node.keys, "calls": node.calls,
            "window": window, "attached": node.attached, "properties": node.properties,
            "early_ms": settings.early_fire_ms if node.legacy else None,
            "late_ms": settings.late_fire_ms if node.legacy else None,
            "allow_lateness_ms": settings.allow_lateness_ms if node.legacy else 0,
            "zoned": is_zoned(node), "proctime": ends_by_clock(node),
        }  # fmt: skip
        step = self.step(inner, True)
        retracts = not self._kinds(inner).insert_only
        if (
            window is not None
            and settings.two_phase
            and not node.legacy
            and node.table_call is None
            and window_partials.can_be_partial(node.calls, inner.schema, window, retracts)
        ):
            partial = window_partials.partial_schema(inner.schema, node.keys, node.calls, retracts)
            local = operations.LocalWindowAggregate(
                output=partial, settings=settings.session, input=inner.schema, keys=node.keys, calls=node.calls,
                window=window, retracts=retracts,
            )  # fmt: skip
            first = Step("local-window-aggregate", "Local" + label, (step,), (None,), partial, INSERTS, local, node)
            keys = tuple(range(len(node.keys)))
            merging = operations.GlobalWindowAggregate(**common)
            return self._one("window-aggregate", "Global" + label, node, merging, (first,), (keys,), update_before)
        operation = operations.AggregateWindows(**common)
        return self._one("window-aggregate", label, node, operation, (step,), (node.keys,), update_before)

    def _overaggregate(self, node: logical.OverAggregate, update_before: bool) -> Step:
        types = node.input.schema.types
        proctime = bool(node.order) and is_proctime(types[node.order[0].column])
        operation = operations.AggregateOver(
            **self._stateful(node, update_before, node.input),
            input=node.input.schema, partition=node.partition, order=node.order, frame=node.frame, calls=node.calls,
            proctime=proctime, complete=self._settings.batch and self._kinds(node.input).insert_only,
        )  # fmt: skip
        calls = ", ".join(f"{call.function} AS {call.name}" for call in node.calls)
        label = f"OverAggregate(partitionBy=[{_names(node.input.schema, node.partition)}], select=[{calls}])"
        return self._one("over-aggregate", label, node, operation, (self.step(node.input, True),), (node.partition,))

    # --- order -------------------------------------------------------------------------------------------------------

    def _rank(self, node: logical.Rank, update_before: bool) -> Step:
        inner = node.input
        step = self.step(inner, True)
        described = (
            f"partitionBy=[{_names(inner.schema, node.partition)}], orderBy=[{_order(inner.schema, node.order)}]"
        )
        if node.window is not None:
            keys = tuple(column for column in node.partition if column not in node.window)
            operation: ColumnarOperation = operations.RankWindows(
                **self._stateful(node, update_before, inner),
                input=inner.schema, partition=keys, order=node.order, start=node.start, end=node.end,
                rank=node.rank_name is not None, window=node.window, zoned=is_zoned(inner),
                latest=_keeps_last(node),
            )  # fmt: skip
            return self._one("window-rank", f"WindowRank({described})", node, operation, (step,), (keys,))
        operation = operations.RankRows(
            **self._stateful(node, update_before, inner),
            input=inner.schema, function=node.function, partition=node.partition, order=node.order, start=node.start,
            end=node.end, rank=node.rank_name is not None, unique=smallest_key(inner),
        )  # fmt: skip
        label = f"Rank(rankType=[{node.function}], rankRange=[{node.start} to {node.end}], {described})"
        return self._one("rank", label, node, operation, (step,), (node.partition,), update_before)

    def _deduplicate(self, node: logical.Deduplicate, update_before: bool) -> Step:
        operation = operations.KeepOnePerKey(
            **self._stateful(node, update_before, node.input),
            input=node.input.schema, keys=node.keys, time=node.time, keep_last=node.keep_last, proctime=node.proctime,
            rank=node.rank_name is not None,
        )  # fmt: skip
        keep = "LastRow" if node.keep_last else "FirstRow"
        order = "PROCTIME" if node.proctime else "ROWTIME"
        label = f"Deduplicate(keep=[{keep}], key=[{_names(node.input.schema, node.keys)}], order=[{order}])"
        step = self.step(node.input, True)
        return self._one("deduplicate", label, node, operation, (step,), (node.keys,), update_before)

    def _sort(self, node: logical.Sort, update_before: bool) -> Step:
        inner = node.input
        step = self.step(inner, True)
        described = f"orderBy=[{_order(inner.schema, node.keys)}], offset=[{node.offset}], fetch=[{node.fetch}]"
        temporal = bool(node.keys) and self._kinds(node).insert_only
        if not node.keys or temporal or node.fetch is None or self._settings.batch:
            if not temporal and node.keys and not self._settings.bounded:
                raise ProgramError(
                    "ORDER BY in a stream needs an event-time column in ascending order first, or a LIMIT: rows that"
                    " never end cannot be sorted by anything else."
                )
            operation: ColumnarOperation = operations.SortRows(
                **self._stateful(node, update_before, inner),
                input=inner.schema, order=node.keys, offset=node.offset, fetch=node.fetch,
            )  # fmt: skip
            return self._one("sort", f"Sort({described})", node, operation, (step,), ((),), update_before)
        operation = operations.RankRows(
            **self._stateful(node, update_before, inner),
            input=inner.schema, function="ROW_NUMBER", partition=(), order=node.keys, start=node.offset + 1,
            end=node.offset + node.fetch, rank=False, unique=smallest_key(inner),
        )  # fmt: skip
        return self._one("sort-limit", f"SortLimit({described})", node, operation, (step,), ((),), update_before)

    # --- joins -------------------------------------------------------------------------------------------------------

    def _join(self, node: logical.Join, update_before: bool) -> Step:
        left, right = node.left, node.right
        keys, rest = equi_keys(node.condition, len(left.schema))
        operation = operations.RegularJoin(
            **self._stateful(node, update_before, left, right),
            kind=node.kind, left=left.schema, right=right.schema, keys=keys, condition=rest,
            left_unique=smallest_key(left), right_unique=smallest_key(right), null_aware=node.null_aware,
            side_ttl_ms=node.ttl_ms,
        )  # fmt: skip
        label = f"Join(joinType=[{node.kind.value}], where=[{node.condition}])"
        steps = (self.step(left, True), self.step(right, True))
        return self._one("join", label, node, operation, steps, (keys.left, keys.right), update_before)

    def _intervaljoin(self, node: logical.IntervalJoin, update_before: bool) -> Step:
        operation = operations.JoinIntervals(
            **self._stateful(node, update_before, node.left, node.right),
            kind=node.kind, left=node.left.schema, right=node.right.schema, keys=node.keys, left_time=node.left_time,
            right_time=node.right_time, lower_ms=node.lower_ms, upper_ms=node.upper_ms, condition=node.condition,
            proctime=node.proctime,
        )  # fmt: skip
        label = f"IntervalJoin(joinType=[{node.kind.value}], bounds=[{node.lower_ms} ms to {node.upper_ms} ms])"
        steps = (self.step(node.left, True), self.step(node.right, True))
        return self._one("interval-join", label, node, operation, steps, (node.keys.left, node.keys.right))

    def _windowjoin(self, node: logical.WindowJoin, update_before: bool) -> Step:
        operation = operations.JoinWindows(
            **self._stateful(node, update_before, node.left, node.right),
            kind=node.kind, left=node.left.schema, right=node.right.schema, keys=node.keys,
            left_window=node.left_window, right_window=node.right_window, condition=node.condition,
            zoned=is_zoned(node.left),
        )  # fmt: skip
        label = f"WindowJoin(joinType=[{node.kind.value}], where=[{node.condition}])"
        steps = (self.step(node.left, True), self.step(node.right, True))
        return self._one("window-join", label, node, operation, steps, (node.keys.left, node.keys.right))

    def _temporaljoin(self, node: logical.TemporalJoin, update_before: bool) -> Step:
        operation = operations.JoinVersions(
            **self._stateful(node, update_before, node.left, node.right),
            kind=node.kind, left=node.left.schema, right=node.right.schema, keys=node.keys, left_time=node.left_time,
            right_time=node.right_time, condition=node.condition,
        )  # fmt: skip
        label = f"TemporalJoin(joinType=[{node.kind.value}])"
        steps = (self.step(node.left, True), self.step(node.right, True))
        return self._one("temporal-join", label, node, operation, steps, (node.keys.left, node.keys.right))

    def _lookupjoin(self, node: logical.LookupJoin, update_before: bool) -> Step:
        names = tuple(node.right.names[i] for i in node.keys.right)
        operation = operations.JoinLookups(
            **self._common(node), kind=node.kind, left=node.input.schema, right=node.right,
            keys=node.keys, condition=node.condition, open_lookup=node.lookup.make(names),
            lookups=operations.LookupSettings(parallel=node.parallel),
        )  # fmt: skip
        label = (
            f"LookupJoin(table=[{node.identifier.summary}], joinType=[{node.kind.value}], lookup=[{', '.join(names)}])"
        )
        step = self.step(node.input, update_before)
        return self._one("lookup-join", label, node, operation, (step,), (None,))

    def _setoperation(self, node: logical.SetOperation, update_before: bool) -> Step:
        operation = operations.SetRows(
            **self._stateful(node, update_before, node.left, node.right),
            left=node.left.schema, intersect=node.intersect, all=node.all,
        )  # fmt: skip
        keys = tuple(range(len(node.schema)))
        name = ("INTERSECT" if node.intersect else "EXCEPT") + (" ALL" if node.all else "")
        steps = (self.step(node.left, True), self.step(node.right, True))
        return self._one(
            "set-operation", f"SetOperation([{name}])", node, operation, steps, (keys, keys), update_before
        )

    # --- sinks -------------------------------------------------------------------------------------------------------

    def _sinknode(self, node: logical.SinkNode, update_before: bool) -> Step:
        inner, sink = node.input, node.sink
        kinds = self._kinds(inner)
        name = "collect" if node.identifier is None else node.identifier.summary
        check_sink(kinds, sink, name, first_updating(inner))
        upserts = sink.accepts is ChangelogMode.UPSERT
        key = tuple(inner.schema.names.index(one) for one in sink.key) if sink.key else ()
        replaces = upserts and bool(key) and not kinds.insert_only
        known = replaces and frozenset(key) in upsert_keys(inner)
        wanted = self._settings.upsert_materialize
        materialize = replaces and (wanted == "FORCE" or (wanted == "AUTO" and not known))
        before = materialize or not known or not _gives_pairs(inner)
        step = self._enforced(node, self.step(inner, before), name)
        distribution: Distribution = None
        if materialize:
            operation = operations.MaterializeForSink(
                **self._stateful(inner, False, inner), input=inner.schema, keys=key
            )
            label = f"SinkMaterializer(key=[{_names(inner.schema, key)}])"
            step = self._one("sink-materializer", label, inner, operation, (step,), (key,), False)
        elif replaces:
            # Changes of a key that is known come from one subtask, in order: only another number of sinks moves them.
            moved = None if known and sink.parallelism is None else key
            if before:
                drop = operations.KeepInserts(**self._common(inner), keys=key)
                step = self._one("drop-update-before", "DropUpdateBefore()", inner, drop, (step,), (moved,), False)
            else:
                distribution = moved
        elif upserts and key:
            distribution = key  # rows of one key keep their order
        label = f"Sink(table=[{name}], fields=[{', '.join(inner.schema.names)}])"
        return Step("sink", label, (step,), (distribution,), node.schema, kinds, node=node, identity=object())

    def _enforced(self, node: logical.SinkNode, step: Step, name: str) -> Step:
        """Return a step with what the columns of the table demand of its rows."""
        inner, settings = node.input, self._settings
        if node.table is None:
            return step
        written = [one for one in node.table.schema.columns if not isinstance(one, ComputedColumn)]
        declared = {one.name: plain(one.type) for one in written}
        columns = [declared[column] for column in inner.schema.names]
        not_null = tuple(index for index, of in enumerate(columns) if not of.nullable)
        lengths = length_rules(columns, settings.type_length_enforcer)
        nested = tuple((index, of) for index, of in enumerate(columns) if isinstance(of, _NESTED))
        if settings.nested_enforcer == "IGNORE":
            nested = ()
        if not not_null and not lengths and not nested:
            return step
        drop = settings.not_null_enforcer == "DROP"
        operation = operations.EnforceConstraints(
            **self._common(inner), table=name, not_null=not_null, drop_nulls=drop, lengths=lengths, nested=nested,
            collections=settings.nested_enforcer == "ROWS_AND_COLLECTIONS",
            length_mode=settings.type_length_enforcer,
        )  # fmt: skip
        rules = f"notNull=[{_names(inner.schema, not_null)}]" if not_null else ""
        if lengths:
            rules += ", " * bool(rules) + f"length=[{_names(inner.schema, tuple(one.column for one in lengths))}]"
        if nested:
            rules += ", " * bool(rules) + f"nested=[{_names(inner.schema, tuple(index for index, _ in nested))}]"
        label = f"ConstraintEnforcer({rules})"
        return self._one("constraint-enforcer", label, inner, operation, (step,), (None,), step.update_before)

    def _normalize(self, node: logical.Normalize, update_before: bool) -> Step:
        return self._normalized(node.input, self.step(node.input, True), node.keys, update_before)


def length_rules(columns: Sequence[LogicalType], mode: str) -> tuple[operations.LengthRule, ...]:
    """Return the lengths that values of columns have to have; texts and bytes of any length have none."""
    if mode == "IGNORE":
        return ()
    rules = (operations.length_rule(index, of, mode) for index, of in enumerate(columns))
    return tuple(rule for rule in rules if rule is not None)


def _gives_pairs(node: Node) -> bool:
    """Return whether each former row of a node is followed by its new one, so that it may be left out for an upsert.

    A filter or a join may pass on the former row alone: then it is a deletion.
    """
    while isinstance(node, logical.Project):
        node = node.input
    return isinstance(node, logical.Aggregate)


def _takes_back(node: Node) -> bool:
    """Return whether a node takes rows back even if its input consists of inserts."""
    match node:
        case logical.Join():
            return node.kind is not logical.JoinKind.INNER
        case logical.Rank() | logical.Deduplicate():
            return node.window is None
    return isinstance(node, logical.SetOperation | logical.TableAggregate)


def _reads(node: logical.Scan) -> tuple[Any, ...]:
    """Return what a scan reads: equal ones give equal rows, so that a plan reads them once."""
    source = node.source
    options = tuple(sorted(node.table.options.items()))
    return node.identifier, options, node.table.schema, source.names, source.types, source.filters, source.limit


def _is_changelog(node: Node) -> bool:
    """Return whether a node reads a changelog, which a batch job folds step by step as a stream does."""
    match node:
        case logical.Scan():
            return node.source.changelog is not ChangelogMode.INSERT_ONLY
        case logical.StreamScan():
            return node.changelog is not ChangelogMode.INSERT_ONLY
    return False


# --- texts -----------------------------------------------------------------------------------------------------------


def _names(schema: Schema, columns: tuple[int, ...]) -> str:
    return ", ".join(schema.names[i] for i in columns)


def _order(schema: Schema, keys: tuple[logical.SortKey, ...]) -> str:
    return ", ".join(f"{schema.names[key.column]} {'DESC' if key.descending else 'ASC'}" for key in keys)


def _keeps_last(node: logical.Rank) -> bool:
    """Return whether a window top-n is a deduplication that keeps the last row: of equal times, the last that came."""
    if (node.start, node.end, len(node.order)) != (1, 1, 1):
        return False
    return node.order[0].descending and is_rowtime(node.input.schema.types[node.order[0].column])


def _window_text(window: logical.Window, schema: Schema) -> str:
    parts = [f"time_col=[{schema.names[window.time]}]", f"size=[{window.size_ms} ms]"]
    if window.slide_ms:
        parts.append(f"slide=[{window.slide_ms} ms]")
    if window.partition:
        parts.append(f"partition keys=[{_names(schema, window.partition)}]")
    return f"{window.kind.value}({', '.join(parts)})"

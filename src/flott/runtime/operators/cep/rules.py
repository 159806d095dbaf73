"""The operator of rules: many patterns over one stream, which change while the job runs. Task side.

The second input has the rules; it is broadcast, and its records of an epoch come first. So a rule takes effect for all
events of the epoch that reads it, in all subtasks, and is part of its checkpoint. Rules are broadcast state, as JSON.

Partial matches belong to a key and a rule. Events that wait for the watermark belong to the key, for all rules. A rule
whose condition raises is quarantined in the subtask where it raised: its report goes to a side output, its partial
matches are dropped when their key comes up, and the other rules go on. A new version of the rule runs again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter_ns
from traceback import format_exception_only
from typing import Any

from flott.cep._automaton.automaton import compile_pattern
from flott.cep._automaton.encoding import from_plain, to_plain
from flott.cep._automaton.matcher import Matcher, Matches
from flott.cep._automaton.moves import FAR, Found
from flott.cep._rules.definition import RuleChange, parse_rule
from flott.cep._rules.results import RULE_FAILURES, RuleFailure, RuleMatch
from flott.common.watermark_strategy import MAX_WATERMARK
from flott.datastream.state._descriptors import ListStateDescriptor, MapStateDescriptor
from flott.errors import ProgramError
from flott.graph.specs import RulesSpec
from flott.metrics import Counter
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.kinds.maps import MapTable
from flott.runtime.managed_state.kinds.timers import TimerTable
from flott.runtime.managed_state.operator.operator_handles import TaskOperatorStateStore
from flott.runtime.operators.batch import MAX_BATCH_RECORDS, RowBatch
from flott.runtime.operators.cep.arrivals import Arrival, Arrivals
from flott.runtime.operators.cep.waiting import WaitingEvents
from flott.runtime.operators.function_operator import FunctionOperator
from flott.runtime.operators.operator import EventTime, OperatorContext, position_of
from flott.runtime.operators.process import EVENT_TIMERS, PROCESSING_TIMERS, emit_tagged

#: A map per key. By rule: the timer or None, and the partial matches as plain data. Under "": how many events wait.
RULE_MATCHES = "_rule-matches"
#: By name: (version, definition as JSON, enabled).
RULES = MapStateDescriptor("_rules")
#: (name, version) of rules that raised.
QUARANTINED = ListStateDescriptor("_quarantined-rules")

_WAITING = ""


@dataclass
class ActiveRule:
    """A rule that runs."""

    name: str
    version: int
    source: str
    matcher: Matcher
    matches: Counter
    events: Counter
    nanoseconds: Counter


class RulesOperator(FunctionOperator):
    """Runs the rules that its second input tells."""

    leading_input = 1

    def __init__(self, context: OperatorContext, spec: RulesSpec):
        super().__init__(context, spec.function)
        state = context.keyed_state
        assert state is not None, "rules need a keyed input"
        self._state: KeyedState = state
        self._event_time = spec.event_time
        self._timeout_tag_id = spec.timeout_tag_id
        self._arrivals = Arrivals(self, spec.event_time, spec.comparator, spec.late_tag_id)
        self._collected = self._arrivals.hand_over()
        self._waiting = WaitingEvents(state, self._arrivals, spec.record_type)
        self._held: MapTable = state.map_table(RULE_MATCHES)
        self._timers: TimerTable = state.timer_table(EVENT_TIMERS if spec.event_time else PROCESSING_TIMERS)
        store = TaskOperatorStateStore(context.operator_state)
        self._definitions = store.get_broadcast_state(RULES)
        self._quarantined = store.get_union_list_state(QUARANTINED)
        self._active: dict[str, ActiveRule] = {}
        self._failures: list[RuleFailure] = []
        self._counters: dict[tuple[str, str], Counter] = {}

    # --- life ---------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        super().begin()
        self._arrivals.hand_over()  # an epoch that failed may have left some
        self._failures = []
        self._activate()  # state may be that of another checkpoint than the one before

    def process(self, batch: RowBatch) -> None:
        self._arrivals.take(batch)

    def process_second(self, batch: RowBatch) -> None:
        for record in batch.values:
            try:
                self._change(parse_rule(record))
            except Exception as error:  # whatever a record is, the other rules go on
                self._refuse(record, error)
        self._activate()

    def advance(self, time: EventTime) -> EventTime:
        advanced = super().advance(time)
        self._run(self._now())
        return advanced

    def end_keys(self) -> None:
        super().end_keys()
        if not self._event_time:
            self._run(MAX_WATERMARK)

    def snapshot(self) -> None:
        if self._arrivals.by_key:
            self._run(self._now())
        super().snapshot()

    def next_wakeup_ms(self) -> int | None:
        return None if self._event_time else self._timers.next_timestamp()

    def next_event_time_ms(self) -> int | None:
        return self._timers.next_timestamp() if self._event_time else None

    def _now(self) -> int:
        return self.watermark if self._event_time else self.context.scope.now_ms

    # --- rules --------------------------------------------------------------------------------------------------------

    def _change(self, change: RuleChange) -> None:
        """Put a changed rule into state, and drop the partial matches that it does not keep."""
        former = self._definitions.get(change.rule)
        if change.removed:
            if former is not None:
                self._definitions.remove(change.rule)
                self._drop(change.rule)
            return
        if former is None and change.pattern is None:
            raise ProgramError(f"Rule {change.rule!r} is not known, so it needs a pattern.")
        version = change.version if change.version is not None else (former[0] + 1 if former is not None else 1)
        if former is not None and version <= former[0] and change.pattern is not None:
            raise ProgramError(
                f"Rule {change.rule!r} has version {former[0]} already, found version {version}. Give it a higher one."
            )
        source = change.source
        if former is not None and change.pattern is None:
            version, source, _ = former
        elif former is not None and change.keeps_partial_matches:
            self._check_kept(change, former[1])
        if any(name == change.rule for name, _ in self._quarantined.get()):
            self._quarantined.update([held for held in self._quarantined.get() if held[0] != change.rule])
        self._definitions.put(change.rule, (version, source, change.enabled))
        if former is not None and not change.keeps_partial_matches:
            self._drop(change.rule)

    def _check_kept(self, change: RuleChange, former: str) -> None:
        assert change.pattern is not None
        before = parse_rule(former).pattern
        assert before is not None
        if compile_pattern(before).signature != compile_pattern(change.pattern).signature:
            raise ProgramError(
                f"Rule {change.rule!r} asks to keep its partial matches, but its stages, their order or their"
                " quantifiers have changed, so they have no place in the new pattern. Ask to drop them."
            )

    def _drop(self, rule: str) -> None:
        """Delete the partial matches that all keys have of a rule."""
        for key in list(self._held.entries):
            entry = self._entry(key, rule)
            if entry is not None:
                if entry[0] is not None:
                    self._timers.delete(entry[0], key, rule)
                self._held.remove_item(key, rule)

    def _entry(self, key: Any, rule: str) -> Any:
        """Return what is held for a key and a rule, or None."""
        held = self._held.entries.get(key)
        return None if held is None else held.get(rule)

    def _activate(self) -> None:
        """Compile the rules that are new, and forget those that do not run."""
        out = {(name, version) for name, version in self._quarantined.get()}
        active: dict[str, ActiveRule] = {}
        for name, (version, source, enabled) in sorted(self._definitions.items()):
            if not enabled or (name, version) in out:
                continue
            known = self._active.get(name)
            if known is None or (known.version, known.source) != (version, source):
                pattern = parse_rule(source).pattern
                assert pattern is not None
                matcher = Matcher(compile_pattern(pattern))
                counters = [self._counter(name, what) for what in ("matches", "events", "nanoseconds")]
                known = ActiveRule(name, version, source, matcher, *counters)
            active[name] = known
        self._active = active

    def _counter(self, rule: str, what: str) -> Counter:
        if (rule, what) not in self._counters:
            self._counters[rule, what] = self.metrics.add_group("rule", rule).counter(what)
        return self._counters[rule, what]

    def _refuse(self, record: Any, error: Exception) -> None:
        """Report a definition that is none. Every subtask sees it; the first one reports it."""
        if self.context.subtask == 0:
            name = record.get("rule") if isinstance(record, dict) else None
            self._failures.append(RuleFailure(name, None, str(error), self._card("reading a rule", record, error)))

    # --- events -------------------------------------------------------------------------------------------------------

    def _run(self, time: int) -> None:
        """Process all events up to a time, and end what times out until then."""
        self._collected = self._arrivals.hand_over()
        out: list[tuple[int, RuleMatch[Any]]] = []
        over: list[tuple[int, RuleMatch[Any]]] = []
        for key, arrivals in self._collected.by_key.items():
            self._run_key(key, arrivals, time, out, over)
            if self._state.pages:
                self._state.make_room()
        while (timer := self._timers.pop_due(time)) is not None:
            _, key, rule = timer
            if rule == _WAITING:
                self._run_key(key, [], time, out, over)
            elif rule in self._active:
                self._run_rule(self._active[rule], key, [], time, out, over)
            else:
                self._held.remove_item(key, rule)
        self._emit(out, over)

    def _run_key(self, key: Any, arrivals: list[Arrival], time: int, out: list[Any], over: list[Any]) -> None:
        entry = self._entry(key, _WAITING)
        timer, count = (None, 0) if entry is None else entry
        before = timer, count
        arrivals, count = self._waiting.due(key, arrivals, count, time, self._collected)
        if timer is not None and (timer <= time or not count):
            self._timers.delete(timer, key, _WAITING)
            timer = None
        if count:
            due = self._waiting.earliest(key)
            if timer is None or due < timer:
                if timer is not None:
                    self._timers.delete(timer, key, _WAITING)
                self._timers.register(due, key, _WAITING)
                timer = due
        if not count:
            self._held.remove_item(key, _WAITING)
        elif (timer, count) != before:
            self._held.put_item(key, _WAITING, (timer, count))
        if arrivals:
            for rule in list(self._active.values()):
                self._run_rule(rule, key, arrivals, time, out, over)

    def _run_rule(
        self, rule: ActiveRule, key: Any, arrivals: list[Arrival], time: int, out: list[Any], over: list[Any]
    ) -> None:
        began = perf_counter_ns()
        entry = self._entry(key, rule.name)
        timer, plain = (None, None) if entry is None else entry
        matcher, cursor = rule.matcher, iter(arrivals)
        matcher.context.now_ms = self.context.scope.now_ms
        held = Matches() if plain is None else from_plain(matcher, plain)
        found: list[Found] = []
        timed_out: list[Found] = []
        try:
            matcher.feed(held, cursor, found, timed_out)
            if held.deadline <= time:
                matcher.expire(held, time, found, timed_out)
        except Exception as error:
            event = arrivals[position_of(cursor, len(arrivals))] if arrivals else None
            self._quarantine(rule, key, event, error)
            return
        self._keep(rule, key, timer, held, entry, time)
        out += [(when, self._match(rule, when, node)) for when, node in found]
        if self._timeout_tag_id is not None:
            over += [(when, self._match(rule, when, node)) for when, node in timed_out]
        rule.matches.inc(len(found))
        rule.events.inc(len(arrivals))
        rule.nanoseconds.inc(perf_counter_ns() - began)

    def _keep(self, rule: ActiveRule, key: Any, timer: int | None, held: Matches, entry: Any, time: int) -> None:
        if timer is not None and (timer <= time or not held):
            self._timers.delete(timer, key, rule.name)
            timer = None
        if not held:
            self._held.remove_item(key, rule.name)
            return
        if held.deadline < FAR and (timer is None or held.deadline < timer):
            if timer is not None:
                self._timers.delete(timer, key, rule.name)
            timer = held.deadline
            self._timers.register(timer, key, rule.name)
        if held.changed or entry is None or entry[0] != timer:
            self._held.put_item(key, rule.name, (timer, to_plain(rule.matcher, held) if held.changed else entry[1]))

    def _match(self, rule: ActiveRule, timestamp: int, node: Any) -> RuleMatch[Any]:
        return RuleMatch(rule.name, rule.version, rule.matcher.match_of(node), timestamp)

    # --- failures -----------------------------------------------------------------------------------------------------

    def _quarantine(self, rule: ActiveRule, key: Any, event: Arrival | None, error: Exception) -> None:
        """Stop a rule that raised, and report it."""
        self._quarantined.add((rule.name, rule.version))
        del self._active[rule.name]
        entry = self._entry(key, rule.name)
        if entry is not None and entry[0] is not None:
            self._timers.delete(entry[0], key, rule.name)
        self._held.remove_item(key, rule.name)
        card = self._card(f"rule {rule.name!r}, version {rule.version}", event, error, key)
        text = "".join(format_exception_only(error)).strip()
        self._failures.append(RuleFailure(rule.name, rule.version, text, card))

    def _card(self, activity: str, event: Any, error: Exception, key: Any = None) -> str:
        context = self.context
        lines = [
            "".join(format_exception_only(error)).strip(),
            "",
            f"  operator   {context.operator.label}",
            f"  subtask    {context.subtask}",
            f"  epoch      {context.scope.epoch}",
            f"  during     {activity}",
        ]
        if key is not None:
            lines.append(f"  key        {key!r}")
        if isinstance(event, tuple):
            lines += [f"  timestamp  {event[0]}", f"  event      {event[1]!r}"]
        elif event is not None:
            lines.append(f"  record     {event!r}")
        return "\n".join(lines)

    # --- output -------------------------------------------------------------------------------------------------------

    def _emit(self, out: list[tuple[int, RuleMatch[Any]]], over: list[tuple[int, RuleMatch[Any]]]) -> None:
        out.sort(key=_when)
        select = self.function
        for part in _portions(out):
            try:
                records = [match if select is None else select(match) for _, match in part]
            except Exception as error:
                raise self.failure("making records of matches") from error
            emit_tagged(self, records, [when for when, _ in part] if self._event_time else None)
        self._emit_aside(self._timeout_tag_id, [match for _, match in sorted(over, key=_when)])
        failures, self._failures = self._failures, []
        self._emit_aside(RULE_FAILURES, failures)

    def _emit_aside(self, tag_id: str | None, records: list[Any]) -> None:
        emit = self.side_emits.get(tag_id) if tag_id is not None else None
        if emit is not None:
            for start in range(0, len(records), MAX_BATCH_RECORDS):
                emit(RowBatch(records[start : start + MAX_BATCH_RECORDS]))


def _when(item: tuple[int, Any]) -> int:
    return item[0]


def _portions(out: list[Any]) -> Iterable[list[Any]]:
    return (out[start : start + MAX_BATCH_RECORDS] for start in range(0, len(out), MAX_BATCH_RECORDS))

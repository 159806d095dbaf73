"""``flott cep``: try a rule before it goes live, and explain why a pattern did not match."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import click

from flott.cli.command import group
from flott.cli.commands.replay import directory_of_job, graph_of_job
from flott.cli.commands.state import literal, open_place, plain
from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.jobs import JOB_OR_PATH
from flott.cli.terminal import table
from flott.errors import ProgramError, StateError

if TYPE_CHECKING:
    from flott.cep import Explanation, Pattern
    from flott.graph.stream_graph import StreamGraph, StreamNode

#: A key, a timestamp and an event.
_Event = tuple[Any, int, Any]

_program = click.option("--program", metavar="FILE", help="Take the graph from this program, not from the job.")
_argument = click.option("--argument", "arguments", multiple=True, metavar="TEXT", help="An argument of the program.")
_operator = click.option("--operator", metavar="UID", help="The operator of patterns or rules.")
_key_field = click.option("--key-field", metavar="FIELD", help="Of events in a file: the field that is the key.")
_time_field = click.option("--time-field", metavar="FIELD", help="Of events in a file: the time in milliseconds.")


@group("cep")
def cep() -> None:
    """Try rules on recorded events, and explain why a pattern did not match.

    PLACE is a job, its directory, or a file of events with one JSON object per line. Nothing is changed or committed.
    """


@cep.command("try")
@click.argument("rule", type=click.Path(exists=True, dir_okay=False))
@click.argument("place", type=JOB_OR_PATH)
@_operator
@_key_field
@_time_field
@_program
@_argument
@click.option("-n", "--limit", type=click.IntRange(0), default=20, show_default=True, help="Matches to show; 0: all.")
@pass_invocation
def try_rule(
    invocation: Invocation, rule: str, place: str, operator: str | None, key_field: str | None, time_field: str | None,
    program: str | None, arguments: Sequence[str], limit: int,
) -> None:  # fmt: skip
    """Run the RULE of a JSON file on the events of PLACE, and show its matches and its cost.

    Of a job, the events are those that its operator of patterns or rules received in the epochs that are retained.
    """
    from flott.cep._rules.trial import run_trial

    pattern = _pattern_of_file(rule)
    if Path(place).is_file():
        events = list(_events_of_file(place, key_field, time_field))
    else:
        events = list(_events_of_job(invocation, place, operator, program, arguments))
    trial = run_trial(pattern, events, perf_counter_ns)
    shown = trial.matches[:limit] if limit else trial.matches
    rows = [(str(match.timestamp), repr(match.key), _listed(match.match)) for match in shown]
    summary = (
        f"{trial.events:,} events of {trial.keys:,} keys: {len(trial.matches):,} matches, {trial.timed_out:,} partial"
        f" matches timed out, {trial.open:,} are open, {trial.nanoseconds_per_event / 1000:.2f} µs an event"
    )
    invocation.terminal.show(
        {
            "events": trial.events, "keys": trial.keys, "matches": len(trial.matches), "timed-out": trial.timed_out,
            "open": trial.open, "nanoseconds-per-event": trial.nanoseconds_per_event,
            "found": [{"key": plain(m.key), "timestamp": m.timestamp, "match": plain(m.match)} for m in shown],
        },
        table(("time", "key", "match"), rows) if rows else "no match",
        "",
        summary,
    )  # fmt: skip


@cep.command("explain")
@click.argument("place", type=JOB_OR_PATH)
@click.option("--key", required=True, help="The key: a Python literal, or else a text.")
@click.option("--rule", metavar="RULE", help="Of a job: the name of a rule. Of a file of events: a file with the rule.")
@click.option("--svg", metavar="FILE", help="Also write a drawing of the automaton.")
@click.option("--replay", is_flag=True, help="Of a job: explain all events of the key in the retained epochs.")
@_operator
@_key_field
@_time_field
@_program
@_argument
@pass_invocation
def explain(
    invocation: Invocation, place: str, key: str, rule: str | None, svg: str | None, replay: bool,
    operator: str | None, key_field: str | None, time_field: str | None, program: str | None, arguments: Sequence[str],
) -> None:  # fmt: skip
    """Explain the partial matches of a key: how far each came, what turned events away, when it times out.

    Of a job, its latest checkpoint has the partial matches; the events that wait for the watermark are tried on them.
    With --replay, the retained epochs are run again, and all their events of the key are explained.
    """
    if Path(place).is_file():
        found = _explain_file(place, literal(key), rule, key_field, time_field)
    else:
        found = _explain_job(invocation, place, literal(key), rule, operator, (program, arguments), replay)
    if svg is not None:
        Path(svg).write_text(found.svg(), encoding="utf-8")
    document = {
        "events": found.events,
        "matches": plain(list(found.matches)),
        "partial-matches": [
            {
                "match": plain(attempt.match), "fate": attempt.fate, "because": attempt.because,
                "waits-for": list(attempt.waits_for), "times-out": attempt.times_out,
                "refusals": [{"event": r.event, "stage": r.stage, "reason": r.reason} for r in attempt.refusals],
            }
            for attempt in found.attempts
        ],
    }  # fmt: skip
    invocation.terminal.report(str(found), document)


# ------------------------------------------------------------------------------------------------------ rules and files


def _pattern_of_file(path: str) -> Pattern[Any]:
    from flott.cep import parse_pattern, parse_rule

    try:
        definition = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ProgramError(f"{path} is no JSON: {error}.") from None
    if isinstance(definition, dict) and "stages" in definition:
        return parse_pattern(definition)
    pattern = parse_rule(definition).pattern
    if pattern is None:
        raise ProgramError(f"The rule in {path} has no pattern.")
    return pattern


def _events_of_file(path: str, key_field: str | None, time_field: str | None) -> Iterator[_Event]:
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                event = json.loads(line)
                key = None if key_field is None else event[key_field]
                yield key, number if time_field is None else int(event[time_field]), event
            except (ValueError, KeyError, TypeError) as error:
                raise ProgramError(
                    f"Line {number} of {path} is no event: {type(error).__name__}: {error}. Expected a JSON object with"
                    " the fields of --key-field and --time-field."
                ) from None


def _explain_file(
    path: str, key: Any, rule: str | None, key_field: str | None, time_field: str | None
) -> Explanation:
    from flott.cep import explain as explanation

    if rule is None:
        raise click.UsageError("--rule is missing: of a file of events, it is a file with the rule.")
    if key_field is None:
        raise click.UsageError("--key-field is missing: which field of the events is the key?")
    events = [(time, event) for own, time, event in _events_of_file(path, key_field, time_field) if own == key]
    return explanation(_pattern_of_file(rule), [event for _, event in events], [time for time, _ in events])


# --------------------------------------------------------------------------------------------------------------- jobs


def _find_node(graph: StreamGraph, operator: str | None) -> StreamNode:
    """Return the operator of a pattern or of rules."""
    from flott.graph.specs import PatternSpec, RulesSpec
    from flott.runtime.jobmaster.rescaling import find_operator

    if operator is not None:
        nodes = [find_operator(graph, operator)]
    else:
        nodes = [node for node in graph.nodes if isinstance(node.spec, PatternSpec | RulesSpec)]
    found = [node for node in nodes if isinstance(node.spec, PatternSpec | RulesSpec)]
    if len(found) != 1:
        named = ", ".join(str(node.uid or node.name) for node in found) or "none"
        raise ProgramError(f"Expected one operator of a pattern or of rules, found {named}. Name it with --operator.")
    return found[0]


def _events_of_job(
    invocation: Invocation, job: str, operator: str | None, program: str | None, arguments: Sequence[str]
) -> Iterator[_Event]:
    """Yield what the operator received in the retained epochs, which are run again here."""
    from flott.datastream.functions._callables import as_key_selector
    from flott.graph.operator_ids import operator_ids
    from flott.runtime.replay.observation import Watch
    from flott.runtime.replay.recorded_epoch import held, read_epoch, replayable
    from flott.runtime.replay.replay import replayed

    directory = directory_of_job(invocation, job)
    graph, configuration = graph_of_job(invocation, Path(directory).name, program, arguments)
    node = _find_node(graph, operator)
    ident, key = operator_ids(graph)[node.id], node.keys[0]
    assert key is not None, "patterns are keyed"
    select = as_key_selector(key.selector)
    for number in replayable(directory):
        recorded = read_epoch(directory, number)
        if recorded.after is None:
            continue
        with held(recorded) as kept, replayed(kept, graph, configuration, watch=Watch(frozenset([ident]))) as once:
            traffic = once.traffic.get(ident)
            for record in traffic.received.records() if traffic is not None else ():
                if record.port == "0":
                    yield select(record.value), record.timestamp or 0, record.value


def _explain_job(
    invocation: Invocation,
    place: str,
    key: Any,
    rule: str | None,
    operator: str | None,
    program: tuple[str | None, Sequence[str]],
    replay: bool,
) -> Explanation:
    from flott.cep._automaton.automaton import compile_pattern
    from flott.cep._automaton.encoding import from_plain
    from flott.cep._automaton.explanation import Witness
    from flott.cep._automaton.matcher import Matcher

    directory = directory_of_job(invocation, place)
    graph, _ = graph_of_job(invocation, Path(directory).name, *program)
    node = _find_node(graph, operator)
    uid = node.uid or node.name
    snapshot = open_place(invocation, directory)
    names = {view.name for view in snapshot.operator(uid).states}
    pattern, held = _held_by(snapshot, node, uid, names, key, rule)
    if replay:
        from flott.cep import explain as explanation

        events = [e for e in _events_of_job(invocation, place, operator, *program) if e[0] == key]
        return explanation(pattern, [value for _, _, value in events], [time for _, time, _ in events])
    matcher = Matcher(compile_pattern(pattern))
    witness = Witness(matcher, None if held is None else from_plain(matcher, held))
    waiting = snapshot.state(uid, "_pattern-waiting").get(key, None) if "_pattern-waiting" in names else None
    for timestamp, event in waiting or ():
        witness.see(timestamp, event)
    return witness.explanation(pattern)


def _held_by(
    snapshot: Any, node: StreamNode, uid: str, names: set[str], key: Any, rule: str | None
) -> tuple[Pattern[Any], Any]:
    """Return the pattern, and the partial matches of a key as plain data or None."""
    from flott.cep import parse_rule
    from flott.graph.specs import PatternSpec

    if isinstance(node.spec, PatternSpec):
        entry = snapshot.state(uid, "_pattern-matches").get(key, None) if "_pattern-matches" in names else None
        return node.spec.pattern, None if entry is None else entry[2]
    rules = dict(snapshot.state(uid, "_rules").items()) if "_rules" in names else {}
    if rule not in rules:
        known = ", ".join(sorted(rules)) or "no rules"
        raise StateError(f"The job has {known}, found --rule {rule!r}. Name one of them.")
    pattern = parse_rule(rules[rule][1]).pattern
    assert pattern is not None
    entries = snapshot.state(uid, "_rule-matches").get(key, None) if "_rule-matches" in names else None
    entry = None if entries is None else entries.get(rule)
    return pattern, None if entry is None else entry[1]


def _listed(match: dict[str, list[Any]]) -> str:
    return ", ".join(f"{name} = {', '.join(map(repr, events))}" for name, events in match.items())

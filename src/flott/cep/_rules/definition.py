"""A rule as JSON, and what it means: a pattern with a name and a version, or an order about one.

The schema is described in docs/guide/rules-as-data.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flott.cep._automaton.automaton import compile_pattern
from flott.cep._pattern import Pattern, WithinType
from flott.cep._rules.expressions import parse_expression
from flott.cep._skip import AfterMatchSkipStrategy
from flott.common._durations import parse_nanos
from flott.common.time import Duration
from flott.errors import ProgramError

_LINKS = {
    "next": "next",
    "followed-by": "followed_by",
    "followed-by-any": "followed_by_any",
    "not-next": "not_next",
    "not-followed-by": "not_followed_by",
}
_SKIPS = {
    "no-skip": AfterMatchSkipStrategy.no_skip,
    "to-next": AfterMatchSkipStrategy.skip_to_next,
    "past-last-event": AfterMatchSkipStrategy.skip_past_last_event,
}
_SKIPS_TO = {"to-first": AfterMatchSkipStrategy.skip_to_first, "to-last": AfterMatchSkipStrategy.skip_to_last}
_RULE_FIELDS = {"rule", "version", "pattern", "enabled", "remove", "partial_matches"}
_PATTERN_FIELDS = {"stages", "within", "skip"}
_STAGE_FIELDS = {
    "name", "group", "link", "where", "until", "times", "optional", "greedy", "inside", "within",
}  # fmt: skip


@dataclass(frozen=True)
class RuleChange:
    """What a record of the stream of rules asks for."""

    rule: str
    version: int | None = None  #: None: one more than before
    pattern: Pattern[Any] | None = None  #: None: the rule keeps its pattern
    enabled: bool = True
    removed: bool = False
    keeps_partial_matches: bool = False
    source: str = ""  #: the definition as JSON, in one form


def parse_rule(record: object) -> RuleChange:
    """Return what a record asks for: a JSON text, or what ``json.loads`` makes of one.

    >>> change = parse_rule('{"rule": "hot", "pattern": {"stages": [{"name": "high", "where": "degrees > 90"}]}}')
    >>> print(change.rule, "-", change.pattern)
    hot - high
    """
    definition = _loaded(record)
    _only(definition, _RULE_FIELDS, "A rule")
    rule, version = definition.get("rule"), definition.get("version")
    if not isinstance(rule, str) or not rule:
        raise ProgramError(f"A rule has a name in 'rule', a text that is not empty, found {rule!r}.")
    if version is not None and (type(version) is not int or version < 1):
        raise ProgramError(f"The version of rule {rule!r} is a whole number of at least 1, found {version!r}.")
    kept = definition.get("partial_matches", "drop")
    if kept not in ("keep", "drop"):
        raise ProgramError(f"'partial_matches' of rule {rule!r} is \"keep\" or \"drop\", found {kept!r}.")
    pattern = definition.get("pattern")
    removed, enabled = _flag(definition, "remove", False), _flag(definition, "enabled", True)
    if pattern is not None and removed:
        raise ProgramError(f"Rule {rule!r} has a pattern and is to be removed. Leave one of them out.")
    return RuleChange(
        rule,
        version,
        None if pattern is None else parse_pattern(pattern),
        enabled,
        removed,
        kept == "keep",
        json.dumps(definition, sort_keys=True),
    )


def parse_pattern(definition: object) -> Pattern[Any]:
    """Return the pattern of a definition, checked as a pattern of a program is."""
    if not isinstance(definition, Mapping):
        raise ProgramError(f"A pattern is an object with 'stages', found {definition!r}.")
    _only(definition, _PATTERN_FIELDS, "A pattern")
    pattern = _stages(definition.get("stages"), _skip(definition.get("skip")))
    if "within" in definition:
        pattern = pattern.within(_duration(definition["within"]))
    compile_pattern(pattern)  # refuses what cannot match
    return pattern


def _loaded(record: object) -> Mapping[str, Any]:
    if isinstance(record, str | bytes):
        try:
            record = json.loads(record)
        except ValueError as error:
            raise ProgramError(f"A rule is a JSON object, found a text that is none: {error}.") from None
    if not isinstance(record, Mapping):
        raise ProgramError(f"A rule is a JSON object, found {record!r}.")
    return record


def _only(definition: Mapping[str, Any], known: set[str], what: str) -> None:
    unknown = sorted(set(definition) - known)
    if unknown:
        raise ProgramError(f"{what} has the fields {', '.join(sorted(known))}, found {unknown[0]!r}.")


def _flag(definition: Mapping[str, Any], name: str, default: bool) -> bool:
    value = definition.get(name, default)
    if not isinstance(value, bool):
        raise ProgramError(f"{name!r} is true or false, found {value!r}.")
    return value


def _skip(definition: object) -> AfterMatchSkipStrategy:
    if definition is None:
        return AfterMatchSkipStrategy.no_skip()
    if isinstance(definition, str) and definition in _SKIPS:
        return _SKIPS[definition]()
    if isinstance(definition, Mapping) and len(definition) == 1:
        ((kind, name),) = definition.items()
        if kind in _SKIPS_TO:
            return _SKIPS_TO[kind](name)
    expected = ", ".join([*_SKIPS, *(f'{{"{kind}": stage}}' for kind in _SKIPS_TO)])
    raise ProgramError(f"'skip' of a pattern is one of {expected}, found {definition!r}.")


def _stages(definitions: object, skip: AfterMatchSkipStrategy) -> Pattern[Any]:
    if not isinstance(definitions, list) or not definitions:
        raise ProgramError(f"'stages' is a list with at least one stage, found {definitions!r}.")
    pattern: Pattern[Any] | None = None
    for definition in definitions:
        if not isinstance(definition, Mapping):
            raise ProgramError(f"A stage is an object with a 'name' or a 'group', found {definition!r}.")
        _only(definition, _STAGE_FIELDS, "A stage")
        pattern = _refined(_appended(pattern, definition, skip), definition)
    assert pattern is not None
    return pattern


def _appended(
    pattern: Pattern[Any] | None, definition: Mapping[str, Any], skip: AfterMatchSkipStrategy
) -> Pattern[Any]:
    if ("name" in definition) is ("group" in definition):
        raise ProgramError(f"A stage has either a 'name' or a 'group', found {dict(definition)!r}.")
    what: Any = definition.get("name")
    if "group" in definition:
        what = _stages(definition["group"], AfterMatchSkipStrategy.no_skip())
    if pattern is None:
        if "link" in definition:
            raise ProgramError(f"The first stage has no 'link', found {definition['link']!r}.")
        return Pattern.begin(what, skip)
    link = definition.get("link", "followed-by")
    if link not in _LINKS:
        raise ProgramError(f"'link' of a stage is one of {', '.join(_LINKS)}, found {link!r}.")
    made: Pattern[Any] = getattr(pattern, _LINKS[link])(what)
    return made


def _refined(pattern: Pattern[Any], definition: Mapping[str, Any]) -> Pattern[Any]:
    if "where" in definition:
        pattern = pattern.where(parse_expression(definition["where"]).condition())
    if "times" in definition:
        pattern = _repeated(pattern, definition["times"])
    match definition.get("inside"):
        case None:
            pass
        case "consecutive":
            pattern = pattern.consecutive()
        case "combinations":
            pattern = pattern.allow_combinations()
        case other:
            raise ProgramError(f"'inside' of a stage is consecutive or combinations, found {other!r}.")
    if _flag(definition, "greedy", False):
        pattern = pattern.greedy()
    if "until" in definition:
        pattern = pattern.until(parse_expression(definition["until"]).condition())
    if _flag(definition, "optional", False):
        pattern = pattern.optional()
    if "within" in definition:
        pattern = pattern.within(_duration(definition["within"]), WithinType.PREVIOUS_AND_CURRENT)
    return pattern


def _repeated(pattern: Pattern[Any], times: object) -> Pattern[Any]:
    match times:
        case int() if not isinstance(times, bool):
            return pattern.times(times)
        case [int(lowest), int(highest)]:
            return pattern.times(lowest, highest)
        case [int(lowest), None]:
            return pattern.times_or_more(lowest)
    raise ProgramError(
        f"'times' of a stage is a number, a range such as [2, 4], or [2, null] for two or more, found {times!r}."
    )


def _duration(text: object) -> Duration:
    try:
        if isinstance(text, bool) or not isinstance(text, str | int):
            raise ValueError
        return Duration.of_millis(text) if isinstance(text, int) else Duration.of_millis(parse_nanos(text) // 1_000_000)
    except ValueError:
        raise ProgramError(f"'within' is a duration such as \"10 s\", or milliseconds, found {text!r}.") from None

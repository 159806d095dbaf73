"""What rules give: matches with the rule that found them, and reports of rules that failed. Values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from flott.datastream.output_tag import OutputTag

T = TypeVar("T")


@dataclass(frozen=True)
class RuleMatch(Generic[T]):
    """A match of a rule; of a partial match whose time is over, the events so far."""

    rule: str
    version: int
    match: dict[str, list[T]]
    timestamp: int


@dataclass(frozen=True)
class RuleFailure:
    """A rule that was refused, or that was quarantined because a condition raised."""

    rule: str | None  #: None: the record has no rule that could be named
    version: int | None
    error: str
    card: str  #: the failure card: where, with which key and event, and why


#: The id of the side output of :class:`RuleFailure`.
RULE_FAILURES = "flott-rule-failures"


def rule_failures_tag() -> OutputTag[RuleFailure]:
    """Return the tag of the side output of rules that were refused or quarantined.

    It is made when it is asked for: a process that has no tag does not examine records for side outputs.
    """
    return OutputTag(RULE_FAILURES, RuleFailure)

"""What happens to partial matches after a match: Flink's five strategies. Values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class SkipKind(Enum):
    """Which partial matches a match discards."""

    NO_SKIP = "NO_SKIP"
    TO_NEXT = "SKIP_TO_NEXT"
    PAST_LAST_EVENT = "SKIP_PAST_LAST_EVENT"
    TO_FIRST = "SKIP_TO_FIRST"
    TO_LAST = "SKIP_TO_LAST"


@dataclass(frozen=True)
class AfterMatchSkipStrategy:
    """How many matches an event may belong to. Passed to ``Pattern.begin``.

    >>> AfterMatchSkipStrategy.skip_to_first("b")
    SKIP_TO_FIRST['b']
    """

    kind: SkipKind
    pattern_name: str | None = None
    throws_on_miss: bool = False

    @staticmethod
    def no_skip() -> AfterMatchSkipStrategy:
        """Emit every match. This is the default."""
        return AfterMatchSkipStrategy(SkipKind.NO_SKIP)

    @staticmethod
    def skip_to_next() -> AfterMatchSkipStrategy:
        """Discard the partial matches that started with the same event as the match."""
        return AfterMatchSkipStrategy(SkipKind.TO_NEXT)

    @staticmethod
    def skip_past_last_event() -> AfterMatchSkipStrategy:
        """Discard the partial matches that started before the match ended."""
        return AfterMatchSkipStrategy(SkipKind.PAST_LAST_EVENT)

    @staticmethod
    def skip_to_first(pattern_name: str) -> AfterMatchSkipStrategy:
        """Discard the partial matches that started before the first event that the match has under a name."""
        return AfterMatchSkipStrategy(SkipKind.TO_FIRST, pattern_name)

    @staticmethod
    def skip_to_last(pattern_name: str) -> AfterMatchSkipStrategy:
        """Discard the partial matches that started before the last event that the match has under a name."""
        return AfterMatchSkipStrategy(SkipKind.TO_LAST, pattern_name)

    def throw_exception_on_miss(self) -> AfterMatchSkipStrategy:
        """Fail if the match has no event under the name, or if it is the event that the match starts with."""
        return replace(self, throws_on_miss=True)

    @property
    def skips(self) -> bool:
        """Return whether a match may discard partial matches."""
        return self.kind is not SkipKind.NO_SKIP

    def __repr__(self) -> str:
        return self.kind.value + (f"[{self.pattern_name!r}]" if self.pattern_name is not None else "")

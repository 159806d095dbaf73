"""What the sinks of key-value and document stores have in common: limits, retries, rejected records. Specifications.

Such a sink writes in its writer, before the checkpoint is complete. That is harmless, because each write names its key:
an epoch that is repeated writes the same keys again. What writes is in ``flott.runtime.connectors.stores``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from flott.datastream.connectors.base import Committer, Guarantee, OnError, Sink
from flott.errors import ProgramError

T = TypeVar("T")


@dataclass(frozen=True)
class RetryPolicy:
    """When a request that failed is sent again: after a delay that grows, and is shortened at random.

    The random part (``jitter``) keeps many subtasks from asking an overloaded server again at the same moment.

    >>> RetryPolicy(initial_delay_ms=100, multiplier=2, max_delay_ms=300).delay_ms(3, chance=0.0)
    300
    >>> RetryPolicy(initial_delay_ms=100, jitter=0.5).delay_ms(1, chance=1.0)
    50
    """

    max_attempts: int = 8  #: how often a request is sent at most; 1: it is never sent again
    initial_delay_ms: int = 100
    multiplier: float = 2.0
    max_delay_ms: int = 10_000
    jitter: float = 0.5  #: up to this share of a delay is taken off at random

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ProgramError(f"A request is sent at least once, found max_attempts={self.max_attempts}.")
        if self.initial_delay_ms < 0 or self.max_delay_ms < self.initial_delay_ms or self.multiplier < 1:
            raise ProgramError(
                f"Delays must not shrink: found initial_delay_ms={self.initial_delay_ms}, max_delay_ms="
                f"{self.max_delay_ms}, multiplier={self.multiplier}; expected 0 <= initial <= max and a multiplier of"
                " at least 1."
            )
        if not 0 <= self.jitter <= 1:
            raise ProgramError(f"The jitter is a share between 0 and 1, found {self.jitter}.")

    def delay_ms(self, attempts: int, chance: float) -> int:
        """Return how long to wait after so many attempts; ``chance`` is a random number between 0 and 1."""
        full = min(float(self.max_delay_ms), self.initial_delay_ms * self.multiplier ** min(attempts - 1, 64))
        return int(full * (1 - self.jitter * chance))


@dataclass(frozen=True)
class BulkLimits:
    """How large a request is, and how much a subtask keeps in memory before it sends what it has.

    Within an epoch, only the last change of each key is sent. So the buffer is sent at the end of an epoch, or earlier
    when it is full.
    """

    max_actions: int = 1000  #: changes in one request
    max_bytes: int = 5 * 1024 * 1024  #: size of one request, unless a single change is larger
    buffer_actions: int = 100_000
    buffer_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        for name in ("max_actions", "max_bytes", "buffer_actions", "buffer_bytes"):
            if getattr(self, name) < 1:
                raise ProgramError(f"Found a limit of {name}={getattr(self, name)}: it must be at least 1.")


class StoreSink(Sink[T]):
    """A sink that writes by key. Subclasses are frozen dataclasses with a field ``on_rejected``."""

    on_rejected: OnError

    @property
    def guarantee(self) -> Guarantee | None:
        return Guarantee.IDEMPOTENT

    def create_committer(self) -> Committer | None:
        from flott.runtime.connectors.stores.rejections import dead_letter_committer

        return dead_letter_committer(self.on_rejected)


def check_on_rejected(on_rejected: Any) -> OnError:
    """Return the option, or say what it must be."""
    if not isinstance(on_rejected, OnError):
        raise ProgramError(
            f"on_rejected is OnError.fail(), OnError.skip() or OnError.dead_letter(sink), found {on_rejected!r}."
        )
    return on_rejected

"""A change of a store, and what the store answered to it. Task side."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any

#: The lower bits of a version number the buffers that a subtask sends in one epoch; the upper ones are its time.
FLUSH_BITS = 20


@dataclass(slots=True)
class Action:
    """A change of one key."""

    key: Hashable | None  #: None: the store invents a key, so the change can neither be replaced nor repeated
    body: Any  #: what is stored; None: the key is deleted
    size: int  #: about how many bytes it takes in a request


class ActionVerdict(Enum):
    """What became of an action."""

    DONE = "done"
    SUPERSEDED = "superseded"  #: the store has a newer version, written by a later epoch: as good as done
    RETRY = "retry"  #: the store is busy or lost a replica: the same action may succeed later
    REJECTED = "rejected"  #: the store will never accept it


@dataclass(frozen=True)
class ActionOutcome:
    """The verdict about one action, and the store's reason."""

    verdict: ActionVerdict
    reason: str = ""


DONE = ActionOutcome(ActionVerdict.DONE)
SUPERSEDED = ActionOutcome(ActionVerdict.SUPERSEDED)


class Unavailable(Exception):
    """A whole request failed, in a way that may pass: no connection, a time-out, an overloaded server."""

    def __init__(self, reason: str, retry_after_ms: int | None = None):
        super().__init__(reason)
        self.reason = reason
        self.retry_after_ms = retry_after_ms  #: the server asked for this delay


def version_of(now_ms: int, flush: int) -> int:
    """Return the external version of what is written in an epoch of this time; ``flush`` numbers the buffers sent.

    The time of an epoch is fixed before it runs and never goes back. So a repeated epoch has the same version and may
    write again. A later epoch has a higher one, also in a job that was started again or from an old savepoint. A
    process that was believed dead and writes late has a lower one, and a store that compares versions refuses it.

    >>> version_of(1_700_000_000_007, 1) > version_of(1_700_000_000_007, 0) > version_of(1_700_000_000_006, 99)
    True
    """
    return now_ms << FLUSH_BITS | min(flush, (1 << FLUSH_BITS) - 1)

"""Keeps the last change of each key until it is sent, and cuts what it has into requests. Task side."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from flott.datastream.connectors._stores import BulkLimits
from flott.runtime.connectors.stores.actions import Action


class ChangeBuffer:
    """Collects actions. The last action of a key replaces the ones before it, so a key is sent once in an epoch.

    This is more than thrift: an attempt that failed has shown no value that a later record of the epoch replaces, and
    what it has shown is what the repeated epoch shows.
    """

    def __init__(self, limits: BulkLimits):
        self._limits = limits
        self._changes: dict[Hashable, Action] = {}
        self._additions: list[Action] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._changes) + len(self._additions)

    def extend(self, actions: Iterable[Action]) -> None:
        """Add actions, in order."""
        changes, additions, size = self._changes, self._additions, 0
        for action in actions:
            if action.key is None:
                additions.append(action)
            else:
                replaced = changes.pop(action.key, None)
                if replaced is not None:
                    size -= replaced.size
                changes[action.key] = action
            size += action.size
        self._bytes += size

    @property
    def is_full(self) -> bool:
        """Return whether it is to be sent before the epoch ends."""
        return self._bytes >= self._limits.buffer_bytes or len(self) >= self._limits.buffer_actions

    def drain(self) -> Iterator[list[Action]]:
        """Empty the buffer; yield its actions in lists of the size of a request."""
        actions = [*self._changes.values(), *self._additions]
        self._changes, self._additions, self._bytes = {}, [], 0
        return requests(actions, self._limits)


def requests(actions: list[Action], limits: BulkLimits) -> Iterator[list[Action]]:
    """Cut actions into lists that keep to the limits; one that is too large by itself is alone."""
    request: list[Action] = []
    size = 0
    for action in actions:
        if request and (len(request) >= limits.max_actions or size + action.size > limits.max_bytes):
            yield request
            request, size = [], 0
        request.append(action)
        size += action.size
    if request:
        yield request

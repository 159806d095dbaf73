"""Divides what an epoch may read among partitions. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

P = TypeVar("P", bound=Hashable)


def share_out(budget: int, available: Mapping[P, int]) -> dict[P, int]:
    """Give every partition the same share; what one does not need goes to the others.

    >>> share_out(10, {"a": 2, "b": 100, "c": 100})
    {'a': 2, 'b': 4, 'c': 4}
    >>> share_out(1, {"a": 5, "b": 5})
    {'a': 1, 'b': 0}
    """
    shares = dict.fromkeys(available, 0)
    left = budget
    # From the least to the most: a partition takes what it has, or an equal part of what is left for it and the rest.
    waiting = sorted(available, key=lambda each: available[each])
    for index, each in enumerate(waiting):
        rest = len(waiting) - index
        shares[each] = min(available[each], -(-left // rest))
        left -= shares[each]
    return shares

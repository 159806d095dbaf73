"""Floats of 32 bits, which Python does not have: the values of ``Types.FLOAT()``. Pure."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence


def rounded(values: Sequence[float]) -> list[float]:
    """Return the nearest values of 32 bits; those beyond their range are infinite, as in Java.

    >>> rounded([110.1, 0.5, 1e300])
    [110.0999984741211, 0.5, inf]
    """
    return array("f", values).tolist()


def shortest(value: float) -> float:
    """Return the value with the fewest digits that is rounded to the same one of 32 bits: what Java prints.

    >>> shortest(110.0999984741211)
    110.1
    """
    if not math.isfinite(value):
        return value
    [target] = rounded((value,))
    if math.isinf(target):
        return target
    for digits in range(1, 9):
        candidate = float(f"{target:.{digits}g}")
        if rounded((candidate,))[0] == target:
            return candidate
    return float(f"{target:.9g}")  # nine digits tell all values of 32 bits apart

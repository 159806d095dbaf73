"""Floating-point numbers rounded to decimal digits: all rows at once, but for those too close to the border."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Up to here doubles are exact integers, and so are the powers of ten below 10**22.
_EXACT = 2.0**52


def scaled(values: Any, digits: int, *, cut: bool, slack: float) -> tuple[Any, Any]:
    """Return ``values * 10 ** digits`` rounded half up (or cut) to whole numbers, and for which rows that is certain.

    A row is not certain if the number lies so close to the border between two results that the error of one
    multiplication, ``slack`` relative to it, may have moved it across. Those rows have the value 0.
    """
    with np.errstate(all="ignore"):
        shifted = np.abs(values * 10.0**digits if digits >= 0 else values / 10.0**-digits)
        whole = np.floor(shifted)
        part = shifted - whole
        border = np.minimum(part, 1 - part) if cut else np.abs(part - 0.5)
        sure = (border > shifted * slack) & (shifted < _EXACT) & (abs(digits) <= 22)
        if cut:
            sure |= (shifted == 0) & np.isfinite(values)
        rounded = whole if cut else whole + (part >= 0.5)
    return np.where(sure, np.copysign(rounded, values), 0.0), sure


def to_digits(values: Any, digits: int, *, cut: bool) -> tuple[Any, Any]:
    """Return doubles rounded half up (or cut) to digits behind the point, and for which rows that is certain."""
    whole, sure = scaled(values, digits, cut=cut, slack=1e-15)
    with np.errstate(all="ignore"):
        return whole / 10.0**digits if digits >= 0 else whole * 10.0**-digits, sure

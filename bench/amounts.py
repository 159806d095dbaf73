"""Numbers as people read them."""

from __future__ import annotations


def rate(value: float | None) -> str:
    """Records a second: ``1.25 M``, ``14.1 k``."""
    if value is None:
        return "missing"
    return f"{value / 1e6:.2f} M" if value >= 1e6 else f"{value / 1e3:,.1f} k"


def times(ratio: float) -> str:
    """A ratio: ``0.31×``, ``147×``."""
    return f"{ratio:.2f}×" if ratio < 10 else f"{ratio:,.0f}×"


def size(count: float) -> str:
    """Bytes: ``45 kB``, ``6.0 MB``."""
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.0f} kB"


def duration(milliseconds: float) -> str:
    """A time: ``12 ms``, ``1.4 s``."""
    return f"{milliseconds / 1e3:,.1f} s" if milliseconds >= 1e3 else f"{milliseconds:,.0f} ms"

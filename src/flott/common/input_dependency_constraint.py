"""When a task may start, seen from its inputs: kept for programs that name it. Spark's stages decide in Flott."""

from __future__ import annotations

from enum import Enum

__all__ = ["InputDependencyConstraint"]


class InputDependencyConstraint(Enum):
    """Start with any input ready, or only with all of them."""

    ANY = 0
    ALL = 1

"""The start conditions of tasks, for programs that use the names. In Flott, Spark's stages decide."""

from __future__ import annotations

from enum import Enum

__all__ = ["InputDependencyConstraint"]


class InputDependencyConstraint(Enum):
    """Start with any input ready, or only with all of them."""

    ANY = 0
    ALL = 1

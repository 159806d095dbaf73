"""Whether a statement has a result to read."""

from __future__ import annotations

from enum import Enum

__all__ = ["ResultKind"]


class ResultKind(Enum):
    """Whether a statement gave only its success, or rows."""

    SUCCESS = 0
    SUCCESS_WITH_CONTENT = 1

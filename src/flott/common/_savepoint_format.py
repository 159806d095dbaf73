"""In which form a savepoint is written. Flink's words; PyFlink does not have them."""

from __future__ import annotations

from enum import Enum

__all__ = ["SavepointFormatType"]


class SavepointFormatType(Enum):
    """What a savepoint is made of.

    ``CANONICAL`` is a copy of the state, written anew: one folder that depends on nothing and may be moved. ``NATIVE``
    only refers to the job's own state files, so it is taken at once however large the state is; the files stay where
    they are, also when the job ends, until the savepoint is disposed of.
    """

    CANONICAL = 0
    NATIVE = 1

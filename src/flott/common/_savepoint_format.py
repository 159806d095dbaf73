"""The formats of savepoints, under Flink's names. PyFlink does not have them."""

from __future__ import annotations

from enum import Enum

__all__ = ["SavepointFormatType"]


class SavepointFormatType(Enum):
    """The format of a savepoint.

    ``CANONICAL`` is a complete copy of the state in one self-contained folder, which can be moved. ``NATIVE`` refers to
    the
    job's own state files, so its duration does not depend on the size of the state. The files stay in place, also when
    the
    job ends, until the savepoint is disposed of.
    """

    CANONICAL = 0
    NATIVE = 1

"""``CachedDataStream``: the result of ``cache()``. Driver side."""

from __future__ import annotations

from typing import Generic

from flott.datastream._data_stream import DataStream, T


class CachedDataStream(DataStream[T], Generic[T]):
    """A stream whose records Flink would keep for later jobs.

    Flott computes them again in each job. The results are the same if the functions are deterministic and the source
    returns the same records again.
    """

    def invalidate(self) -> None:
        """Do nothing, because no records are kept. Accepted for ported programs."""

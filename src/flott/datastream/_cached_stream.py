"""``CachedDataStream``: what ``cache()`` returns. Driver side."""

from __future__ import annotations

from typing import Generic

from flott.datastream._data_stream import DataStream, T


class CachedDataStream(DataStream[T], Generic[T]):
    """A stream whose records Flink would keep for later jobs. Flott computes them anew in each job: the results are
    the same as long as the functions are deterministic and the source gives the same records again."""

    def invalidate(self) -> None:
        """Accepted for ported programs: nothing is kept that could be given up."""

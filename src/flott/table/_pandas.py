"""Rows as a pandas data frame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flott.common.types import Row
from flott.errors import MissingExtraError
from flott.table._remaining_rows import remaining
from flott.table._types.logical import RowType


def data_frame(rows: Iterable[Row], row_type: RowType) -> Any:
    """Return rows as a data frame. Rows that were updated or deleted later are not in it."""
    try:
        import pandas as pd  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("to_pandas() needs pandas: pip install pandas") from error
    kept = remaining(rows)
    names = list(row_type.names)
    if not kept:
        return pd.DataFrame(columns=names)
    return pd.DataFrame({name: [row[index] for row in kept] for index, name in enumerate(names)}, columns=names)

"""What decoders and encoders of messages are, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class DecodedColumns:
    """The rows of some messages."""

    columns: pa.RecordBatch
    kinds: np.ndarray[Any, Any] | None = None  #: row kinds; None: all rows are inserts
    #: The position of the message that each row comes from; None: each message is one row.
    messages: np.ndarray[Any, Any] | None = None
    bad: Sequence[tuple[int, str]] = field(default=())  #: messages that cannot be decoded, and why


class ColumnDecoder(Protocol):
    """Turns messages into columns."""

    def block(self, data: bytes) -> pa.RecordBatch | None:
        """Return the rows of a block of whole lines; None if they must be decoded one by one."""

    def decode(self, messages: Sequence[bytes]) -> DecodedColumns:
        """Return the rows of messages."""


class ColumnEncoder(Protocol):
    """Turns columns into messages."""

    def encode(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> pa.Array:
        """Return a message (binary) for each row."""

    def lines(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> bytes:
        """Return the rows as the lines of a file."""


def decoded_one_by_one(
    messages: Sequence[bytes], decode_row: Callable[[bytes], Any], columns_of: Callable[[list[Any]], pa.RecordBatch]
) -> DecodedColumns:
    """Return the rows of messages that are decoded one by one; None as a row stands for a message without one.

    ``decode_row`` raises ``ValueError`` for a message that cannot be decoded.
    """
    rows: list[Any] = []
    origins: list[int] = []
    bad: list[tuple[int, str]] = []
    for index, message in enumerate(messages):
        try:
            row = decode_row(message)
        except (ValueError, TypeError, ArithmeticError, RecursionError, KeyError) as error:
            bad.append((index, str(error) or type(error).__name__))
            continue
        if row is not None:
            rows.append(row)
            origins.append(index)
    at = None if len(origins) == len(messages) else np.array(origins, dtype=np.int64)
    return DecodedColumns(columns_of(rows), messages=at, bad=tuple(bad))

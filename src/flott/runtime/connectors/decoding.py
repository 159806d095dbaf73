"""Decodes the messages of a source with its schema, and separates those that are unreadable. Task side.

All messages are decoded at once. Only if that fails are they decoded one by one, to learn which are unreadable, so a
batch without bad records costs nothing extra.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from flott.common.serialization import DeserializationSchema
from flott.errors import EpochFailure, ProgramError

#: What concerns more than one message: the registry of schemas does not answer, or a library is not installed.
_NOT_A_BAD_RECORD = (EpochFailure, ProgramError)


class Decoded(NamedTuple):
    """The records of some messages."""

    records: list[Any]
    #: For each record the index of its message. ``None``: each message has one record, in the same order.
    origins: list[int] | None = None
    #: The indices of the messages that are unreadable, each with the reason.
    bad: list[tuple[int, Exception]] = []  # noqa: RUF012 (a NamedTuple's default; it is never changed)


def decode_batch(schema: DeserializationSchema, messages: Sequence[bytes | None]) -> Decoded:
    """Return the records of the messages. A message without a value (``None``) holds no record.

    >>> from flott.common.serialization import SimpleStringSchema
    >>> decode_batch(SimpleStringSchema(), [b"a", b"b"])
    Decoded(records=['a', 'b'], origins=None, bad=[])
    >>> decode_batch(SimpleStringSchema(), [b"a", None, b"b"]).origins
    [0, 2]
    """
    if None in messages:
        present = [(index, message) for index, message in enumerate(messages) if message is not None]
        decoded = decode_batch(schema, [message for _, message in present])
        return _renumbered(decoded, [index for index, _ in present])
    complete: Sequence[Any] = messages
    try:
        found = schema.deserialize_batch(complete)
    except _NOT_A_BAD_RECORD:
        raise
    except Exception:
        return _decode_each(schema, complete)
    if not schema.returns_lists and None not in found:
        return Decoded(found)
    return _flattened(schema, list(enumerate(found)), [])


def _decode_each(schema: DeserializationSchema, messages: Sequence[bytes]) -> Decoded:
    found: list[tuple[int, Any]] = []
    bad: list[tuple[int, Exception]] = []
    for index, message in enumerate(messages):
        try:
            found.append((index, schema.deserialize(message)))
        except _NOT_A_BAD_RECORD:
            raise
        except Exception as error:
            bad.append((index, error))
    return _flattened(schema, found, bad)


def _flattened(
    schema: DeserializationSchema, found: list[tuple[int, Any]], bad: list[tuple[int, Exception]]
) -> Decoded:
    if schema.returns_lists:
        pairs = [(index, record) for index, records in found for record in records or ()]
    else:
        pairs = [(index, record) for index, record in found if record is not None]
    return Decoded([record for _, record in pairs], [index for index, _ in pairs], bad)


def _renumbered(decoded: Decoded, indices: list[int]) -> Decoded:
    """Return the same with the indices of the messages before those without a value were left out."""
    origins = indices if decoded.origins is None else [indices[origin] for origin in decoded.origins]
    return Decoded(decoded.records, origins, [(indices[index], error) for index, error in decoded.bad])

"""Recognises batches of tuples of numbers by their bytes: a third of the cost of looking at columns. Runs in tasks.

``marshal`` writes a tuple of numbers as a fixed sequence of tags and values, and it writes exact types only: a bool, a
null, a subclass or another length has other tags. So if every tuple of a batch has the tags of the first one at the
same places, all of them are of its types. The bytes are looked at with strides, one slice per tag, and thrown away.

    (  2 0 0 0  i  . . . .  g  . . . . . . . .        a tuple of an int of at most 32 bits and a float

An int of more than 32 bits is written as ``l``, the number of its digits (of 15 bits) and the digits. Its tag and the
number of its digits are compared, so a batch in which that number differs is not recognised. Only batches are
recognised here, nothing is rejected: a batch that is not recognised is checked in the ordinary way.
"""

from __future__ import annotations

from collections.abc import Sequence
from marshal import dumps
from typing import Any

#: The last version of the format that writes every object in full, wherever it came before.
_VERSION = 2
_LIST_HEADER = 5  #: bytes: a tag and a length
_TUPLE_HEADER = 5
_INT = ord("i")
_LONG = ord("l")
_FLOAT = ord("g")
#: So many digits of 15 bits are less than 64 bits, whatever the sign.
_MAX_DIGITS = 4


def are_number_tuples(values: Sequence[Any], fields: str) -> bool:
    """Return whether all values are tuples of numbers; False also where that is not known.

    ``fields`` has a letter for each field: ``i`` for an int of at most 32 bits, ``l`` for one of at most 64 bits, ``g``
    for a float.

    >>> are_number_tuples([(1, 2.0), (3, 4.0)], "ig"), are_number_tuples([(1, 2.0), (True, 4.0)], "ig")
    (True, False)
    """
    if not values:
        return True
    try:
        first = dumps(values[0], _VERSION)
        marks = _marks(first, fields)
        if marks is None or len(dumps(values[-1], _VERSION)) != len(first):
            return False
        data = dumps(values if values.__class__ is list else list(values), _VERSION)
    except ValueError:  # a value that is not marshalled, such as an instance of a subclass
        return False
    count, width = len(values), len(first)
    return len(data) == _LIST_HEADER + count * width and all(
        data[_LIST_HEADER + offset :: width] == first[offset : offset + 1] * count for offset in marks
    )


def _marks(first: bytes, fields: str) -> list[int] | None:
    """Return the places of the bytes that must be the same in every tuple; None if the first is not of the types.

    The lowest byte of a tuple's length is enough: with it every tuple has at least as many bytes as the first, and as
    their sum is right, exactly as many.
    """
    if first[0] != ord("(") or int.from_bytes(first[1:5], "little") != len(fields):
        return None
    marks = [0, 1]
    offset = _TUPLE_HEADER
    for field in fields:
        tag = first[offset]
        marks.append(offset)
        if tag == _FLOAT and field == "g":
            offset += 9
        elif tag == _INT and field != "g":
            offset += 5
        elif tag == _LONG and field == "l":
            digits = abs(int.from_bytes(first[offset + 1 : offset + 5], "little", signed=True))
            if digits > _MAX_DIGITS:
                return None
            marks += range(offset + 1, offset + 5)
            offset += 5 + 2 * digits
        else:
            return None
    return marks

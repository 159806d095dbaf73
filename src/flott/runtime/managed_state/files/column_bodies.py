"""Bodies of columns: how values of one type are laid out as bytes. Numbers, texts, bytes, and what they all share.

A body begins with a tag that says how the values are laid out; its highest bit says that some are null, and then a
bitmap of the nulls follows and the rest holds only the other values. What a layout cannot represent exactly (an
instance of a subclass, say) is pickled, body by body: the tag says so, too. Numbers are little-endian.
"""

from __future__ import annotations

import pickle
import sys
from array import array
from collections.abc import Iterable
from decimal import Decimal
from itertools import accumulate
from types import NoneType
from typing import Any, ClassVar

from flott.errors import CorruptStateError

_NULLS = 0x80
_PICKLED = 0x00
_WIDTHS = ((0x01, "b"), (0x02, "h"), (0x03, "i"), (0x04, "q"))
_LONG_INTS = 0x05
_ALL_NULL = 0x06
_DOUBLES = 0x08
_BITS = 0x09
_TEXT = 0x10
_TEXT_WITH_LENGTHS = 0x11
_DICTIONARY = 0x12
_BYTES = 0x18

_SWAP = sys.byteorder == "big"
_ASCII_BITS = bytes.maketrans(b"\0\1", b"01")


class Unrepresentable(Exception):
    """A value does not fit the layout: its body is pickled. Never leaves this module."""


class Cursor:
    """Bytes, and how far they have been read."""

    __slots__ = ("data", "plain", "position")

    def __init__(self, data: bytes, plain: bool = False, position: int = 0):
        self.data = data
        self.plain = plain  #: records come as rows and dicts, without the program's classes
        self.position = position

    def byte(self) -> int:
        self.position += 1
        return self.data[self.position - 1]

    def number(self) -> int:
        """Return an unsigned number: seven bits a byte, lowest first; the highest bit says that more follow."""
        result = shift = 0
        while (found := self.byte()) & 0x80:
            result |= (found & 0x7F) << shift
            shift += 7
        return result | found << shift

    def take(self, length: int) -> bytes:
        start, self.position = self.position, self.position + length
        if self.position > len(self.data):
            raise CorruptStateError(f"A column ends in the middle: found {len(self.data) - start} bytes of {length}.")
        return self.data[start : self.position]


Parts = list[bytes]


def spell_number(number: int) -> bytes:
    """Return what ``Cursor.number`` reads."""
    if number < 0x80:
        return bytes((number,))
    spelled = bytearray()
    while number >= 0x80:
        spelled.append(number & 0x7F | 0x80)
        number >>= 7
    spelled.append(number)
    return bytes(spelled)


class Codec:
    """The bodies of one type."""

    #: The only class of values that is laid out; others are pickled. None: asked of ``_fits``.
    python_type: ClassVar[type[Any] | None] = None

    def write(self, values: list[Any], parts: Parts) -> None:
        """Append the body of these values; of none there is nothing to append."""
        if not values:
            return
        kinds = set(map(type, values))
        place = len(parts)
        parts.append(b"")  # the tag and the nulls, when they are known
        nulls = b""
        present = values
        if NoneType in kinds:
            kinds.remove(NoneType)
            if not kinds:
                parts[place] = bytes((_ALL_NULL,))
                return
            nulls = pack_bits([value is None for value in values])
            present = [value for value in values if value is not None]
        try:
            if not self._fits(kinds):
                raise Unrepresentable
            tag = self._pack(present, parts)
        except Unrepresentable:
            del parts[place:]
            write_pickled(values, parts)
        else:
            parts[place] = bytes((tag | _NULLS,)) + nulls if nulls else bytes((tag,))

    def read(self, cursor: Cursor, count: int) -> list[Any]:
        """Return the values of a body of so many."""
        if not count:
            return []
        tag = cursor.byte()
        if tag == _PICKLED:
            return _read_pickled(cursor, count)
        if tag == _ALL_NULL:
            return [None] * count
        if not tag & _NULLS:
            return self._unpack(tag, cursor, count)
        nulls = unpack_bits(cursor.take(-(-count // 8)), count)
        present = iter(self._unpack(tag & ~_NULLS, cursor, count - sum(nulls)))
        return [None if null else next(present) for null in nulls]

    def _fits(self, kinds: set[type]) -> bool:
        """Return whether values of these classes, none of which is None's, can be laid out."""
        return kinds == {self.python_type}

    def _pack(self, values: list[Any], parts: Parts) -> int:
        """Append the values, of which none is null; returns the tag, or raises ``Unrepresentable``."""
        raise NotImplementedError

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        """Return the values that were packed with this tag."""
        raise NotImplementedError


def unknown_tag(tag: int) -> CorruptStateError:
    """Return a column of a later version."""
    return CorruptStateError(
        f"A column is laid out in a way (tag {tag:#04x}) that this version of Flott does not know for its type. Use the"
        " version of Flott that wrote it, or a later one."
    )


def write_pickled(values: list[Any], parts: Parts) -> None:
    """Append a body of pickled values."""
    pickled = pickle.dumps(values, protocol=5)
    parts += (bytes((_PICKLED,)), spell_number(len(pickled)), pickled)


def _read_pickled(cursor: Cursor, count: int) -> list[Any]:
    values: list[Any] = pickle.loads(cursor.take(cursor.number()))
    if len(values) != count:
        raise CorruptStateError(f"A column holds {len(values)} values, expected {count}.")
    return values


class PickledCodec(Codec):
    """Whatever Python can pickle."""

    def write(self, values: list[Any], parts: Parts) -> None:
        if values:
            write_pickled(values, parts)

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        raise unknown_tag(tag)


class IntCodec(Codec):
    """Whole numbers: all in the narrowest of 1, 2, 4 and 8 bytes that holds each of them, or each in as many as it
    needs."""

    python_type: ClassVar[type[Any] | None] = int

    def _pack(self, values: list[Any], parts: Parts) -> int:
        for tag, code in _WIDTHS:
            try:
                packed = array(code, values)
            except OverflowError:
                continue
            if _SWAP:
                packed.byteswap()
            parts.append(packed.tobytes())
            return tag
        spelled = [value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True) for value in values]
        _pack_blob(spelled, parts)
        return _LONG_INTS

    def write_known(self, values: list[int], parts: Parts) -> None:
        """Append a body of what is known to be ints, none of them null."""
        if not values:
            return
        place = len(parts)
        parts.append(b"")
        parts[place] = bytes((self._pack(values, parts),))

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        if tag == _LONG_INTS:
            return [int.from_bytes(spelled, "little", signed=True) for spelled in _unpack_blob(cursor, count)]
        for known, code in _WIDTHS:
            if tag == known:
                packed = array(code)
                packed.frombytes(cursor.take(count * packed.itemsize))
                if _SWAP:
                    packed.byteswap()
                return packed.tolist()
        raise unknown_tag(tag)


class DoubleCodec(Codec):
    """Floating-point numbers, every bit of them."""

    python_type: ClassVar[type[Any] | None] = float

    def _pack(self, values: list[Any], parts: Parts) -> int:
        packed = array("d", values)
        if _SWAP:
            packed.byteswap()
        parts.append(packed.tobytes())
        return _DOUBLES

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        if tag != _DOUBLES:
            raise unknown_tag(tag)
        packed = array("d", cursor.take(8 * count))
        if _SWAP:
            packed.byteswap()
        return packed.tolist()


class BooleanCodec(Codec):
    """One bit each."""

    python_type: ClassVar[type[Any] | None] = bool

    def _pack(self, values: list[Any], parts: Parts) -> int:
        parts.append(pack_bits(values))
        return _BITS

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        if tag != _BITS:
            raise unknown_tag(tag)
        return unpack_bits(cursor.take(-(-count // 8)), count)


class TextCodec(Codec):
    """Strings: one text with a zero byte between two of them; those that occur again and again only once."""

    python_type: ClassVar[type[Any] | None] = str
    #: A dictionary is tried if so many of the first values hold at most so many different ones.
    SAMPLE, DISTINCT = 64, 16

    def _pack(self, values: list[Any], parts: Parts) -> int:
        if len(values) >= self.SAMPLE and len(set(values[: self.SAMPLE])) <= self.DISTINCT:
            distinct = dict.fromkeys(values)
            if 4 * len(distinct) <= len(values):
                numbers = dict(zip(distinct, range(len(distinct)), strict=True))
                parts.append(spell_number(len(distinct)))
                self._write_plain(list(distinct), parts)
                INTS.write_known(list(map(numbers.__getitem__, values)), parts)
                return _DICTIONARY
        return self._pack_plain(values, parts)

    def _write_plain(self, values: list[str], parts: Parts) -> None:
        place = len(parts)
        parts.append(b"")
        parts[place] = bytes((self._pack_plain(values, parts),))

    def _pack_plain(self, values: list[str], parts: Parts) -> int:
        joined = "\0".join(values)
        if joined.count("\0") == len(values) - 1:
            blob = joined.encode("utf-8", "surrogatepass")
            parts += (spell_number(len(blob)), blob)
            return _TEXT
        _pack_blob([value.encode("utf-8", "surrogatepass") for value in values], parts)
        return _TEXT_WITH_LENGTHS

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        if tag == _TEXT:
            text = cursor.take(cursor.number()).decode("utf-8", "surrogatepass")
            return text.split("\0")
        if tag == _TEXT_WITH_LENGTHS:
            return [spelled.decode("utf-8", "surrogatepass") for spelled in _unpack_blob(cursor, count)]
        if tag == _DICTIONARY:
            distinct = self.read(cursor, cursor.number())
            return list(map(distinct.__getitem__, INTS.read(cursor, count)))
        raise unknown_tag(tag)


class BytesCodec(Codec):
    """Byte strings: their lengths, then all of them."""

    python_type: ClassVar[type[Any] | None] = bytes

    def _pack(self, values: list[Any], parts: Parts) -> int:
        _pack_blob(values, parts)
        return _BYTES

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        if tag != _BYTES:
            raise unknown_tag(tag)
        return _unpack_blob(cursor, count)


def _pack_blob(values: list[bytes], parts: Parts) -> None:
    INTS.write_known(list(map(len, values)), parts)
    parts.append(b"".join(values))


def _unpack_blob(cursor: Cursor, count: int) -> list[bytes]:
    lengths = INTS.read(cursor, count)
    blob = cursor.take(sum(lengths))
    ends = list(accumulate(lengths))
    return [blob[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def pack_bits(flags: Iterable[bool]) -> bytes:
    """Return one bit each, the first in the lowest bit of the first byte."""
    spelled = bytes(flags)
    # Through Python's binary notation, which is read and written at C speed.
    return int(spelled[::-1].translate(_ASCII_BITS), 2).to_bytes(-(-len(spelled) // 8), "little")


def unpack_bits(packed: bytes, count: int) -> list[bool]:
    """Return the flags that ``pack_bits`` packed."""
    spelled = f"{int.from_bytes(packed, 'little'):0{count}b}"[::-1]
    return list(map("1".__eq__, spelled[:count]))


class DecimalCodec(Codec):
    """Decimals as Python spells them, which says every digit and the exponent."""

    python_type: ClassVar[type[Any] | None] = Decimal

    def _pack(self, values: list[Any], parts: Parts) -> int:
        return TEXTS._pack(list(map(str, values)), parts)

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        return list(map(Decimal, TEXTS._unpack(tag, cursor, count)))


INTS = IntCodec()
TEXTS = TextCodec()
BOOLEANS = BooleanCodec()
PICKLES = PickledCodec()

"""Sets of 32-bit integers in the portable form of Roaring bitmaps, which other programs can read.

A set is cut by the upper 16 bits of its members. Each part is a list of the lower 16 bits, a bitmap of 65,536 bits if
it has more than 4,096 members, or (read only) a list of runs.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

Members = np.ndarray[Any, np.dtype[np.uint32]]

_PLAIN, _WITH_RUNS = 12346, 12347
_LIST_LIMIT = 4096
_OFFSETS_FROM = 4  #: a set with runs has offsets only if it has so many parts


def members(data: bytes) -> Members:
    """Return the members of a set in ascending order; raise ``ValueError`` if the bytes are not a set."""
    try:
        return _members(data)
    except (struct.error, IndexError) as error:
        raise ValueError(str(error)) from error


def _members(data: bytes) -> Members:
    (cookie,) = struct.unpack_from("<I", data, 0)
    at = 4
    runs = b""
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        runs = data[at : at + (count + 7) // 8]
        at += (count + 7) // 8
    elif cookie == _PLAIN:
        (count,) = struct.unpack_from("<I", data, at)
        at += 4
    else:
        raise ValueError("the cookie is unknown")
    if count > 65536:
        raise ValueError("there are too many parts")
    header = np.frombuffer(data, "<u2", 2 * count, at).reshape(count, 2)
    at += 4 * count
    if not runs or count >= _OFFSETS_FROM:
        at += 4 * count  # parts follow in order, so that their offsets are not needed
    parts = []
    for index, (key, less_one) in enumerate(header.tolist()):
        size = less_one + 1
        if runs and runs[index // 8] >> index % 8 & 1:
            (pairs,) = struct.unpack_from("<H", data, at)
            found = np.frombuffer(data, "<u2", 2 * pairs, at + 2).reshape(pairs, 2).astype(np.uint32)
            low = np.concatenate([np.arange(a, a + n + 1) for a, n in found.tolist()] or [np.array([], int)])
            at += 2 + 4 * pairs
        elif size > _LIST_LIMIT:
            bits = np.frombuffer(data, np.uint8, 8192, at)
            low = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
            at += 8192
        else:
            low = np.frombuffer(data, "<u2", size, at)
            at += 2 * size
        parts.append(low.astype(np.uint32) | np.uint32(key << 16))
    return np.concatenate(parts) if parts else np.array([], dtype=np.uint32)


def bitmap(values: Members) -> bytes:
    """Return a set of members, which must be in ascending order and different."""
    keys, starts, sizes = np.unique(values >> np.uint32(16), return_index=True, return_counts=True)
    count = len(keys)
    parts = []
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        low = (values[start : start + size] & np.uint32(0xFFFF)).astype("<u2")
        if size > _LIST_LIMIT:
            bits = np.zeros(65536, dtype=np.uint8)
            bits[low] = 1
            parts.append(np.packbits(bits, bitorder="little").tobytes())
        else:
            parts.append(low.tobytes())
    header = np.stack([keys, sizes - 1], axis=1).astype("<u2").tobytes() if count else b""
    lengths = [len(part) for part in parts]
    first = 8 + 8 * count
    offsets = np.cumsum([first, *lengths])[:-1].astype("<u4").tobytes() if count else b""
    return b"".join([struct.pack("<II", _PLAIN, count), header, offsets, *parts])


def bitmap_text(data: bytes) -> str:
    """Return the members of a set, as unsigned numbers."""
    return "{" + ",".join(map(str, members(data).tolist())) + "}"

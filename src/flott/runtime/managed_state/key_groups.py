"""Key -> key group -> subtask: arithmetic only. The formulas are Flink's, the hash is ours.

The hash of a key is a mixed checksum of its canonical encoding, never Python's ``hash``, which is salted for strings.
It is the same on every machine, and in every version: state on disk is divided by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

from flott.common._ids import KeyGroup, SubtaskIndex
from flott.runtime.managed_state.encoding import encode_key

if TYPE_CHECKING:
    from flott.common.typeinfo import TypeInformation

T = TypeVar("T")

#: Keys remembered per operator and task; beyond that all of them are forgotten.
REMEMBERED_KEYS = 200_000


def key_group_of(key: Any, max_parallelism: int) -> KeyGroup:
    """Return the key group of a key."""
    return group_of_bytes(encode_key(key), max_parallelism)


def group_of_bytes(encoded: bytes, max_parallelism: int) -> KeyGroup:
    """Return the key group of a key, given its canonical bytes."""
    return KeyGroup(_mixed(crc32(encoded)) % max_parallelism)


def _mixed(checksum: int) -> int:
    """Return a checksum with mixed bits: those of short keys differ in few, and neighbours would share a subtask."""
    checksum = (checksum ^ (checksum >> 16)) * 0x21F0AAAD & 0xFFFFFFFF
    checksum = (checksum ^ (checksum >> 15)) * 0x735A2D97 & 0xFFFFFFFF
    return checksum ^ (checksum >> 15)


def subtask_of(group: KeyGroup, max_parallelism: int, parallelism: int) -> SubtaskIndex:
    """Return the subtask that owns a key group."""
    return SubtaskIndex(group * parallelism // max_parallelism)


def groups_of(subtask: int, max_parallelism: int, parallelism: int) -> range:
    """Return the key groups a subtask owns."""
    start = (subtask * max_parallelism + parallelism - 1) // parallelism
    stop = ((subtask + 1) * max_parallelism - 1) // parallelism + 1
    return range(start, stop)


class KeyGroupIndex(dict[Any, KeyGroup]):
    """``index[key]`` is the key's group; computed once and remembered, so that a known key costs one lookup."""

    def __init__(self, max_parallelism: int):
        super().__init__()
        self.max_parallelism = max_parallelism

    def __missing__(self, key: Any) -> KeyGroup:
        if len(self) >= REMEMBERED_KEYS:
            self.clear()
        group = self[key] = key_group_of(key, self.max_parallelism)
        return group


class SameGroup:
    """Gives all entries one key group, for tables that hold nothing of others."""

    __slots__ = ("group",)

    def __init__(self, group: KeyGroup):
        self.group = group

    def __call__(self, entry: Any) -> KeyGroup:
        return self.group


class TargetIndex(dict[Any, T]):
    """``index[key]`` is what stands for the key's target, such as the ``append`` of its list; remembered like a key
    group.

    A declared key type is checked when a key is new: one that equals a known key *is* that key.
    """

    def __init__(self, max_parallelism: int, targets: Sequence[T], key_type: TypeInformation | None = None):
        super().__init__()
        self._key_type = key_type
        self._max_parallelism = max_parallelism
        self._all = targets

    def __missing__(self, key: Any) -> T:
        if len(self) >= REMEMBERED_KEYS:
            self.clear()
        if self._key_type is not None:
            self._key_type.conform([key])
        group = key_group_of(key, self._max_parallelism)
        target = self[key] = self._all[subtask_of(group, self._max_parallelism, len(self._all))]
        return target

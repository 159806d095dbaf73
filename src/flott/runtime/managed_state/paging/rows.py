"""The names of rows: bytes under which entries stand in the database, so that what is scanned together stands together.

    <C or P> <table, 4> <key group, 2> <entry> ...

The key group comes first of what the entry says, so a scan in the order of rows is one in the order of key groups, and
within a group in the order of encoded keys: the same in every copy of the state. Parts that something follows stand
behind their length.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.managed_state.key_groups import group_of_bytes

#: entry -> its key group (2 bytes), then its encoded key, and namespace.
EntryBytes = Callable[[Any], bytes]

loads = pickle.loads


def table_bytes(name: str) -> bytes:
    """Return what stands for a table in the names of its rows."""
    return blake2b(name.encode(), digest_size=4).digest()


def entry_bytes(namespaced: bool, max_parallelism: int) -> EntryBytes:
    """Return the function that names the entries of a table."""

    def of_key(entry: Any) -> bytes:
        encoded = encode_key(entry)
        return group_of_bytes(encoded, max_parallelism).to_bytes(2, "big") + encoded

    def of_pair(entry: Any) -> bytes:
        key, namespace = entry
        encoded = encode_key(key)
        group = group_of_bytes(encoded, max_parallelism).to_bytes(2, "big")
        return group + len(encoded).to_bytes(4, "big") + encoded + encode_key(namespace)

    return of_pair if namespaced else of_key


def lengthy(encoded: bytes) -> bytes:
    """Return bytes behind their length: no other begins with the same."""
    return len(encoded).to_bytes(4, "big") + encoded

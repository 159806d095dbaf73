"""The ids of messages that were processed lately, so that one that is delivered again is dropped. Pure."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from hashlib import blake2b

#: Bytes kept of the hash of an id. With a million ids in the window, two different ids of 2^96 are taken for equal
#: with a probability of 1e-23 for each message.
DIGEST_BYTES = 12


class RecentIds:
    """A window over the ids of processed messages: the newest ``size`` of them, as hashes.

    >>> recent = RecentIds(2)
    >>> recent.add(["a", "b", "c"])
    >>> "a" in recent, "c" in recent
    (False, True)
    """

    def __init__(self, size: int):
        self.size = size
        self._digests: dict[bytes, None] = {}  #: in the order in which they were added

    def __contains__(self, ident: str) -> bool:
        return _digest(ident) in self._digests

    def __len__(self) -> int:
        return len(self._digests)

    def add(self, ids: Iterable[str]) -> None:
        """Remember ids. The oldest are forgotten."""
        digests = self._digests
        for ident in ids:
            digest = _digest(ident)
            digests.pop(digest, None)
            digests[digest] = None
        surplus = len(digests) - self.size
        if surplus > 0:
            self._digests = dict.fromkeys(list(digests)[surplus:])

    def snapshot(self) -> str:
        """Return the window as text."""
        return b64encode(b"".join(self._digests)).decode()

    def restore(self, text: str) -> None:
        """Continue with a window that :meth:`snapshot` returned."""
        raw = b64decode(text)
        found = [raw[i : i + DIGEST_BYTES] for i in range(0, len(raw), DIGEST_BYTES)]
        self._digests = dict.fromkeys(found[-self.size :])


def _digest(ident: str) -> bytes:
    return blake2b(ident.encode(), digest_size=DIGEST_BYTES).digest()

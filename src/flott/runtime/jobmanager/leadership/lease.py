"""Leases: what they say, what a standby concludes from them, and what their storage does. JobManager side."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Lease:
    """What the lease of a leader says."""

    token: int
    address: str
    holder: str  #: different for every attempt of a process to lead
    count: int = 0  #: of renewals
    over: bool = False
    version: str = ""  #: what the storage calls this version of the lease, where it has versions

    def is_of(self, other: Lease) -> bool:
        """Return whether two leases are of the same leadership."""
        return (self.token, self.holder) == (other.token, other.holder)

    def encode(self) -> bytes:
        """Return the content of the file."""
        return json.dumps({"address": self.address, "holder": self.holder, "count": self.count}).encode()


@dataclass(frozen=True)
class Sighting:
    """A standby's view of a lease: since when, by its own clock, it has looked the same."""

    lease: Lease | None
    since: float

    def seen(self, lease: Lease | None, now: float) -> Sighting:
        """Return what is known after another look."""
        return self if lease == self.lease else Sighting(lease, now)

    def is_free(self, looked_at: float, timeout: float) -> bool:
        """Return whether a process whose last look began at that time may take the next token."""
        return self.lease is None or self.lease.over or looked_at - self.since >= timeout


class Leases(Protocol):
    """Where the leases of an election are."""

    @property
    def folder(self) -> Any:
        """The location of the leases, for people."""

    def current(self) -> Lease | None:
        """Return the lease with the highest token."""

    def take(self, lease: Lease, after: Lease | None) -> bool:
        """Give a new leader its lease, after the one that it saw; return False if another process was faster."""

    def renew(self, lease: Lease, after: Lease) -> None:
        """Replace one's own lease, which was seen as ``after``."""

    def end(self, lease: Lease) -> None:
        """Say that the lease will not be renewed, so that standbys need not wait."""

    def forget_before(self, token: int) -> None:
        """Delete leases of leaders long gone."""

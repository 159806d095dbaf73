"""The lease of an election in an object store: one object, replaced by conditional puts. JobManager side.

    <high-availability.storageDir>/<cluster id>/lease
        {"version": 1, "token": 17, "address": "http://…", "holder": "3fa0…", "count": 42, "over": false}

To take the next token, to renew the lease and to resign are each one put, on the condition that the object is still the
version that was read. So of several standbys one gets a token, and a token is never given twice, because the object is
never deleted. Every version has another content, so versions never return (some stores compare them by content).

A put without an answer may have been carried out, or may still be. A candidate that has lost the answer looks who has
the token: it may be itself. A renewal that is carried out late finds that it is not the version it expects once another
process has the lease; before that, it merely lets the standbys wait longer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from flott.common._object_store_settings import ObjectStoreSettings
from flott.runtime.jobmanager.leadership.lease import Lease
from flott.runtime.storage import object_client
from flott.runtime.storage.locations import join
from flott.runtime.storage.object_client import (
    ObjectClient,
    ObjectConflict,
    ObjectMissing,
    ObjectStoreFailure,
    key_of,
)

VERSION = 1
LEASE = "lease"
#: A request is sent again after this part of the time for which a lease is valid, and given up after the other part: a
#: renewal that hangs must leave time for the next one.
_REQUEST_PART, _RETRY_PART = 6, 3


@dataclass(frozen=True)
class LeaseObject:
    """The lease in the folder of a cluster."""

    folder: str
    settings: ObjectStoreSettings

    @staticmethod
    def of(folder: str, settings: ObjectStoreSettings, timeout_ms: int) -> LeaseObject:
        """Return the lease in a folder, whose requests take no longer than a lease that times out so allows."""
        request_ms = min(settings.request_timeout_ms, max(100, timeout_ms // _REQUEST_PART))
        retry_ms = min(settings.retry_timeout_ms, max(200, timeout_ms // _RETRY_PART))
        return LeaseObject(folder, replace(settings, request_timeout_ms=request_ms, retry_timeout_ms=retry_ms))

    def current(self) -> Lease | None:
        """Return the lease as it is now, with its version."""
        try:
            data, meta = self._client.get(self._key)
        except ObjectMissing:
            return None
        content = json.loads(data)
        if content["version"] != VERSION:
            raise ValueError(f"format version {content['version']}, this version of Flott reads version {VERSION}")
        return Lease(
            content["token"], content["address"], content["holder"], content["count"], content["over"], meta.etag
        )

    def take(self, lease: Lease, after: Lease | None) -> bool:
        """Replace the lease that was seen by the first one of a new leader; return False if another process has."""
        return self._replace(lease, after)

    def renew(self, lease: Lease, after: Lease) -> None:
        """Replace one's own lease."""
        if not self._replace(lease, after):
            raise OSError(f"{join(self.folder, LEASE)} was changed by another process")

    def end(self, lease: Lease) -> None:
        """Say that the lease will not be renewed, so that standbys need not wait."""
        current = self.current()
        if current is not None and current.is_of(lease):
            self._replace(replace(current, over=True), current)

    def forget_before(self, token: int) -> None:
        """Do nothing: there is one object."""

    def _replace(self, lease: Lease, after: Lease | None) -> bool:
        try:
            if after is None:
                self._client.create(self._key, _encode(lease))
            else:
                self._client.replace(self._key, _encode(lease), after.version)
        except (ObjectConflict, ObjectMissing):
            return self._is_now(lease)  # the library repeats a put whose answer was lost
        except ObjectStoreFailure:
            if not self._is_now(lease):
                raise
        return True

    def _is_now(self, lease: Lease) -> bool:
        current = self.current()
        return current is not None and replace(current, version="") == replace(lease, version="")

    @property
    def _client(self) -> ObjectClient:
        return object_client.client_of(self.folder, self.settings)

    @property
    def _key(self) -> str:
        return key_of(join(self.folder, LEASE))


def _encode(lease: Lease) -> bytes:
    content = {
        "version": VERSION, "token": lease.token, "address": lease.address, "holder": lease.holder,
        "count": lease.count, "over": lease.over,
    }  # fmt: skip
    return json.dumps(content).encode()

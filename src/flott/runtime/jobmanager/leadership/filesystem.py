"""Election by leases on shared storage: for clusters without a ZooKeeper. JobManager side.

In a file system (in an object store: ``lease_object``):

    <high-availability.storageDir>/<cluster id>/leases/
        17               the lease of the leader with token 17: who it is, and how often it was renewed
        17.over          that leader has resigned

A token belongs to the process that creates its lease, as a hard link to a finished draft: only one succeeds. So a
lease is never seen half written. The one with the highest token leads. It renews its lease by replacing it with one
that has a higher count. A standby that sees the same lease unchanged for ``timeout``, by its own clock, takes the next
token. The leader gives up by itself when its last renewal *began* more than two thirds of ``timeout`` ago, by its own
clock: before any standby can have seen nothing new for all of it. No clock is compared with another; they must merely
run at about the same rate. A lease that was not renewed because its process was stopped is lost the moment it looks.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from flott.common import _cluster_options as cluster_options
from flott.common import _options as options
from flott.common._options import object_store_settings
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError, StorageError
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.jobmanager.leadership.election import Leader
from flott.runtime.jobmanager.leadership.lease import Lease, Leases, Sighting
from flott.runtime.jobmanager.leadership.lease_object import LeaseObject
from flott.runtime.jobmanager.leadership.tenure import Tenure
from flott.runtime.storage import DRAFT, local_path, sync_folder
from flott.runtime.storage.locations import is_object_location, join, normalized

log = logging.getLogger("flott.cluster")

_LEASE = re.compile(r"\d+")
_OVER = ".over"
#: Leases of leaders that are long gone are kept for so many successors, then deleted.
KEPT = 8


class LeaseFolder:
    """The lease files."""

    def __init__(self, folder: Path):
        self.folder = folder

    def current(self) -> Lease | None:
        """Return the lease with the highest token."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return None
        tokens = [int(name) for name in names if _LEASE.fullmatch(name)]
        if not tokens:
            return None
        content = json.loads((self.folder / str(max(tokens))).read_bytes())
        is_over = f"{max(tokens)}{_OVER}" in names
        return Lease(max(tokens), content["address"], content["holder"], content["count"], is_over)

    def take(self, lease: Lease, after: Lease | None = None) -> bool:
        """Create the lease of a token; return False if another process has."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self._draft(lease)
        try:
            os.link(draft, self.folder / str(lease.token))
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        sync_folder(self.folder)  # else the token could be given a second time after a power failure
        return True

    def renew(self, lease: Lease, after: Lease | None = None) -> None:
        """Replace one's own lease."""
        draft = self._draft(lease)
        os.replace(draft, self.folder / str(lease.token))

    def end(self, lease: Lease) -> None:
        """Say that the lease will not be renewed, so that standbys need not wait."""
        (self.folder / f"{lease.token}{_OVER}").touch()

    def forget_before(self, token: int) -> None:
        """Delete leases of leaders long gone."""
        for name in os.listdir(self.folder):
            number = name.removesuffix(_OVER)
            if _LEASE.fullmatch(number) and int(number) < token:
                (self.folder / name).unlink(missing_ok=True)

    def _draft(self, lease: Lease) -> Path:
        draft = self.folder / f"{DRAFT}{uuid4().hex}"
        with open(draft, "wb") as file:
            file.write(lease.encode())
            file.flush()
            os.fsync(file.fileno())
        return draft


class LeaseElection:
    """One JobManager's part in the election."""

    def __init__(self, leases: Leases | Path, timeout_ms: int, renewal_ms: int, clock: Clock | None = None):
        self._leases: Leases = LeaseFolder(leases) if isinstance(leases, Path) else leases
        self._timeout = timeout_ms / 1000
        self._renewal_ms = renewal_ms
        self._clock = clock or SystemClock()
        self._lease: Lease | None = None
        self._tenure: Tenure | None = None
        self._never = threading.Event()

    @staticmethod
    def of(configuration: Configuration) -> LeaseElection:
        """As configured."""
        storage = options.read(configuration, cluster_options.HA_STORAGE_DIR)
        assert storage is not None
        timeout_ms = options.read(configuration, cluster_options.HA_LEASE_TIMEOUT)
        renewal_ms = options.read(configuration, cluster_options.HA_LEASE_RENEWAL)
        if renewal_ms * 5 > timeout_ms:
            raise ConfigurationError(
                f"flott.ha.lease-renewal ({renewal_ms} ms) must be at most a fifth of flott.ha.lease-timeout"
                f" ({timeout_ms} ms), or a leader would be deposed because of a single slow renewal."
            )
        cluster = options.read(configuration, cluster_options.CLUSTER_ID).strip("/")
        if is_object_location(storage):
            folder = join(normalized(storage), cluster)
            return LeaseElection(
                LeaseObject.of(folder, object_store_settings(configuration), timeout_ms), timeout_ms, renewal_ms
            )
        return LeaseElection(Path(local_path(storage)).absolute() / cluster / "leases", timeout_ms, renewal_ms)

    @property
    def lost(self) -> threading.Event:
        """Of the present leadership."""
        return self._tenure.lost if self._tenure is not None else self._never

    # --- standing by -------------------------------------------------------------------------------------------------

    def await_leadership(self, address: str, stop: threading.Event) -> Leader | None:
        sighting: Sighting | None = None
        while not stop.is_set():
            looked_at = self._clock.monotonic()
            try:
                current = self._leases.current()
                sighting = Sighting(current, self._clock.monotonic()) if sighting is None else (
                    sighting.seen(current, self._clock.monotonic())
                )  # fmt: skip
                # Free when the look *began*: then it was free before this process was stopped, if it was, since.
                if sighting.is_free(looked_at, self._timeout):
                    leader = self._stand(address, current)
                    if leader is not None:
                        return leader
            except (OSError, ValueError, LookupError) as error:
                if sighting is None:
                    raise StorageError(
                        f"The leases in {self._leases.folder} cannot be used: {error}. Check that"
                        " high-availability.storageDir exists on this machine, too, and is writable for this user."
                    ) from error
                log.warning("The leases in %s cannot be used at present: %s", self._leases.folder, error)
                sighting = Sighting(sighting.lease, self._clock.monotonic())  # it may have been renewed meanwhile
            self._clock.wait(stop, self._renewal_ms)
        return None

    def _stand(self, address: str, after: Lease | None) -> Leader | None:
        began = self._clock.monotonic()
        token = 1 if after is None else after.token + 1
        lease = Lease(token, address, uuid4().hex)
        if not self._leases.take(lease, after):
            return None
        self._lease = lease
        self._tenure = Tenure(f"lease-{token}", self._clock, began, self._timeout * 2 / 3, self._renewal_ms)
        with suppress(OSError):
            self._leases.forget_before(token - KEPT)
        self._tenure.keep(self._renew)
        return Leader(token, address)

    # --- leading -----------------------------------------------------------------------------------------------------

    def _renew(self) -> str | None:
        lease = self._lease
        if lease is None:
            return "it has resigned"
        current = self._leases.current()
        if current is None or not current.is_of(lease):
            return f"the JobManager at {current.address} has taken over" if current else "its lease was deleted"
        self._lease = replace(lease, count=lease.count + 1)
        self._leases.renew(self._lease, current)
        return None

    # --- for all processes -------------------------------------------------------------------------------------------

    def leader(self) -> Leader | None:
        """Return the holder of the lease. One that has died is returned until another process takes over."""
        try:
            current = self._leases.current()
        except (OSError, ValueError, LookupError):
            return None
        return None if current is None or current.over else Leader(current.token, current.address)

    def resign(self) -> None:
        tenure, lease = self._tenure, self._lease
        if tenure is None or lease is None:
            return
        was_valid = tenure.is_valid
        tenure.end()
        self._lease = None
        if was_valid:
            with suppress(OSError):  # then they wait until it has timed out
                self._leases.end(lease)

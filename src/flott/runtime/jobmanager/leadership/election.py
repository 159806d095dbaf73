"""An election: several JobManagers stand for it, one leads, with a token that no leader before it had. JobManager side.

What an election promises is a *hint*: while ``lost`` is not set this process most likely leads. It can be stopped for
any time between looking and doing, so what must not happen twice is protected by the token (``runtime.storage``).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Protocol

from flott.common import _cluster_options as cluster_options
from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError


@dataclass(frozen=True)
class Leader:
    """Who leads."""

    token: int  #: higher than that of every leader before; 0: there can be no other
    address: str  #: where clients reach it: the base of its REST addresses


class Election(Protocol):
    """Stands for leadership, and watches who has it. One process uses one, again if leadership was lost."""

    @property
    def lost(self) -> threading.Event:
        """Set from the moment on at which this process does not lead any more, or cannot be sure. Each leadership has
        its own: ask after ``await_leadership``."""

    def await_leadership(self, address: str, stop: threading.Event) -> Leader | None:
        """Stand by until this process leads; None if ``stop`` is set first."""

    def leader(self) -> Leader | None:
        """Return the present leader, for standbys and clients; None: there is none, or it is not known."""

    def resign(self) -> None:
        """Give leadership up, once everything that was done in its name has ended: another process leads at once."""


class NoElection:
    """There is one JobManager, and it leads."""

    def __init__(self) -> None:
        self.lost = threading.Event()
        self._leader: Leader | None = None

    def await_leadership(self, address: str, stop: threading.Event) -> Leader | None:
        self._leader = Leader(0, address)
        return None if stop.is_set() else self._leader

    def leader(self) -> Leader | None:
        return self._leader

    def resign(self) -> None:
        self._leader = None


def make_election(configuration: Configuration) -> Election:
    """Return the election that ``high-availability.type`` asks for. Nothing is connected yet."""
    kind = options.read(configuration, cluster_options.HA_TYPE)
    if kind == "none":
        return NoElection()
    if options.read(configuration, cluster_options.HA_STORAGE_DIR) is None:
        raise ConfigurationError(
            f"high-availability.type {kind} needs a directory that all JobManagers share, for jobs and checkpoints: set"
            " high-availability.storageDir."
        )
    if kind == "zookeeper":
        from flott.runtime.jobmanager.leadership.zookeeper import ZooKeeperElection

        return ZooKeeperElection.of(configuration)
    from flott.runtime.jobmanager.leadership.filesystem import LeaseElection

    return LeaseElection.of(configuration)

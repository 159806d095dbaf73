"""Election by ZooKeeper. JobManager side.

    <high-availability.zookeeper.path.root>/<cluster id>/election/
        <process>-0000000017     a JobManager that stands: an ephemeral node with its address

Nodes are numbered in the order of their creation, and the lowest leads; a standby watches the one before its own. The
leader's token is the transaction in which its node was created: transactions of a ZooKeeper are numbered without end,
so every leader's is higher than those before it.

ZooKeeper deletes the node of a process from which it has not heard for the session timeout. The leader considers itself
deposed earlier: as soon as its connection breaks, or when nothing came back from ZooKeeper for two thirds of that time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from flott.common import _cluster_options as cluster_options
from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError, UnreachableError
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.jobmanager.leadership.election import Leader
from flott.runtime.jobmanager.leadership.tenure import Tenure

if TYPE_CHECKING:
    from kazoo.client import KazooClient

log = logging.getLogger("flott.cluster")

#: How often a standby looks by itself, should it ever miss that the node before its own has gone.
LOOK_MS = 1000
_SEQUENCE_DIGITS = 10


class ZooKeeperElection:
    """One JobManager's part in the election."""

    def __init__(
        self,
        quorum: str,
        path: str,
        *,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        password: str | None = None,
        only_creator: bool = False,
        clock: Clock | None = None,
    ):
        self._quorum = quorum
        self._path = path
        self._session_seconds = session_timeout_ms / 1000
        self._connection_seconds = connection_timeout_ms / 1000
        self._password = password
        self._only_creator = only_creator
        self._clock = clock or SystemClock()
        self._client: KazooClient | None = None
        self._granted_seconds = self._session_seconds  #: ZooKeeper has bounds of its own
        self._has_stood = False
        self._tenure: Tenure | None = None
        self._never = threading.Event()

    @staticmethod
    def of(configuration: Configuration) -> ZooKeeperElection:
        """As configured."""
        quorum = options.read(configuration, cluster_options.ZOOKEEPER_QUORUM)
        if quorum is None:
            raise ConfigurationError(
                "high-availability.type zookeeper needs to know where ZooKeeper is: set"
                " high-availability.zookeeper.quorum to host:port, several separated by commas."
            )
        password = options.read(configuration, cluster_options.ZOOKEEPER_PASSWORD)
        only_creator = options.read(configuration, cluster_options.ZOOKEEPER_ACL) == "creator"
        if only_creator and password is None:
            raise ConfigurationError(
                "high-availability.zookeeper.client.acl creator needs a user: set flott.ha.zookeeper.password"
                " to user:password."
            )
        root = options.read(configuration, cluster_options.ZOOKEEPER_ROOT).strip("/")
        cluster = options.read(configuration, cluster_options.CLUSTER_ID).strip("/")
        return ZooKeeperElection(
            quorum,
            "/" + "/".join(part for part in (root, cluster, "election") if part),
            session_timeout_ms=options.read(configuration, cluster_options.ZOOKEEPER_SESSION_TIMEOUT),
            connection_timeout_ms=options.read(configuration, cluster_options.ZOOKEEPER_CONNECTION_TIMEOUT),
            password=password,
            only_creator=only_creator,
        )

    @property
    def lost(self) -> threading.Event:
        """Of the present leadership."""
        return self._tenure.lost if self._tenure is not None else self._never

    # --- standing by -------------------------------------------------------------------------------------------------

    def await_leadership(self, address: str, stop: threading.Event) -> Leader | None:
        from kazoo.exceptions import KazooException

        self._leave()
        holder = uuid4().hex
        client = self._client = self._connect_patiently(stop)
        while client is not None and not stop.is_set():
            changed = threading.Event()
            try:
                own = self._candidacy(client, holder, address)
                began = self._clock.monotonic()
                if self._is_first(client, own, changed):
                    return self._lead(client, own, address, began)
            except (KazooException, client.handler.timeout_exception) as error:
                log.warning("ZooKeeper at %s does not answer at present: %r", self._quorum, error)
            self._wait(changed, stop)
        self._leave()
        return None

    def _connect_patiently(self, stop: threading.Event) -> KazooClient | None:
        """Return the first time a ZooKeeper that does not answer is an error: most likely the address is wrong."""
        while not stop.is_set():
            try:
                client = self._connect()
                self._has_stood = True
                return client
            except UnreachableError as error:
                if not self._has_stood:
                    raise
                log.warning("%s Trying again.", error)
                self._clock.wait(stop, LOOK_MS)
        return None

    def _connect(self) -> KazooClient:
        try:
            from kazoo.client import KazooClient
            from kazoo.security import CREATOR_ALL_ACL
        except ImportError as error:
            raise ConfigurationError(
                "high-availability.type zookeeper needs the package kazoo: pip install 'flott[zookeeper]'."
            ) from error
        client = KazooClient(
            hosts=self._quorum,
            timeout=self._session_seconds,
            auth_data=[("digest", self._password)] if self._password is not None else None,
            default_acl=CREATOR_ALL_ACL if self._only_creator else None,
            logger=logging.getLogger("flott.cluster.zookeeper"),
        )
        self._note_what_is_granted(client)
        try:
            client.start(timeout=self._connection_seconds)
        except client.handler.timeout_exception as error:
            client.stop()
            client.close()
            raise UnreachableError(
                f"ZooKeeper cannot be reached at {self._quorum} within {self._connection_seconds:g} s. Check"
                " high-availability.zookeeper.quorum, and that it runs."
            ) from error
        return client

    def _note_what_is_granted(self, client: KazooClient) -> None:
        """Kazoo keeps to itself which session timeout ZooKeeper has granted; it reads for two thirds of it at most."""
        connect = client._connection._connect

        def noting(*where: Any) -> Any:
            read_timeout_ms, connect_timeout_ms = connect(*where)
            self._granted_seconds = read_timeout_ms * 1.5 / 1000
            return read_timeout_ms, connect_timeout_ms

        client._connection._connect = noting

    def _candidacy(self, client: KazooClient, holder: str, address: str) -> str:
        """Return the name of this process's node, which is made unless it is there: after a lost answer it may be."""
        self._answer(client.ensure_path_async(self._path))
        names = self._candidates(client)
        own = [name for name in names if name.startswith(holder)]
        if own:
            return own[0]
        made = self._answer(
            client.create_async(f"{self._path}/{holder}-", address.encode(), ephemeral=True, sequence=True)
        )
        return str(made).rpartition("/")[2]

    def _is_first(self, client: KazooClient, own: str, changed: threading.Event) -> bool:
        """Return whether this process leads; if not, it is told when the one before it has gone."""
        names = self._candidates(client)
        if own not in names:
            return False  # the session has expired: stand again
        position = names.index(own)
        if position == 0:
            return True
        before = f"{self._path}/{names[position - 1]}"
        if self._answer(client.exists_async(before, watch=lambda event: changed.set())) is None:
            changed.set()
        return False

    def _wait(self, changed: threading.Event, stop: threading.Event) -> None:
        waited = 0
        while waited < LOOK_MS and not changed.is_set() and not self._clock.wait(stop, 50):
            waited += 50

    def _lead(self, client: KazooClient, own: str, address: str, began: float) -> Leader | None:
        node = f"{self._path}/{own}"
        _, stat = self._answer(client.get_async(node))
        timeout = self._granted_seconds
        name = f"zookeeper-{stat.czxid}"
        tenure = Tenure(name, self._clock, began, timeout * 2 / 3, max(20, int(timeout * 1000 / 6)))

        def on_state(state: str) -> None:
            if state != "CONNECTED":
                tenure.lose(f"the connection to ZooKeeper is {state.lower()}")

        def confirm() -> str | None:
            found = self._answer(client.exists_async(node), timeout / 3)
            return None if found is not None else "its ZooKeeper session has expired"

        client.add_listener(on_state)
        if client.state != "CONNECTED":  # it may have broken before the listener was added
            tenure.lose("the connection to ZooKeeper broke at once")
        self._tenure = tenure
        tenure.keep(confirm)
        return Leader(stat.czxid, address)

    # --- for all processes -------------------------------------------------------------------------------------------

    def leader(self) -> Leader | None:
        from kazoo.exceptions import KazooException

        client = self._client
        passing = client is None
        if client is None:
            if self._has_stood:
                return None  # it is being looked for
            client = self._connect()
        try:
            names = self._candidates(client)
            if not names:
                return None
            data, stat = self._answer(client.get_async(f"{self._path}/{names[0]}"))
            return Leader(stat.czxid, data.decode())
        except (KazooException, client.handler.timeout_exception):
            return None
        finally:
            if passing:
                _close(client)

    def resign(self) -> None:
        if self._tenure is not None:
            self._tenure.end()
        self._leave()

    def _leave(self) -> None:
        """Close the session, and with it delete the node, if ZooKeeper can be told."""
        client, self._client = self._client, None
        if client is not None:
            _close(client)

    def _candidates(self, client: KazooClient) -> list[str]:
        """Return the nodes of all candidates in the order of their creation."""
        from kazoo.exceptions import NoNodeError

        try:
            names = self._answer(client.get_children_async(self._path))
        except NoNodeError:
            return []
        return sorted(names, key=lambda name: name[-_SEQUENCE_DIGITS:])

    def _answer(self, request: Any, seconds: float | None = None) -> Any:
        """Return an answer of ZooKeeper, or raise an error after a while: a broken connection must not block."""
        return request.get(timeout=self._connection_seconds if seconds is None else seconds)


def _close(client: KazooClient) -> None:
    closing: Callable[[], None] = client.stop
    with suppress(Exception):  # it is over in any case
        closing()
        client.close()

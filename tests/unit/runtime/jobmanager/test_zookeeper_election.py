"""Election by a real ZooKeeper: takeover, partitions, expired sessions, and leaders that were stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from flott.common.configuration import Configuration
from flott.errors import ConfigurationError, UnreachableError
from flott.runtime.jobmanager.leadership.election import Leader, make_election
from flott.runtime.jobmanager.leadership.zookeeper import ZooKeeperElection
from tests.zookeeper_server import ZooKeeperServer, start_zookeeper

pytest.importorskip("kazoo")

ROOT = Path(__file__).parents[4]
SESSION_MS = 1200


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeperServer]:
    server = start_zookeeper()
    yield server
    server.stop()


@pytest.fixture
def cluster() -> str:
    return f"cluster-{uuid4().hex[:8]}"


def election_at(zookeeper: ZooKeeperServer, cluster: str, session_ms: int = SESSION_MS) -> ZooKeeperElection:
    path = f"/flott/{cluster}/election"
    return ZooKeeperElection(
        zookeeper.address, path, session_timeout_ms=session_ms, connection_timeout_ms=5000
    )


class Standby:
    """An election that somebody waits for in a thread."""

    def __init__(self, election: ZooKeeperElection, address: str):
        self.election = election
        self.stop = threading.Event()
        self.leader: Leader | None = None
        self.thread = threading.Thread(target=self._run, args=(address,), daemon=True)
        self.thread.start()

    def _run(self, address: str) -> None:
        self.leader = self.election.await_leadership(address, self.stop)

    def wait(self, seconds: float = 120) -> Leader | None:
        self.thread.join(seconds)
        return self.leader


def lead(election: ZooKeeperElection, address: str) -> Leader:
    leader = election.await_leadership(address, threading.Event())
    assert leader is not None
    return leader


def test_one_leads_and_the_next_one_follows_when_it_resigns(zookeeper: ZooKeeperServer, cluster: str) -> None:
    first, watcher = election_at(zookeeper, cluster), election_at(zookeeper, cluster)
    assert watcher.leader() is None
    leader = lead(first, "http://first")
    assert watcher.leader() == leader == first.leader()
    second = Standby(election_at(zookeeper, cluster), "http://second")
    assert second.wait(0.5) is None
    first.resign()
    assert first.lost.is_set()
    successor = second.wait()
    assert successor is not None
    assert successor.address == "http://second"
    assert successor.token > leader.token
    assert watcher.leader() == successor
    assert not second.election.lost.is_set()
    second.election.resign()
    again = lead(first, "http://first")
    assert again.token > successor.token
    assert not first.lost.is_set()
    first.resign()


def test_a_standby_can_be_told_to_stop(zookeeper: ZooKeeperServer, cluster: str) -> None:
    first = election_at(zookeeper, cluster)
    leader = lead(first, "http://first")
    second = Standby(election_at(zookeeper, cluster), "http://second")
    second.stop.set()
    assert second.wait() is None
    assert not second.thread.is_alive()
    assert first.leader() == leader
    first.resign()


def test_a_leader_whose_session_has_expired_is_replaced_and_stands_again(
    zookeeper: ZooKeeperServer, cluster: str
) -> None:
    first = election_at(zookeeper, cluster)
    leader = lead(first, "http://first")
    second = Standby(election_at(zookeeper, cluster), "http://second")
    assert second.wait(0.3) is None
    client = first._client
    assert client is not None
    _expire(zookeeper, client.client_id)
    assert first.lost.wait(120)
    successor = second.wait()
    assert successor is not None
    assert successor.token > leader.token
    third = Standby(first, "http://first")
    assert third.wait(0.5) is None
    assert not second.election.lost.is_set()
    second.election.resign()
    again = third.wait()
    assert again is not None
    assert again.token > successor.token
    first.resign()


def _expire(zookeeper: ZooKeeperServer, session: tuple[int, bytes]) -> None:
    """A second client of the same session that closes it."""
    from kazoo.client import KazooClient

    other = KazooClient(hosts=zookeeper.address, client_id=session, timeout=SESSION_MS / 1000)
    other.start()
    other.stop()
    other.close()


def test_a_leader_that_does_not_hear_from_zookeeper_gives_up_before_its_session_can_expire(
    zookeeper: ZooKeeperServer, cluster: str
) -> None:
    first = election_at(zookeeper, cluster)
    lead(first, "http://first")
    zookeeper.pause()
    try:
        assert first.lost.wait(120)
    finally:
        zookeeper.resume()
    first.resign()


def test_the_timeout_that_counts_is_what_zookeeper_grants(zookeeper: ZooKeeperServer, cluster: str) -> None:
    election = election_at(zookeeper, cluster, session_ms=600_000)
    lead(election, "http://first")
    assert election._granted_seconds == pytest.approx(2.0)  # 20 ticks at most
    election.resign()


def test_when_zookeeper_comes_back_everybody_stands_again(zookeeper: ZooKeeperServer, cluster: str) -> None:
    first = election_at(zookeeper, cluster)
    leader = lead(first, "http://first")
    second = Standby(election_at(zookeeper, cluster), "http://second")
    zookeeper.stop()
    assert first.lost.wait(120)
    again = Standby(first, "http://first")
    assert second.leader is None
    zookeeper.start()
    assert again.wait(1) is None or second.wait(1) is None
    for _ in range(1000):
        if again.wait(0.1) is not None or second.wait(0.1) is not None:
            break
    successor = again.leader or second.leader
    assert successor is not None
    assert successor.token > leader.token
    for standby in (again, second):
        standby.stop.set()
        standby.wait()
        standby.election.resign()


CANDIDATE = """
import sys, threading, time
from flott.runtime.jobmanager.leadership.zookeeper import ZooKeeperElection
election = ZooKeeperElection(sys.argv[1], sys.argv[2], session_timeout_ms=int(sys.argv[3]), connection_timeout_ms=5000)
leader = election.await_leadership("http://process", threading.Event())
print("leads", leader.token, flush=True)
election.lost.wait()
print("lost", leader.token, flush=True)
"""


def candidate(zookeeper: ZooKeeperServer, cluster: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CANDIDATE, zookeeper.address, f"/flott/{cluster}/election", str(SESSION_MS)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_standby_takes_over_from_a_process_that_was_killed_or_stopped(
    zookeeper: ZooKeeperServer, cluster: str, number: signal.Signals
) -> None:
    process = candidate(zookeeper, cluster)
    assert process.stdout is not None
    try:
        what, token = process.stdout.readline().split()
        assert what == "leads"
        second = Standby(election_at(zookeeper, cluster), "http://second")
        process.send_signal(number)
        successor = second.wait()
        assert successor is not None
        assert successor.token > int(token)
        if number is signal.SIGSTOP:
            process.send_signal(signal.SIGCONT)
            assert process.stdout.readline().split() == ["lost", token]
        assert not second.election.lost.is_set()
        second.election.resign()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_nobody_else_may_read_or_change_what_belongs_to_its_creator(zookeeper: ZooKeeperServer, cluster: str) -> None:
    from kazoo.client import KazooClient
    from kazoo.exceptions import NoAuthError

    election = make_election(
        Configuration.of({
            "high-availability.type": "zookeeper",
            "high-availability.storageDir": "/tmp",
            "high-availability.zookeeper.quorum": zookeeper.address,
            "high-availability.zookeeper.path.root": "/private",
            "high-availability.cluster-id": cluster,
            "high-availability.zookeeper.client.session-timeout": "1 s",
            "high-availability.zookeeper.client.acl": "creator",
            "flott.ha.zookeeper.password": "flott:secret",
        })
    )  # fmt: skip
    leader = election.await_leadership("http://first", threading.Event())
    assert election.leader() == leader
    stranger = KazooClient(hosts=zookeeper.address)
    stranger.start()
    try:
        with pytest.raises(NoAuthError):
            stranger.get_children(f"/private/{cluster}/election")
    finally:
        stranger.stop()
        stranger.close()
        election.resign()


def test_what_is_missing_in_the_configuration_is_told() -> None:
    settings = {"high-availability.type": "zookeeper", "high-availability.storageDir": "/tmp"}
    with pytest.raises(ConfigurationError, match=r"set high-availability\.zookeeper\.quorum to host:port"):
        make_election(Configuration.of(settings))
    settings |= {"high-availability.zookeeper.quorum": "h:1", "high-availability.zookeeper.client.acl": "creator"}
    with pytest.raises(ConfigurationError, match=r"set flott\.ha\.zookeeper\.password"):
        make_election(Configuration.of(settings))


def test_a_zookeeper_that_is_not_there_is_told_at_once() -> None:
    election = ZooKeeperElection("127.0.0.1:1", "/x", session_timeout_ms=1000, connection_timeout_ms=300)
    with pytest.raises(UnreachableError, match=r"ZooKeeper cannot be reached at 127\.0\.0\.1:1 within 0\.3 s"):
        election.await_leadership("http://a", threading.Event())
    with pytest.raises(UnreachableError):
        election.leader()

"""Election by leases: one leader at a time, growing tokens, and what becomes of one that was stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flott.common._object_store_settings import ObjectStoreSettings
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError, StorageError
from flott.runtime.jobmanager.leadership.election import Leader, NoElection, make_election
from flott.runtime.jobmanager.leadership.filesystem import LeaseElection, LeaseFolder
from flott.runtime.jobmanager.leadership.lease import Lease, Leases, Sighting
from flott.runtime.jobmanager.leadership.lease_object import LeaseObject
from flott.runtime.jobmanager.leadership.tenure import Tenure
from tests.unit.runtime.storage.memory_objects import MemoryObjects, failure

ROOT = Path(__file__).parents[4]
TIMEOUT_MS, RENEWAL_MS = 900, 60
PATIENCE_SECONDS = 120  #: only a watchdog


def election_in(leases: Leases | Path) -> LeaseElection:
    return LeaseElection(leases, TIMEOUT_MS, RENEWAL_MS)


@pytest.fixture(params=["lease files", "lease object"])
def leases_in(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Leases]:
    """Leases by a name, in each storage that can have them."""
    if request.param == "lease files":
        return lambda name: LeaseFolder(tmp_path / name)
    request.getfixturevalue("objects")
    return lambda name: LeaseObject(f"s3://bucket/{name}", ObjectStoreSettings())


# --- configuration ----------------------------------------------------------------------------------------------------


def test_without_high_availability_a_jobmanager_leads_at_once() -> None:
    election = make_election(Configuration())
    assert isinstance(election, NoElection)
    assert election.leader() is None
    assert election.await_leadership("http://here", threading.Event()) == Leader(0, "http://here")
    assert election.leader() == Leader(0, "http://here")
    assert not election.lost.is_set()


def test_high_availability_needs_shared_storage(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"set high-availability\.storageDir"):
        make_election(Configuration.of({"high-availability.type": "filesystem"}))
    election = make_election(
        Configuration.of({
            "high-availability.type": "filesystem",
            "high-availability.storageDir": f"file://{tmp_path}",
            "high-availability.cluster-id": "orders",
        })
    )  # fmt: skip
    assert election.await_leadership("http://a", threading.Event()) == Leader(1, "http://a")
    election.resign()
    assert (tmp_path / "orders" / "leases" / "1").exists()


def test_leases_can_be_in_an_object_store(objects: MemoryObjects) -> None:
    election = make_election(
        Configuration.of({
            "high-availability.type": "filesystem",
            "high-availability.storageDir": "s3://bucket/ha/",
            "high-availability.cluster-id": "/orders",
        })
    )  # fmt: skip
    assert election.await_leadership("http://a", threading.Event()) == Leader(1, "http://a")
    election.resign()
    assert list(objects.objects) == ["ha/orders/lease"]


def test_requests_to_an_object_store_end_before_the_lease_does() -> None:
    found = LeaseObject.of("s3://bucket/ha", ObjectStoreSettings(), timeout_ms=15_000).settings
    assert (found.request_timeout_ms, found.retry_timeout_ms) == (2500, 5000)
    shorter = ObjectStoreSettings(request_timeout_ms=700, retry_timeout_ms=900)
    assert LeaseObject.of("s3://bucket/ha", shorter, timeout_ms=15_000).settings == shorter


def test_a_lease_must_be_renewed_often_enough(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"must be at most a fifth of flott\.ha\.lease-timeout"):
        make_election(
            Configuration.of({
                "high-availability.type": "filesystem",
                "high-availability.storageDir": str(tmp_path),
                "flott.ha.lease-timeout": "5 s",
            })
        )  # fmt: skip


def test_storage_that_cannot_be_used_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot be used.*Check that high-availability\.storageDir exists"):
        election_in(tmp_path / "file" / "leases").await_leadership("http://a", threading.Event())


def test_an_object_store_that_does_not_answer_is_told_at_once(objects: MemoryObjects) -> None:
    def silent(verb: str, key: str) -> None:
        raise failure()

    objects.before = silent
    with pytest.raises(StorageError, match=r"leases in s3://bucket/ha cannot be used.*the test says so"):
        election_in(LeaseObject("s3://bucket/ha", ObjectStoreSettings())).await_leadership("a", threading.Event())


# --- threads ----------------------------------------------------------------------------------------------------------


def test_one_leads_and_the_next_one_follows_when_it_resigns(leases_in: Callable[[str], Leases]) -> None:
    for attempt in range(100):
        folder, stop = leases_in(str(attempt)), threading.Event()
        first, second = election_in(folder), election_in(folder)
        assert first.await_leadership("http://first", stop) == Leader(1, "http://first")
        found: list[Leader | None] = []
        standby = threading.Thread(target=_stand, args=(second, stop, found))
        standby.start()
        assert second.leader() == Leader(1, "http://first")
        standby.join(1.5 * TIMEOUT_MS / 1000)
        if not first.lost.is_set():
            break
        # The machine did not let this process run for so long that the leader had to give up: look again.
        standby.join(PATIENCE_SECONDS)
        second.resign()
    assert not found
    assert not first.lost.is_set()
    first.resign()
    assert first.lost.is_set()
    standby.join(PATIENCE_SECONDS)
    assert found == [Leader(2, "http://second")]
    assert first.leader() == Leader(2, "http://second")
    second.resign()
    assert first.leader() is None
    assert first.await_leadership("http://first", stop) == Leader(3, "http://first")
    first.resign()


def _stand(election: LeaseElection, stop: threading.Event, found: list[Leader | None]) -> None:
    found.append(election.await_leadership("http://second", stop))


def test_a_standby_can_be_told_to_stop(leases_in: Callable[[str], Leases]) -> None:
    first, second, stop = election_in(leases_in("a")), election_in(leases_in("a")), threading.Event()
    first.await_leadership("http://first", stop)
    threading.Timer(0.1, stop.set).start()
    assert second.await_leadership("http://second", stop) is None
    second.resign()
    assert not first.lost.is_set()
    first.resign()


def test_a_leader_that_cannot_renew_gives_up_by_itself(
    leases_in: Callable[[str], Leases], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    leases = leases_in("a")
    election = election_in(leases)
    election.await_leadership("http://a", threading.Event())
    monkeypatch.setattr(type(leases), "renew", full)
    assert election.lost.wait(PATIENCE_SECONDS)


def test_a_leader_whose_storage_hangs_gives_up_by_itself(
    leases_in: Callable[[str], Leases], monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()
    leases = leases_in("a")
    election = election_in(leases)
    election.await_leadership("http://a", threading.Event())
    monkeypatch.setattr(type(leases), "renew", lambda *_: answered.wait())
    assert election.lost.wait(PATIENCE_SECONDS)
    answered.set()


def test_a_token_is_given_once(leases_in: Callable[[str], Leases], tmp_path: Path) -> None:
    leases = leases_in("a")
    results: list[bool] = []
    start = threading.Barrier(8)

    def take(holder: str) -> None:
        start.wait()
        results.append(leases.take(Lease(5, "http://x", holder), None))

    threads = [threading.Thread(target=take, args=(f"holder-{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False] * 7 + [True]
    if isinstance(leases, LeaseFolder):
        assert [path.name for path in (tmp_path / "a").iterdir()] == ["5"]


def test_old_leases_are_deleted_but_never_the_highest(tmp_path: Path) -> None:
    election, tokens = election_in(tmp_path), []
    for _ in range(12):
        leader = election.await_leadership("http://a", threading.Event())
        assert leader is not None
        tokens.append(leader.token)
        election.resign()
    assert tokens == list(range(1, 13))
    assert {int(path.name.removesuffix(".over")) for path in tmp_path.iterdir()} == set(range(4, 13))


# --- what becomes of requests to an object store ----------------------------------------------------------------------

OBJECT = LeaseObject("s3://bucket/ha", ObjectStoreSettings())


def seen() -> Lease:
    found = OBJECT.current()
    assert found is not None
    return found


def test_a_lease_that_was_renewed_since_it_was_seen_is_not_taken(objects: MemoryObjects) -> None:
    first = Lease(1, "http://first", "f")
    assert OBJECT.take(first, None)
    stale = seen()
    OBJECT.renew(Lease(1, "http://first", "f", 1), stale)
    assert not OBJECT.take(Lease(2, "http://second", "s"), stale)
    assert not OBJECT.take(Lease(1, "http://second", "s"), None)
    assert seen().holder == "f"


def test_a_deposed_leader_neither_renews_nor_ends_the_lease_of_its_successor(objects: MemoryObjects) -> None:
    assert OBJECT.take(Lease(1, "http://first", "f"), None)
    before = seen()
    assert OBJECT.take(Lease(2, "http://second", "s"), before)
    taken = seen()
    with pytest.raises(OSError, match="changed by another process"):
        OBJECT.renew(Lease(1, "http://first", "f", 1), before)
    OBJECT.end(before)
    assert seen() == taken
    OBJECT.end(taken)
    assert seen().over


@pytest.mark.parametrize("verb", ["create", "replace"])
def test_a_candidate_whose_answer_was_lost_looks_who_has_the_lease(objects: MemoryObjects, verb: str) -> None:
    before = None
    if verb == "replace":
        assert OBJECT.take(Lease(1, "http://first", "f"), None)
        before = seen()

    def lost(found: str, key: str) -> None:
        raise failure()

    objects.after = lost
    assert OBJECT.take(Lease(2, "http://second", "s"), before), "it was carried out"
    objects.after = lambda found, key: None
    assert OBJECT.take(Lease(2, "http://second", "s"), before), "the library has sent the put again"
    objects.before = lambda found, key: lost(found, key) if found == verb else None
    with pytest.raises(OSError, match="the test says so"):
        OBJECT.take(Lease(3, "http://third", "t"), None if verb == "create" else seen())
    assert seen().token == 2


# --- real processes ---------------------------------------------------------------------------------------------------

CANDIDATE = """
import sys, threading, time
from pathlib import Path
from flott.runtime.jobmanager.leadership.filesystem import LeaseElection
election = LeaseElection(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
leader = election.await_leadership(sys.argv[4], threading.Event())
print("leads", leader.token, time.monotonic(), flush=True)
election.lost.wait()
print("lost", leader.token, time.monotonic(), flush=True)
"""


class Candidate:
    """A process that stands for election and says how it goes."""

    def __init__(self, folder: Path, name: str):
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-c", CANDIDATE, str(folder), str(TIMEOUT_MS), str(RENEWAL_MS), f"http://{name}"]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    def says(self) -> tuple[str, int, float]:
        assert self.process.stdout is not None
        what, token, when = self.process.stdout.readline().split()
        return what, int(token), float(when)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        self.signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def candidates(tmp_path: Path) -> Iterator[Callable[[str], Candidate]]:
    made: list[Candidate] = []

    def make(name: str) -> Candidate:
        made.append(Candidate(tmp_path, name))
        return made[-1]

    yield make
    for candidate in made:
        candidate.end()


def test_a_standby_takes_over_from_a_leader_that_was_killed(candidates: Callable[[str], Candidate]) -> None:
    first = candidates("first")
    assert first.says()[:2] == ("leads", 1)
    second = candidates("second")
    first.signal(signal.SIGKILL)
    assert second.says()[:2] == ("leads", 2)


def test_a_leader_that_was_stopped_knows_that_it_is_none_when_it_comes_to(
    candidates: Callable[[str], Candidate]
) -> None:
    first = candidates("first")
    assert first.says()[:2] == ("leads", 1)
    second = candidates("second")
    first.signal(signal.SIGSTOP)
    what, token, took_over = second.says()
    assert (what, token) == ("leads", 2)
    first.signal(signal.SIGCONT)
    what, token, lost = first.says()
    assert (what, token) == ("lost", 1)
    assert lost > took_over  # it was stopped: it could not know earlier
    assert second.process.poll() is None


# --- a model: processes that are stopped between any two of their steps -----------------------------------------------

TIMEOUT, VALID, RENEWAL = 9.0, 6.0, 1.0


class Model:
    """Processes as in ``LeaseElection``, step by step, and a time that is the same for all."""

    def __init__(self, seed: int, leases: Leases, valid: float = VALID, hasty: bool = False):
        self.random = Random(seed)
        self.now = 0.0
        self.leases = leases
        self.tenures: dict[str, Tenure] = {}
        self.tokens: list[int] = []
        self.most_at_once = 0
        self._valid, self._hasty = valid, hasty
        self.processes = {name: self._live(name) for name in ("a", "b", "c")}

    def monotonic(self) -> float:
        return self.now

    def run(self, steps: int) -> None:
        pace = self.random.choice([0.1, 0.3, 0.6])
        names = list(self.processes)
        for _ in range(steps):
            self.now += self.random.expovariate(1 / pace)
            if self.random.random() < 0.02:
                names = self.random.sample(list(self.processes), self.random.randint(1, 3))  # the others are stopped
            next(self.processes[self.random.choice(names)])
            self.most_at_once = max(self.most_at_once, sum(tenure.is_valid for tenure in self.tenures.values()))

    def _live(self, name: str) -> Iterator[None]:
        while True:
            lease, began = yield from self._stand_by(name)
            self.tokens.append(lease.token)
            tenure = self.tenures[name] = Tenure(name, self, began, self._valid, 0)  # type: ignore[arg-type]
            yield from self._lead(lease, tenure)

    def _stand_by(self, name: str) -> Any:
        sighting: Sighting | None = None
        while True:
            looked_at = self.now
            yield
            current = self.leases.current()
            yield
            sighting = Sighting(current, self.now) if sighting is None else sighting.seen(current, self.now)
            yield
            if sighting.is_free(self.now if self._hasty else looked_at, TIMEOUT):
                began = self.now
                yield
                lease = Lease(1 if current is None else current.token + 1, name, name)
                # In an object store a hasty process does harm only if it also takes what it has not looked at.
                if self.leases.take(lease, self.leases.current() if self._hasty else current):
                    return lease, began
            yield

    def _lead(self, lease: Lease, tenure: Tenure) -> Iterator[None]:
        while tenure.is_valid:
            yield
            began = self.now
            yield
            if not tenure.is_valid:
                break
            current = self.leases.current()
            yield
            if current is None or current.token != lease.token:
                break
            lease = Lease(lease.token, lease.address, lease.holder, lease.count + 1)
            try:
                self.leases.renew(lease, current)
            except OSError:  # an object store refuses what comes too late
                break
            yield
            tenure._confirmed = began
            until = self.now + RENEWAL
            while self.now < until:
                yield
        tenure.lost.set()


def test_no_two_processes_ever_believe_that_they_lead(leases_in: Callable[[str], Leases]) -> None:
    leaders = 0
    for seed in range(8):
        model = Model(seed, leases_in(str(seed)))
        model.run(2000)
        assert model.most_at_once == 1, seed
        assert model.tokens == sorted(set(model.tokens)), seed
        leaders += len(model.tokens)
    assert leaders > 50


@pytest.mark.parametrize("defect", [{"valid": TIMEOUT * 1.3}, {"hasty": True}], ids=["overlong", "hasty"])
def test_the_model_would_notice(defect: dict[str, Any], leases_in: Callable[[str], Leases]) -> None:
    def at_most(seed: int) -> int:
        model = Model(seed, leases_in(str(seed)), **defect)
        model.run(2500)
        return model.most_at_once

    assert any(at_most(seed) > 1 for seed in range(12))

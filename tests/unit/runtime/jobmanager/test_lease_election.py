"""Election by lease files: one leader at a time, growing tokens, and what becomes of one that was stopped."""

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

from flott.common.configuration import Configuration
from flott.errors import ConfigurationError, StorageError
from flott.runtime.jobmanager.leadership.election import Leader, NoElection, make_election
from flott.runtime.jobmanager.leadership.filesystem import Lease, LeaseElection, LeaseFolder, Sighting
from flott.runtime.jobmanager.leadership.tenure import Tenure

ROOT = Path(__file__).parents[4]
TIMEOUT_MS, RENEWAL_MS = 900, 60
PATIENCE_SECONDS = 120  #: only a watchdog


def election_in(folder: Path) -> LeaseElection:
    return LeaseElection(folder, TIMEOUT_MS, RENEWAL_MS)


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


# --- threads ----------------------------------------------------------------------------------------------------------


def test_one_leads_and_the_next_one_follows_when_it_resigns(tmp_path: Path) -> None:
    for attempt in range(100):
        folder, stop = tmp_path / str(attempt), threading.Event()
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


def test_a_standby_can_be_told_to_stop(tmp_path: Path) -> None:
    first, second, stop = election_in(tmp_path), election_in(tmp_path), threading.Event()
    first.await_leadership("http://first", stop)
    threading.Timer(0.1, stop.set).start()
    assert second.await_leadership("http://second", stop) is None
    second.resign()
    assert not first.lost.is_set()
    first.resign()


def test_a_leader_that_cannot_renew_gives_up_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    election = election_in(tmp_path)
    election.await_leadership("http://a", threading.Event())
    monkeypatch.setattr(LeaseFolder, "renew", full)
    assert election.lost.wait(PATIENCE_SECONDS)


def test_a_leader_whose_storage_hangs_gives_up_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    election = election_in(tmp_path)
    election.await_leadership("http://a", threading.Event())
    monkeypatch.setattr(LeaseFolder, "renew", lambda *_: answered.wait())
    assert election.lost.wait(PATIENCE_SECONDS)
    answered.set()


def test_a_token_is_given_once(tmp_path: Path) -> None:
    leases = LeaseFolder(tmp_path)
    results: list[bool] = []
    start = threading.Barrier(8)

    def take(holder: str) -> None:
        start.wait()
        results.append(leases.take(Lease(5, "http://x", holder)))

    threads = [threading.Thread(target=take, args=(f"holder-{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False] * 7 + [True]
    assert [path.name for path in tmp_path.iterdir()] == ["5"]


def test_old_leases_are_deleted_but_never_the_highest(tmp_path: Path) -> None:
    election, tokens = election_in(tmp_path), []
    for _ in range(12):
        leader = election.await_leadership("http://a", threading.Event())
        assert leader is not None
        tokens.append(leader.token)
        election.resign()
    assert tokens == list(range(1, 13))
    assert {int(path.name.removesuffix(".over")) for path in tmp_path.iterdir()} == set(range(4, 13))


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

    def __init__(self, seed: int, folder: Path, valid: float = VALID, hasty: bool = False):
        self.random = Random(seed)
        self.now = 0.0
        self.leases = LeaseFolder(folder)
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
                if self.leases.take(lease):
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
            self.leases.renew(lease)
            yield
            tenure._confirmed = began
            until = self.now + RENEWAL
            while self.now < until:
                yield
        tenure.lost.set()


def test_no_two_processes_ever_believe_that_they_lead(tmp_path: Path) -> None:
    leaders = 0
    for seed in range(8):
        model = Model(seed, tmp_path / str(seed))
        model.run(2000)
        assert model.most_at_once == 1, seed
        assert model.tokens == sorted(set(model.tokens)), seed
        leaders += len(model.tokens)
    assert leaders > 50


@pytest.mark.parametrize("defect", [{"valid": TIMEOUT * 1.3}, {"hasty": True}], ids=["overlong", "hasty"])
def test_the_model_would_notice(defect: dict[str, Any], tmp_path: Path) -> None:
    def at_most(seed: int) -> int:
        model = Model(seed, tmp_path / str(seed), **defect)
        model.run(2500)
        return model.most_at_once

    assert any(at_most(seed) > 1 for seed in range(12))

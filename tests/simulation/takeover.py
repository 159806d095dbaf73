"""One seed with high availability: leaders that are deposed at any moment, and come to again later.

Leaders with growing tokens run the same job, each in a thread of its own, and a seed decides who goes on at every step
that any of them takes in the shared directory: one may be stopped between its last check and its deed, and find itself
in another world. Some die. Whatever happens, results come once, and no file that counts is lost.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, BinaryIO
from unittest import mock

from flott.common._savepoint_format import SavepointFormatType
from flott.common.completable_future import CompletableFuture
from flott.common.job_status import JobStatus
from flott.datastream.connectors.base import CommitPermit
from flott.errors import LeadershipLostError
from flott.runtime.checkpoint.restoring import open_snapshot
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.jobmaster import savepoints
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.managed_state.files.compaction_policy import CompactionRules
from flott.runtime.managed_state.files.state_file import open_state_file
from flott.runtime.orders import RescaleJob, TakeSavepoint
from flott.runtime.storage import PosixStorage
from flott.runtime.storage import posix_fence as fence
from flott.testing.clock import ManualClock
from flott.testing.harness import Crash, Incarnation, in_process, live
from flott.testing.sinks import Ledger
from flott.testing.sources import ScriptedSource
from tests.simulation.baton import Baton, Runner, anyone
from tests.simulation.program import Script, build
from tests.simulation.simulation import SeedFailed, _quiet
from tests.simulation.world import Beside, unneeded_files

LEADERS = 4
#: No seed takes so many steps, unless somebody tries something again and again in vain.
ENDLESS = 20_000


@dataclass(frozen=True)
class SteppedStorage(PosixStorage):
    """Local storage that lets others have a turn before every step."""

    takeover: Takeover = field(kw_only=True, compare=False)

    def read(self, name: str) -> bytes:
        self.takeover.moment(f"read {name}")
        return super().read(name)

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        self.takeover.moment(f"open {name}")
        with super().open(name) as file:
            yield file

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        self.takeover.moment(f"create {name}")
        with super().create(name) as file:
            yield file

    def _write_draft(self, draft: Path, data: bytes) -> None:
        self.takeover.moment("write a draft")
        super()._write_draft(draft, data)

    def _move(self, source: Path, target: Path) -> None:
        self.takeover.moment(f"rename {_shown(source)} to {_shown(target)}")
        super()._move(source, target)
        self.takeover.changed(source, target)
        self.takeover.moment("renamed")

    def list(self, folder: str) -> Iterator[str]:
        self.takeover.moment(f"list {folder}")
        yield from super().list(folder)


def _danger(what: str) -> int:
    """The moments that matter come more often."""
    if what.startswith("rename") and "_metadata" in what:
        return 40
    return 8 if what.startswith(("rename", "fence: stat done", "commit")) else 1


def _shown(path: Path) -> str:
    return "its leader folder" if path.parent.parent.name == fence.FOLDER else "/".join(path.parts[-2:])


class Leader:
    """One JobManager, as far as this job is concerned."""

    def __init__(self, takeover: Takeover, token: int):
        self.token = token
        self.name = f"leader {token}"
        self.life: Incarnation | None = None
        self.refused = self.dead = False
        self.stopped_until = 0  #: the moment at which it comes to again
        self.trace = takeover.trace
        self.beside = Beside(self)  # type: ignore[arg-type]  # it wants the trace only
        self.left = takeover.random.choice([0, 0, 0, takeover.random.randint(1, 400)])  #: moments until it dies


class Takeover:
    """One seed."""

    def __init__(self, seed: int, folder: Path):
        self.random = Random(seed)
        self._home = f"{folder}/"
        self.folder, self.savepoints = folder / "job", folder / "savepoints"
        self.trace: list[str] = []
        self.script = Script(self.random)
        self.source = ScriptedSource(self.script.splits)
        self.ledgers = (Ledger(f"takeover-records-{seed}"), Ledger(f"takeover-sums-{seed}"))
        for ledger in self.ledgers:
            ledger.before_commit = self._before_commit
        self.storage = SteppedStorage(str(self.folder), sync=False, takeover=self)
        self.clock = ManualClock()
        self.retained = self.random.choice([1, 1, 2, 3])
        self.rules = CompactionRules(
            fan_in=2, smallest_tier_bytes=200, rewrite_min_deltas=2, longest_sequence=self.random.choice([3, 6, 64])
        )
        self.baton = Baton(self._choose)
        self.leaders: dict[str, Leader] = {}
        self.rate = self.random.choice([0.01, 0.03, 0.1, 0.3])  #: how often somebody else's turn comes
        self.takeover_rate = self.random.choice([0.001, 0.005, 0.02])
        self.moments = 0  #: so far
        self.highest = 0  #: of the leaders that have claimed the directory
        self.broken: list[str] = []
        self.answers: list[CompletableFuture[str]] = []

    # --- who goes on -------------------------------------------------------------------------------------------------

    def _choose(self, left: list[Runner]) -> Runner | None:
        self.moments += 1
        awake = [runner for runner in left if self.leaders[runner.name].stopped_until <= self.moments]
        return anyone(awake or left, self.baton.current, self.random, self.rate)

    def moment(self, what: str) -> None:
        """A step of whoever runs: a takeover, a death, or somebody else's turn may come before it."""
        runner = self.baton.current
        if runner is None:  # nobody else is there (any more)
            return
        leader = self.leaders[runner.name]
        self.trace.append(f"{leader.name}: {what.replace(self._home, '')}")
        if len(self.leaders) < LEADERS and self.random.random() < self.takeover_rate * _danger(what):
            self._new_leader()
            if self.random.random() < 0.8:
                leader.stopped_until = self.moments + self.random.choice([60, 300, 1000])
        leader.left -= 1
        if leader.left == 0:
            self.trace.append(f"{leader.name} dies")
            leader.dead = True
        if leader.dead or self.moments > ENDLESS:
            raise Crash  # it cannot even give up its leader folder
        if what.startswith(("read state", "create", "planned", "ran")) and self.random.random() < 0.2:
            leader.beside.catch_up()  # not while a lock is held: in one thread nobody could wait for it
        self.baton.moment()

    def changed(self, source: Path, target: Path) -> None:
        """Something has been published or deleted: in the job's directory only the leader can do that."""
        leader = self.leaders[self.baton.current.name] if self.baton.current is not None else None
        if leader is not None and target.is_relative_to(self.folder) and leader.token < self.highest:
            self.broken.append(f"{leader.name} renamed {_shown(source)} to {_shown(target)}, deposed by {self.highest}")

    def _before_commit(self, permit: CommitPermit) -> None:
        self.moment(f"commit {permit.checkpoint_id}")

    def _step(self, name: str, epoch: int) -> None:
        self.moment(f"{name} {epoch}")

    def _new_leader(self) -> Leader:
        token = max((leader.token for leader in self.leaders.values()), default=0) + self.random.randint(1, 3)
        leader = Leader(self, token)
        self.trace.append(f"{leader.name} takes over")
        self.leaders[leader.name] = leader
        self.baton.add(leader.name, lambda: self._lead(leader))
        return leader

    def _lead(self, leader: Leader) -> None:
        env = self._environment()
        build(env, self.source, self.ledgers)
        try:
            leader.life = live(
                env, self.folder, clock=self.clock, storage=self.storage, on_step=self._step,
                on_start=lambda master: self._started(leader, master), beside=leader.beside,
                compaction_rules=self.rules, run_id=f"run{leader.token}", token=leader.token,
            )  # fmt: skip
        except LeadershipLostError:
            leader.refused = True  # it came too late
        except Crash:
            leader.dead = True
        status = leader.life.status.name if leader.life else "dead" if leader.dead else "refused"
        self.trace.append(f"{leader.name} ends: {status}")

    def _environment(self) -> Any:
        env = in_process(
            self.random.randint(1, 3),
            restart_strategy__type="fixed-delay",
            restart_strategy__fixed_delay__attempts="900",
            execution__checkpointing__num_retained=str(self.retained),
        )
        return env.set_max_parallelism(8)

    def _started(self, leader: Leader, master: JobMaster) -> None:
        self.highest = max(self.highest, leader.token)

        def wish(name: str, epoch: int) -> None:
            self._step(name, epoch)
            if self.random.random() < 0.1:
                self._wish(leader, master)

        master.on_step = wish

    def _wish(self, leader: Leader, master: JobMaster) -> None:
        if self.random.random() < 0.4:
            self.trace.append(f"{leader.name}: asked to rescale")
            master.submit(RescaleJob(self.random.randint(1, 3)))
        else:
            kind = self.random.choice([SavepointFormatType.CANONICAL, SavepointFormatType.NATIVE])
            self.trace.append(f"{leader.name}: asked for a savepoint, {kind.name}")
            self.answers.append(master.submit(TakeSavepoint(str(self.savepoints), kind)))

    def token(self) -> Any:
        """In the place of a random name."""
        return SimpleNamespace(hex=f"{self.random.getrandbits(64):016x}")

    # --- the course of events, and what must be true -----------------------------------------------------------------

    def run(self) -> None:
        """Until the job is done, and nobody is left who could do anything."""
        while not self._is_at_its_end():
            assert len(self.leaders) < 3 * LEADERS, "it does not come to an end"
            self._new_leader()
            self.baton.run()
            self.baton.current = None
            assert self.moments < ENDLESS, "somebody tries something again and again in vain"
            for leader in self.leaders.values():
                self._check_leader(leader)
            assert not self.broken, self.broken[0]
            self._check_checkpoints()
            self._check_savepoints()
        if any(leader.life and leader.life.status is JobStatus.FINISHED for leader in self.leaders.values()):
            self._check_output()  # else whoever published the last checkpoint died before it had committed it
        self._finish()
        self._check_output()
        self._check_checkpoints()
        self._check_savepoints()
        self._check_nothing_is_left()

    def _is_at_its_end(self) -> bool:
        completed = CheckpointStore(PosixStorage(str(self.folder))).completed()
        return bool(completed) and completed[-1].final

    def _finish(self) -> None:
        """A last leader finds that all is done, and cleans up."""
        leader = Leader(self, max(leader.token for leader in self.leaders.values()) + 1)
        leader.left = 0
        self._lead(leader)
        assert leader.life is not None
        assert leader.life.status is JobStatus.FINISHED, leader.life.failure
        assert leader.life.history.epochs == [], "what is complete was run again"

    def _check_leader(self, leader: Leader) -> None:
        if leader.life is None:
            assert leader.refused or leader.dead, f"{leader.name} never began"
        elif not leader.dead:
            status = leader.life.status
            assert status in (JobStatus.FINISHED, JobStatus.SUSPENDED), (leader.name, leader.life.failure)
            if leader.token == max(other.token for other in self.leaders.values()):
                assert status is JobStatus.FINISHED, "nobody has deposed the last one"

    def _check_checkpoints(self) -> None:
        storage = PosixStorage(str(self.folder))
        for manifest in CheckpointStore(storage).completed()[-self.retained :]:
            for name in manifest.files:
                with open_state_file(storage, name) as reader:
                    for _ in reader.blocks(range(8)):
                        pass

    def _check_savepoints(self) -> None:
        for folder in self.savepoints.glob("*"):
            if (folder / "_metadata").exists():
                for name in open_snapshot(str(folder), sync=False).located.files:
                    with open_state_file(PosixStorage("/"), name) as reader:
                        for _ in reader.blocks(range(8)):
                            pass
        for answer in self.answers:
            if answer.done() and answer.exception() is None:
                path = answer.result()
                assert Path(path, "_metadata").exists(), f"{path} was promised"

    def _check_output(self) -> None:
        found = Counter(repr(record) for ledger in self.ledgers for record in ledger.records)
        expected = self.script.expected()
        assert found == expected, f"missing {dict(expected - found)}, too much {dict(found - expected)}"

    def _check_nothing_is_left(self) -> None:
        left = {name for name in unneeded_files(self.folder, self.retained) if not name.startswith(fence.FOLDER)}
        assert not left, f"left behind: {sorted(left)}"
        assert not fence.leader_folders(self.folder / fence.FOLDER), "a leader folder is left"
        staged = [token for ledger in self.ledgers for token in ledger.staged]
        assert not staged, f"staged and never discarded: {staged}"


class _Steps:
    """The module ``os`` as the fence sees it: others may have a turn before each step."""

    def __init__(self, takeover: Takeover):
        self._takeover = takeover

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in ("listdir", "makedirs", "rmdir", "stat"):
            return real

        def stepped(*arguments: Any, **options: Any) -> Any:
            self._takeover.moment(f"fence: {name}")
            result = real(*arguments, **options)
            self._takeover.moment(f"fence: {name} done")
            return result

        return stepped


def run_takeover(seed: int) -> Takeover:
    """Run one seed; raises SeedFailed if anything is not as it should be."""
    folder = Path(tempfile.mkdtemp(prefix=f"flott-takeover-{seed}-"))
    takeover = Takeover(seed, folder)
    try:
        with (
            _quiet(),
            mock.patch.object(savepoints, "uuid4", takeover.token),
            mock.patch.object(fence, "os", _Steps(takeover)),
        ):
            takeover.run()
    except Exception as error:
        raise SeedFailed(f"Takeover {seed}", error, takeover.trace[-25:], f"--takeover {seed}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return takeover

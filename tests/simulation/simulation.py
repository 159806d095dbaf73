"""One seed: a job that is killed, refused, rescaled and restarted until it is done, and what must be true of it.

python -m tests.simulation 17                   run seed 17 again and print what happened
python -m tests.simulation --seeds 5000         run many; failing seeds are printed
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

from flott.common._savepoint_format import SavepointFormatType
from flott.common.completable_future import CompletableFuture
from flott.common.job_status import JobStatus
from flott.datastream import StreamExecutionEnvironment
from flott.errors import StorageError
from flott.runtime.checkpoint.restoring import ClaimMode, begin_with, open_snapshot
from flott.runtime.checkpoint.savepoint_files import dispose_savepoint
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.jobmaster import savepoints
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.managed_state.files.compaction_policy import CompactionRules
from flott.runtime.managed_state.files.state_file import open_state_file
from flott.runtime.orders import CancelWithSavepoint, RescaleJob, SavepointOrder, StopWithSavepoint, TakeSavepoint
from flott.runtime.storage import PosixStorage
from flott.testing.clock import ManualClock
from flott.testing.harness import Incarnation, in_process, live
from flott.testing.sinks import Ledger
from flott.testing.sources import ScriptedSource
from tests.simulation.program import Script, build
from tests.simulation.world import SimulatedStorage, World, unneeded_files

STORMY_LIVES = 6


class Simulation:
    """One seed."""

    def __init__(self, seed: int, folder: Path):
        self.folder, self.savepoints = folder / "job", folder / "savepoints"
        self.successor = folder / "successor"  #: a job that is started from a savepoint
        self.world = World(seed, folder)
        random = self.world.random
        self.script = Script(random)
        self.source = ScriptedSource(self.script.splits)
        self.ledgers = (Ledger(f"simulated-records-{seed}"), Ledger(f"simulated-sums-{seed}"))
        for ledger in self.ledgers:
            ledger.before_commit = self.world.before_commit
        self.storage = SimulatedStorage(str(self.folder), sync=False, world=self.world)
        self.clock = ManualClock()
        self.retained = random.choice([1, 1, 2, 3])
        self.rules = CompactionRules(
            fan_in=random.randint(2, 3),
            smallest_tier_bytes=random.choice([200, 2000, 16 * 1024]),
            rewrite_factor=random.choice([1, 2, 10**9]),
            rewrite_min_deltas=random.randint(1, 4),
            longest_sequence=random.choice([3, 6, 64]),
            max_orders=random.choice([1, 2, 64]),
            max_bytes=random.choice([1000, 10**9]),
        )
        self.lives = 0
        self.answers: list[CompletableFuture[str]] = []
        self.disposed: set[str] = set()

    def run(self) -> None:
        """Live until the job is done, then look at what is left."""
        life: Incarnation | None = None
        # A job that was stopped with a savepoint has finished, too, but has not come to its end.
        while life is None or life.status is not JobStatus.FINISHED or not self._is_at_its_end():
            assert self.lives < 3 * STORMY_LIVES, "it does not come to an end"
            life = self._live(calm=self.lives >= STORMY_LIVES)
            if life is not None and life.status is JobStatus.FAILED:
                assert isinstance(life.failure, StorageError), life.failure  # while it was being started
            self.check_checkpoints()
            self.check_savepoints()
        self.check_output()
        again = self._live(calm=True)  # finds that all is done, and cleans up
        assert again is not None
        assert again.status is JobStatus.FINISHED, again.failure
        assert again.history.epochs == [], "what is complete was run again"
        self.check_checkpoints()
        self.check_savepoints()
        self.check_output()
        self.check_nothing_is_left()
        if folders := sorted(self.savepoints.glob("*")):
            self.check_a_job_that_starts_from(self.world.random.choice(folders))

    def _is_at_its_end(self) -> bool:
        completed = CheckpointStore(PosixStorage(str(self.folder))).completed()
        return bool(completed) and completed[-1].final

    def _live(self, calm: bool) -> Incarnation | None:
        self.lives += 1
        self.world.begin_life(calm)
        env = self._environment()
        build(env, self.source, self.ledgers)
        try:
            return live(
                env, self.folder, clock=self.clock, storage=self.storage, on_step=self.world.step,
                on_start=self._started, beside=self.world.beside, compaction_rules=self.rules,
                run_id=f"run{self.lives}",
            )  # fmt: skip
        except StorageError:
            return None  # before there was a job

    def _environment(self) -> StreamExecutionEnvironment:
        env = in_process(
            self.world.random.randint(1, 4),
            restart_strategy__type="fixed-delay",
            restart_strategy__fixed_delay__attempts="900",
            execution__checkpointing__num_retained=str(self.retained),
        )
        return env.set_max_parallelism(8)

    def _started(self, master: JobMaster) -> None:
        random, note = self.world.random, self.world.trace.append

        def wish() -> None:
            match random.choice(["rescale", "rescale", "savepoint", "savepoint", "stop", "dispose"]):
                case "rescale":
                    parallelism = random.randint(1, 4)
                    note(f"  rescale to {parallelism}")
                    master.submit(RescaleJob(parallelism))
                case "dispose":
                    self._dispose()
                case wanted:
                    order: SavepointOrder = TakeSavepoint()
                    if wanted == "stop":
                        order = random.choice([StopWithSavepoint(), CancelWithSavepoint()])
                    kind = random.choice([SavepointFormatType.CANONICAL, SavepointFormatType.NATIVE])
                    note(f"  savepoint, {kind.name}, {type(order).__name__}")
                    self.answers.append(master.submit(replace(order, target=str(self.savepoints), format=kind)))

        self.world.wish = wish

    def _dispose(self) -> None:
        """Somebody else disposes of a savepoint, while the job runs."""
        folders = [folder for folder in sorted(self.savepoints.glob("*")) if (folder / "_metadata").exists()]
        if folders:
            chosen = self.world.random.choice(folders)
            self.world.trace.append(f"  dispose of {chosen.name}")
            self.disposed.add(str(chosen))
            dispose_savepoint(str(chosen), sync=False)

    # --- the promises ------------------------------------------------------------------------------------------------

    def check_checkpoints(self) -> None:
        """Every retained checkpoint can be restored: its files are there, and whole."""
        storage = PosixStorage(str(self.folder))
        # A power failure may bring the metadata of one back that was being deleted; the next start deletes it again.
        for manifest in CheckpointStore(storage).completed()[-self.retained :]:
            for operator in manifest.operators.values():
                for subtask in operator.subtasks:
                    for file in subtask.sequence or ():
                        with open_state_file(storage, file.name) as reader:
                            for _ in reader.blocks(range(operator.max_parallelism)):
                                pass

    def check_savepoints(self) -> None:
        """A savepoint that exists is whole, and one that was promised exists."""
        for folder in self.savepoints.glob("*"):
            if (folder / "_metadata").exists():
                manifest = open_snapshot(str(folder), sync=False).located
                for name in manifest.files:
                    with open_state_file(PosixStorage("/"), name) as reader:
                        for _ in reader.blocks(range(8)):
                            pass
        for answer in self.answers:
            if answer.done() and answer.exception() is None:
                path = answer.result()
                assert path in self.disposed or Path(path, "_metadata").exists(), f"{path} was promised"

    def check_a_job_that_starts_from(self, savepoint: Path) -> None:
        """It puts out what the first job did after the savepoint."""
        snapshot = open_snapshot(str(savepoint), sync=False)
        taken_at = snapshot.manifest.checkpoint_id
        self.world.trace.append(f"successor starts from {savepoint.name}, taken at {taken_at}")
        storage = PosixStorage(str(self.successor), sync=False)
        store = CheckpointStore(storage)
        store.claim("job")
        begin_with(snapshot, store, "job", self.world.random.choice(list(ClaimMode)))
        store.release()
        ledgers = (Ledger("successor-records"), Ledger("successor-sums"))
        env = self._environment()
        build(env, self.source, ledgers)
        ended = live(
            env, self.successor, clock=self.clock, storage=storage, compaction_rules=self.rules, run_id="successor"
        )
        assert ended.status is JobStatus.FINISHED, ended.failure
        before = [
            record
            for ledger in self.ledgers
            for token, records in ledger.committed.items()
            if int(token.rpartition(":")[2]) <= taken_at
            for record in records
        ]
        found = Counter(repr(record) for record in [*before, *ledgers[0].records, *ledgers[1].records])
        expected = self.script.expected()
        assert found == expected, f"missing {dict(expected - found)}, too much {dict(found - expected)}"

    def check_output(self) -> None:
        """Every result is there once, and nothing else."""
        found = Counter(repr(record) for ledger in self.ledgers for record in ledger.records)
        expected = self.script.expected()
        assert found == expected, f"missing {dict(expected - found)}, too much {dict(found - expected)}"

    def check_nothing_is_left(self) -> None:
        """Whatever lies in the job's directory is needed."""
        left = unneeded_files(self.folder, self.retained)
        assert not left, f"left behind: {sorted(left)}"
        halves = [folder.name for folder in self.savepoints.glob("*") if not (folder / "_metadata").exists()]
        assert not halves, f"half of a savepoint: {halves}"
        staged = [token for ledger in self.ledgers for token in ledger.staged]
        assert not staged, f"staged and never discarded: {staged}"


class SeedFailed(AssertionError):
    """A promise was broken; says what happened last, and how to see it again."""

    def __init__(self, what: str, error: Exception, last: Sequence[str], arguments: str):
        happened = "\n".join(last)
        super().__init__(
            f"{what} failed: {type(error).__name__}: {error}\nWhat happened last:\n{happened}\n"
            f"See it again with: python -m tests.simulation {arguments}"
        )


def run_seed(seed: int) -> Simulation:
    """Run one seed; raises SeedFailed if anything is not as it should be."""
    folder = Path(tempfile.mkdtemp(prefix=f"flott-simulation-{seed}-"))
    simulation = Simulation(seed, folder)
    try:
        with _quiet(), mock.patch.object(savepoints, "uuid4", simulation.world.token):
            simulation.run()
    except Exception as error:
        raise SeedFailed(f"Seed {seed}", error, simulation.world.trace[-12:], f"{seed}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return simulation


def digest(simulation: Simulation) -> str:
    """What happened, in short: two runs of one seed have the same."""
    return hashlib.sha256("\n".join(simulation.world.trace).encode()).hexdigest()[:16]


@contextmanager
def _quiet() -> Iterator[None]:
    """Warnings about refused deletions and compactions are what a simulation is full of."""
    log = logging.getLogger("flott")
    level, log.level = log.level, logging.CRITICAL
    try:
        yield
    finally:
        log.setLevel(level)

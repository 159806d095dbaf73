"""One seed of leaders that compete through an object store: deposed between any two requests, with lost answers.

The course of events is that of ``takeover``, with the job's directory and its savepoints in an object store in memory
that has the conditional puts of a real one. Before every request another leader's turn may come. A request may fail,
its answer may be lost after it was carried out, and a put may be carried out long after its writer was told that it
failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from flott.common._object_store_settings import ObjectStoreSettings
from flott.errors import FlottError, StateError, StorageError
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.pins import read_pins
from flott.runtime.checkpoint.restoring import open_snapshot
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.jobmaster import savepoints
from flott.runtime.managed_state.files.state_file import open_state_file
from flott.runtime.storage import object_client, object_head
from flott.runtime.storage.object_head import HEAD, PUBLISHED, read_head
from flott.runtime.storage.object_store import SEAL, ObjectStorage
from tests.simulation.simulation import SeedFailed, _quiet
from tests.simulation.takeover import Leader, Takeover
from tests.unit.runtime.storage.memory_objects import MemoryObjects, failure

BUCKET = "s3://bucket"
JOB = "job"


class StormyObjects(MemoryObjects):
    """A store whose requests take place when the seed says so, if at all."""

    def __init__(self, takeover: ObjectTakeover):
        super().__init__()
        self._takeover = takeover
        self._late: list[tuple[str, bytes, str | None]] = []  #: puts that may still be carried out
        self.before, self.after = self._before, self._after

    def _before(self, verb: str, key: str) -> None:
        takeover = self._takeover
        takeover.moment(f"{verb} {key}")
        self._perhaps_late()
        if takeover.random.random() < takeover.trouble:
            takeover.trace.append("  refused")
            raise failure()

    def _after(self, verb: str, key: str) -> None:
        takeover = self._takeover
        if verb == "replace" and key.endswith(HEAD):
            takeover.changed_head()
        takeover.moment(f"{verb} {key} done")
        if takeover.random.random() < takeover.trouble:
            takeover.trace.append("  the answer is lost")
            raise failure()

    def create(self, key: str, data: bytes) -> str:
        self._perhaps_delay(key, data, None)
        return super().create(key, data)

    def replace(self, key: str, data: bytes, etag: str) -> str:
        self._perhaps_delay(key, data, etag)
        return super().replace(key, data, etag)

    def _perhaps_delay(self, key: str, data: bytes, etag: str | None) -> None:
        if self._takeover.random.random() < self._takeover.trouble / 2:
            self._late.append((key, data, etag))
            self._takeover.trace.append(f"  the put of {key} is delayed")
            raise failure()

    def _perhaps_late(self) -> None:
        for late in list(self._late):
            if self._takeover.random.random() < 0.05:
                self._late.remove(late)
                key, data, etag = late
                with self._lock:
                    found = self._version(key) if key in self.objects else None
                    if found == etag:
                        self._takeover.trace.append(f"  the put of {key} is carried out late")
                        self._store("late", key, data, told=False)


class ObjectTakeover(Takeover):
    """One seed."""

    def __init__(self, seed: int):
        super().__init__(seed, Path(f"/nowhere/{seed}"))
        self.folder = Path("/nowhere") / JOB  # only its last part matters
        self.trouble = self.random.choice([0, 0, 0.002, 0.01])
        self.store = StormyObjects(self)
        self.storage = ObjectStorage(f"{BUCKET}/{JOB}", ObjectStoreSettings())  # type: ignore[assignment]
        self.savepoints = f"{BUCKET}/savepoints"  # type: ignore[assignment]

    def changed_head(self) -> None:
        """The head of the job's directory was replaced: only the leader, or one that takes over, can do that."""
        leader = self.leaders[self.baton.current.name] if self.baton.current is not None else None
        if leader is not None and leader.token < self.highest:
            self.broken.append(f"{leader.name} changed what is published, deposed by {self.highest}")

    def _lead(self, leader: Leader) -> None:
        try:
            super()._lead(leader)
        except FlottError as error:  # the store did not answer when it began
            self.trace.append(f"{leader.name} gave up: {error}")
            leader.dead = True

    def _check_leader(self, leader: Leader) -> None:
        if leader.life is not None and isinstance(leader.life.failure, (StorageError, StateError)) and self.trouble:
            leader.dead = True  # the store did not answer while it read what was there
        super()._check_leader(leader)

    @contextmanager
    def _calm(self) -> Iterator[None]:
        """Look at the store without disturbing anything."""
        before, after, trouble = self.store.before, self.store.after, self.trouble
        self.store.before = self.store.after = lambda verb, key: None
        self.trouble = 0
        try:
            yield
        finally:
            self.store.before, self.store.after, self.trouble = before, after, trouble

    def _plain(self) -> CheckpointStore:
        return CheckpointStore(ObjectStorage(f"{BUCKET}/{JOB}"))

    def _is_at_its_end(self) -> bool:
        with self._calm():
            completed = self._plain().completed()
        return bool(completed) and completed[-1].final

    def _finish(self) -> None:
        with self._calm():
            super()._finish()

    def _check_checkpoints(self) -> None:
        with self._calm():
            for manifest in self._plain().completed()[-self.retained :]:
                self._check_files(manifest.files)

    def _check_savepoints(self) -> None:
        with self._calm():
            found = {key.split("/")[1] for key in self.store.objects if key.startswith("savepoints/")}
            for name in sorted(found):
                metadata = self.store.objects.get(f"savepoints/{name}/_metadata", (SEAL, 0))[0]
                if metadata != SEAL:
                    self._check_files(open_snapshot(f"{BUCKET}/savepoints/{name}", sync=False).located.files)
            for answer in self.answers:
                if answer.done() and answer.exception() is None:
                    path = answer.result()
                    assert ObjectStorage(path).exists("_metadata"), f"{path} was promised"

    def _check_files(self, names: frozenset[str]) -> None:
        for name in names:
            with open_state_file(ObjectStorage(f"{BUCKET}/{JOB}"), name) as reader:
                for _ in reader.blocks(range(8)):
                    pass

    def _check_nothing_is_left(self) -> None:
        with self._calm():
            storage = ObjectStorage(f"{BUCKET}/{JOB}")
            completed = CheckpointStore(storage).completed()
            assert len(completed) <= self.retained
            kept = {name for manifest in completed for name in manifest.files}
            for pin in read_pins(storage):
                assert not pin.is_void(storage), f"{pin.name} is a pin without a savepoint"
                kept |= pin.files
            found = read_head(self.store, f"{BUCKET}/{JOB}")
            assert found is not None
            head = found[0]
            assert head.owner is None, "a leader has not given the directory up"
            contents = {entry["object"] for entry in head.files.values() if "object" in entry}
            objects = {key.removeprefix(f"{JOB}/") for key in self.store.objects if key.startswith(f"{JOB}/")}
            left = objects - kept - contents - {HEAD}
            assert not {name for name in left if not name.startswith(PUBLISHED)}, f"left behind: {sorted(left)}"
            expected = {paths.JOB}
            for manifest in completed:
                expected |= {paths.metadata(manifest.checkpoint_id), paths.epoch_input(manifest.checkpoint_id)}
            expected |= {paths.epoch_input(completed[-1].checkpoint_id + 1)}
            expected |= {paths.pin(pin.name) for pin in read_pins(storage)}
            assert set(head.files) <= expected, f"still published: {sorted(set(head.files) - expected)}"
        staged = [token for ledger in self.ledgers for token in ledger.staged]
        assert not staged, f"staged and never discarded: {staged}"


def run_object_takeover(seed: int) -> ObjectTakeover:
    """Run one seed; raises SeedFailed if anything is not as it should be."""
    takeover = ObjectTakeover(seed)
    try:
        with (
            _quiet(),
            mock.patch.object(savepoints, "uuid4", takeover.token),
            mock.patch.object(object_head, "RETRY_DELAYS", ()),
            mock.patch.object(object_client, "client_of", return_value=takeover.store),
        ):
            takeover.run()
    except Exception as error:
        raise SeedFailed(f"Object takeover {seed}", error, takeover.trace[-25:], f"--object-takeover {seed}") from error
    return takeover

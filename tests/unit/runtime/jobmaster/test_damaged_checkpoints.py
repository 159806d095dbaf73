"""Damaged, cut off and missing files: a job that is to begin with them is refused by name, and nothing is deleted."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flott.common.job_status import JobStatus
from flott.errors import FlottError
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.storage import PosixStorage
from flott.testing.harness import Cancel, live
from tests.unit.runtime.jobmaster.summing_job import check, new_ledger, summing_job

RETAIN = {"execution__checkpointing__num_retained": "3"}
LAST = 5  #: the job was cancelled after this epoch, and 3 checkpoints of it are there

Damage = Callable[[Path], None]


def flip(position: float) -> Damage:
    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[min(int(len(data) * position), len(data) - 1)] ^= 0x04
        path.write_bytes(data)

    return change


def cut(keep: float) -> Damage:
    return lambda path: path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])


DAMAGES: dict[str, Damage] = {
    "flipped at the start": flip(0),
    "flipped early": flip(0.1),
    "flipped in the middle": flip(0.5),
    "flipped late": flip(0.9),
    "flipped at the end": flip(1),
    "emptied": cut(0),
    "cut in the middle": cut(0.5),
    "cut at the end": cut(0.99),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"!"),
    "overwritten": lambda path: path.write_bytes(b"\0" * path.stat().st_size),
    "deleted": Path.unlink,
}
#: What a look at the sizes of files shows.
SEEN_AT_ONCE = {"emptied", "cut in the middle", "cut at the end", "longer", "deleted"}


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a job that was cancelled."""
    folder = tmp_path_factory.mktemp("former") / "job"

    def stop(step: str, epoch: int) -> None:
        if (step, epoch) == ("committed", LAST):
            raise Cancel

    assert live(summing_job(new_ledger(), **RETAIN), folder, on_step=stop).status is JobStatus.CANCELED
    assert sorted(path.name for path in folder.glob("chk-*")) == ["chk-3", "chk-4", "chk-5"]
    return folder


@pytest.fixture
def job(former: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(former, tmp_path / "checkpoints" / "job"))


def tree(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def files_of(job: Path, checkpoint: int, *, only_of_it: bool = False) -> list[str]:
    """The state files of a checkpoint; or those that the one before does not have."""
    store = CheckpointStore(PosixStorage(str(job)))
    files = store.read(checkpoint).files
    return sorted(files - store.read(checkpoint - 1).files if only_of_it else files)


def kinds_of(job: Path) -> dict[str, str]:
    """A file of every kind that the last checkpoint has and the one before has not."""
    state = files_of(job, LAST, only_of_it=True)
    return {
        "keyed state": next(name for name in state if not name.endswith("-operator")),
        "operator state": next(name for name in state if name.endswith("-operator")),
        "metadata": f"chk-{LAST}/_metadata",
    }


def start_from(job: Path, checkpoint: int, claim: bool = False, parallelism: int = 2) -> None:
    """Begin another job with a checkpoint, and check what it writes."""
    ledger = new_ledger()
    env = summing_job(
        ledger,
        parallelism,
        execution__checkpointing__dir=str(job.parent.parent / "new"),
        execution__state_recovery__path=str(job / f"chk-{checkpoint}"),
        execution__state_recovery__claim_mode="CLAIM" if claim else "NO_CLAIM",
    )
    env.execute("job")
    check(ledger, after=checkpoint)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", ["keyed state", "operator state", "metadata"])
@pytest.mark.parametrize("claim", [False, True], ids=["copied", "claimed"])
def test_a_job_refuses_to_begin_with_a_damaged_file_and_begins_with_the_checkpoint_before(
    job: Path, kind: str, damage: str, claim: bool
) -> None:
    name = kinds_of(job)[kind]
    DAMAGES[damage](job / name)
    before = tree(job)
    with pytest.raises(FlottError) as refused:
        start_from(job, LAST, claim)
    after = tree(job)
    if kind == "metadata" or damage in SEEN_AT_ONCE or not claim:
        assert (f"chk-{LAST}" if (kind, damage) == ("metadata", "deleted") else name) in str(refused.value)
        assert not list((job.parent.parent / "new").glob("*/chk-*"))  # there is no new job
    else:  # a task has found it
        assert name in str(refused.value)
        after = {path: data for path, data in after.items() if not path.startswith("pins/claim-")}
    assert after == before
    start_from(job, LAST - 1, claim, parallelism=3)


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        (kind, damage)
        for kind in ("keyed state", "operator state", "metadata")
        for damage in DAMAGES
        if (kind, damage) != ("metadata", "deleted")  # see the next test
    ],
)
def test_a_job_refuses_to_go_on_from_its_own_damaged_checkpoint_and_deletes_nothing(
    job: Path, kind: str, damage: str
) -> None:
    name = kinds_of(job)[kind]
    DAMAGES[damage](job / name)
    before = tree(job)
    ledger = new_ledger()
    ended = live(summing_job(ledger, **RETAIN), job)
    assert ended.status is JobStatus.FAILED
    assert name in str(ended.failure)
    assert {path: data for path, data in tree(job).items() if path in before} == before
    start_from(job, LAST - 1)


def test_without_its_metadata_it_is_no_checkpoint_and_the_job_goes_on_from_the_one_before(job: Path) -> None:
    (job / f"chk-{LAST}" / "_metadata").unlink()
    ledger = new_ledger()
    assert live(summing_job(ledger, **RETAIN), job).status is JobStatus.FINISHED
    check(ledger, after=LAST - 1)


@pytest.mark.parametrize("damage", [damage for damage in DAMAGES if damage != "deleted"])
def test_a_damaged_plan_is_refused_by_name_and_nothing_is_deleted(job: Path, damage: str) -> None:
    """The plan of the epoch that the job goes on with: it must read exactly that, or nothing."""

    def die_after_planning(step: str, epoch: int) -> None:
        if (step, epoch) == ("planned", LAST + 1):
            raise Cancel

    live(summing_job(new_ledger(), **RETAIN), job, on_step=die_after_planning)
    name = f"plans/epoch-{LAST + 1}.json"
    DAMAGES[damage](job / name)
    before = tree(job)
    ended = live(summing_job(new_ledger(), **RETAIN), job)
    assert ended.status is JobStatus.FAILED
    assert name in str(ended.failure)
    assert tree(job) == before
    start_from(job, LAST)


@pytest.mark.parametrize("claim", [False, True], ids=["copied", "claimed"])
def test_every_file_of_a_sequence_is_needed_whatever_its_age(job: Path, claim: bool) -> None:
    for name in files_of(job, LAST):
        kept = (job / name).read_bytes()
        (job / name).unlink()
        with pytest.raises(FlottError, match=name):
            start_from(job, LAST, claim)
        (job / name).write_bytes(kept)
    start_from(job, LAST, claim)


def test_metadata_of_a_later_version_is_refused_with_advice(job: Path) -> None:
    path = job / f"chk-{LAST}" / "_metadata"
    first, rest = path.read_bytes().split(b"\n", 1)
    words = first.split()
    words[1] = str(int(words[1]) + 1).encode()
    path.write_bytes(b" ".join(words) + b"\n" + rest)
    before = tree(job)
    with pytest.raises(FlottError, match=rf"chk-{LAST}/_metadata has format version \d, of a later version of Flott"):
        start_from(job, LAST)
    assert tree(job) == before


def test_a_state_file_of_a_later_version_is_refused_with_advice(job: Path) -> None:
    name = kinds_of(job)["keyed state"]
    data = (job / name).read_bytes()
    (job / name).write_bytes(data[:7] + b"3" + data[8:])
    with pytest.raises(FlottError, match=rf"{name} has format version '3'; .*Use the version of Flott that wrote it"):
        start_from(job, LAST, claim=True)

"""Checkpoints and savepoints of former versions are restored and read. Their formats are a promise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import flott.state
from flott.common import Types
from flott.runtime.checkpoint.manifest import decode_manifest
from tests.compatibility import generate, snapshots
from tests.compatibility.programs import PROGRAMS
from tests.compatibility.snapshots import FIXTURES, Fixture

ALL = snapshots.fixtures()
CHECKPOINTS = [fixture for fixture in ALL if fixture.savepoint is None]
SAVEPOINTS = [fixture for fixture in ALL if fixture.savepoint is not None]


def names(fixtures: list[Fixture]) -> Iterator[str]:
    return (fixture.name for fixture in fixtures)


def another(parallelism: int) -> int:
    return 3 if parallelism < 3 else 2


def go_on(fixture: Fixture, folder: Path, **settings: object) -> None:
    """Run the program of a fixture to its end, in a folder into which the fixture has been planted."""
    before = snapshots.output(folder)
    snapshots.environment(fixture.program, folder, **settings).execute(fixture.program)  # type: ignore[arg-type]
    expected = fixture.expected()
    assert snapshots.output(folder) == expected
    assert before != expected, "the snapshot was not in the middle"


@pytest.mark.parametrize("fixture", CHECKPOINTS, ids=names(CHECKPOINTS))
def test_a_job_goes_on_from_its_own_checkpoint_at_another_parallelism(fixture: Fixture, tmp_path: Path) -> None:
    fixture.plant(tmp_path)
    settings = {"execution.state-recovery.from-latest": "true", "parallelism": another(fixture.parallelism)}
    go_on(fixture, tmp_path, **settings)
    assert [*(tmp_path / "checkpoints").iterdir()] == []


@pytest.mark.parametrize("fixture", CHECKPOINTS, ids=names(CHECKPOINTS))
def test_another_job_begins_with_a_checkpoint_on_rocksdb(fixture: Fixture, tmp_path: Path) -> None:
    fixture.plant(tmp_path)
    path = tmp_path / fixture.snapshot
    settings = {"execution.state-recovery.path": str(path), "parallelism": fixture.parallelism}
    go_on(fixture, tmp_path, backend="rocksdb", **settings)
    assert path.exists()


@pytest.mark.parametrize("fixture", SAVEPOINTS, ids=names(SAVEPOINTS))
def test_another_job_begins_with_a_savepoint_at_another_parallelism(fixture: Fixture, tmp_path: Path) -> None:
    fixture.plant(tmp_path)
    path = tmp_path / fixture.snapshot
    settings = {"execution.state-recovery.path": str(path), "parallelism": another(fixture.parallelism)}
    go_on(fixture, tmp_path, **settings)
    assert path.exists()


@pytest.mark.parametrize("fixture", SAVEPOINTS, ids=names(SAVEPOINTS))
def test_another_job_claims_a_savepoint_on_rocksdb(fixture: Fixture, tmp_path: Path) -> None:
    fixture.plant(tmp_path)
    path = tmp_path / fixture.snapshot
    settings = {"execution.state-recovery.path": str(path), "execution.state-recovery.claim-mode": "CLAIM"}
    go_on(fixture, tmp_path, backend="rocksdb", parallelism=fixture.parallelism, **settings)
    assert not path.exists()


EARLIER = [
    (fixture, epoch)
    for fixture in CHECKPOINTS
    for epoch in range(max(1, fixture.epoch - 2), fixture.epoch)
    if fixture.path.name.startswith(("kinds-checkpoint.", "kinds-checkpoint-compacted."))
]


@pytest.mark.parametrize(("fixture", "epoch"), EARLIER, ids=[f"{fixture.name}-{epoch}" for fixture, epoch in EARLIER])
def test_every_retained_checkpoint_of_a_sequence_is_restored(fixture: Fixture, epoch: int, tmp_path: Path) -> None:
    fixture.plant(tmp_path)
    path = tmp_path / "checkpoints" / fixture.job_id / f"chk-{epoch}"
    settings = {"execution.state-recovery.path": str(path), "parallelism": fixture.parallelism}
    snapshots.environment(fixture.program, tmp_path, **settings).execute(fixture.program)  # type: ignore[arg-type]
    # What came after this checkpoint was written by the former job, and again by this one: the same lines.
    assert set(snapshots.output(tmp_path)) == set(fixture.expected())


@pytest.mark.parametrize("fixture", ALL, ids=names(ALL))
def test_state_of_a_snapshot_is_listed_and_read(fixture: Fixture, tmp_path: Path) -> None:
    fixture.plant(tmp_path)
    snapshot = flott.state.open(tmp_path / fixture.snapshot)
    assert snapshot.is_savepoint == (fixture.savepoint is not None)
    assert snapshot.describe()
    keys = 0
    for operator in snapshot.operators:
        for state in operator.states:
            as_text = Types.PICKLED_BYTE_ARRAY() if state.name == "map" else None  # numbers beyond 64 bits
            assert state.columns
            assert state.to_arrow(value_type=as_text).num_columns
            for item in state.items():
                if isinstance(state, flott.state.KeyedStateView) and not isinstance(item[0], tuple):
                    assert state.get(item[0]) is not None
                keys += 1
    assert keys > 0


def test_a_savepoint_is_edited(tmp_path: Path) -> None:
    [fixture] = [fixture for fixture in SAVEPOINTS if fixture.name == "generation-1/kinds-savepoint"]
    fixture.plant(tmp_path)
    edited = flott.state.edit(flott.state.open(tmp_path / fixture.snapshot))
    edited.remove_operator("expired").write(str(tmp_path / "edited"))
    settings = {"execution.state-recovery.path": str(tmp_path / "edited")}
    go_on(fixture, tmp_path, **settings)


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_write_what_they_wrote_in_former_versions(program: str, tmp_path: Path) -> None:
    snapshots.environment(program, tmp_path).execute(program)
    written = snapshots.output(tmp_path)
    generations = {fixture.path.parent: fixture for fixture in ALL if fixture.program == program}
    for fixture in generations.values():
        assert written == fixture.expected(), fixture.name


# --- the fixtures show what they are to show --------------------------------------------------------------------------


def manifest_of(fixture: Fixture, folder: Path) -> bytes:
    fixture.plant(folder)
    return (folder / fixture.snapshot / "_metadata").read_bytes()


def test_the_compacted_checkpoint_has_compacted_files(tmp_path: Path) -> None:
    [fixture] = [fixture for fixture in ALL if fixture.name == "generation-1/kinds-checkpoint-compacted"]
    manifest = decode_manifest(manifest_of(fixture, tmp_path), "fixture")
    assert any("fold" in name for name in manifest.files)


def test_the_rescaled_checkpoint_refers_to_parts_of_files(tmp_path: Path) -> None:
    [fixture] = [fixture for fixture in ALL if fixture.name == "generation-1/kinds-checkpoint-rescaled"]
    assert b'"groups":[' in manifest_of(fixture, tmp_path).replace(b" ", b"")


def test_a_checkpoint_of_the_file_sink_has_output_to_commit(tmp_path: Path) -> None:
    [fixture] = [fixture for fixture in ALL if fixture.name == "generation-1/files-checkpoint-to-commit"]
    manifest = decode_manifest(manifest_of(fixture, tmp_path), "fixture")
    assert any(manifest.committables.values())
    assert [*(tmp_path / "out").rglob("*.staged")]
    assert [*(tmp_path / "out").rglob("*.segment")]


#: Of which programs a generation has fixtures, if not of all.
PARTIAL = {"generation-1": {*PROGRAMS} - {"tables"}, "generation-2": {"tables"}}


def test_all_generations_are_complete() -> None:
    for generation in FIXTURES.glob("generation-*"):
        found = {fixture.name.rpartition("/")[2] for fixture in ALL if fixture.path.parent == generation}
        programs = PARTIAL.get(generation.name, {*PROGRAMS})
        assert found == {name for name, recipe in generate.RECIPES.items() if recipe.program in programs}, generation


def test_the_fixtures_of_tables_hold_columns_in_state(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for fixture in ALL:
        if fixture.program == "tables":
            fixture.plant(tmp_path / fixture.name)
            snapshot = flott.state.open(tmp_path / fixture.name / fixture.snapshot)
            stateful = [operator.uid for operator in snapshot.operators if operator.states]
            kinds = ("aggregate", "join", "window", "rank", "over")
            assert all(any(kind in uid for uid in stateful) for kind in kinds), stateful


@pytest.mark.parametrize("name", ["kinds-checkpoint-rescaled", "kinds-savepoint-native", "files-checkpoint-to-commit"])
def test_fixtures_can_be_made_with_the_present_version(name: str, tmp_path: Path) -> None:
    made = generate.make(generate.RECIPES[name], tmp_path / f"{name}.tar.xz")
    assert Fixture.read(made.path) == made
    made.plant(tmp_path / "planted")
    assert flott.state.open(tmp_path / "planted" / made.snapshot).describe()

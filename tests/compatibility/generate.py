"""Makes a generation of fixtures with the version of Flott that is on the path. README.md says when and how.

python -m tests.compatibility.generate tests/compatibility/fixtures/generation-3 [program ...]
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from flott.common import JobClient
from flott.common._savepoint_format import SavepointFormatType
from flott.common.completable_future import CompletableFuture
from flott.errors import JobCancelledError
from flott.runtime.entrypoint import executors
from tests.compatibility import snapshots
from tests.compatibility.programs import PROGRAMS
from tests.compatibility.snapshots import Fixture


@dataclass(frozen=True)
class Recipe:
    """How a fixture is made: a program, and the step of an epoch at which everything is copied or stopped."""

    program: str
    at: tuple[str, int]
    parallelism: int = 2
    backend: str = "hashmap"
    savepoint: SavepointFormatType | None = None  #: stop with a savepoint; None: copy the checkpoint directory
    rescale_to: int | None = None  #: in the epoch before the last


CANONICAL, NATIVE = SavepointFormatType.CANONICAL, SavepointFormatType.NATIVE

RECIPES = {
    "kinds-checkpoint": Recipe("kinds", ("committed", 4)),
    "kinds-checkpoint-rocksdb": Recipe("kinds", ("committed", 5), parallelism=3, backend="rocksdb"),
    "kinds-checkpoint-compacted": Recipe("kinds", ("committed", 13), parallelism=1),
    "kinds-checkpoint-rescaled": Recipe("kinds", ("completed", 5), rescale_to=3),
    "kinds-savepoint": Recipe("kinds", ("ran", 5), savepoint=CANONICAL),
    "kinds-savepoint-native": Recipe("kinds", ("ran", 5), parallelism=3, backend="rocksdb", savepoint=NATIVE),
    "timers-checkpoint": Recipe("timers", ("committed", 4)),
    "timers-savepoint": Recipe("timers", ("ran", 5), parallelism=4, backend="rocksdb", savepoint=CANONICAL),
    "windows-checkpoint": Recipe("windows", ("committed", 5)),
    "windows-checkpoint-rocksdb": Recipe("windows", ("completed", 4), parallelism=1, backend="rocksdb"),
    "windows-savepoint": Recipe("windows", ("ran", 6), savepoint=CANONICAL),
    "joins-checkpoint": Recipe("joins", ("committed", 5)),
    "joins-savepoint": Recipe("joins", ("ran", 4), parallelism=3, backend="rocksdb", savepoint=CANONICAL),
    "operators-checkpoint": Recipe("operators", ("committed", 4), parallelism=3),
    "operators-savepoint": Recipe("operators", ("ran", 5), savepoint=CANONICAL),
    "operators-savepoint-native": Recipe("operators", ("ran", 6), savepoint=NATIVE),
    "files-checkpoint-to-commit": Recipe("files", ("completed", 2)),
    "files-checkpoint": Recipe("files", ("committed", 3), backend="rocksdb"),
    "files-savepoint": Recipe("files", ("ran", 2), parallelism=1, savepoint=CANONICAL),
    "files-savepoint-native": Recipe("files", ("ran", 3), savepoint=NATIVE),
    "tables-checkpoint": Recipe("tables", ("committed", 4)),
    "tables-savepoint": Recipe("tables", ("ran", 5), parallelism=3, backend="rocksdb", savepoint=CANONICAL),
}


def generate(generation: Path, programs: Sequence[str] = tuple(PROGRAMS)) -> None:
    """Write the fixtures of programs, and what each of them writes if it is not interrupted."""
    generation.mkdir(parents=True)
    with tarfile.open(generation / snapshots.EXPECTED, "x:xz") as expected:
        for program in programs:
            with tempfile.TemporaryDirectory() as name:
                snapshots.environment(program, Path(name)).execute(program)
                snapshots.add(expected, program, "".join(f"{line}\n" for line in snapshots.output(Path(name))))
    for name, recipe in RECIPES.items():
        if recipe.program in programs:
            make(recipe, generation / f"{name}.tar.xz")


def make(recipe: Recipe, path: Path) -> Fixture:
    """Run a program up to a moment and keep all that is there then."""
    with tempfile.TemporaryDirectory(prefix="flott-fixture-") as name, tempfile.TemporaryDirectory() as kept:
        root = Path(name)
        savepoints: list[CompletableFuture[str]] = []

        def act(client: JobClient, step: str, epoch: int) -> None:
            if recipe.rescale_to is not None and (step, epoch) == ("planned", recipe.at[1] - 1):
                client.rescale(recipe.rescale_to)
            if (step, epoch) != recipe.at:
                return
            if recipe.savepoint is not None:
                savepoints.append(client.stop_with_savepoint(False, str(root / "savepoints"), recipe.savepoint))
            else:
                copy("out", "checkpoints")
                client.cancel()

        def copy(*folders: str) -> None:
            for folder in folders:
                if (root / folder).exists():
                    shutil.copytree(root / folder, Path(kept, folder))

        _run(act, recipe, root)
        savepoint = None
        if savepoints:
            savepoint = str(Path(savepoints[0].result()).relative_to(root))
            copy("out", "savepoints", *(["checkpoints"] if recipe.savepoint is NATIVE else []))
        job_id = next((folder.name for folder in Path(kept).glob("checkpoints/*")), "")
        fixture = Fixture(
            path, recipe.program, name, job_id, recipe.rescale_to or recipe.parallelism, recipe.backend, savepoint,
            recipe.savepoint is NATIVE, recipe.at[1],
        )  # fmt: skip
        fixture.write(Path(kept))
    return fixture


def _run(act: Callable[[JobClient, str, int], None], recipe: Recipe, root: Path) -> None:
    started = threading.Event()
    clients: list[JobClient] = []

    def on_step(step: str, epoch: int) -> None:
        started.wait()
        act(clients[0], step, epoch)

    executors.step_hook = on_step
    try:
        env = snapshots.environment(recipe.program, root, parallelism=recipe.parallelism, backend=recipe.backend)
        clients.append(env.execute_async(recipe.program))
        started.set()
        clients[0].get_job_execution_result().result()
        assert recipe.savepoint is not None, "the program ended before the moment at which it was to be copied"
    except JobCancelledError:
        pass
    finally:
        executors.step_hook = None


if __name__ == "__main__":
    generate(Path(sys.argv[1]).resolve(), sys.argv[2:] or tuple(PROGRAMS))
    print(json.dumps(sorted(RECIPES)))

"""Runs the golden programs: straight through, killed again and again, stopped and resumed, with a savepoint in the
middle and another parallelism or backend from there on, rescaled while they run.

A program is a module ``name.py`` with ``build(env, folder)``, which writes below ``folder/out/<sink>``, and a file
``name.golden``: what it wrote, as sorted lines ``sink<TAB>line``. Programs cut their input into epochs themselves (by
EndOfEpoch marks), so that nothing depends on how fast a machine is. They run on any target:

    from tests.programs import runner
    runner.straight_through("word_count", folder, target="spark")

Call ``python -m tests.programs.runner golden NAME ...`` to write golden files anew, after looking at the difference.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from flott.common import Configuration, Encoder, JobClient
from flott.common._savepoint_format import SavepointFormatType
from flott.common.completable_future import CompletableFuture
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from flott.errors import JobCancelledError
from flott.runtime.checkpoint.manifest import decode_manifest
from flott.runtime.entrypoint import executors

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

#: All programs, by name. Tables need pyarrow.
PROGRAMS = sorted(
    path.stem for path in HERE.glob("*.golden") if path.stem != "tables" or importlib.util.find_spec("pyarrow")
)

#: How a killed process ends, as if by SIGKILL.
KILLED = 137


# --- for programs ----------------------------------------------------------------------------------------------------


def lines_to(folder: str, sink: str) -> FileSink:
    """A file sink for ``folder/out/<sink>``: one line per record, a part per checkpoint."""
    return (
        FileSink.for_row_format(os.path.join(folder, "out", sink), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )


# --- for tests -------------------------------------------------------------------------------------------------------


def golden(name: str) -> list[str]:
    """What the program writes if all goes well."""
    return (HERE / f"{name}.golden").read_text().splitlines()


def output(folder: str | Path) -> list[str]:
    """What a program has made visible."""
    found = []
    for path in sorted(Path(folder, "out").rglob("*")):
        if path.is_file() and not path.name.startswith((".", "_")):
            sink = path.relative_to(Path(folder, "out")).parts[0]
            found += [f"{sink}\t{line}" for line in path.read_text().splitlines()]
    return sorted(found)


def remains(folder: str | Path) -> list[str]:
    """What should not be there after the end: checkpoints, local state, staged and half-written files."""
    checkpoints = list(Path(folder, "checkpoints").rglob("*"))
    local = [path for path in Path(folder, "local").rglob("*") if path.is_file()]
    hidden = [path for path in Path(folder, "out").rglob(".*") if path.is_file()]
    return sorted(str(path) for path in [*checkpoints, *local, *hidden])


@dataclass(frozen=True)
class Setting:
    """How a run of a program is set up."""

    parallelism: int = 2
    backend: str = "hashmap"
    restore_from: str | None = None  #: the path of a savepoint; None: from its own latest checkpoint, if there is any
    claim: bool = False
    mode: str = "epochs"  #: execution.mode


def straight_through(
    name: str, folder: str | Path, *, target: str = "in-process", parallelism: int = 2, backend: str = "hashmap",
    mode: str = "epochs",
) -> None:  # fmt: skip
    """Run the program to its end."""
    _environment(name, folder, target, Setting(parallelism, backend, mode=mode)).execute(name)


def killed_and_recovered(
    name: str, folder: str | Path, *, target: str = "in-process", seed: int = 0, kills: int = 4, parallelism: int = 2,
    modes: Sequence[str] = ("epochs",),
) -> int:  # fmt: skip
    """Run the program in processes that die at random steps of the protocol, until one finishes; how many died.

    The processes use the execution modes in turn.
    """
    random = Random(f"{name}:{seed}")
    died = 0
    while True:
        steps = random.randint(1, 14) if died < kills else 0
        mode = modes[died % len(modes)]
        command = [
            sys.executable, "-m", "tests.programs.runner", "run", name, str(folder), target, str(parallelism), mode,
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        done = subprocess.run(
            [*command, str(steps)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return died
        assert done.returncode == KILLED, done.stderr
        died += 1


def stopped_and_resumed(
    name: str, folder: str | Path, *, target: str = "in-process", stop_at: tuple[str, int] = ("ran", 3),
    parallelisms: tuple[int, int] = (2, 3), modes: tuple[str, str] = ("epochs", "epochs"),
) -> bool:  # fmt: skip
    """Cancel the job at a step of an epoch and continue it with another parallelism; whether it was still running."""
    first, second = (Setting(parallelism, mode=mode) for parallelism, mode in zip(parallelisms, modes, strict=True))

    def stop(client: JobClient, step: str, epoch: int) -> None:
        if (step, epoch) == stop_at:
            client.cancel()

    try:
        _run_with(stop, name, folder, target, first)
        return False
    except JobCancelledError:
        pass
    _environment(name, folder, target, second).execute(name)
    return True


def stopped_with_savepoint_and_restored(
    name: str, folder: str | Path, *, first: Setting, second: Setting, target: str = "in-process",
    at: tuple[str, int] = ("ran", 3), native: bool = False,
) -> Path:  # fmt: skip
    """Stop the job with a savepoint at a step of an epoch, and begin another job with it; where the savepoint is."""
    savepoints: list[CompletableFuture[str]] = []

    def stop(client: JobClient, step: str, epoch: int) -> None:
        if (step, epoch) == at:
            savepoints.append(client.stop_with_savepoint(False, str(Path(folder, "savepoints")), _FORMATS[native]))

    _run_with(stop, name, folder, target, first)
    path = savepoints[0].result()
    assert output(folder) != golden(name), "the savepoint was not in the middle"
    _environment(name, folder, target, replace(second, restore_from=path)).execute(name)
    return Path(path)


def savepoint_beside(
    name: str, folder: str | Path, *, setting: Setting, target: str = "in-process",
    at: tuple[str, int] = ("completed", 2), native: bool = False,
) -> Path:  # fmt: skip
    """Take a savepoint while the job goes on to its end; where the savepoint is."""
    savepoints: list[CompletableFuture[str]] = []

    def take(client: JobClient, step: str, epoch: int) -> None:
        if (step, epoch) == at:
            savepoints.append(client.trigger_savepoint(str(Path(folder, "savepoints")), _FORMATS[native]))
        if step == "committed":
            Path(folder, "out").mkdir(parents=True, exist_ok=True)
            shutil.copytree(Path(folder, "out"), Path(folder, "written", str(epoch)))

    _run_with(take, name, folder, target, setting)
    return Path(savepoints[0].result())


def begun_with_savepoint(
    name: str, folder: str | Path, path: Path, *, setting: Setting, target: str = "in-process"
) -> None:
    """Begin another job with a savepoint that was taken beside, when nothing was written but what was then."""
    epoch = decode_manifest((path / "_metadata").read_bytes(), str(path)).checkpoint_id
    shutil.rmtree(Path(folder, "out"))
    shutil.copytree(Path(folder, "written", str(epoch)), Path(folder, "out"))
    assert output(folder) != golden(name), "the savepoint was not in the middle"
    _environment(name, folder, target, replace(setting, restore_from=str(path))).execute(name)


def rescaled(
    name: str, folder: str | Path, *, target: str = "in-process", parallelisms: Sequence[int] = (2, 4, 1, 3),
    backend: str = "hashmap", mode: str = "epochs",
) -> None:  # fmt: skip
    """Change the parallelism of the job while it runs, once in each of the first epochs."""
    first, *others = parallelisms
    answers: list[CompletableFuture[None]] = []

    def rescale(client: JobClient, step: str, epoch: int) -> None:
        if step == "planned" and epoch <= len(others):
            answers.append(client.rescale(others[epoch - 1]))

    _run_with(rescale, name, folder, target, Setting(first, backend, mode=mode))
    assert len(answers) == len(others)
    for answer in answers:
        answer.result()


# --- inside ----------------------------------------------------------------------------------------------------------


_FORMATS = {False: SavepointFormatType.CANONICAL, True: SavepointFormatType.NATIVE}


def _environment(name: str, folder: str | Path, target: str, setting: Setting) -> StreamExecutionEnvironment:
    configuration = Configuration()
    for key, value in {
        "execution.target": target,
        "execution.checkpointing.dir": str(Path(folder, "checkpoints")),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.state-recovery.claim-mode": "CLAIM" if setting.claim else "NO_CLAIM",
        "flott.progress": "off",
        "flott.storage.sync": "false",
        # Epochs are not cut smaller because the machine is busy: which records are late depends on where they end.
        "flott.epoch.target-duration": "1 h",
        "io.tmp.dirs": str(Path(folder, "local")),
        "state.backend.type": setting.backend,
    }.items():
        configuration.set_string(key, value)
    if setting.mode != "epochs":
        configuration.set_string("execution.mode", setting.mode)
        configuration.set_string("execution.checkpointing.interval", "1 ms")  # one after every few rounds
        configuration.set_string("restart-strategy.type", "none")
        configuration.set_string("flott.pipelined.round-duration", "1 h")  # as with epochs, above
    if setting.restore_from is None:
        configuration.set_string("execution.state-recovery.from-latest", "true")
    else:
        configuration.set_string("execution.state-recovery.path", setting.restore_from)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(setting.parallelism)
    importlib.import_module(f"tests.programs.{name}").build(env, str(folder))
    return env


def _run_with(
    act: Callable[[JobClient, str, int], None], name: str, folder: str | Path, target: str, setting: Setting
) -> None:
    """Run to the end, with somebody who does something to the job at certain steps of certain epochs."""
    started = threading.Event()
    clients: list[JobClient] = []

    def on_step(step: str, epoch: int) -> None:
        started.wait()
        act(clients[0], step, epoch)

    with _hook(on_step):
        clients.append(_environment(name, folder, target, setting).execute_async(name))
        started.set()
        clients[0].get_job_execution_result().result()


class _hook:
    """A step hook for the jobs started inside a ``with`` statement."""

    def __init__(self, hook: Callable[[str, int], None]):
        self._hook = hook

    def __enter__(self) -> None:
        executors.step_hook = self._hook

    def __exit__(self, *exc_info: object) -> None:
        executors.step_hook = None


def _run_until_killed(name: str, folder: str, target: str, parallelism: int, mode: str, steps: int) -> None:
    taken = 0

    def die(step: str, epoch: int) -> None:
        nonlocal taken
        taken += 1
        if taken == steps:
            os._exit(KILLED)

    with _hook(die):
        straight_through(name, folder, target=target, parallelism=parallelism, mode=mode)


def _write_golden(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        straight_through(name, folder)
        (HERE / f"{name}.golden").write_text("".join(f"{line}\n" for line in output(folder)))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run", name, folder, target, parallelism, mode, steps]:
            _run_until_killed(name, folder, target, int(parallelism), mode, int(steps))
        case ["golden", *names]:
            for name in names:
                _write_golden(name)

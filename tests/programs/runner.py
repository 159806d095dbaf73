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

import atexit
import importlib
import importlib.util
import json
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
from typing import Any

from flott.common import Configuration, Encoder, JobClient
from flott.common._savepoint_format import SavepointFormatType
from flott.common.completable_future import CompletableFuture
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from flott.errors import JobCancelledError
from flott.runtime.checkpoint.manifest import decode_manifest
from flott.runtime.entrypoint import executors
from flott.runtime.pipelined.local_pipeline import LocalPipeline
from tests.programs.slow_pipeline import SlowPipeline

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


#: The mode of pipelined jobs whose tasks work so slowly that records wait between them, with unaligned checkpoints.
UNALIGNED = "unaligned"


@dataclass(frozen=True)
class Setting:
    """How a run of a program is set up."""

    parallelism: int = 2
    backend: str = "hashmap"
    restore_from: str | None = None  #: the path of a savepoint; None: from its own latest checkpoint, if there is any
    claim: bool = False
    mode: str = "epochs"  #: execution.mode, or UNALIGNED


def straight_through(
    name: str, folder: str | Path, *, target: str = "in-process", parallelism: int = 2, backend: str = "hashmap",
    mode: str = "epochs",
) -> None:  # fmt: skip
    """Run the program to its end."""
    _environment(name, folder, target, Setting(parallelism, backend, mode=mode)).execute(name)


def killed_and_recovered(
    name: str, folder: str | Path, *, target: str = "in-process", seed: int = 0, kills: int = 4, parallelism: int = 2,
    backend: str = "hashmap", modes: Sequence[str] = ("epochs",), within: int = 14,
) -> int:  # fmt: skip
    """Run the program in processes that die at random steps of the protocol, until one finishes; how many died.

    The processes use the execution modes in turn. Each but the last dies within so many steps.
    """
    random = Random(f"{name}:{seed}")
    died = 0
    while True:
        steps = random.randint(1, within) if died < kills else 0
        mode = modes[died % len(modes)]
        code, said = _in_a_process([name, str(folder), target, str(parallelism), backend, mode, str(steps)])
        if code == 0:
            return died
        assert code == KILLED, said
        died += 1


def stopped_and_resumed(
    name: str, folder: str | Path, *, target: str = "in-process", stop_at: tuple[str, int] = ("ran", 3),
    parallelisms: tuple[int, int] = (2, 3), modes: tuple[str, str] = ("epochs", "epochs"), backend: str = "hashmap",
) -> bool:  # fmt: skip
    """Cancel the job at a step of an epoch and continue it with another parallelism; whether it was still running."""
    chosen = zip(parallelisms, modes, strict=True)
    first, second = (Setting(parallelism, backend, mode=mode) for parallelism, mode in chosen)

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


def changed_at_checkpoints(
    name: str, folder: str | Path, settings: Sequence[Setting], *, target: str = "in-process", each: int = 2
) -> int:
    """Cancel the job behind so many checkpoints and continue it with the next setting, and so on.

    Returns how many times it was cancelled while it ran.
    """
    cancelled = 0
    for setting in settings[:-1]:
        try:
            _run_with(_at_step("completed", each, lambda client: client.cancel()), name, folder, target, setting)
            return cancelled
        except JobCancelledError:
            cancelled += 1
    _environment(name, folder, target, settings[-1]).execute(name)
    return cancelled


def changed_by_savepoints(
    name: str, folder: str | Path, settings: Sequence[Setting], *, target: str = "in-process", step: str = "completed"
) -> int:
    """Stop the job with a savepoint at a step of its first checkpoint and begin another one with it, and so on.

    Returns how many savepoints were taken before all was written.
    """
    taken, restore_from = 0, None
    for number, setting in enumerate(settings[:-1]):
        savepoints: list[CompletableFuture[str]] = []
        into = str(Path(folder, f"savepoints-{number}"))

        def stop(client: JobClient, into: str = into, found: list[Any] = savepoints) -> None:
            found.append(client.stop_with_savepoint(False, into))

        _run_with(_at_step(step, 1, stop), name, folder, target, replace(setting, restore_from=restore_from))
        restore_from = savepoints[0].result()
        taken += len(output(folder)) < len(golden(name))
    _environment(name, folder, target, replace(settings[-1], restore_from=restore_from)).execute(name)
    return taken


def _at_step(step: str, number: int, act: Callable[[JobClient], object]) -> Callable[[JobClient, str, int], None]:
    """Return what does something when a job has reached a step so many times."""
    reached = 0

    def on_step(client: JobClient, name: str, epoch: int) -> None:
        nonlocal reached
        reached += name == step
        if name == step and reached == number:
            act(client)

    return on_step


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


def use_pipeline(mode: str) -> None:
    """Let in-process jobs of this process run as a mode wants it."""
    executors.LocalPipeline = SlowPipeline if mode == UNALIGNED else LocalPipeline  # type: ignore[misc]


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
        configuration.set_string("execution.mode", "pipelined" if setting.mode == UNALIGNED else setting.mode)
        configuration.set_string("execution.checkpointing.interval", "1 ms")  # one after every few rounds
        configuration.set_string("restart-strategy.type", "none")
        configuration.set_string("flott.pipelined.round-duration", "1 h")  # as with epochs, above
    use_pipeline(setting.mode)
    configuration.set_string("execution.checkpointing.unaligned.enabled", str(setting.mode == UNALIGNED).lower())
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


def _run_until_killed(
    name: str, folder: str, target: str, parallelism: str, backend: str, mode: str, steps: str
) -> None:
    taken, last = 0, int(steps)

    def die(step: str, epoch: int) -> None:
        nonlocal taken
        taken += 1
        if taken == last:
            os._exit(KILLED)

    with _hook(die):
        straight_through(name, folder, target=target, parallelism=int(parallelism), backend=backend, mode=mode)


def _in_a_process(arguments: list[str]) -> tuple[int, str]:
    """Run a program in a process of its own; how it ended, and what it said.

    Without Spark it is forked from a process that has imported everything: starting Python takes longer than the run.
    """
    target = arguments[2]
    if target == "in-process":
        return _Template.of_this_process().run(arguments)
    done = subprocess.run(
        [*_COMMAND, "run", *arguments], cwd=ROOT, env=_environment_variables(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


_COMMAND = [sys.executable, "-m", "tests.programs.runner"]


def _environment_variables() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}


class _Template:
    """A process that has imported all programs, runs none, and forks those that do."""

    _existing: _Template | None = None

    @classmethod
    def of_this_process(cls) -> _Template:
        if cls._existing is None:
            cls._existing = cls()
            atexit.register(cls._existing._end)
        return cls._existing

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [*_COMMAND, "fork"], cwd=ROOT, env=_environment_variables(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def run(self, arguments: list[str]) -> tuple[int, str]:
        """Run a program in a process that is forked now."""
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        with tempfile.NamedTemporaryFile("r", suffix=".txt") as said:
            asked.write(json.dumps([said.name, *arguments]) + "\n")
            asked.flush()
            return int(answered.readline()), said.read()

    def _end(self) -> None:
        self._process.communicate()


def _fork_programs() -> None:
    """Run every program that is asked for on stdin in a fork; answer with the code that it ended with."""
    for name in PROGRAMS:
        importlib.import_module(f"tests.programs.{name}")
    for line in sys.stdin:
        said, *arguments = json.loads(line)
        child = os.fork()
        if child == 0:
            output = os.open(said, os.O_WRONLY)
            os.dup2(output, 1)
            os.dup2(output, 2)
            _run_until_killed(*arguments)
            sys.exit()
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _write_golden(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        straight_through(name, folder)
        (HERE / f"{name}.golden").write_text("".join(f"{line}\n" for line in output(folder)))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run", *arguments]:
            _run_until_killed(*arguments)
        case ["fork"]:
            _fork_programs()
        case ["golden", *names]:
            for name in names:
                _write_golden(name)

"""Runs the golden programs: straight through, killed again and again, stopped and resumed with another parallelism.

A program is a module ``name.py`` with ``build(env, folder)``, which writes below ``folder/out/<sink>``, and a file
``name.golden``: what it wrote, as sorted lines ``sink<TAB>line``. Programs cut their input into epochs themselves (by
EndOfEpoch marks), so that nothing depends on how fast a machine is. They run on any target:

    from tests.programs import runner
    runner.straight_through("word_count", folder, target="spark")

Call ``python -m tests.programs.runner golden NAME ...`` to write golden files anew, after looking at the difference.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from flott.common import Configuration, Encoder
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from flott.errors import JobCancelledError
from flott.runtime import entrypoint

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

#: All programs, by name.
PROGRAMS = sorted(path.stem for path in HERE.glob("*.golden"))

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
    """What should not be there after the end: checkpoints, staged and half-written files."""
    checkpoints = list(Path(folder, "checkpoints").rglob("*"))
    hidden = [path for path in Path(folder, "out").rglob(".*") if path.is_file()]
    return sorted(str(path) for path in [*checkpoints, *hidden])


def straight_through(name: str, folder: str | Path, *, target: str = "in-process", parallelism: int = 2) -> None:
    """Run the program to its end."""
    _environment(name, folder, target, parallelism).execute(name)


def killed_and_recovered(
    name: str, folder: str | Path, *, target: str = "in-process", seed: int = 0, kills: int = 4, parallelism: int = 2
) -> int:
    """Run the program in processes that die at random steps of the protocol, until one finishes; how many died."""
    random = Random(f"{name}:{seed}")
    died = 0
    while True:
        steps = random.randint(1, 14) if died < kills else 0
        command = [sys.executable, "-m", "tests.programs.runner", "run", name, str(folder), target, str(parallelism)]
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
    parallelisms: tuple[int, int] = (2, 3),
) -> bool:  # fmt: skip
    """Cancel the job at a step of an epoch and continue it with another parallelism; whether it was still running."""
    first, second = parallelisms
    started = threading.Event()
    clients: list[Any] = []

    def stop(step: str, epoch: int) -> None:
        if (step, epoch) == stop_at:
            started.wait()
            clients[0].cancel()

    with _hook(stop):
        clients.append(_environment(name, folder, target, first).execute_async(name))
        started.set()
        try:
            clients[0].get_job_execution_result().result()
            return False
        except JobCancelledError:
            pass
    _environment(name, folder, target, second).execute(name)
    return True


# --- inside ----------------------------------------------------------------------------------------------------------


def _environment(name: str, folder: str | Path, target: str, parallelism: int) -> StreamExecutionEnvironment:
    configuration = Configuration()
    for key, value in {
        "execution.target": target,
        "execution.checkpointing.dir": str(Path(folder, "checkpoints")),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.state-recovery.from-latest": "true",
        "flott.progress": "off",
        "flott.storage.sync": "false",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)
    importlib.import_module(f"tests.programs.{name}").build(env, str(folder))
    return env


class _hook:
    """A step hook for the jobs started inside a ``with`` statement."""

    def __init__(self, hook: Callable[[str, int], None]):
        self._hook = hook

    def __enter__(self) -> None:
        entrypoint.step_hook = self._hook

    def __exit__(self, *exc_info: object) -> None:
        entrypoint.step_hook = None


def _run_until_killed(name: str, folder: str, target: str, parallelism: int, steps: int) -> None:
    taken = 0

    def die(step: str, epoch: int) -> None:
        nonlocal taken
        taken += 1
        if taken == steps:
            os._exit(KILLED)

    with _hook(die):
        straight_through(name, folder, target=target, parallelism=parallelism)


def _write_golden(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        straight_through(name, folder)
        (HERE / f"{name}.golden").write_text("".join(f"{line}\n" for line in output(folder)))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run", name, folder, target, parallelism, steps]:
            _run_until_killed(name, folder, target, int(parallelism), int(steps))
        case ["golden", *names]:
            for name in names:
                _write_golden(name)

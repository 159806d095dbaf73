"""Jobs whose directory is kept as it was after their last epoch, to be replayed."""

from __future__ import annotations

import hashlib
import importlib
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from flott.common import Configuration
from flott.datastream import StreamExecutionEnvironment
from flott.errors import JobCancelledError, JobFailedError
from flott.graph.stream_graph import StreamGraph
from flott.runtime.entrypoint import executors


@dataclass(frozen=True)
class Kept:
    """A job that has run: its directory, and the program."""

    directory: Path
    graph: StreamGraph
    configuration: Configuration

    @property
    def digest(self) -> dict[str, str]:
        """Every file below the directory, and what is in it."""
        return {
            str(path.relative_to(self.directory)): hashlib.md5(path.read_bytes()).hexdigest()
            for path in sorted(self.directory.rglob("*"))
            if path.is_file()
        }


def settings(folder: Path, **properties: str) -> Configuration:
    """For a job below a folder that keeps every checkpoint."""
    configuration = Configuration()
    for key, value in {
        "execution.target": "in-process",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.num-retained": "1000",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "flott.progress": "off",
        "flott.storage.sync": "false",
        "io.tmp.dirs": str(folder / "local"),
        **properties,
    }.items():
        configuration.set_string(key, value)
    return configuration


def run(
    build: Callable[[StreamExecutionEnvironment], object],
    folder: Path,
    *,
    parallelism: int = 2,
    after_epoch: Callable[[Kept], None] = lambda kept: None,
    rescale: Mapping[int, int] | None = None,
    stop_after: int | None = None,
    **properties: str,
) -> Kept:
    """Run a program to its end, good or bad, and keep its directory as it was after the last epoch.

    ``rescale``: after these epochs, to this parallelism. ``stop_after``: cancel the job after this epoch.
    """
    configuration = settings(folder, **properties)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)
    build(env)
    graph = env.get_stream_graph()
    kept: list[Kept] = []
    started, clients = threading.Event(), []

    def keep(step: str, epoch: int) -> None:
        started.wait()
        if step == "planned" and epoch in (rescale or {}):
            clients[0].rescale((rescale or {})[epoch])
        if step == "committed":
            if epoch == stop_after:
                clients[0].cancel()
            (directory,) = (folder / "checkpoints").iterdir()
            after_epoch(Kept(directory, graph, configuration))
            shutil.rmtree(folder / "kept", ignore_errors=True)
            shutil.copytree(directory, folder / "kept" / directory.name)
            kept[:] = [Kept(folder / "kept" / directory.name, graph, configuration)]

    executors.step_hook = keep
    try:
        clients.append(env.execute_async())
        started.set()
        clients[0].get_job_execution_result().result()
    except JobFailedError:  # then its directory stays by itself
        (directory,) = (folder / "checkpoints").iterdir()
        return Kept(directory, graph, configuration)
    except JobCancelledError:
        pass
    finally:
        executors.step_hook = None
    return kept[0]


def golden(name: str, folder: Path, *, parallelism: int = 2, **properties: str) -> Kept:
    """Run one of the golden programs."""
    module = importlib.import_module(f"tests.programs.{name}")
    return run(lambda env: module.build(env, str(folder)), folder, parallelism=parallelism, **properties)

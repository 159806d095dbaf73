"""Unpacks and installs the files that came with a job, in the process that runs it. Driver and job process.

Everything is unpacked: modules find their data files beside them, and shared libraries can be loaded. How it gets from
here to Spark's workers is written in ``runtime.spark.files``.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flott.common.configuration import Configuration
from flott.errors import ConfigurationError
from flott.runtime.dependencies.archives import unpack_once
from flott.runtime.dependencies.job_dependencies import JobFile, check_target, job_dependencies
from flott.runtime.dependencies.requirements import install


@dataclass(frozen=True)
class JobEnvironment:
    """Folders on this machine that the functions of a job need."""

    imports: tuple[str, ...] = ()  #: to be found before everything else on ``sys.path``, in this order
    archives: tuple[tuple[str, str], ...] = ()  #: (name in the working directory, folder)
    sources: Mapping[str, str] = field(default_factory=dict)  #: folder -> the archive that was unpacked there

    def make_importable(self) -> None:
        """Let functions that run in this process import from the folders."""
        put_first(self.imports)


def place_files(folder: Path, files: Sequence[JobFile]) -> JobEnvironment:
    """Unpack and install the files of a job, which are in a folder, and make this process able to import from them."""
    _refuse_nested([check_target(file.target) for file in files if file.role == "archive"])
    sources: dict[str, str] = {}

    def unpacked(role: str) -> list[tuple[JobFile, str]]:
        found = []
        for file in (file for file in files if file.role == role):
            place = str(unpack_once(folder / file.name, folder / ".unpacked" / file.name))
            sources[place] = str(folder / file.name)
            found.append((file, place))
        return found

    imports = [place for _, place in unpacked("python")]
    packages = [Path(place) for _, place in unpacked("cached-packages")]
    for file in files:
        if file.role == "requirements":
            imports.append(str(install(folder / file.name, packages[0] if packages else None, package_cache())))
    archives = [(check_target(file.target), place) for file, place in unpacked("archive")]
    environment = JobEnvironment(tuple(imports), tuple(archives), sources)
    environment.make_importable()
    return environment


def own_environment(configuration: Configuration, *, with_program: bool) -> JobEnvironment:
    """Return the environment of a job in its program's process. ``with_program``: workers need its modules, too."""
    dependencies = job_dependencies(configuration, with_program=with_program)
    if not dependencies:
        return JobEnvironment()
    folder = dependencies[0].path.parent
    return place_files(folder, [item.file for item in dependencies])


def put_first(folders: Sequence[str]) -> None:
    """Let this process import from folders before it looks elsewhere; those that are known move to the front."""
    if list(folders) != sys.path[: len(folders)]:
        sys.path[:] = [*folders, *(entry for entry in sys.path if entry not in folders)]
        importlib.invalidate_caches()


def package_cache() -> Path:
    """Return the folder in which requirements are installed for all jobs of this user."""
    return Path(os.environ.get("FLOTT_HOME") or "~/.flott").expanduser() / "packages"


def _refuse_nested(targets: Sequence[str]) -> None:
    for target in targets:
        for other in targets:
            if other != target and Path(other).is_relative_to(target):
                raise ConfigurationError(f"An archive cannot be unpacked into {other!r}: {target!r} is one already.")

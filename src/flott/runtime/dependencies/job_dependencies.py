"""The files that a job depends on: those that its configuration names, and the modules of its program. Client.

Every file is named by its contents, in a temporary folder of this process. The same file is sent once, however often it
is added; a file that was changed between two jobs is another file.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError
from flott.runtime.dependencies import program_modules
from flott.runtime.dependencies.archives import (
    TAR_SUFFIXES,
    ZIP_SUFFIXES,
    copy_named,
    files_in,
    suffix_of,
    write_zip,
)

_PYTHON_ARCHIVES = (".zip", ".egg", ".whl")


@dataclass(frozen=True)
class JobFile:
    """A file that travels with a job, by what it is for."""

    name: str  #: without folders; unique within the submission
    role: str  #: "python" (on the path of driver and workers), "requirements", "cached-packages", or "archive"
    target: str = ""  #: the folder an archive is unpacked into, as the job's functions see it


@dataclass(frozen=True)
class LocalFile:
    """A file that travels with a job, and where its bytes are on this machine."""

    file: JobFile
    path: Path


def job_dependencies(configuration: Configuration, *, with_program: bool) -> tuple[LocalFile, ...]:
    """Return the files of a job in the order of imports: files that the options name come before the program's own."""
    found = [
        *_python_files(configuration.get(options.PYTHON_FILES) or ""),
        *(_program_files() if with_program else ()),
        *_requirements(configuration.get(options.PYTHON_REQUIREMENTS) or ""),
        *_archives(configuration.get(options.PYTHON_ARCHIVES) or ""),
    ]
    return tuple({found_file.file.name: found_file for found_file in found}.values())


def local_paths(text: str) -> list[Path]:
    """Return the paths of an option, which are separated by commas as in Flink's options."""
    return [_local(part) for part in text.split(",") if part.strip()]


def _python_files(paths: str) -> Iterator[LocalFile]:
    for path in local_paths(paths):
        if path.is_file() and path.suffix in _PYTHON_ARCHIVES:
            made = copy_named(path, path.stem, _folder(), ".zip")
        elif path.is_dir():
            made = write_zip(files_in(path), path.name, _folder())
        elif path.is_file() and path.suffix == ".py":
            made = write_zip([(path, path.name)], path.stem, _folder())
        else:
            raise ConfigurationError(
                f"add_python_file() and the option python.files take a .py file, a folder, or an archive"
                f" ({', '.join(_PYTHON_ARCHIVES)}): {_found_at(path)}."
            )
        yield LocalFile(JobFile(made.name, "python"), made)


def _program_files() -> Iterator[LocalFile]:
    main = sys.modules["__main__"]
    if (archive := program_modules.archive_of(main)) is not None:
        made = copy_named(archive, archive.stem, _folder(), ".zip")
        yield LocalFile(JobFile(made.name, "python"), made)
    elif members := program_modules.members(main):
        made = write_zip(members, "program", _folder())
        yield LocalFile(JobFile(made.name, "python"), made)


def _requirements(text: str) -> Iterator[LocalFile]:
    """Yield the files of ``requirements.txt`` or ``requirements.txt#folder-with-packages``."""
    if not text.strip():
        return
    file, _, folder = text.partition("#")
    path = _local(file)
    if not path.is_file():
        raise ConfigurationError(f"python.requirements names a requirements file: {_found_at(path)}.")
    made = copy_named(path, "requirements", _folder(), ".txt")
    yield LocalFile(JobFile(made.name, "requirements"), made)
    if folder:
        packages = _local(folder)
        if not packages.is_dir():
            raise ConfigurationError(
                f"python.requirements names, behind #, a folder with packages to install from: {_found_at(packages)}."
            )
        files = [(file, file.name) for file in sorted(packages.iterdir()) if file.is_file()]
        made = write_zip(files, "packages", _folder())
        yield LocalFile(JobFile(made.name, "cached-packages"), made)


def _archives(text: str) -> Iterator[LocalFile]:
    """Yield the files of ``data.zip`` or ``data.zip#folder``, separated by commas."""
    targets: dict[str, Path] = {}
    for part in filter(str.strip, text.split(",")):
        file, _, target = part.partition("#")
        path = _local(file)
        suffix = suffix_of(path)
        if not path.is_file() or not suffix:
            raise ConfigurationError(
                f"add_python_archive() and the option python.archives take archives"
                f" ({', '.join(ZIP_SUFFIXES + TAR_SUFFIXES)}): {_found_at(path)}."
            )
        target = check_target(target.strip() or path.name)
        if targets.setdefault(target, path) != path:
            raise ConfigurationError(
                f"Two archives are to be unpacked into {target!r}: {targets[target]} and {path}. Name a folder for one"
                " of them: archive.zip#folder."
            )
        # The same archive may be unpacked into two folders, so its name has a part for the folder.
        place = hashlib.sha256(target.encode()).hexdigest()[:6]
        made = copy_named(path, f"{path.name.removesuffix(suffix)}-{place}", _folder(), suffix)
        yield LocalFile(JobFile(made.name, "archive", target), made)


def check_target(target: str) -> str:
    """Return the folder that an archive is unpacked into; refuse one that is not below the working directory."""
    parts = Path(target).parts
    if not parts or Path(target).is_absolute() or ".." in parts or "\0" in target:
        raise ConfigurationError(
            f"An archive is unpacked into a folder below the working directory, such as 'data', found {target!r}."
        )
    return Path(target).as_posix()


def _local(text: str) -> Path:
    return Path(text.strip().removeprefix("file://")).expanduser()


def _found_at(path: Path) -> str:
    return f"no such file at {path}" if not path.exists() else f"found another kind of file at {path}"


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="flott-files-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def without_paths(configuration: Configuration) -> Configuration:
    """Return the configuration without the options that name files, whose paths mean nothing elsewhere."""
    bare = Configuration(configuration)
    for option in (options.PYTHON_FILES, options.PYTHON_REQUIREMENTS, options.PYTHON_ARCHIVES):
        for key in option.spellings():
            bare.remove_config(key)
    return bare


def names_of(files: Iterable[LocalFile]) -> tuple[JobFile, ...]:
    """Return the files without their places on this machine."""
    return tuple(item.file for item in files)

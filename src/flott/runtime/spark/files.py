"""Makes a job's files available in Spark's workers: by path on the driver's machine, as broadcasts elsewhere.

They are not added as files of the Spark application, because Spark never removes those. One session runs many jobs:
every executor would fetch the files of all jobs, and none could start after files of an ended job were deleted.
Driver and task side.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from uuid import uuid4

from pyspark import SparkContext, SparkFiles
from pyspark.core.broadcast import Broadcast

from flott.runtime.dependencies.archives import everything_in, unpack_once, write_zip
from flott.runtime.job_files import JobEnvironment, put_first

#: Pure Python packages that tasks need besides the standard library and PySpark.
SHIPPED = ("flott", "cloudpickle")

#: The files that this worker process is set up for, and its first working directory.
_entered: str | None = None
_first_directory: str | None = None


@dataclass(frozen=True)
class ShippedFolder:
    """A folder of the driver, as a worker gets it."""

    path: str  #: on the driver's machine
    archive: Broadcast[bytes] | None = None  #: its contents, for workers on other machines
    name: str = ""  #: derived from its contents

    def here(self) -> str:
        """Return the path of the folder in this worker."""
        if self.archive is None:
            return self.path
        root = Path(SparkFiles.getRootDirectory())
        folder = root / f"flott-{self.name}"
        if not folder.is_dir():
            with tempfile.NamedTemporaryFile(prefix=".flott-", dir=root) as file:
                file.write(self.archive.value)
                file.flush()
                unpack_once(Path(file.name), folder)
        return str(folder)


@dataclass(frozen=True)
class WorkerFiles:
    """What a worker process must have before it runs a function of the job."""

    imports: tuple[ShippedFolder, ...] = ()
    archives: tuple[tuple[str, ShippedFolder], ...] = ()
    ident: str = field(default_factory=lambda: uuid4().hex)

    def enter(self) -> None:
        """Set this process up for tasks of the job. A worker may serve several jobs, one after the other."""
        global _entered, _first_directory
        if _entered == self.ident:
            return
        _first_directory = _first_directory or os.getcwd()
        _entered = None
        put_first([folder.here() for folder in self.imports])
        os.chdir(self._working_directory() if self.archives else _first_directory)
        _entered = self.ident

    def _working_directory(self) -> Path:
        """Return a folder with the archives, which the job's workers of this executor share."""
        root = Path(SparkFiles.getRootDirectory())
        folder = root / f"flott-work-{self.ident}"
        if folder.is_dir():
            return folder
        draft = Path(tempfile.mkdtemp(prefix=".flott-work-", dir=root))
        for target, shipped in self.archives:
            (draft / target).parent.mkdir(parents=True, exist_ok=True)
            (draft / target).symlink_to(shipped.here(), target_is_directory=True)
        try:
            draft.rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise another worker was faster
                raise
        return folder

    def forget(self) -> None:
        """Release everything: the job has ended."""
        for shipped in (*self.imports, *(folder for _, folder in self.archives)):
            if shipped.archive is not None:
                shipped.archive.destroy()


def ship(context: SparkContext, environment: JobEnvironment, *, by_path: bool) -> WorkerFiles:
    """Return a job's files for its workers. ``by_path``: they see the folders of this machine."""

    def shipped(folder: str) -> ShippedFolder:
        if by_path:
            return ShippedFolder(folder)
        with tempfile.TemporaryDirectory(prefix="flott-ship-") as place:
            source = environment.sources.get(folder)
            archive = Path(source) if source else write_zip(everything_in(Path(folder)), "packages", Path(place))
            return ShippedFolder(folder, context.broadcast(archive.read_bytes()), archive.name)

    return WorkerFiles(
        tuple(shipped(folder) for folder in environment.imports),
        tuple((target, shipped(folder)) for target, folder in environment.archives),
    )


def package_archive() -> Path:
    """Write a zip of the packages in SHIPPED, as they are installed here, and return its path."""
    folder = Path(tempfile.mkdtemp(prefix="flott-ship-"))
    archive = folder / "flott-runtime.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        for name in SHIPPED:
            source = import_module(name).__file__
            assert source is not None
            package = Path(source).parent
            for path in sorted(package.rglob("*.py")):
                target.write(path, Path(name) / path.relative_to(package))
    return archive

"""Requirements of a job: installed once for the same contents, into a folder of their own, never into Python's.

The folder may be deleted when no job runs; it is made again when it is needed. Driver and job process.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from flott.errors import ConfigurationError
from flott.runtime.dependencies.archives import digest_of

#: Lines of pip's output that an error shows.
_LINES_SHOWN = 12


def install(requirements: Path, cached_packages: Path | None, cache: Path) -> Path:
    """Install what a requirements file names, with cached packages from these alone; return the folder."""
    folder = cache / _key(requirements, cached_packages)
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f"{folder.name}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two jobs with the same requirements: one installs, the other waits
        if not folder.is_dir():
            draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=cache))
            try:
                _run_pip(requirements, cached_packages, draft)
                draft.chmod(0o755)
                os.rename(draft, folder)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    return folder


def _key(requirements: Path, cached_packages: Path | None) -> str:
    """Return the name of an installation: by the contents of the files and the platform of the packages."""
    parts = [platform.python_implementation(), platform.python_version(), platform.platform(), digest_of(requirements)]
    if cached_packages is not None:
        parts += [f"{file.name} {digest_of(file)}" for file in sorted(cached_packages.iterdir()) if file.is_file()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _run_pip(requirements: Path, cached_packages: Path | None, target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet"]
    if cached_packages is not None:
        command += ["--no-index", "--find-links", str(cached_packages)]
    command += ["--target", str(target), "--requirement", str(requirements)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise ConfigurationError(f"The requirements of the job cannot be installed: {error}.") from error
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines()[-_LINES_SHOWN:]
        if any("No module named pip" in line for line in lines):
            raise ConfigurationError(
                f"The requirements of the job need pip, which {sys.executable} does not have. Install pip where the job"
                " runs, or install the requirements there and leave python.requirements out."
            )
        shown = "\n  ".join(lines)
        where = "from the packages that came with it" if cached_packages is not None else "with pip"
        raise ConfigurationError(f"The requirements of the job could not be installed {where}:\n  {shown}")

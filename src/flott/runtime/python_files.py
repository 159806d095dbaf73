"""Python files a program brings along (``add_python_file``, ``python.files``), as archives to import. Driver side.

An archive is named by its contents: the same file is sent once however often it is added, and a file that was changed
between two jobs is another one.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from flott.errors import ConfigurationError

_ARCHIVES = (".zip", ".egg", ".whl")


def archives_of(paths: str) -> list[Path]:
    """What must be on the path of whoever imports the files: ``paths`` are separated by commas, as in Flink."""
    return [_archive(Path(path.removeprefix("file://")).expanduser()) for path in paths.split(",") if path.strip()]


def make_importable(archives: list[Path]) -> None:
    """For functions that run in this very process. The files come first, as they do for Flink's workers."""
    sys.path[:0] = [str(archive) for archive in reversed(archives) if str(archive) not in sys.path]


def _archive(path: Path) -> Path:
    contents = path.read_bytes() if path.is_file() and path.suffix in _ARCHIVES else _zipped(path)
    archive = _folder() / f"{path.stem}-{hashlib.sha256(contents).hexdigest()[:16]}.zip"
    archive.write_bytes(contents)
    return archive


def _zipped(path: Path) -> bytes:
    """A module by itself, or everything in a folder."""
    with tempfile.TemporaryFile() as target:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for file, name in _members(path):
                # Without the time of the file: the same contents make the same archive.
                archive.writestr(zipfile.ZipInfo(name), file.read_bytes())
        target.seek(0)
        return target.read()


def _members(path: Path) -> Iterator[tuple[Path, str]]:
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file, file.relative_to(path).as_posix()
    elif path.is_file() and path.suffix == ".py":
        yield path, path.name
    else:
        found = "no such file" if not path.exists() else "found another kind of file"
        raise ConfigurationError(
            f"add_python_file() and the option python.files take a .py file, a folder, or an archive"
            f" ({', '.join(_ARCHIVES)}): {found} at {path}."
        )


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="flott-python-files-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors may ask for them until the end
    return folder

"""Archives: made so that the same contents are the same bytes, and unpacked so that nothing lands outside. Any side."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NoReturn

from flott.errors import ConfigurationError

#: Zip files by another name among them.
ZIP_SUFFIXES = (".zip", ".egg", ".whl", ".jar")
TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz")

_SKIPPED = {"__pycache__", ".git", ".hg", ".svn", ".mypy_cache", ".pytest_cache", ".ruff_cache"}


def suffix_of(path: Path) -> str:
    """Return the suffix of an archive; empty if the file is none."""
    return next((suffix for suffix in TAR_SUFFIXES + ZIP_SUFFIXES if path.name.lower().endswith(suffix)), "")


def files_in(folder: Path) -> Iterator[tuple[Path, str]]:
    """Return the files below a folder by their path in it, without caches and virtual environments."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if name not in _SKIPPED and not Path(parent, name, "pyvenv.cfg").exists()
        )
        for name in sorted(names):
            file = Path(parent, name)
            if file.suffix != ".pyc" and file.is_file():
                yield file, file.relative_to(folder).as_posix()


def everything_in(folder: Path) -> Iterator[tuple[Path, str]]:
    """Return every file below a folder by its path in it."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file, file.relative_to(folder).as_posix()


def write_zip(members: Iterable[tuple[Path, str]], stem: str, folder: Path) -> Path:
    """Write an archive named by its contents, so that the same contents are the same file; return its path."""
    handle, draft = tempfile.mkstemp(prefix=".draft-", dir=folder)
    with open(handle, "w+b") as target, zipfile.ZipFile(target, "w") as archive:
        for file, name in members:
            # Without the time of the file: the same contents make the same archive.
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (stat.S_IFREG | (0o755 if os.access(file, os.X_OK) else 0o644)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            with open(file, "rb") as source, archive.open(entry, "w", force_zip64=True) as written:
                shutil.copyfileobj(source, written, 1 << 20)
    return _named(Path(draft), stem, ".zip", folder)


def copy_named(path: Path, stem: str, folder: Path, suffix: str) -> Path:
    """Copy a file to a folder, named by its contents; return the path of the copy."""
    handle, draft = tempfile.mkstemp(prefix=".draft-", dir=folder)
    os.close(handle)
    shutil.copyfile(path, draft)
    return _named(Path(draft), stem, suffix, folder)


def digest_of(path: Path) -> str:
    """Return the digest of a file in 16 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _named(draft: Path, stem: str, suffix: str, folder: Path) -> Path:
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in stem).lstrip(".")[:80]
    path = folder / f"{plain or 'file'}-{digest_of(draft)}{suffix}"
    return draft.replace(path)


# --- unpacking -------------------------------------------------------------------------------------------------------


def unpack_once(archive: Path, folder: Path) -> Path:
    """Unpack into a folder, all or nothing; a folder that is there has been unpacked before, by another process too."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
    try:
        unpack(archive, draft)
        draft.chmod(0o755)
        os.rename(draft, folder)
    except OSError:
        if not folder.is_dir():  # otherwise another process was faster
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar file. A member that would land outside the folder refuses the whole."""
    try:
        if zipfile.is_zipfile(archive):
            _unpack_zip(archive, folder)
        else:
            _unpack_tar(archive, folder)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, FileExistsError, NotADirectoryError, RuntimeError) as error:
        raise ConfigurationError(
            f"The archive {archive.name} cannot be unpacked: {error}. It has to be a zip or tar file whose members stay"
            " in their folder."
        ) from error


def _unpack_zip(archive: Path, folder: Path) -> None:
    links: list[tuple[Path, str]] = []
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            target = folder / _inside(entry.filename, archive)
            mode = entry.external_attr >> 16
            if entry.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if stat.S_ISLNK(mode):
                links.append((target, opened.read(entry).decode(errors="surrogateescape")))
                continue
            with opened.open(entry) as source, open(target, "wb") as written:
                shutil.copyfileobj(source, written, 1 << 20)
            if mode & 0o111:
                target.chmod(0o755)
    # Last, so that nothing was written through one of them; and judged when all are there, as they may form chains.
    for target, destination in links:
        target.symlink_to(destination)
    root = folder.resolve()
    for target, destination in links:
        if not target.resolve().is_relative_to(root):
            _refuse(archive, f"{target.relative_to(folder)} -> {destination}")


def _unpack_tar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as opened:
        for member in opened.getmembers():
            _inside(member.name, archive)
            if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
                _refuse(archive, member.name)
        if hasattr(tarfile, "data_filter"):
            opened.extractall(folder, filter="data")
        elif any(member.issym() or member.islnk() for member in opened.getmembers()):
            _refuse(archive, "a link, which this version of Python cannot check")
        else:
            opened.extractall(folder)


def _inside(name: str, archive: Path) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        _refuse(archive, name)
    return path


def _refuse(archive: Path, member: str) -> NoReturn:
    raise ConfigurationError(f"The archive {archive.name} has a member that leaves its folder: {member!r}.")

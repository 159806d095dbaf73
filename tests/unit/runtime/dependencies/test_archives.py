"""Archives: named by contents, and unpacked into their folder or not at all."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from flott.errors import ConfigurationError
from flott.runtime.dependencies.archives import files_in, unpack, unpack_once, write_zip


def zip_of(path: Path, members: Mapping[str, str], links: Mapping[str, str] | None = None) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
        for name, target in (links or {}).items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(entry, target)
    return path


def tar_of(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return path


def tar_member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    member.size = 1 if kind == tarfile.REGTYPE else 0
    return member


def test_the_same_contents_are_the_same_archive_whenever_they_were_written(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "inner").mkdir(parents=True)
    (source / "inner" / "b.py").write_text("B = 1\n")
    (source / "a.py").write_text("A = 1\n")
    first = write_zip(files_in(source), "source", tmp_path)
    os.utime(source / "a.py", (1, 1))
    assert write_zip(files_in(source), "source", tmp_path) == first
    (source / "a.py").write_text("A = 2\n")
    assert write_zip(files_in(source), "source", tmp_path) != first


def test_caches_repositories_and_virtual_environments_stay_at_home(tmp_path: Path) -> None:
    for name in ("a.py", "__pycache__/a.pyc", ".git/config", "venv/pyvenv.cfg", "venv/lib/b.py", "data/c.bin", "d.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert [name for _, name in files_in(tmp_path)] == ["a.py", "data/c.bin"]


def test_a_packed_folder_comes_out_as_it_was_with_what_can_be_executed(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "bin").mkdir(parents=True)
    (source / "bin" / "tool").write_text("#!/bin/sh\n")
    (source / "bin" / "tool").chmod(0o755)
    (source / "data.txt").write_text("7")
    made = write_zip(files_in(source), "source", tmp_path)
    folder = unpack_once(made, tmp_path / "out")
    assert (folder / "data.txt").read_text() == "7"
    assert os.access(folder / "bin" / "tool", os.X_OK)
    assert not os.access(folder / "data.txt", os.X_OK)


def test_links_inside_an_archive_are_kept(tmp_path: Path) -> None:
    archive = zip_of(tmp_path / "a.zip", {"lib/v1/x.txt": "one"}, {"lib/latest": "v1", "top": "lib/latest/x.txt"})
    folder = unpack_once(archive, tmp_path / "out")
    assert (folder / "lib" / "latest" / "x.txt").read_text() == "one"
    assert (folder / "top").read_text() == "one"


@pytest.mark.parametrize(
    ("members", "links"),
    [
        ({"../evil": "x"}, {}),
        ({"a/../../evil": "x"}, {}),
        ({"/evil": "x"}, {}),
        ({"..\\evil": "x"}, {}),
        ({}, {"link": "/etc"}),
        ({}, {"link": "../.."}),
        ({"d/e/f": "x"}, {"d/e/up": "../..", "escape": "d/e/up/.."}),  # each harmless by itself
        ({"link/evil": "x"}, {"link": ".."}),  # a file and a link of one name
    ],
)
def test_a_zip_with_a_member_that_leaves_its_folder_is_refused_and_leaves_nothing(
    tmp_path: Path, members: dict[str, str], links: dict[str, str]
) -> None:
    archive = zip_of(tmp_path / "a.zip", members, links)
    inside = tmp_path / "deep" / "inside"
    with pytest.raises(ConfigurationError, match=r"a\.zip"):
        unpack_once(archive, inside / "out")
    assert list(inside.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "deep"]


@pytest.mark.parametrize(
    "member",
    [
        tar_member("../evil"),
        tar_member("/evil"),
        tar_member("link", tarfile.SYMTYPE, "../.."),
        tar_member("link", tarfile.SYMTYPE, "/etc/passwd"),
        tar_member("hard", tarfile.LNKTYPE, "../../evil"),
        tar_member("pipe", tarfile.FIFOTYPE),
        tar_member("device", tarfile.CHRTYPE),
    ],
)
def test_a_tar_with_a_member_that_leaves_its_folder_is_refused(tmp_path: Path, member: tarfile.TarInfo) -> None:
    archive = tar_of(tmp_path / "a.tar.gz", tar_member("fine"), member)
    with pytest.raises(ConfigurationError, match=r"a\.tar\.gz"):
        unpack_once(archive, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]


def test_what_is_no_archive_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_text("no zip at all")
    with pytest.raises(ConfigurationError, match=r"a\.zip cannot be unpacked"):
        unpack(tmp_path / "a.zip", tmp_path)


def test_what_another_process_has_unpacked_is_used_and_not_touched(tmp_path: Path) -> None:
    archive = zip_of(tmp_path / "a.zip", {"x": "1"})
    folder = unpack_once(archive, tmp_path / "out")
    (folder / "x").write_text("mine")
    assert unpack_once(archive, tmp_path / "out") == folder
    assert (folder / "x").read_text() == "mine"

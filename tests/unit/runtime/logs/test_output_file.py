"""What a process prints past Python's streams: bounded, while it goes on printing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flott.runtime.logs.output_file import OutputFile
from flott.runtime.logs.rotation import Rotation

LIMIT = 64 * 1024
#: Prints 100 bytes at a time, and through a child that it has started, too.
CHATTERBOX = """
import os, sys
if os.fork() == 0:
    for number in range(int(sys.argv[1])):
        os.write(2, b"child %093d\\n" % number)
    os._exit(0)
for number in range(int(sys.argv[1])):
    os.write(1, b"%099d\\n" % number)
os.wait()
"""


def sizes(output: OutputFile) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in output.path.parent.iterdir()}


def fill(output: OutputFile, data: bytes) -> None:
    descriptor = output.open()
    os.write(descriptor, data)
    os.close(descriptor)


def test_a_process_that_does_not_stop_printing_leaves_bounded_files_without_holes(tmp_path: Path) -> None:
    output = OutputFile(tmp_path / "logs" / "job.out", Rotation(LIMIT, files=10))
    descriptor = output.open()
    process = subprocess.Popen([sys.executable, "-c", CHATTERBOX, "60000"], stdout=descriptor, stderr=descriptor)
    os.close(descriptor)
    looks = 0
    while process.poll() is None:
        output.bound()
        looks += 1
    output.bound()
    assert looks > 1
    found = sizes(output)
    assert set(found) == {"job.out", "job.out.1"}, "of 12 MB"
    assert found["job.out"] <= LIMIT
    assert found["job.out.1"] <= 2 * LIMIT
    for name in found:
        content = (tmp_path / "logs" / name).read_bytes()
        assert b"\0" not in content, "no hole where it was emptied"
        assert {len(line) for line in content.splitlines(keepends=True)[1:-1]} <= {100}, "whole lines, but at the ends"


def test_the_end_is_kept_when_the_file_is_emptied(tmp_path: Path) -> None:
    output = OutputFile(tmp_path / "job.out", Rotation(LIMIT, files=2))
    fill(output, b"a" * LIMIT)
    output.bound()
    assert sizes(output) == {"job.out": LIMIT}, "not too large yet"
    fill(output, b"b" * 100)
    output.bound()
    assert sizes(output) == {"job.out": 0, "job.out.1": LIMIT}
    assert (tmp_path / "job.out.1").read_bytes().endswith(b"ab" + b"b" * 99)


def test_a_single_file_keeps_nothing_of_what_was_before(tmp_path: Path) -> None:
    output = OutputFile(tmp_path / "job.out", Rotation(LIMIT, files=1))
    fill(output, b"a" * 2 * LIMIT)
    output.bound()
    assert sizes(output) == {"job.out": 0}


def test_a_disk_without_room_for_the_copy_gets_room_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = OutputFile(tmp_path / "job.out", Rotation(LIMIT, files=2))
    fill(output, b"a" * 2 * LIMIT)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    output.bound()
    assert sizes(output) == {"job.out": 0}


def test_a_file_that_somebody_has_deleted_is_nobodys_trouble(tmp_path: Path) -> None:
    OutputFile(tmp_path / "job.out", Rotation(LIMIT)).bound()
    assert list(tmp_path.iterdir()) == []

"""Log files grow to a size and make room; nothing of it can fail a job."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.runtime.logs.rotation import RotatingFile, Rotation, family


def apology(lost: int) -> bytes:
    return f"{lost} are missing".encode()


def lines_in(path: Path) -> list[bytes]:
    return [line for file in family(path) for line in file.read_bytes().splitlines()]


@settings(max_examples=60)
@given(
    batches=st.lists(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"").replace(b"\r", b"")))),
    size=st.integers(1, 80),
    files=st.integers(1, 4),
)
def test_the_files_hold_the_last_lines_in_order_and_no_file_is_too_large(
    batches: list[list[bytes]], size: int, files: int
) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "job.log"
        log = RotatingFile(path, Rotation(size, files), apology)
        for batch in batches:
            log.append(batch)
        log.close()
        written = [line for batch in batches for line in batch]
        kept = [line for file in family(path) for line in file.read_bytes().split(b"\n")[:-1]]
        assert kept == written[len(written) - len(kept) :]
        assert len(family(path)) <= files
        for file in family(path):
            content = file.read_bytes()
            assert len(content) <= size or content.count(b"\n") == 1, "only a line that is too long by itself"
        if len(family(path)) < files:
            assert kept == written, "nothing is thrown away while there is room"
    finally:
        shutil.rmtree(folder)


def test_it_goes_on_where_the_last_process_stopped_even_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "job.log"
    first = RotatingFile(path, Rotation(), apology)
    first.append([b"one"])
    first.close()
    path.write_bytes(path.read_bytes() + b"tor")
    second = RotatingFile(path, Rotation(), apology)
    second.append([b"two"])
    assert path.read_bytes() == b"one\ntor\ntwo\n"


def test_numbered_files_are_shifted_up_to_ten_and_ordered_by_number(tmp_path: Path) -> None:
    log = RotatingFile(tmp_path / "job.log", Rotation(1, 12), apology)
    for number in range(20):
        log.append([str(number).encode()])
    assert [file.name for file in family(tmp_path / "job.log")] == [
        *(f"job.log.{number}" for number in range(11, 0, -1)),
        "job.log",
    ]
    assert lines_in(tmp_path / "job.log") == [str(number).encode() for number in range(8, 20)]


def test_a_disk_that_refuses_loses_lines_and_says_how_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = RotatingFile(tmp_path / "job.log", Rotation(), apology)
    log.append([b"before"])

    def full(self: RotatingFile, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(RotatingFile, "_write", full)
        log.append([b"lost", b"lost too"])
        log.append([b"and this"])
    log.append([b"after"])
    log.append([b"at last"])
    assert lines_in(log.path) == [b"before", b"3 are missing", b"after", b"at last"]


def test_nothing_is_written_once_it_is_closed(tmp_path: Path) -> None:
    log = RotatingFile(tmp_path / "job.log", Rotation(), apology)
    log.close()
    log.append([b"late"])
    assert list(tmp_path.iterdir()) == []

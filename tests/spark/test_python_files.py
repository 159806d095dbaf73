"""Modules that a program brings along, in Spark's workers."""

from __future__ import annotations

import zipfile
from importlib import import_module
from pathlib import Path

import pytest

from flott.runtime.spark import session
from tests.spark.conftest import MakeEnvironment


def test_workers_that_are_already_there_import_what_a_later_job_brings(
    environment: MakeEnvironment, tmp_path: Path
) -> None:
    def described(number: int) -> str:
        from brought_to_spark import describe

        return str(describe(number))

    assert sorted(environment().from_collection([1, 2]).rebalance().execute_and_collect()) == [1, 2]
    module = tmp_path / "brought_to_spark.py"
    module.write_text("def describe(number):\n    return f'number {number}'\n")
    env = environment()
    env.add_python_file(str(module))
    stream = env.from_collection([1, 2, 3]).rebalance().map(described)
    assert sorted(stream.execute_and_collect()) == ["number 1", "number 2", "number 3"]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_workers_see_data_files_beside_modules_and_archives_in_their_working_directory(
    environment: MakeEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    if elsewhere:  # workers cannot see this machine's files, so these are sent
        monkeypatch.setattr(session, "on_this_machine", lambda master: False)
    package = tmp_path / "folder" / f"brought_with_data_{elsewhere}"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import pathlib\nDATA = pathlib.Path(__file__).with_name('data.txt')\n")
    (package / "data.txt").write_text("beside")
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("inner/value.txt", "unpacked")

    def read(number: int) -> tuple[int, str, str, str]:
        DATA = import_module(f"brought_with_data_{elsewhere}").DATA
        assert ("userFiles" in str(DATA)) == elsewhere
        named = Path("named/inner/value.txt").read_text()
        return number, DATA.read_text(), named, Path("archive.zip/inner/value.txt").read_text()

    env = environment()
    env.add_python_file(str(tmp_path / "folder"))
    env.add_python_archive(str(tmp_path / "archive.zip"))
    env.add_python_archive(str(tmp_path / "archive.zip"), "named")
    stream = env.from_collection([1, 2, 3]).rebalance().map(read)
    assert sorted(stream.execute_and_collect()) == [(n, "beside", "unpacked", "unpacked") for n in (1, 2, 3)]
    before = environment().from_collection([1]).map(lambda _: str(Path.cwd()))
    assert list(before.execute_and_collect()) == [str(Path.cwd())]

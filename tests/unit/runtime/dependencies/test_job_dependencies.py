"""Modules that a program brings along: a file, a folder, an archive."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from flott.common.configuration import Configuration
from flott.errors import ConfigurationError
from flott.runtime.dependencies.job_dependencies import LocalFile, job_dependencies
from flott.testing import collect, in_process


@pytest.fixture(autouse=True)
def _path_as_before() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("brought_"):
            del sys.modules[name]


def test_functions_import_a_file_a_folder_and_an_archive(tmp_path: Path) -> None:
    (tmp_path / "brought_file.py").write_text("def twice(n):\n    return 2 * n\n")
    package = tmp_path / "folder" / "brought_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "numbers.py").write_text("ONE = 1\n")
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("brought_archive.py", "HUNDRED = 100\n")

    def compute(n: int) -> int:
        from brought_archive import HUNDRED
        from brought_file import twice
        from brought_package.numbers import ONE

        return int(twice(n) + ONE + HUNDRED)

    env = in_process(1)
    env.add_python_file(str(tmp_path / "brought_file.py"))
    env.add_python_file(str(tmp_path / "folder"))
    env.add_python_file(str(tmp_path / "archive.zip"))
    assert collect(env.from_collection([1, 2]).map(compute)) == [103, 105]


def test_the_option_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "brought_option.py").write_text("NAME = 'option'\n")

    def name(_: object) -> str:
        from brought_option import NAME

        return str(NAME)

    env = in_process(1, python__files=str(tmp_path / "brought_option.py"))
    assert collect(env.from_collection([0]).map(name)) == ["option"]


def brought(**settings: str) -> tuple[LocalFile, ...]:
    configuration = Configuration.of({f"python.{key}": value for key, value in settings.items()})
    return job_dependencies(configuration, with_program=False)


def test_what_did_not_change_is_the_same_archive_and_what_changed_is_another(tmp_path: Path) -> None:
    module = tmp_path / "brought_module.py"
    module.write_text("ONE = 1\n")
    first = brought(files=str(module))
    module.touch()
    assert brought(files=f"{module},file://{module}") == first
    module.write_text("ONE = 2\n")
    assert brought(files=str(module)) != first


def test_nothing_is_sent_where_nothing_was_added() -> None:
    assert brought() == ()


def test_the_environment_writes_flinks_options() -> None:
    env = in_process(1)
    env.set_python_requirements("requirements.txt", "cached")
    env.add_python_archive("a.zip")
    env.add_python_archive("b.zip", "data")
    configuration = env._configuration.to_dict()
    assert configuration["python.requirements"] == "requirements.txt#cached"
    assert configuration["python.archives"] == "a.zip,b.zip#data"


def test_requirements_and_archives_are_files_by_what_they_are_for(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("x\n")
    (tmp_path / "cached").mkdir()
    (tmp_path / "cached" / "x.whl").write_text("")
    for name in ("a.zip", "b.tar.gz"):
        (tmp_path / name).write_text(name)
    found = brought(
        requirements=f"{tmp_path}/requirements.txt#{tmp_path}/cached",
        archives=f"{tmp_path}/a.zip, {tmp_path}/b.tar.gz#data/b, {tmp_path}/a.zip#again",
    )
    assert [(item.file.role, item.file.target) for item in found] == [
        ("requirements", ""),
        ("cached-packages", ""),
        ("archive", "a.zip"),
        ("archive", "data/b"),
        ("archive", "again"),
    ]
    assert len({item.file.name for item in found}) == 5
    assert all(item.path.name == item.file.name for item in found)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"requirements": "missing.txt"}, "names a requirements file"),
        ({"requirements": "{0}/r.txt#missing"}, "a folder with packages"),
        ({"archives": "missing.zip"}, "take archives"),
        ({"archives": "{0}/r.txt"}, "another kind of file"),
        ({"archives": "{0}/a.zip#../up"}, "below the working directory"),
        ({"archives": "{0}/a.zip#/etc"}, "below the working directory"),
        ({"archives": "{0}/a.zip#x,{0}/b.zip#x"}, "Two archives"),
    ],
)
def test_what_cannot_be_brought_is_refused_in_words(tmp_path: Path, settings: dict[str, str], reason: str) -> None:
    for name in ("r.txt", "a.zip", "b.zip"):
        (tmp_path / name).write_text(name)
    with pytest.raises(ConfigurationError, match=reason):
        brought(**{key: value.format(tmp_path) for key, value in settings.items()})


@pytest.mark.parametrize(("name", "reason"), [("missing.py", "no such file"), ("data.txt", "another kind of file")])
def test_a_file_that_cannot_be_imported_is_refused_before_the_job_starts(
    tmp_path: Path, name: str, reason: str
) -> None:
    (tmp_path / "data.txt").write_text("1")
    env = in_process(1)
    env.add_python_file(str(tmp_path / name))
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=reason):
        env.execute()

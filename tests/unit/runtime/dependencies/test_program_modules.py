"""Which modules are a program's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from flott.errors import ConfigurationError
from flott.runtime.dependencies import program_modules
from flott.runtime.dependencies.program_modules import members, root_of


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "program"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if name.startswith("own_"):
            del sys.modules[name]


def main_at(file: Path | str | None, spec: str | None = None) -> ModuleType:
    main = ModuleType("__main__")
    if file is not None:
        main.__file__ = str(file)
    main.__spec__ = ModuleSpec(spec, None) if spec else None
    return main


def script(root: Path, source: str) -> ModuleType:
    (root / "script.py").write_text(source)
    return main_at(root / "script.py")


def names(main: ModuleType) -> list[str]:
    return [name for _, name in members(main)]


def test_the_root_is_where_python_looks_for_the_programs_modules() -> None:
    assert root_of(main_at("/app/script.py")) == Path("/app")
    assert root_of(main_at("/app/folder/__main__.py", "__main__")) == Path("/app/folder")
    assert root_of(main_at("/app/pack/deep/module.py", "pack.deep.module")) == Path("/app")
    assert root_of(main_at("/app/pack/__main__.py", "pack.__main__")) == Path("/app")
    assert root_of(main_at(None)) is None


def test_what_is_installed_is_nobodys_own() -> None:
    import json

    assert root_of(main_at(pytest.__file__, "pytest.__main__")) is None
    assert root_of(main_at(json.__file__, "json.tool")) is None
    assert members(main_at(pytest.__file__, "pytest.__main__")) == []


def test_modules_are_found_through_imports_inside_functions_and_through_each_other(root: Path) -> None:
    (root / "own_a.py").write_text("def f():\n    import own_b.part\n")
    (root / "own_b").mkdir()
    (root / "own_b" / "__init__.py").write_text("")
    (root / "own_b" / "part.py").write_text("import own_c, json, flott, own_missing\n")
    (root / "own_c.py").write_text("import own_a  # in a circle\n")
    (root / "own_never.py").write_text("")
    main = script(root, "def work():\n    from own_a import f\n")
    assert names(main) == ["own_a.py", "own_b/__init__.py", "own_b/part.py", "own_c.py"]
    assert "own_a" not in sys.modules  # looked at, not run


def test_what_was_imported_by_name_travels_too(root: Path) -> None:
    import importlib

    (root / "own_dynamic.py").write_text("X = 1\n")
    importlib.import_module("own_dynamic")
    assert names(script(root, "")) == ["own_dynamic.py"]


def test_modules_that_were_made_by_hand_are_no_hindrance(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "own_real.py").write_text("")
    main = script(root, "")
    for name, file in (("__mp_main__", "script.py"), ("own_real", "own_real.py"), ("own_made", "nowhere.py")):
        made = ModuleType(name)
        made.__file__ = str(root / file)
        assert made.__spec__ is None
        monkeypatch.setitem(sys.modules, name, made)
    assert names(main) == ["own_real.py"]


def test_a_package_without_init_travels_whole(root: Path) -> None:
    (root / "own_space" / "inner").mkdir(parents=True)
    (root / "own_space" / "inner" / "module.py").write_text("")
    (root / "own_space" / "data.csv").write_text("1")
    assert names(script(root, "import own_space.inner.module\n")) == [
        "own_space/data.csv",
        "own_space/inner/module.py",
    ]


def test_a_package_on_another_entry_of_the_path_below_the_root_keeps_its_name(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "src" / "own_lib").mkdir(parents=True)
    (root / "src" / "own_lib" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(root / "src"))
    assert names(script(root, "import own_lib\n")) == ["own_lib/__init__.py"]


def test_installed_packages_below_the_root_stay_at_home(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = root / "env" / "lib" / "site-packages"
    (place / "own_installed").mkdir(parents=True)
    (place / "own_installed" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(place))
    assert names(script(root, "import own_installed\n")) == []


def test_a_file_that_is_no_python_is_not_looked_into(root: Path) -> None:
    (root / "own_broken.py").write_text("this is ( no python")
    assert names(script(root, "import own_broken\n")) == ["own_broken.py"]


def test_a_program_that_is_a_data_set_is_refused_with_its_largest_files(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_modules, "LIMIT_BYTES", 2 << 20)
    (root / "own_big").mkdir()
    (root / "own_big" / "__init__.py").write_text("")
    (root / "own_big" / "model.bin").write_bytes(b"x" * (3 << 20))
    with pytest.raises(ConfigurationError, match=r"own_big/model\.bin \(3 MB\).*python\.archives"):
        members(script(root, "import own_big\n"))

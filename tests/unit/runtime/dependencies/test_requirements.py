"""Requirements: installed once, from packages that came along, without a network."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from flott.errors import ConfigurationError
from flott.runtime.dependencies import requirements
from flott.runtime.dependencies.requirements import install
from tests.unit.runtime.dependencies.wheels import write_wheel


def test_requirements_are_installed_from_cached_packages_once_and_again_when_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    write_wheel(packages, "brought_wheel", "1.0", "ANSWER = 42\n")
    file = tmp_path / "requirements.txt"
    file.write_text("brought_wheel==1.0\n")
    folder = install(file, packages, tmp_path / "cache")
    assert (folder / "brought_wheel.py").read_text() == "ANSWER = 42\n"
    assert list(folder.parent.glob(".draft-*")) == []

    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("it was installed before"))
    assert install(file, packages, tmp_path / "cache") == folder
    file.write_text("brought_wheel>=1.0\n")
    with pytest.raises(pytest.fail.Exception):
        install(file, packages, tmp_path / "cache")


def test_jobs_with_the_same_requirements_wait_for_one_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installations: list[Path] = []
    both_are_there = threading.Event()

    def slowly(file: Path, packages: Path | None, target: Path) -> None:
        installations.append(target)
        both_are_there.wait(120)
        (target / "module.py").write_text("")

    monkeypatch.setattr(requirements, "_run_pip", slowly)
    (tmp_path / "requirements.txt").write_text("something\n")
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(install(tmp_path / "requirements.txt", None, tmp_path / "cache")))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    both_are_there.set()
    for thread in threads:
        thread.join()
    assert len(installations) == 1
    assert found[0] == found[1]
    assert (found[0] / "module.py").exists()


def test_what_cannot_be_installed_is_told_in_pips_own_words_and_leaves_nothing(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    (tmp_path / "requirements.txt").write_text("no-such-package-anywhere==9.9\n")
    with pytest.raises(ConfigurationError, match=r"no-such-package-anywhere==9\.9") as caught:
        install(tmp_path / "requirements.txt", packages, tmp_path / "cache")
    assert "from the packages that came with it" in str(caught.value)
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []


def test_a_python_without_pip_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_pip(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", f"{command[0]}: No module named pip\n")

    monkeypatch.setattr(subprocess, "run", without_pip)
    (tmp_path / "requirements.txt").write_text("something\n")
    with pytest.raises(ConfigurationError, match="need pip"):
        install(tmp_path / "requirements.txt", None, tmp_path / "cache")

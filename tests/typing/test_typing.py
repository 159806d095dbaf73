"""The programs beside this file say what a type checker must find out, and what it must refuse. mypy is asked once.

A finding that is wrong fails as an error of ``assert_type``; a refusal that does not happen, as an unused ``ignore``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = sorted(path for path in HERE.glob("*.py") if not path.name.startswith("test_"))


def test_mypy_knows_the_types_of_programs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"]
    command += [f"--cache-dir={tmp_path}", "--no-pretty"]
    asked = subprocess.run(
        [*command, *map(str, PROGRAMS)],
        env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (asked.stdout, asked.stderr) == (f"Success: no issues found in {len(PROGRAMS)} source files\n", "")


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "src" / "flott" / "py.typed").is_file()

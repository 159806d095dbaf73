"""The recipe of the tests with Spark collects only the folders that have some: it must name all of them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_recipe_names_every_folder_with_tests_on_spark() -> None:
    named = re.findall(r"tests/\w+", re.search(r"^SPARK_TESTS = (.*)$", (ROOT / "Makefile").read_text(), re.M)[1])
    marked = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"pytest\.mark\.spark\b", path.read_text()) and path != Path(__file__)
    ]
    assert [path for path in marked if not path.startswith(tuple(f"{folder}/" for folder in named))] == []

"""CONTRIBUTING.md describes the tree as it is: its layers are those of pyproject.toml, and its modules exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def layers_of_linter() -> list[set[str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [{part.strip(" ()").removeprefix("flott.") for part in layer.split("|")} for layer in layers]


def layers_of_page() -> list[set[str]]:
    section = PAGE.partition("## Layers")[2].partition("\n## ")[0]
    drawing = "".join(line for line in section.splitlines() if line.startswith("    "))
    return [{part.strip() for part in layer.split("│")} for layer in drawing.split("→")]


def places() -> list[str]:
    section = PAGE.partition("## Where to add or change something")[2].partition("\n## ")[0]
    return sorted(place for place in re.findall(r"`([^`\s]+)`", section) if "/" in place)


def test_the_layers_of_the_page_are_those_that_are_checked() -> None:
    assert layers_of_page() == layers_of_linter()


@pytest.mark.parametrize("place", places())
def test_a_place_to_add_something_exists(place: str) -> None:
    assert (ROOT / place).exists() or (ROOT / "src" / "flott" / place).exists(), place

"""Writes docs/table/functions.md from the library of functions: ``make docs``."""

from __future__ import annotations

from pathlib import Path

from flott.table._functions.function import Function
from flott.table._functions.registry import functions

PAGE = Path(__file__).parent.parent / "docs" / "table" / "functions.md"

HEAD = """# Functions

These are the scalar functions of SQL and of the Table API. Their results and types are Flink's: unless a line says
otherwise, a function gives NULL for a NULL argument, and its result cannot be NULL if no argument can be.
[Functions in Python](python-functions.md) says how to add your own.

This page is made by `make docs`.
"""

TITLES = {
    "comparison": "Comparison",
    "logical": "Logic",
    "arithmetic": "Numbers",
    "string": "Strings",
    "temporal": "Time",
    "conditional": "Conditions",
    "collection": "Arrays, maps and rows",
    "json": "JSON",
    "hash": "Hashes",
    "bitmap": "Bitmaps",
    "other": "Others",
}


def page() -> str:
    """Return the whole page."""
    families: dict[str, list[Function]] = {}
    for function in dict.fromkeys(functions().values(), None):
        if function.syntax:
            families.setdefault(function.family, []).append(function)
    order = [*TITLES, *sorted(set(families) - set(TITLES))]
    return HEAD + "".join(_section(family, families[family]) for family in order if family in families)


def _section(family: str, entries: list[Function]) -> str:
    rows = "".join(f"| {_cell(_shown(one))} | {_cell(one.description)} |\n" for one in sorted(entries, key=_key))
    return f"\n## {TITLES.get(family, family.capitalize())}\n\n| function | result |\n| --- | --- |\n{rows}"


def _key(function: Function) -> str:
    return function.name


def _shown(function: Function) -> str:
    also = f" (also {', '.join(f'`{alias}`' for alias in function.aliases)})" if function.aliases else ""
    return f"`{function.syntax}`{also}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), "utf-8")

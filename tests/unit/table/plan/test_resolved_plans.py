"""Queries of ``queries.sql`` against their plans in ``plans.txt``.

After a wanted change run this module as a program: it writes ``plans.txt``, whose difference is then read.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.table.plan.plan_text import plan_text, schema_text
from tests.unit.table.plan.small_catalog import resolve, resolve_into

HERE = Path(__file__).parent


def queries() -> list[str]:
    return [text.strip() for text in (HERE / "queries.sql").read_text().split(";") if text.strip()]


def described(query: str) -> str:
    plan = resolve_into(query) if query.startswith("INSERT") else resolve(query)
    return f"{plan_text(plan)}\n=> {schema_text(plan)}"


def plans() -> dict[str, str]:
    blocks = (HERE / "plans.txt").read_text().split("\n\n")
    return {block.partition("\n")[0].removeprefix("-- "): block.partition("\n")[2].rstrip("\n") for block in blocks}


@pytest.mark.parametrize("query", queries())
def test_query_becomes_its_plan(query: str) -> None:
    assert described(query) == plans()[query]


def test_every_plan_belongs_to_a_query() -> None:
    assert set(plans()) == set(queries())


if __name__ == "__main__":
    (HERE / "plans.txt").write_text("\n\n".join(f"-- {query}\n{described(query)}" for query in queries()) + "\n")

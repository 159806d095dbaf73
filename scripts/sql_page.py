"""Writes docs/table/sql-statements.md from the grammar of SQL: ``make docs``."""

from __future__ import annotations

from pathlib import Path

from flott.table._sql.grammar import GRAMMAR

PAGE = Path(__file__).parent.parent / "docs" / "table" / "sql-statements.md"

HEAD = """# SQL statements

<!-- Written by scripts/sql_page.py from flott.table._sql.grammar. -->

Flott reads Flink's SQL. Names in backquotes may hold any character and be a reserved word. An error shows the line, a
caret under the place, what was found and what was expected.
"""


def page() -> str:
    """Return the page."""
    lines = [HEAD]
    for chapter in GRAMMAR:
        lines += [f"## {chapter.title}", ""]
        for rule in chapter.rules:
            lines += [f"### {rule.title}", "", "```text", *_dedented(rule.syntax), "```", ""]
            lines += [rule.note, ""] if rule.note else []
            lines += ["```sql", *(f"{example};" for example in rule.examples), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def _dedented(text: str) -> list[str]:
    lines = [line for line in text.split("\n") if line.strip()]
    margin = min(len(line) - len(line.lstrip()) for line in lines)
    return [line[margin:] for line in lines]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

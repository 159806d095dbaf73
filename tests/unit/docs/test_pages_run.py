"""The programs on the pages of the documentation run.

Blocks of a page that begin with ```` ```python ```` run one after the other, as one program, in-process. A block with
``>>>`` is tested with what it gives by ``test_examples``. What is not meant to be run is marked ```` ```text ````.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def program_of(page: Path) -> str:
    """The blocks of a page as one program, each on the lines on which it stands."""
    text = page.read_text("utf-8")
    lines = [""] * text.count("\n")
    for block in BLOCK.finditer(text):
        if ">>> " not in block[1]:
            first = text.count("\n", 0, block.start(1))
            code = block[1].splitlines()
            lines[first : first + len(code)] = code
    return "\n".join(lines)


PAGES = sorted(page for folder in ("concepts", "guide") for page in (DOCS / folder).glob("*.md"))
PROGRAMS = {str(page.relative_to(DOCS)): page for page in PAGES if program_of(page).strip()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_of_a_page_runs(name: str) -> None:
    page = PROGRAMS[name]
    exec(compile(program_of(page), str(page), "exec"), {"__name__": "__main__"})


def test_a_program_keeps_the_line_numbers_of_its_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\na = 1\n```\ntext\n```text\nnot run\n```\n```python\nb = a\n```\n")
    assert program_of(page).splitlines()[3] == "a = 1"
    assert program_of(page).splitlines()[10] == "b = a"
    assert "not run" not in program_of(page)

"""The examples on the pages of the documentation are run, and give what the pages say."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if ">>> " in page.read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_examples_of_a_page_give_what_it_says(page: Path) -> None:
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert tried > 0
    assert failed == 0, "see what doctest printed"

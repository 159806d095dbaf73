"""The page of functions says what the library says."""

from __future__ import annotations

from flott.table._functions.registry import functions
from scripts import functions_page


def test_the_page_of_functions_is_made_from_the_library() -> None:
    assert functions_page.PAGE.read_text("utf-8") == functions_page.page(), "run make docs"


def test_every_function_says_how_it_is_written_and_what_it_gives() -> None:
    for name, function in functions().items():
        assert function.syntax, name
        assert function.description.endswith("."), name

"""The page of options says what the options say."""

from __future__ import annotations

from scripts import options_page


def test_the_configuration_page_is_made_from_the_options() -> None:
    assert options_page.PAGE.read_text() == options_page.page(), "run make docs"

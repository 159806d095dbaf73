"""The page of the command line says what the commands say."""

from __future__ import annotations

from scripts import cli_page


def test_the_command_line_page_is_made_from_the_commands() -> None:
    assert cli_page.PAGE.read_text() == cli_page.page(), "run make docs"

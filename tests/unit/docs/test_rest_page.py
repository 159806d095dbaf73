"""The page of the REST API says what the endpoints say."""

from __future__ import annotations

from scripts import rest_page


def test_the_rest_page_is_made_from_the_endpoints() -> None:
    assert rest_page.PAGE.read_text() == rest_page.page(), "run make docs"

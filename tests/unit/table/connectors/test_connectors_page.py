"""The page of connectors is made from their options."""

from __future__ import annotations

from flott.table._connectors.registry import connector, connector_names
from scripts.connectors_page import NOTES, PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


def test_every_connector_is_described() -> None:
    assert set(NOTES) == set(connector_names())
    for name in connector_names():
        found = connector(name)
        assert found.name == name
        assert all(found.options.values())
        assert set(found.required) <= set(found.options)

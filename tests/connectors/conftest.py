"""Tests of connectors, a folder for each system. Tests of one folder share a process, which starts their server."""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(_HERE).parts[0]))

"""Runs the programs on a page about a connector, against the server of a test."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from unittest import mock

_PAGES = Path(__file__).parents[2] / "docs" / "connectors"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(page: str, replacements: dict[str, str]) -> dict[str, Any]:
    """Run the blocks of a page as one program, with other addresses in it; return its variables."""
    text = (_PAGES / page).read_text("utf-8")
    program = "\n".join(block[1] for block in _BLOCK.finditer(text))
    for old, new in replacements.items():
        assert old in program, f"{page} does not contain {old!r}"
        program = program.replace(old, new)
    scope: dict[str, Any] = {"__name__": "__main__"}
    # In this process, without a JVM: what the connector does is the same.
    with mock.patch.dict(os.environ, {"FLOTT_EXECUTION_TARGET": "in-process", "FLOTT_PROGRESS": "off"}):
        exec(compile(program, page, "exec"), scope)
    return scope

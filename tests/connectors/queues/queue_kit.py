"""The conformance kit for sources whose enumerator holds a connection.

A simulated crash leaves the connection of the "dead" process open, so it is ended here, as the system would.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flott.datastream.connectors.base import Source
from flott.runtime.connectors.queues.receiver import close_all
from flott.testing import Ledger
from flott.testing.connectors import SourceConformance


class QueueConformance(SourceConformance):
    """The promises of a source of messages. What it reads is used up: each test fills a queue of its own."""

    seeds = 2

    def _live(self, source: Source[Any], ledger: Ledger, folder: Path, crash_at: str | None, mode: str) -> None:
        super()._live(source, ledger, folder, crash_at, mode)
        close_all()

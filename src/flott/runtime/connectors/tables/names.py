"""What the data files of a table sink are called: the only speller and reader of these names. Driver and task side.

    {epoch}-{subtask}-{attempt}-{number}.parquet    in a folder of the sink's own, named by :func:`writer_token`

A name holds its attempt, so a file that no commit refers to is known to be left over, and by whom.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

_NAME = re.compile(r"(\d+)-(\d+)-(.+)-(\d+)\.parquet")


@dataclass(frozen=True)
class DataFileName:
    """A file of one attempt of one subtask at one epoch."""

    epoch: int
    subtask: int
    attempt: str
    number: int

    @property
    def text(self) -> str:
        """Return the name. The attempt is quoted with underscores, so that no log and no client quotes it again."""
        attempt = quote(self.attempt, safe="").replace("_", "%5F").replace("~", "%7E").replace("%", "_")
        return f"{self.epoch}-{self.subtask}-{attempt}-{self.number}.parquet"

    @staticmethod
    def read(text: str) -> DataFileName | None:
        """Return what a file is, or None if it is not one of a sink's."""
        if not (match := _NAME.fullmatch(text)):
            return None
        return DataFileName(int(match[1]), int(match[2]), unquote(match[3].replace("_", "%")), int(match[4]))

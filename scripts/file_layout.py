"""How a story about state is laid out: from left to right the epochs, from top to bottom where state is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scripts.layouts import LEFT, RIGHT, WIDTH, epoch_look, heading
from scripts.observation import WrittenFile, observe_files
from scripts.svg import Sheet

LINE = 17  #: of text
PAD = 8  #: inside a box
FIRST = LEFT + 42  #: where the first epoch begins
GAP = 12  #: between two epochs


@dataclass(frozen=True)
class Files:
    """A story of a few keys: what a task holds, which files its epochs write, and which of them a checkpoint names."""

    title: str
    description: str
    program: str
    script: Sequence[Any]

    def draw(self) -> Sheet:
        seen = observe_files(self.script)
        keys = sorted(seen.savepoint)
        in_task, files = 74, 74 + len(keys) * LINE + 34
        compacted = files + max(len(file.entries) for file in seen.written.values()) * LINE + 34
        checkpoints = compacted + 50
        savepoint = checkpoints + 58
        sheet = Sheet(WIDTH, savepoint + 62, self.title, self.description)
        heading(sheet, self.title, self.program)
        for y, name, words in (
            (in_task, "in the task", "memory, or RocksDB"), (files, "state files", "one per epoch"),
            (compacted, "compacted", "beside the epochs"), (checkpoints, "checkpoint", "names files"),
            (savepoint, "savepoint", "on request"),
        ):  # fmt: skip
            sheet.text(20, y + 14, name, "ink b")
            sheet.text(20, y + 29, words, "quiet s")
        column = (WIDTH - FIRST - RIGHT + GAP) / len(seen.held)
        left = {epoch: FIRST + column * number for number, epoch in enumerate(sorted(seen.held))}
        for epoch, x in left.items():
            look, width = epoch_look(epoch), column - GAP
            sheet.text(x + width / 2, 58, f"epoch {epoch}", f"{look} b m")
            sheet.box(x, in_task, width, len(keys) * LINE + PAD, "quiet line")
            self._write(sheet, x, in_task, seen.held[epoch], seen.written[epoch].entries, look)
            self._file(sheet, x, files, width, seen.written[epoch], look)
            self._names(sheet, x, checkpoints, seen.sequences[epoch])
        for base in seen.compacted:
            first, last = min(base.of_epochs), max(base.of_epochs)
            x, width = left[first], left[last] - left[first] + column - GAP
            self._line_of(sheet, x, compacted, width, f"{base.label}: {_told(base.entries)}")
        last = max(left)
        words = f"one file, all there is: {_told(seen.savepoint)}"
        self._line_of(sheet, left[last - 2], savepoint, 3 * column - GAP, words)
        words = "An epoch writes what it changed. Files stay as they are, until no checkpoint names them."
        sheet.text(20, savepoint + 52, words, "quiet s")
        return sheet

    def _write(
        self, sheet: Sheet, x: float, y: float, entries: Mapping[str, int], changed: Mapping[str, int], look: str
    ) -> None:
        for row, (key, value) in enumerate(sorted(entries.items())):
            sheet.text(x + PAD, y + PAD + 6 + row * LINE, f"{key} {value}", f"{look} b" if key in changed else "quiet")

    def _file(self, sheet: Sheet, x: float, y: float, width: float, file: WrittenFile, look: str) -> None:
        sheet.band(x, y, width, len(file.entries) * LINE + PAD, look)
        self._write(sheet, x, y, file.entries, file.entries, look)

    def _line_of(self, sheet: Sheet, x: float, y: float, width: float, words: str) -> None:
        sheet.band(x, y, width, LINE + PAD, "ink")
        sheet.text(x + width / 2, y + PAD + 8, words, "ink s m")

    def _names(self, sheet: Sheet, x: float, y: float, sequence: Sequence[WrittenFile]) -> None:
        """Draw the files of a sequence, each as a small box: whose changes it holds, in its colour."""
        for file in sequence:
            look = "ink" if len(file.of_epochs) > 1 else epoch_look(file.of_epochs[0])
            width = 14 + 7 * len(file.label)
            sheet.band(x, y, width, LINE + 4, look)
            sheet.text(x + width / 2, y + 15, file.label, f"{look} s b m")
            x += width + 4


def _told(entries: Mapping[str, int]) -> str:
    return ", ".join(f"{key} {value}" for key, value in sorted(entries.items()))

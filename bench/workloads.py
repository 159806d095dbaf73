"""The user's side of every workload: pure Python functions that all engines share, and the data they run on.

Imported by the orchestrator and by every runner, under whichever interpreter that runner uses: standard library only.

    keyed_sum    i -> make_record -> key_of -> running sum per key      one (key, sum) out per record in
    stateless    i -> make_record -> keep -> spread                     a map / filter / flat_map chain
    word_count   line -> split_line -> running count per word           one (word, count) out per word in
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

KEYS = 10_000
WORDS_PER_LINE = 10
WORDS_PER_FILE = 50_000
DISTINCT_TEXTS = 4  # files beyond these are hard links to them: plenty of input, little disk

Record = tuple[int, int]


def make_record(i: int) -> Record:
    """The i-th record: a key and a value >= 0. 7919 shares no factor with KEYS, so every key comes equally often."""
    return (i * 7919) % KEYS, i & 1023


def key_of(record: Record) -> int:
    return record[0]


def keep(record: Record) -> bool:
    return record[1] % 4 != 0


def spread(record: Record) -> Iterator[Record]:
    key, value = record
    yield key, value
    yield key, -value


def split_line(line: str) -> list[str]:
    return line.split()


def word_of(word: str) -> str:
    return word


def write_text(directory: Path, words: int, min_files: int) -> int:
    """Fill `directory` with text files of about `words` words in all; return how many words they really hold.

    Word frequencies fall off as in natural text (Zipf), over a vocabulary of KEYS words.
    """
    directory.mkdir(parents=True)
    files = max(min_files, -(-words // WORDS_PER_FILE))
    lines = max(1, words // files // WORDS_PER_LINE)
    for n in range(files):
        path = directory / f"text-{n:05}.txt"
        if n < DISTINCT_TEXTS:
            path.write_text(_text(lines, seed=n))
        else:
            os.link(directory / f"text-{n % DISTINCT_TEXTS:05}.txt", path)
    return files * lines * WORDS_PER_LINE


def _text(lines: int, seed: int) -> str:
    chooser = random.Random(seed)
    vocabulary = [f"word{n}" for n in range(KEYS)]
    weights = [1 / (n + 1) for n in range(KEYS)]
    words = chooser.choices(vocabulary, weights, k=lines * WORDS_PER_LINE)
    rows = (words[at : at + WORDS_PER_LINE] for at in range(0, len(words), WORDS_PER_LINE))
    return "".join(" ".join(row) + "\n" for row in rows)


def expected(workload: str, records: int, text: Path | None = None) -> object:
    """The digest every engine must reach for an input of `records` records (or for the files under `text`)."""
    if workload == "stateless":
        inputs = (make_record(i) for i in range(records))
        return digest(workload, (out for record in inputs if keep(record) for out in spread(record)))
    if workload == "keyed_sum":
        return digest(workload, _running(make_record(i) for i in range(records)))
    assert text is not None, "word_count is checked against its files"
    lines = (line for path in sorted(text.iterdir()) for line in path.read_text().splitlines())
    return digest(workload, _running((word, 1) for line in lines for word in split_line(line)))


def digest(workload: str, results: Iterable[tuple]) -> object:
    """What a correct engine's results have in common, whatever order it read its splits in.

    A running total depends on the order inside a key, its last and highest value does not.
    """
    rows = [tuple(result) for result in results]
    if workload == "stateless":
        return sorted(rows)
    highest: dict = {}
    for key, total in rows:
        highest[key] = max(total, highest.get(key, total))
    return len(rows), highest


def _running(pairs: Iterable[tuple]) -> Iterator[tuple]:
    totals: dict = {}
    for key, value in pairs:
        totals[key] = totals.get(key, 0) + value
        yield key, totals[key]

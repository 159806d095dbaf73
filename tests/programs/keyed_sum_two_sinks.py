"""Two stateful operators and two transactional sinks: Flott's file sink, and a table of the program's own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from flott.common import WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.base import CommitPermit, Committer, Sink, SinkWriter, WriterContext
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.testing.sources import EndOfEpoch, ScriptedSource
from tests.programs.runner import lines_to

SCRIPT = {
    split: [entry for epoch in range(6) for entry in (*range(epoch * 8 + first, epoch * 8 + 8, 2), EndOfEpoch())]
    for first, split in enumerate(["even", "odd"])
}


class Sum(KeyedProcessFunction[int, int, tuple[int, int]]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum"))

    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[int, int]]:
        self.sum.update((self.sum.value() or 0) + value)
        yield ctx.get_current_key(), self.sum.value()


class Largest(KeyedProcessFunction[int, tuple[int, int], str]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.largest = runtime_context.get_state(ValueStateDescriptor("largest"))
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: tuple[int, int], ctx: Any) -> Iterator[str]:
        self.seen.update((self.seen.value() or 0) + 1)
        self.largest.update(max(self.largest.value() or 0, value[1]))
        if self.seen.value() % 4 == 0:
            yield f"{ctx.get_current_key()}: {self.seen.value()} seen"


class TableSink(Sink[Any]):
    """A table is one JSON file of rows by transaction; a commit replaces it in one step."""

    def __init__(self, folder: str):
        self.folder = folder

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        return TableWriter(self.folder, f"{context.epoch}-{context.subtask}-{context.attempt_id}")

    def create_committer(self) -> Committer:
        return TableCommitter(self.folder)


class TableWriter(SinkWriter[Any]):
    def __init__(self, folder: str, transaction: str):
        self.path = os.path.join(folder, "out", "table", f".{transaction}.staged")
        self.transaction = transaction
        self.rows: list[str] = []

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        self.rows += [f"{key}={total}" for key, total in values]

    def prepare_commit(self) -> list[Any]:
        if not self.rows:
            return []
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path, "w") as file:
            json.dump(self.rows, file)
        return [[self.transaction, self.path]]


class TableCommitter(Committer):
    def __init__(self, folder: str):
        self.folder = os.path.join(folder, "out", "table")

    def commit(self, permit: CommitPermit, committables: Sequence[Any]) -> None:
        if not committables:
            return
        table = os.path.join(self.folder, "_transactions")
        known = {}
        if os.path.exists(table):
            with open(table) as file:
                known = json.load(file)
        for transaction, path in committables:
            if transaction not in known:
                with open(path) as file:
                    known[transaction] = json.load(file)
        draft = os.path.join(self.folder, f".{uuid4().hex}.draft")
        with open(draft, "w") as file:
            json.dump(known, file)
        os.replace(draft, table)
        with open(draft, "w") as file:
            file.writelines(f"{row}\n" for rows in known.values() for row in rows)
        os.replace(draft, os.path.join(self.folder, "rows"))
        for _, path in committables:
            if os.path.exists(path):
                os.remove(path)

    def discard(self, live_attempts: frozenset[str]) -> None:
        for name in os.listdir(self.folder) if os.path.isdir(self.folder) else []:
            if name.endswith((".staged", ".draft")):
                os.remove(os.path.join(self.folder, name))  # what was live has been committed before


def build(env: StreamExecutionEnvironment, folder: str) -> None:
    numbers = env.from_source(ScriptedSource(SCRIPT), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    sums = numbers.key_by(lambda n: n % 5).process(Sum()).uid("sum")
    sums.sink_to(TableSink(folder)).uid("table")
    sums.key_by(lambda pair: pair[1] % 3).process(Largest()).uid("largest").sink_to(lines_to(folder, "seen"))
    sums.map(str).sink_to(lines_to(folder, "sums"))

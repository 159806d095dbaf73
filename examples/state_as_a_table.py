"""Look into the state of a job, change it, and go on from it: ``python examples/state_as_a_table.py``.

A savepoint is made of a dict, the word counts of last year; then it is read, edited and compared, all without a job:
``flott.state`` needs the files only. In the end a job starts from it and counts on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import flott.state
from flott.common import Configuration, Types
from flott.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flott.datastream.state import ValueStateDescriptor


class Count(KeyedProcessFunction[str, str, str]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context[str]) -> Iterator[str]:
        self.count.update((self.count.value() or 0) + 1)
        yield f"{value}: {self.count.value()}"


def main(env: StreamExecutionEnvironment) -> None:
    folder = Path(tempfile.mkdtemp(prefix="flott-state-"))

    # A savepoint from data that no job of Flott's has ever seen.
    last_year = {"to": 10, "be": 9, "or": 4, "nothing": 7}
    counts = flott.state.value_state(last_year, key_type=str, value_type=Types.LONG())
    first = flott.state.new_savepoint().with_operator("count", keyed={"count": counts}).write(folder / "last-year")
    print("made:", dict(sorted(first.operator("count").keyed("count").items())))

    # The same with one word dropped, another corrected, and the operator under the uid that the program now has.
    second = (
        flott.state.edit(first)
        .transform("count", "count", lambda word, n: flott.state.DROP if word == "nothing" else n * 100)
        .change_uid("count", "words")
        .write(folder / "edited")
    )
    words = second.operator("words").keyed("count")
    print("one key:", words.get("be"))
    print("columns:", ", ".join(f"{column.name} {column.type['type']}" for column in words.columns))

    # What changed, state by state. The operators are different ones by now, so compare under one uid.
    renamed = flott.state.edit(second).change_uid("words", "count").write(folder / "renamed")
    difference = flott.state.diff(first, renamed).state("count", "count")
    print("removed:", sorted(difference.removed()), "changed:", sorted(difference.changed()))

    # A job that starts from it.
    start = Configuration()
    start.set_string("execution.state-recovery.path", second.path)
    env.configure(start)
    env.set_parallelism(1)
    text = env.from_collection(["to", "be", "or", "not", "to", "be"])
    text.key_by(lambda word: word, Types.STRING()).process(Count()).uid("words").print()
    env.execute("state as a table")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())

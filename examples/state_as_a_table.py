"""Read and edit the state of a job, and start a job from it: ``python examples/state_as_a_table.py``.

The example creates a savepoint from a dict, the word counts of last year. Then it reads, edits and compares the
savepoint without a job: ``flott.state`` needs only the files. At the end, a job starts from it and continues to count.
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

    # Create a savepoint from other data.
    last_year = {"to": 10, "be": 9, "or": 4, "nothing": 7}
    counts = flott.state.value_state(last_year, key_type=str, value_type=Types.LONG())
    first = flott.state.new_savepoint().with_operator("count", keyed={"count": counts}).write(folder / "last-year")
    print("made:", dict(sorted(first.operator("count").keyed("count").items())))

    # Drop one word, correct another, and set the uid of the operator in the current program.
    second = (
        flott.state.edit(first)
        .transform("count", "count", lambda word, n: flott.state.DROP if word == "nothing" else n * 100)
        .change_uid("count", "words")
        .write(folder / "edited")
    )
    words = second.operator("words").keyed("count")
    print("one key:", words.get("be"))
    print("columns:", ", ".join(f"{column.name} {column.type['type']}" for column in words.columns))

    # Compare both, state by state. The operators have different uids, so compare under one.
    renamed = flott.state.edit(second).change_uid("words", "count").write(folder / "renamed")
    difference = flott.state.diff(first, renamed).state("count", "count")
    print("removed:", sorted(difference.removed()), "changed:", sorted(difference.changed()))

    # Start a job from it.
    start = Configuration()
    start.set_string("execution.state-recovery.path", second.path)
    env.configure(start)
    env.set_parallelism(1)
    text = env.from_collection(["to", "be", "or", "not", "to", "be"])
    text.key_by(lambda word: word, Types.STRING()).process(Count()).uid("words").print()
    env.execute("state as a table")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())

"""Stop a job, change the program, and continue: ``python examples/savepoint_and_restore.py``.

On Monday a program sums what each customer pays. In the evening it is stopped with a savepoint. Tuesday's program also
counts payments, so its state has one more field, and it has another parallelism. It starts from the savepoint: it has
the sums of Monday, the new field has its default, and Monday's file is not read again.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flott.common import Configuration, Duration, WatermarkStrategy
from flott.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.connectors.file_system import FileSource, StreamFormat
from flott.datastream.state import ValueStateDescriptor

MONDAY = ["ada 10", "bob 5", "ada 20"]
TUESDAY = ["bob 7", "ada 1", "cleo 3", "bob 1"]


@dataclass(frozen=True)
class Account:
    paid: int


@dataclass(frozen=True)
class CountingAccount:
    """The account a day later. A class may be renamed, because its fields are matched by name."""

    paid: int
    payments: int = 0


class Monday(KeyedProcessFunction[str, str, str]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.account = runtime_context.get_state(ValueStateDescriptor("account", Account))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context[str]) -> Iterator[str]:
        before = self.account.value() or Account(0)
        now = Account(before.paid + int(value.split()[1]))
        self.account.update(now)
        yield f"{ctx.get_current_key()} has paid {now.paid}"


class Tuesday(KeyedProcessFunction[str, str, str]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.account = runtime_context.get_state(ValueStateDescriptor("account", CountingAccount))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context[str]) -> Iterator[str]:
        before = self.account.value() or CountingAccount(0)
        now = CountingAccount(before.paid + int(value.split()[1]), before.payments + 1)
        self.account.update(now)
        yield f"{ctx.get_current_key()} has paid {now.paid}, payments since Tuesday: {now.payments}"


def run(env: StreamExecutionEnvironment, folder: Path, function: Monday | Tuesday, lines: int) -> str:
    """Process the files in a folder until there are results for so many lines, then stop.

    Return the savepoint's path.
    """
    payments = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
    source = payments.monitor_continuously(Duration.of_millis(100)).build()
    results: list[str] = []
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "payments")
        .uid("payments")  # operators with state have uids, by which it is matched
        .key_by(lambda line: line.split()[0])
        .process(function)
        .uid("accounts")
        .sink_to(CallableSink(results.append))
    )
    client = env.execute_async("payments")
    while len(results) < lines and not client.get_job_execution_result().done():
        time.sleep(0.02)
    savepoint = client.stop_with_savepoint(False, str(folder.parent / "savepoints")).result()
    print(*sorted(results), sep="\n")
    return savepoint


def main(env: StreamExecutionEnvironment) -> None:
    folder = Path(tempfile.mkdtemp(prefix="flott-payments-")) / "incoming"
    folder.mkdir()

    (folder / "monday.txt").write_text("\n".join(MONDAY))
    savepoint = run(env.set_parallelism(1), folder, Monday(), len(MONDAY))

    (folder / "tuesday.txt").write_text("\n".join(TUESDAY))
    restored = Configuration()
    restored.set_string("execution.state-recovery.path", savepoint)
    env.configure(restored)
    run(env.set_parallelism(3), folder, Tuesday(), len(TUESDAY))


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())

"""A job from Kafka through keyed state to Kafka, in a process that tests kill. Run as a module with a JSON argument.

Every record "key,number" becomes "key,count,sum": how many records of the key there were, and the sum of their numbers.
The process prints a line for every step of the protocol, and kills itself by SIGKILL at one of them if it is told to.
On standard input it takes orders: to rescale, to stop with a savepoint, to pause at a step, and to go on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flott.common.serialization import SimpleStringSchema
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import DeliveryGuarantee
from flott.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from flott.datastream.data_stream import DataStream
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.datastream.stream_execution_environment import StreamExecutionEnvironment
from flott.runtime.checkpoint.restoring import ClaimMode, begin_with, open_snapshot
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.clock import SystemClock
from flott.runtime.orders import RescaleJob, StopWithSavepoint
from flott.runtime.storage import PosixStorage
from flott.testing.harness import in_process, live


class Key(SimpleStringSchema):
    """The key of an output record."""

    def serialize(self, element: Any) -> bytes:
        return str(element).split(",")[0].encode()


class Account(KeyedProcessFunction[str, str, str]):
    """Counts and adds up the numbers of a key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("account", tuple[int, int]))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context[str]) -> Any:
        key, number = value.split(",")
        count, total = self.state.value() or (0, 0)
        count, total = count + 1, total + int(number)
        self.state.update((count, total))
        yield f"{key},{count},{total}"


def account(
    stream_of: StreamExecutionEnvironment, address: str, source: str, target: str, prefix: str
) -> DataStream[str]:
    """Add the job to an environment, and return its results."""
    records = (
        KafkaSource.builder()
        .set_bootstrap_servers(address)
        .set_topics(source)
        .set_group_id(f"{prefix}-group")
        .set_value_only_deserializer(SimpleStringSchema())
        .set_property("partition.discovery.interval.ms", "200")
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(address)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(prefix)
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic(target)
            .set_key_serialization_schema(Key())
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        )
        .build()
    )
    numbers = stream_of.from_source(records, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    accounts = numbers.key_by(lambda line: line.split(",")[0]).process(Account()).uid("accounts")
    accounts.sink_to(sink).uid("results")
    return accounts


def main(options: dict[str, Any], more_sinks: Callable[[DataStream[str], dict[str, Any]], None] | None = None) -> None:
    """Run the job until it ends, or dies. It may have more sinks for its results."""
    env = in_process(
        options["parallelism"],
        flott__epoch__max_records=str(options.get("max_records", 40)),
        flott__epoch__poll_interval="20 ms",
        restart_strategy__type="fixed-delay",
        restart_strategy__fixed_delay__attempts="100",
        restart_strategy__fixed_delay__delay="300 ms",
    )
    accounts = account(env, options["address"], options["source"], options["target"], options["prefix"])
    if more_sinks is not None:
        more_sinks(accounts, options)
    folder = Path(options["folder"])
    if options.get("savepoint") and not folder.exists():
        storage = PosixStorage(str(folder), sync=False)
        storage.prepare()
        snapshot = open_snapshot(options["savepoint"], sync=False)
        begin_with(snapshot, CheckpointStore(storage, 0), "job", ClaimMode.NO_CLAIM)
    masters: list[Any] = []
    die_at, epochs_left = options.get("die_at"), options.get("die_after", 1)
    seen = 0
    pause_at: str | None = None
    going_on = threading.Event()

    def on_step(step: str, epoch: int) -> None:
        nonlocal seen, pause_at
        print(json.dumps({"step": step, "epoch": epoch}), flush=True)
        if step == pause_at:
            pause_at = None
            going_on.clear()
            print(json.dumps({"paused": step}), flush=True)
            going_on.wait()
        if step == die_at:
            seen += 1
            if seen > epochs_left:
                os.kill(os.getpid(), signal.SIGKILL)

    started = threading.Event()
    answering = threading.Lock()  # a job that is stopped ends, and its answer is told first

    def on_start(master: Any) -> None:
        masters.append(master)
        started.set()

    def obey() -> None:
        nonlocal pause_at
        for line in sys.stdin:
            started.wait()
            verb, argument = json.loads(line)
            if verb == "pause":
                print(json.dumps({"answer": None}), flush=True)
                pause_at = argument
                continue
            if verb == "go on":
                going_on.set()
                continue
            with answering:
                if verb == "rescale":
                    answer = masters[0].submit(RescaleJob(argument))
                else:
                    answer = masters[0].submit(StopWithSavepoint(target=argument))
                try:
                    print(json.dumps({"answer": answer.result()}), flush=True)
                except Exception as error:
                    print(json.dumps({"ended": "order refused", "failure": str(error)}), flush=True)

    threading.Thread(target=obey, daemon=True).start()
    ended = live(env, folder, clock=SystemClock(), on_step=on_step, on_start=on_start)
    with answering:
        print(json.dumps({"ended": ended.status.name, "failure": str(ended.failure or "")}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

"""Jobs whose checkpoints, savepoints, input and output are on an S3 server; their drivers are killed at any step."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flott.state
from flott.common import Configuration, Encoder, Types, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.file_system import (
    BucketAssigner,
    BulkFormat,
    BulkWriterFactory,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from flott.datastream.functions import KeyedProcessFunction
from flott.datastream.state import ValueStateDescriptor
from flott.runtime.storage.object_store import ObjectStorage
from tests.s3_server import S3Server

#: Makes lines as long as a source expects them before it has read any: then epochs are as small as they should be.
PADDING = "." * 120
SURVIVOR = Path(__file__).parents[1] / "spark/scripts/survivor.py"
RECOVER = {"execution.state-recovery.from-latest": "true"}


def visible_lines(storage: ObjectStorage, folder: str = ".") -> Counter[str]:
    """What a reader of the output reads."""
    found: Counter[str] = Counter()
    for location, _ in storage.files_at(folder):
        if not any(part.startswith((".", "_")) for part in location.split("/")[3:]):
            found.update(storage.read(location).decode().splitlines())
    return found


# --- killed drivers ---------------------------------------------------------------------------------------------------


class Survivor:
    """The job of ``scripts/survivor.py``, without Spark: each run is a process of its own."""

    def __init__(self, folder: Path, place: str | None, options: dict[str, str]):
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.settings: dict[str, Any] = {"folder": str(folder)}
        self.options = {"execution.target": "in-process", "flott.progress": "off", **options}
        if place is not None:
            self.settings["files"] = f"{place}/files"
            self.options["execution.checkpointing.dir"] = f"{place}/checkpoints"

    def run(self, options: dict[str, str] | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
        what = {**self.settings, **settings, "options": {**self.options, **(options or {})}}
        return subprocess.run(
            [sys.executable, str(SURVIVOR), json.dumps(what)], capture_output=True, text=True, timeout=120, check=False
        )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    folder = tmp_path_factory.mktemp("undisturbed")
    ended = Survivor(folder, None, {}).run()
    assert ended.returncode == 0, ended.stderr
    parts = [path for path in (folder / "files").glob("*") if not path.name.startswith(".")]
    return Counter(line for path in parts for line in path.read_text().splitlines())


def test_drivers_that_are_killed_one_after_the_other_publish_everything_once(
    server: S3Server, storage_at: Callable[[str], ObjectStorage], place: str, tmp_path: Path,
    undisturbed: Counter[str],
) -> None:  # fmt: skip
    survivor = Survivor(tmp_path / "job", place, server.options)
    options: dict[str, str] = {}
    for step in ("planned", "ran", "acknowledged", "completed"):
        killed = survivor.run(options, fault="driver", place=step)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert visible_lines(storage_at(place), "files") <= undisturbed
        options = RECOVER
    ended = survivor.run(RECOVER)
    assert ended.returncode == 0, ended.stderr
    assert visible_lines(storage_at(place), "files") == undisturbed
    left = [location for location, _ in storage_at(place).files_at("checkpoints")]
    assert [location.split("/")[-1] for location in left] == ["head"], "the job is over"
    assert "flott-secret" not in killed.stderr + ended.stderr + ended.stdout


# --- a job in this process --------------------------------------------------------------------------------------------


class Count(KeyedProcessFunction[str, str, str]):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value} {count}"


def program(
    server: S3Server, place: str, rolling: RollingPolicy | None = None, **options: str
) -> StreamExecutionEnvironment:
    configuration = Configuration()
    settings = {
        **server.options,
        "execution.target": "in-process",
        "flott.progress": "off",
        "execution.checkpointing.dir": f"{place}/checkpoints",
        "execution.checkpointing.savepoint-dir": f"{place}/savepoints",
        "flott.epoch.max-records": "200",
        "flott.epoch.initial-records": "200",
        **{key.replace("__", "."): value for key, value in options.items()},
    }
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"{place}/in/*/f*.txt").build()
    sink = (
        FileSink.for_row_format(f"{place}/out", Encoder.simple_string_encoder())
        .with_bucket_assigner(lambda line: line[:2])
        .with_rolling_policy(rolling or RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "in").uid("in")
    lines.key_by(lambda line: line).process(Count(), Types.STRING()).uid("count").sink_to(sink).uid("out")
    return env


def write_input(storage: ObjectStorage, files: int, first: int = 0) -> None:
    for number in range(first, first + files):
        text = "".join(f"k{index % 7}{PADDING}\n" for index in range(350))
        storage.write(f"in/{number % 2}/f{number}.txt", text.encode())
        storage.write(f"in/{number % 2}/_not_data", b"x")


def expected(files: int) -> Counter[str]:
    return Counter(f"k{key}{PADDING} {count}" for key in range(7) for count in range(1, 50 * files + 1))


@pytest.mark.parametrize("kind", ["CANONICAL", "NATIVE"])
@pytest.mark.parametrize("mode", ["NO_CLAIM", "CLAIM"])
def test_a_job_is_stopped_with_a_savepoint_in_the_store_and_goes_on_from_it(
    server: S3Server, storage_at: Callable[[str], ObjectStorage], place: str, kind: str, mode: str
) -> None:
    from flott.common._savepoint_format import SavepointFormatType

    write_input(storage_at(place), 4)
    retained = "RETAIN_ON_CANCELLATION"
    job = program(
        server, place, **{"execution.checkpointing.externalized-checkpoint-retention": retained}
    ).execute_async("count")
    savepoint = job.stop_with_savepoint(False, None, SavepointFormatType[kind]).result(60)
    snapshot = flott.state.open(savepoint)
    assert snapshot.is_savepoint
    assert 0 < len(dict(snapshot.operator("count").state("count").items())) <= 7
    recovery = {
        "execution.state-recovery.path": savepoint, "execution.state-recovery.claim-mode": mode,
    }  # fmt: skip
    program(server, place, **recovery).execute("count")
    assert visible_lines(storage_at(place), "out") == expected(4)
    if mode == "CLAIM" and kind == "CANONICAL":
        assert not storage_at(savepoint).exists("_metadata")
    elif mode == "NO_CLAIM":
        flott.state.dispose_savepoint(savepoint)
        assert not storage_at(savepoint).exists("_metadata")


def test_the_output_of_several_epochs_becomes_one_part(
    server: S3Server, storage_at: Callable[[str], ObjectStorage], place: str
) -> None:
    write_input(storage_at(place), 6)
    program(server, place, RollingPolicy.default_rolling_policy(part_size=15_000)).execute("count")
    assert visible_lines(storage_at(place), "out") == expected(6)
    parts = [location for location, _ in storage_at(place).files_at("out") if "/part-" in location]
    epochs = [int(last) - int(first) for first, last in (part.split("-")[-2:] for part in parts)]
    assert max(epochs) > 0, "some hold several epochs"
    assert len(parts) > 7, "and some buckets have several"


def test_a_checkpoint_is_exported_from_the_store_to_a_disk_and_back(
    server: S3Server, storage_at: Callable[[str], ObjectStorage], place: str, tmp_path: Path
) -> None:
    write_input(storage_at(place), 2)
    retention = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
    job = program(server, place, **retention).execute_async("count")
    directory = job.get_checkpoint_directory()
    savepoint = job.cancel_with_savepoint(str(tmp_path / "local")).result(60)
    again = flott.state.export_savepoint(savepoint, f"{place}/again")
    for path in (directory, savepoint, again):
        assert flott.state.open(path).operator("count").state("count").get(f"k3{PADDING}")
    program(server, place, **{"execution.state-recovery.path": again}).execute("count")


@pytest.mark.parametrize("compression", ["", ".gz"])
def test_parquet_and_compressed_files_are_read_and_written(
    server: S3Server, storage_at: Callable[[str], ObjectStorage], place: str, compression: str
) -> None:
    pytest.importorskip("pyarrow")
    import gzip

    storage = storage_at(place)
    text = "".join(f"{number}\n" for number in range(1000)).encode()
    storage.write(f"in/numbers.txt{compression}", gzip.compress(text) if compression else text)
    configuration = Configuration()
    for key, value in {**server.options, "execution.target": "in-process", "flott.progress": "off"}.items():
        configuration.set_string(key, value)
    for read, write in (
        (
            FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"{place}/in").build(),
            FileSink.for_bulk_format(f"{place}/parquet", BulkWriterFactory.parquet({"n": "int64"})),
        ),
        (
            FileSource.for_bulk_file_format(BulkFormat.parquet(), f"{place}/parquet").build(),
            FileSink.for_row_format(f"{place}/out", Encoder.simple_string_encoder()),
        ),
    ):
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
        stream = env.from_source(read, WatermarkStrategy.no_watermarks(), "in")
        rows = stream.map(lambda value: {"n": int(value)} if isinstance(value, str) else str(value["n"]))
        rows.sink_to(write.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
        env.execute("files")
    assert visible_lines(storage, "out") == Counter(str(number) for number in range(1000))

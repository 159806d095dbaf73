"""A preview shows the first records of a stream, and leaves the program and the world as they were."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import io
import sys
import textwrap
import threading
import types
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flott.common import Configuration, Duration, Time, Types, WatermarkStrategy
from flott.common import _options as options
from flott.common.typeinfo import TypeInformation
from flott.common.types import Row
from flott.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment, _preview
from flott.datastream._preview import Preview, Sample, preview_configuration, timeout_seconds
from flott.datastream._record_table import columns_of, html_table, text_table
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.connectors.sample import SampleSink
from flott.errors import JobCancelledError, JobFailedError, ProgramError
from flott.runtime.entrypoint import executors
from flott.testing.harness import collect, in_process
from flott.testing.sources import EndOfEpoch, ScriptedSource

PATIENCE = 60.0
NO_TIME = WatermarkStrategy.no_watermarks()


@dataclasses.dataclass
class Payment:
    account: str
    amount: float


class City(NamedTuple):
    name: str
    inhabitants: int


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("never")


def endless(env: StreamExecutionEnvironment, *script: Any) -> Any:
    return env.from_source(ScriptedSource(script, endless=True), NO_TIME, "endless")


# ---- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "table"),
    [
        (
            [Payment("ada", 1.5), Payment("grace", -20.0)],
            """
            account  amount
            -------  ------
            ada         1.5
            grace     -20.0
            """,
        ),
        (
            [("to", 2), ("be", 10)],
            """
            f0  f1
            --  --
            to   2
            be  10
            """,
        ),
        (
            [City("Oslo", 709_000), City("東京", 14_000_000)],
            """
            name  inhabitants
            ----  -----------
            Oslo       709000
            東京     14000000
            """,
        ),
        (
            [Row(id=1, ok=True), Row(id=22, ok=None)],
            """
            id  ok
            --  ----
             1  True
            22  None
            """,
        ),
        (
            [Row("a", 1)],
            """
            f0  f1
            --  --
            a    1
            """,
        ),
        (
            [{"a": 1}, {"b": "x", "a": 2}, {}],
            """
            a   b
            --  -
            1
            2   x
            {}
            """,
        ),
        (
            [1, None, decimal.Decimal("2.50")],
            """
            value
            -----
                1
             None
             2.50
            """,
        ),
        (
            [datetime.date(2026, 1, 2), b"raw", [1, "a"], {1: 2}],
            """
            value
            ----------
            2026-01-02
            b'raw'
            [1, 'a']
            {1: 2}
            """,
        ),
        (
            [("a", 1), {"f0": "b"}],
            """
            value
            -----------
            ('a', 1)
            {'f0': 'b'}
            """,
        ),
        (
            ["line\nbreak", "\x1b[31mred", "e\u0301te\u0301", "👩‍🚀", Unprintable()],
            """
            value
            ----------------------------------------
            line\\nbreak
            \\x1b[31mred
            e\u0301te\u0301
            👩\\u200d🚀
            <Unprintable, whose repr() raises Runti…
            """,
        ),
        (
            [(None, 1), None],
            """
            f0    f1
            ----  --
            None   1
            None
            """,
        ),
    ],
)
def test_records_stand_in_aligned_columns(records: list[Any], table: str) -> None:
    found = text_table(columns_of(records), records) + "\n"
    assert found == textwrap.dedent(table).removeprefix("\n")


def test_long_cells_are_cut_off_by_their_width() -> None:
    table = text_table(("value",), ["x" * 100, "京" * 100, "x" * 40])
    assert table.splitlines()[2:] == ["x" * 39 + "…", "京" * 19 + "…", "x" * 40]


@pytest.mark.parametrize(
    ("declared", "columns"),
    [
        (Types.of(Payment), ("account", "amount")),
        (Types.of(City), ("name", "inhabitants")),
        (Types.ROW_NAMED(["a", "b"], [int, str]), ("a", "b")),
        (Types.ROW([int]), ("f0",)),
        (Types.of(tuple[int, str]), ("f0", "f1")),
        (Types.STRING(), ("value",)),
        (None, ("value",)),
    ],
)
def test_without_records_the_columns_are_those_of_the_type(
    declared: TypeInformation | None, columns: tuple[str, ...]
) -> None:
    assert columns_of([], declared) == columns_of([None], declared) == columns


def test_an_annotation_that_lies_does_not_spoil_the_table() -> None:
    assert columns_of([("a", 1)], Types.of(Payment)) == ("f0", "f1")


def test_everything_in_html_is_escaped() -> None:
    records = [{"<b>": "<script>alert('x')</script>", "n": 1}, {"<b>": "&amp;\n", "n": 2}]
    assert html_table(columns_of(records), records) == (
        "<table><thead><tr><th>&lt;b&gt;</th><th>n</th></tr></thead><tbody>"
        "<tr><td>&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;</td>"
        '<td style="text-align: right">1</td></tr>'
        '<tr><td>&amp;amp;\\n</td><td style="text-align: right">2</td></tr>'
        "</tbody></table>"
    )


def preview_of(*records: Any, complete: bool = False, more: bool = False) -> Preview[Any]:
    return Preview(records, columns_of(records), complete, more, Duration.of_millis(840))


@pytest.mark.parametrize(
    ("preview", "note"),
    [
        (preview_of(1, 2, 3, more=True), "3 records in 0.8 s, more follow"),
        (preview_of(1, 2), "2 records in 0.8 s, more may follow"),
        (preview_of(1), "1 record in 0.8 s, more may follow"),
        (preview_of(), "no records in 0.8 s, more may follow"),
        (preview_of(1, 2, 3, complete=True), "all 3 records"),
        (preview_of(1, complete=True), "1 record, the stream has ended"),
        (preview_of(complete=True), "no records, the stream has ended"),
    ],
)
def test_the_last_line_says_how_many_and_whether_that_is_all(preview: Preview[Any], note: str) -> None:
    assert str(preview) == repr(preview)
    assert str(preview).splitlines()[-2:] == ["", note]
    assert preview._repr_html_().endswith(f"</table><p>{note}</p>")


def test_a_preview_is_a_value() -> None:
    preview = preview_of(1, 2)
    assert (list(preview), len(preview), preview.records) == ([1, 2], 2, (1, 2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        preview.records = ()  # type: ignore[misc]


# ---- running ---------------------------------------------------------------------------------------------------------


def test_a_script_writes_the_table_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    env = in_process()
    preview = env.from_collection([("to", 2), ("be", 10)]).preview(timeout=PATIENCE)
    assert capsys.readouterr().out == "f0  f1\n--  --\nto   2\nbe  10\n\nall 2 records\n"
    assert (preview.records, preview.is_complete, preview.has_more) == ((("to", 2), ("be", 10)), True, False)
    assert preview.columns == ("f0", "f1")
    assert 0 <= preview.elapsed.to_millis() < 1000 * PATIENCE


@pytest.mark.parametrize("interactive", ["python", "ipython"])
def test_who_shows_values_anyway_gets_no_second_table(
    interactive: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if interactive == "python":
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    else:
        monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=object))  # type: ignore[arg-type]
    preview = in_process().from_collection([1]).preview(timeout=PATIENCE)
    assert capsys.readouterr().out == ""
    assert repr(preview) == "value\n-----\n    1\n\n1 record, the stream has ended"


def test_ipython_that_is_only_imported_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    imported = types.SimpleNamespace(get_ipython=lambda: None)
    monkeypatch.setitem(sys.modules, "IPython", imported)  # type: ignore[arg-type]
    in_process().from_collection([1]).preview(timeout=PATIENCE)
    assert capsys.readouterr().out != ""


def test_a_terminal_that_knows_few_letters_gets_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    in_process().from_collection(["京"]).preview(timeout=PATIENCE)
    assert terminal.buffer.getvalue().decode("ascii").splitlines()[2] == "\\u4eac"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("size", "n", "complete", "more"),
    [(3, 5, True, False), (3, 3, True, False), (3, 2, False, True), (0, 1, True, False)],
)
def test_at_most_n_records_are_taken(
    size: int, n: int, complete: bool, more: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_preview, "SETTLING_SECONDS", PATIENCE)
    preview = in_process(parallelism=2).from_collection(range(size)).preview(n)
    assert preview.records == tuple(range(min(n, size)))
    assert (preview.is_complete, preview.has_more) == (complete, more)


def test_an_empty_stream_shows_the_columns_of_its_type(capsys: pytest.CaptureFixture[str]) -> None:
    in_process().from_collection([], Payment).preview(timeout=PATIENCE)
    assert capsys.readouterr().out == "account  amount\n-------  ------\n\nno records, the stream has ended\n"


def test_an_endless_stream_is_cancelled_when_time_is_up() -> None:
    others = set(threading.enumerate())  # other tests of this process may have left some
    preview = endless(in_process()).preview(5, "200 ms")
    assert (preview.records, preview.is_complete, preview.has_more) == ((), False, False)
    assert 200 <= preview.elapsed.to_millis() < 1000 * PATIENCE
    for thread in set(threading.enumerate()) - others:
        if thread.name.startswith("flott-"):
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"the job goes on in {thread.name}"


def test_what_has_come_when_time_is_up_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def until_two_came(sample: Sample[Any], seconds: float) -> None:
        with sample._changed:
            sample._changed.wait_for(lambda: len(sample._records) == 2, PATIENCE)

    monkeypatch.setattr(Sample, "wait", until_two_came)
    preview = endless(in_process(), 1, 2).preview(5)
    assert (preview.records, preview.is_complete, preview.has_more) == ((1, 2), False, False)
    assert capsys.readouterr().out.endswith(" s, more may follow\n")


def test_an_endless_stream_is_cancelled_when_there_is_enough() -> None:
    preview = endless(in_process(), 1, EndOfEpoch(), 2, EndOfEpoch(), 3).preview(2, timeout=PATIENCE)
    assert (preview.records, preview.is_complete) == ((1, 2), False)
    assert preview.elapsed.to_millis() < 1000 * PATIENCE


def test_records_of_several_epochs_come_in_order() -> None:
    env = in_process(flott__epoch__max_records="3")
    assert env.from_collection(range(100)).preview(50).records == tuple(range(50))


def test_other_sinks_do_not_run_and_the_program_stays_as_it_was() -> None:
    env = in_process()
    seen: list[Any] = []
    numbers = env.from_collection([1, 2])
    doubled = numbers.map(lambda n: n * 2)
    doubled.sink_to(CallableSink(seen.append))
    before = str(env.get_stream_graph())
    assert numbers.preview(timeout=PATIENCE).records == (1, 2)
    assert sorted(doubled.preview(timeout=PATIENCE).records) == [2, 4]
    assert seen == []
    assert str(env.get_stream_graph()) == before
    env.execute()
    assert sorted(seen) == [2, 4]


def test_what_does_not_lead_to_the_stream_does_not_run() -> None:
    env = in_process()
    numbers = env.from_collection([1])
    failing = numbers.map(lambda n: n / 0)
    failing.print()
    assert numbers.preview(timeout=PATIENCE).records == (1,)


def test_a_failure_is_raised_at_once_although_the_program_would_be_restarted() -> None:
    env = in_process(restart_strategy__type="fixed-delay", restart_strategy__fixed_delay__delay="1 h")
    env.enable_checkpointing(1000)
    with pytest.raises(JobFailedError, match="ZeroDivisionError"):
        endless(env, 1).map(lambda n: n / 0).preview(timeout=60)


def test_a_failure_behind_the_last_record_that_was_wanted_is_none() -> None:
    stream = endless(in_process(), 1, EndOfEpoch(), 0).map(lambda n: 1 / n)
    assert stream.preview(1).records == (1.0,)
    with pytest.raises(JobFailedError, match="ZeroDivisionError"):
        stream.preview(2)


def test_a_preview_leaves_the_checkpoint_directory_alone(tmp_path: Path) -> None:
    env = in_process(
        execution__checkpointing__dir=str(tmp_path),
        execution__state_recovery__from_latest="true",
        execution__checkpointing__externalized_checkpoint_retention="RETAIN_ON_CANCELLATION",
    )
    assert endless(env, 1).preview(1).records == (1,)
    assert list(tmp_path.iterdir()) == []


def test_operators_without_a_uid_are_no_obstacle_where_all_need_one() -> None:
    env = in_process(pipeline__auto_generate_uids="false")
    assert env.from_collection([1]).uid("numbers").preview(timeout=PATIENCE).records == (1,)


class Aside(ProcessFunction[Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield OutputTag("aside"), value


def test_streams_of_every_kind_have_a_preview() -> None:
    env = in_process(parallelism=3)
    words = env.from_collection(["b", "a", "b"])
    for same in (words.key_by(lambda word: word), words.rebalance(), words.broadcast(), words.map(str).forward()):
        assert sorted(same.preview(timeout=PATIENCE).records) == ["a", "b", "b"]
    assert sorted(words.union(words).preview(timeout=PATIENCE).records) == ["a", "a", "b", "b", "b", "b"]
    assert sorted(words.key_by(lambda word: word).reduce(lambda a, b: a + b).preview().records) == ["a", "b", "bb"]
    assert sorted(words.process(Aside()).get_side_output(OutputTag("aside", str)).preview().records) == ["a", "b", "b"]


def test_a_preview_can_be_repeated_and_the_program_run_afterwards() -> None:
    stream = in_process().from_collection(range(1000))
    assert [stream.preview(2).records for _ in range(3)] == [(0, 1)] * 3
    assert len(collect(stream)) == 1000


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "5 s", None])
def test_a_number_of_records_is_a_whole_number_of_at_least_one(n: Any) -> None:
    with pytest.raises(ProgramError, match="a number of records of at least 1"):
        in_process().from_collection([1]).preview(n)


# ---- time, settings, gathering ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [
        ("5s", 5.0),
        ("500 ms", 0.5),
        ("PT1M", 60.0),
        (3, 3.0),
        (0.25, 0.25),
        (Duration.of_seconds(2), 2.0),
        (Time.milliseconds(1500), 1.5),
        (datetime.timedelta(minutes=1), 60.0),
    ],
)
def test_a_timeout_is_a_duration_in_many_forms(timeout: Any, seconds: float) -> None:
    assert timeout_seconds(timeout) == seconds


@pytest.mark.parametrize("timeout", [0, -1, "0 s", "soon", "5", None, True, float("nan"), float("inf"), [5]])
def test_a_timeout_is_refused_that_is_none(timeout: Any) -> None:
    with pytest.raises(ProgramError, match='a duration such as "5s", or a number of seconds'):
        timeout_seconds(timeout)


def test_only_a_cluster_s_preview_keeps_the_directory() -> None:
    configured = {
        "state.checkpoints.dir": "/shared",
        "execution.savepoint.path": "/old",
        "execution.state-recovery.from-latest": "true",
        "flott.epoch.initial-records": "1000000",
        "parallelism.default": "7",
    }
    local = preview_configuration(Configuration.of(configured), 20)
    assert not local.contains(options.CHECKPOINT_DIR)
    assert not local.contains(options.RECOVERY_PATH)
    assert options.read(local, options.RECOVER_FROM_LATEST) is False
    assert options.read(local, options.EPOCH_INITIAL_RECORDS) == 200
    assert options.read(local, options.PARALLELISM) == 7
    cluster = preview_configuration(Configuration.of({**configured, "spark.master": "spark://there:7077"}), 5000)
    assert options.read(cluster, options.CHECKPOINT_DIR) == "/shared"
    assert options.read(cluster, options.EPOCH_INITIAL_RECORDS) == 5000
    assert not cluster.contains(options.RECOVERY_PATH)
    session = preview_configuration(Configuration.of({**configured, "execution.target": "remote"}), 20)
    assert options.read(session, options.CHECKPOINT_DIR) == "/shared", "its executors may be anywhere"


def test_a_sample_holds_one_record_more_than_wanted_at_most() -> None:
    sample: Sample[int] = Sample(2)
    sample.receive([1])
    sample.wait(0.001)
    assert sample.taken() == [1]
    sample.receive([2, 3, 4])
    sample.receive([5])
    sample.wait(PATIENCE)
    assert sample.taken() == [1, 2, 3]


def test_tasks_send_no_more_than_the_limit() -> None:
    writer: Any = SampleSink(3, None).create_writer(None)  # type: ignore[arg-type]
    writer.write([1, 2], None)
    writer.write([3, 4], None)
    writer.write([5], None)
    assert writer.values == [1, 2, 3]


def test_a_job_cancelled_by_somebody_else_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[executors.BackgroundJob] = []
    submit = executors.Executor.submit

    def submit_and_cancel(*args: Any) -> Any:
        started.append(submit(*args))  # type: ignore[arg-type]
        started[-1].cancel().result(PATIENCE)
        return started[-1]

    monkeypatch.setattr(executors.Executor, "submit", submit_and_cancel)
    with pytest.raises(JobCancelledError):
        endless(in_process(), 1).preview(5)

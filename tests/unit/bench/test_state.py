"""The benchmark of large state: its stream is what it says it is, and Flott's runners do their work when tiny."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import plan, progress, readme, report, state
from bench.__main__ import _kept
from bench.runners import (
    command,
    flott_checkpoint,
    flott_rescale,
    flott_restore,
    flott_state,
    flott_totals,
    limit_state,
)

IN_PROCESS = {"execution.target": "in-process", "flott.storage.sync": "false"}


def request(workload: str, scratch: Path, variant: str = "", **settings: str) -> command.Request:
    return command.Request(
        workload=workload, records=0, seconds=0.0, repeats=2, cores=2, variant=variant,
        settings={**IN_PROCESS, **settings}, shrink=1_000, scratch=scratch,
    )  # fmt: skip


# --- the stream ------------------------------------------------------------------------------------------------------

STREAMS = st.builds(
    state.Stream.of,
    st.sampled_from(state.THROUGHPUT),
    epochs=st.integers(1, 3),
    ranges=st.integers(1, 4),
    shrink=st.sampled_from([1_000, 2_000, 5_000]),
    in_epochs=st.booleans(),
)


def keys(stream: state.Stream, start: int, stop: int) -> list[list[int]]:
    """The keys that each range has between two positions."""
    make = stream.maker()
    return [[make(i)[0] for i in stream.numbers(part, start, stop)] for part in range(stream.ranges)]


@given(STREAMS)
def test_the_fill_touches_every_key_and_no_two_ranges_share_one(stream: state.Stream) -> None:
    ranges = [set(part) for part in keys(stream, 0, stream.fill)]
    assert set().union(*ranges) == set(range(stream.keys))
    assert sum(map(len, ranges)) == stream.keys


@given(STREAMS)
def test_every_epoch_has_as_many_records_and_touches_just_so_many_keys(stream: state.Stream) -> None:
    filled = [set(part) for part in keys(stream, 0, stream.fill)]
    for epoch in range(stream.epochs):
        start = stream.fill + epoch * stream.epoch_records
        ranges = keys(stream, start, start + stream.epoch_records)
        assert sum(map(len, ranges)) == stream.epoch_records
        assert len(set().union(*ranges)) == stream.touched
        assert all(set(part) <= held for part, held in zip(ranges, filled, strict=True))


def test_epochs_of_all_sizes_have_as_many_records_and_no_fewer_keys_than_the_small_state_has() -> None:
    streams = [state.Stream.of(size, 1, 2) for size in state.THROUGHPUT]
    assert {stream.epoch_records for stream in streams} == {500_000}
    assert [stream.keys for stream in streams] == [10_000, 1_000_000, 5_000_000]
    assert [stream.touched for stream in streams] == [10_000, 10_000, 50_000]


def test_epochs_that_follow_each_other_touch_different_keys() -> None:
    stream = state.Stream.of("state_1m", epochs=2, ranges=2, shrink=100)
    first, second = stream.fill, stream.fill + stream.epoch_records
    one, two = keys(stream, first, second), keys(stream, second, stream.records)
    assert not set().union(*one) & set().union(*two)


# --- the runners -----------------------------------------------------------------------------------------------------


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few epochs are enough to see it work."""
    monkeypatch.setattr(flott_state, "WARM_UP_EPOCHS", 1)
    monkeypatch.setattr(flott_state, "STRETCH_EPOCHS", 2)
    monkeypatch.setattr(flott_rescale, "WARM_UP_EPOCHS", 4)
    monkeypatch.setattr(flott_rescale, "EPOCHS_BETWEEN", 4)


@pytest.mark.parametrize("variant", ["", "rocksdb"])
@pytest.mark.usefixtures("short")
def test_throughput_is_measured_after_the_fill(tmp_path: Path, variant: str) -> None:
    found: dict[str, Any] = flott_state.measure(request("state_1m", tmp_path, variant))
    assert len(found["rates"]) == 2
    assert min(found["rates"]) > 0
    assert len(found["epoch_milliseconds"]) == 2 * flott_state.STRETCH_EPOCHS
    assert 0 < found["written_bytes"] < found["full_bytes"]


def test_checkpoints_count_from_the_record_at_which_the_state_is_full() -> None:
    epochs = [flott_totals.Epoch(n, float(n), records, 0, 0) for n, records in enumerate([5, 5, 3, 7, 1])]
    assert [epoch.number for epoch in flott_totals.behind(epochs, 10)] == [1, 2, 3]
    assert [epoch.number for epoch in flott_totals.behind(epochs, 12)] == [2, 3]


@pytest.mark.parametrize("variant", ["", "rocksdb"])
def test_a_checkpoint_is_the_larger_the_more_keys_have_changed(tmp_path: Path, variant: str) -> None:
    found: Any = flott_checkpoint.measure(request("checkpoint", tmp_path, variant))
    sizes = [change["bytes"] for change in found["changes"]]
    assert [change["touched"] for change in found["changes"]] == [1, 10, 100, 1_000]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1] == pytest.approx(found["full_bytes"], rel=0.2)


def test_a_restore_is_set_against_a_start_without_state(tmp_path: Path) -> None:
    found: Any = flott_restore.measure(request("restore_1m", tmp_path, "rocksdb"))
    assert len(found["milliseconds"]) == len(found["empty_milliseconds"]) == 3
    assert found["full_bytes"] > 0
    assert set(found["alone_milliseconds"]) == {"read", "decode", "pickle"}


@pytest.mark.usefixtures("short")
def test_the_gaps_of_rescales_are_found(tmp_path: Path) -> None:
    found: Any = flott_rescale.measure(request("rescale", tmp_path))
    assert [(gap["from"], gap["to"]) for gap in found["gaps"]] == [(2, 4), (4, 2)]
    assert all(gap["milliseconds"] > 0 and gap["epochs"] > 0 for gap in found["gaps"])


def test_the_bare_loop_does_the_same_work(tmp_path: Path) -> None:
    found: Any = limit_state.measure(request("state_5m", tmp_path))
    assert len(found["rates"]) == 2
    assert found["keys"] == 5_000


def test_rates_by_progress_leave_out_what_came_before() -> None:
    slow_then_fast = [(n, float(n)) for n in range(10, 51, 10)] + [(n, 50 + (n - 50) / 2) for n in range(60, 101, 10)]
    assert progress.stretch_rates([slow_then_fast, slow_then_fast], 0.5, 1) == [4.0]
    assert progress.stretch_rates([slow_then_fast], 0.0, 2) == [1.0, 2.0]


# --- the plan and the report -----------------------------------------------------------------------------------------


def test_a_family_stands_for_its_workloads_and_each_runs_once() -> None:
    assert plan.named(["keyed_sum", "state", "rescale"]) == ["keyed_sum", *state.WORKLOADS]
    chosen = plan.measurements(plan.named(["state"]), list(plan.RUNNERS))
    assert len(chosen) == len(set(chosen))
    assert {workload for workload, _ in chosen} == set(state.WORKLOADS)


def test_the_state_family_takes_less_than_25_minutes() -> None:
    chosen = plan.measurements(plan.named(["state"]), list(plan.RUNNERS))
    assert plan.expected_seconds(chosen, [], quick=False) < 25 * 60


def test_the_last_run_says_how_long_the_next_one_takes() -> None:
    last = [{"workload": "rescale", "runner": "flott", "took_seconds": 7.0}]
    assert plan.expected_seconds([("rescale", "flott")], last, quick=False) == 7.0


def test_no_size_of_state_is_kept_from_an_earlier_run_than_another() -> None:
    last = [{"workload": workload, "runner": "flott"} for workload in ("keyed_sum", "state_10k", "state_5m", "rescale")]
    kept = _kept([("state_5m", "flott")], last)
    assert [result["workload"] for result in kept] == ["keyed_sum", "rescale"]


RESULTS = [
    {"workload": "state_10k", "runner": "flott", "rates": [2e6]},
    {"workload": "state_5m", "runner": "flott", "rates": [1.5e6]},
    {"workload": "state_5m", "runner": "flott-rocksdb", "missing": "no disk"},
    {"workload": "state_10k", "runner": "limit", "rates": [4e6]},
    {
        "workload": "checkpoint",
        "runner": "flott",
        "changes": [{"share": 0.01, "bytes": 70_000, "milliseconds": [9.0, 10.0, 30.0]}],
    },
    {
        "workload": "restore_5m",
        "runner": "flott",
        "milliseconds": [1_500.0],
        "full_bytes": 30e6,
        "megabytes_per_second": 20.0,
        "alone_milliseconds": {"read": 4.0, "decode": 500.0, "pickle": 1_100.0},
    },
    {
        "workload": "rescale",
        "runner": "flott",
        "milliseconds": [700.0],
        "gaps": [{"milliseconds": 700.0, "epochs": 1.4}, {"milliseconds": 900.0, "epochs": 1.2}],
    },
]


def document(results: list[dict[str, Any]]) -> dict[str, Any]:
    return {"machine": dict.fromkeys(("cores", "python", "spark", "java", "flink", "date"), "x"), "results": results}


def row(title: str) -> str:
    return next(line for line in readme.block(document(RESULTS)).splitlines() if line.startswith(f"| {title}"))


def test_the_readme_shows_rates_by_size_and_what_was_not_measured() -> None:
    assert row("10,000 keys").split(" | ")[1:4] == ["2.00 M", "not measured", "4.00 M (0.50×)"]
    assert row("5 million keys |").split(" | ")[1:3] == ["1.50 M", "missing"]
    assert row("5 million keys against").split(" | ")[1] == "0.75×"


def test_the_readme_shows_what_checkpoint_restore_and_rescale_cost() -> None:
    assert row("checkpoint, 1.0%") == "| checkpoint, 1.0% of 1 million keys changed | 70 kB in 10 ms | missing |"
    assert row("restore, 5 million") == "| restore, 5 million keys | 30.0 MB in 1.5 s, 20 MB/s | missing |"
    assert row("longest gap") == "| longest gap at a rescale, 1 million keys | 700 ms, 1.4 epochs | missing |"
    text = readme.block(document(RESULTS))
    assert "reading the files alone takes 4 ms" in text
    assert "takes 1.1 s" in text


def test_a_readme_without_measurements_of_state_says_nothing_of_it() -> None:
    assert "rocksdb" not in readme.block(document([]))


def test_the_decline_with_the_size_of_the_state_is_a_ratio_of_its_own() -> None:
    assert report.ratios(RESULTS)["state"] == {"flott state_5m/state_10k": 0.75}

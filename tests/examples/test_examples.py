"""Every program in examples/ runs and prints what it should: in-process here, a few as a user runs them, on Spark.

What an example prints stands in ``expected/<its name>.txt``. An example without such a file fails: run it, judge what
it prints, and keep that. Lines are compared sorted where their order is not promised, and without what differs from run
to run: the number of a subtask, and how long something took.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from flott.testing import in_process
from tests.spark.driver_process import DriverProcess

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
EXPECTED = Path(__file__).parent / "expected"
#: Examples that start a server: tests/connectors runs them.
WITH_A_SERVER = {"kafka_demo"}
NAMES = sorted(
    {path.relative_to(EXAMPLES).with_suffix("").as_posix() for path in EXAMPLES.rglob("*.py")} - WITH_A_SERVER
)

#: What an example is given beside its environment, so that it ends, and soon.
ARGUMENTS: dict[str, tuple[Any, ...]] = {"demo": (2,), "streaming_word_count": (60, 1_000_000)}

#: Examples that promise the order of what they print: no two keys, subtasks or sinks take turns in them.
IN_ORDER = {
    "async_model_inference", "basic_operations", "broadcast_state", "preview", "state_access", "testing_an_operator",
    "windowing/cumulative_window", "windowing/evictor", "windowing/sliding_count_window",
}  # fmt: skip

SUBTASK = re.compile(r"^((?:.*:)?)\d+(> )", re.MULTILINE)
ELAPSED = re.compile(r"\bin \d+\.\d s\b")


def lines_of(printed: str, name: str) -> list[str]:
    """What an example printed, as far as it is promised."""
    lines = ELAPSED.sub("in a moment", SUBTASK.sub(r"\1\2", printed)).splitlines()
    return lines if name in IN_ORDER else sorted(lines)


def expected(name: str) -> str:
    file = EXPECTED / f"{name}.txt"
    assert file.exists(), f"examples/{name}.py is new: keep what it prints, once it is right, in {file}"
    return file.read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_an_example_prints_what_it_should(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    env = in_process(parallelism=2)
    main = import_module(f"examples.{name.replace('/', '.')}").main
    main(*([env] if "env" in inspect.signature(main).parameters else []), *ARGUMENTS.get(name, ()))
    assert lines_of(capsys.readouterr().out, name) == lines_of(expected(name), name)


def test_nothing_is_expected_of_examples_that_do_not_exist() -> None:
    kept = {path.relative_to(EXPECTED).with_suffix("").as_posix() for path in EXPECTED.rglob("*.txt")}
    assert kept == set(NAMES)


def test_the_list_of_examples_names_every_example_once() -> None:
    listed = re.findall(r"\]\(([\w/]+)\.py\)", (EXAMPLES / "README.md").read_text("utf-8"))
    assert sorted(listed) == sorted({*NAMES, *WITH_A_SERVER})


def test_an_example_can_be_run_by_itself() -> None:
    for name in NAMES:
        text = (EXAMPLES / f"{name}.py").read_text("utf-8")
        assert 'if __name__ == "__main__":\n' in text, f"examples/{name}.py does nothing when it is run"
        assert f"examples/{name}.py" in text or name == "demo", f"examples/{name}.py does not say how to run it"


@pytest.mark.spark
@pytest.mark.parametrize("name", ["windowing/late_records", "interval_join", "savepoint_and_restore", "rocksdb_state"])
def test_an_example_prints_the_same_on_spark(name: str, tmp_path: Path) -> None:
    ended = DriverProcess([str(EXAMPLES / f"{name}.py")], tmp_path).wait(300).expect_success()
    assert lines_of(ended.stdout, name) == lines_of(expected(name), name)


@pytest.mark.spark
def test_the_demo_rescales_a_running_job_and_its_results_are_exact(tmp_path: Path) -> None:
    ended = DriverProcess([str(EXAMPLES / "demo.py"), "12"], tmp_path).wait(300).expect_success()
    rescaled = re.search(r"^-- rescaled while it runs, from (\d+) to (\d+) subtasks", ended.stdout, re.MULTILINE)
    assert rescaled is not None, ended.stdout
    assert f": {rescaled[1]} -> {rescaled[2]} (" in ended.stderr, "the job's own lines show it"
    assert "-- savepoint taken while it runs" in ended.stdout
    assert "results are exact" in ended.stdout
    assert "0 restarts" in ended.stderr

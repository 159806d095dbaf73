"""How a Python worker finds out which executor it belongs to. No Spark: the facts are made up."""

from __future__ import annotations

from pathlib import Path

from flott.runtime.spark.worker_place import executor_above, executor_in


def test_the_environment_tells_on_kubernetes_and_on_a_standalone_cluster() -> None:
    assert executor_in({"SPARK_EXECUTOR_ID": "7"}) == "7"
    url = "http://host:8081/logPage/?appId=app-1&executorId=12&logType=stderr"
    assert executor_in({"SPARK_LOG_URL_STDERR": url}) == "12"
    assert executor_in({}) is None


def _process(folder: Path, process: int, parent: int, *words: str, name: str = "java") -> None:
    (folder / str(process)).mkdir()
    (folder / str(process) / "cmdline").write_text("\0".join(words) + "\0")
    (folder / str(process) / "stat").write_text(f"{process} ({name}) S {parent} 1 1 0")


def test_elsewhere_the_command_line_of_the_executor_tells(tmp_path: Path) -> None:
    _process(tmp_path, 30, 20, "python", "-m", "pyspark.daemon", name="a (strange) name")
    _process(tmp_path, 20, 10, "java", "YarnCoarseGrainedExecutorBackend", "--executor-id", "3")
    _process(tmp_path, 10, 1, "bash")
    assert executor_above(30, tmp_path) == "3"


def test_in_local_mode_no_ancestor_is_an_executor(tmp_path: Path) -> None:
    _process(tmp_path, 30, 20, "python", "-m", "pyspark.daemon")
    _process(tmp_path, 20, 1, "java", "org.apache.spark.deploy.SparkSubmit")
    assert executor_above(30, tmp_path) is None
    assert executor_above(99, tmp_path) is None

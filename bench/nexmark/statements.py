"""The statements of a measurement, the same for every engine that speaks Flink's dialect."""

from __future__ import annotations

from pathlib import Path

from bench.nexmark.queries import EVENTS, QUERIES, VIEWS


def prepare(query: str, folder: Path, file_format: str) -> list[str]:
    """Return the statements that define events, views and the sink of a query."""
    options = f"'connector' = 'filesystem', 'path' = 'file://{folder}/{file_format}', 'format' = '{file_format}'"
    if file_format == "json":
        options += ", 'json.timestamp-format.standard' = 'SQL'"
    return [EVENTS.format(options=options), *VIEWS, QUERIES[query].sink("sink", "blackhole")]


def insert(query: str) -> str:
    """Return the statement that is measured."""
    return f"INSERT INTO sink {QUERIES[query].select}"


def settings(backend: str, mini_batch: bool, checkpoints: Path, interval: str) -> dict[str, str]:
    """Return the settings of both engines."""
    found = {
        "parallelism.default": "2",
        "state.backend.type": backend,
        "execution.checkpointing.interval": interval,
        "execution.checkpointing.dir": f"file://{checkpoints}",
    }
    if mini_batch:
        found |= {
            "table.exec.mini-batch.enabled": "true",
            "table.exec.mini-batch.allow-latency": "2 s",
            "table.exec.mini-batch.size": "50000",
            "table.optimizer.distinct-agg.split.enabled": "true",
        }
    return found

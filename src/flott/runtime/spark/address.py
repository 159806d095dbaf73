"""Where a process finds the Spark application of another one. Data: it imports nothing of Spark's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SparkAddress:
    """Where another process of this machine finds the application."""

    port: int
    secret: str
    python: str  #: the interpreter of the workers
    archives: tuple[str, ...]  #: names of the Python archives every worker needs

    def __repr__(self) -> str:
        return f"SparkAddress({self.port})"  # the secret is nobody's business

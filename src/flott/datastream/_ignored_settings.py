"""Settings of PyFlink's environment that change nothing in Flott: accepted, so that programs port, and said aloud.

Each call is answered by one line on the logger ``flott.porting``. What cannot be accepted without changing what the
program computes is refused instead, in ``stream_execution_environment``. Driver side.
"""

from __future__ import annotations

import logging
from typing import Self

_porting = logging.getLogger("flott.porting")


def without_effect(call: str, reason: str) -> None:
    """Tell somebody who ports a program that a call does nothing here, and why."""
    _porting.warning("%s has no effect in Flott: %s.", call, reason)


class IgnoredSettings:
    """The part of the environment that only remembers."""

    def __init__(self) -> None:
        self._buffer_timeout_ms = 100  # Flink's default
        self._changelog_enabled: bool | None = None

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Accepted for ported programs."""
        self._buffer_timeout_ms = timeout_millis
        without_effect(
            f"set_buffer_timeout({timeout_millis})",
            "records wait for nothing but the end of their epoch; see flott.epoch.target-duration",
        )
        return self

    def get_buffer_timeout(self) -> int:
        """What was set, in milliseconds."""
        return self._buffer_timeout_ms

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Accepted for ported programs."""
        self._changelog_enabled = enabled
        without_effect(
            f"enable_changelog_state_backend({enabled})", "checkpoints hold what changed since the last one in any case"
        )
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """What was set; ``None`` if nothing was."""
        return self._changelog_enabled

    def set_python_executable(self, python_exec: str) -> None:
        """Accepted for ported programs."""
        without_effect(
            f"set_python_executable({python_exec!r})",
            "Spark starts the workers; set the environment variable PYSPARK_PYTHON",
        )

    def add_jars(self, *jars_path: str) -> None:
        """Accepted for ported programs."""
        without_effect(f"add_jars({', '.join(map(repr, jars_path))})", "its connectors are written in Python")

    def add_classpaths(self, *classpaths: str) -> None:
        """Accepted for ported programs."""
        without_effect(f"add_classpaths({', '.join(map(repr, classpaths))})", "its connectors are written in Python")

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Accepted for ported programs."""
        without_effect(
            f"register_cached_file({file_path!r}, {name!r})",
            "Python functions cannot ask for a cached file; read it in open(), or set spark.files",
        )

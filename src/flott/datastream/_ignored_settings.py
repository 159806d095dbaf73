"""Settings of PyFlink's environment without effect in Flott. They are accepted, so that programs port. Driver side.

Each call logs one line on the logger ``flott.porting``. A setting that would change the results is refused instead, in
``stream_execution_environment``.
"""

from __future__ import annotations

import logging
from typing import Self

_porting = logging.getLogger("flott.porting")


def without_effect(call: str, reason: str) -> None:
    """Log that a call has no effect, and why."""
    _porting.warning("%s has no effect in Flott: %s.", call, reason)


def only_pipelined(call: str, reason: str) -> None:
    """Log that a call has no effect in epochs, and why."""
    _porting.warning("%s has an effect in pipelined jobs only (execution.mode): %s.", call, reason)


class IgnoredSettings:
    """The settings of the environment that have no effect."""

    def __init__(self) -> None:
        self._changelog_enabled: bool | None = None

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Accept and ignore the setting, for ported programs."""
        self._changelog_enabled = enabled
        without_effect(
            f"enable_changelog_state_backend({enabled})", "checkpoints hold what changed since the last one in any case"
        )
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Return the value that was set, or ``None``."""
        return self._changelog_enabled

    def set_python_executable(self, python_exec: str) -> None:
        """Accept and ignore the setting, for ported programs."""
        without_effect(
            f"set_python_executable({python_exec!r})",
            "Spark starts the workers; set the environment variable PYSPARK_PYTHON",
        )

    def add_jars(self, *jars_path: str) -> None:
        """Accept and ignore the setting, for ported programs."""
        without_effect(f"add_jars({', '.join(map(repr, jars_path))})", "its connectors are written in Python")

    def add_classpaths(self, *classpaths: str) -> None:
        """Accept and ignore the setting, for ported programs."""
        without_effect(f"add_classpaths({', '.join(map(repr, classpaths))})", "its connectors are written in Python")

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Accept and ignore the setting, for ported programs."""
        without_effect(
            f"register_cached_file({file_path!r}, {name!r})",
            "Python functions cannot ask for a cached file; read it in open(), or set spark.files",
        )

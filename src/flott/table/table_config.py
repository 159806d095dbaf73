"""Options of a table environment, which programs change between statements."""

from __future__ import annotations

import datetime
import sys

from flott.common.configuration import Configuration
from flott.errors import ProgramError
from flott.table.sql_dialect import SqlDialect

__all__ = ["TableConfig"]

_TIME_ZONE = "table.local-time-zone"
_TTL = "table.exec.state.ttl"
_CODE_LENGTH = "table.generated-code.max-length"
_PYTHON = "python.executable"


class TableConfig:
    """Options by their names, and methods for some of them.

    >>> TableConfig().set("table.exec.mini-batch.enabled", "true").get("table.exec.mini-batch.enabled", "false")
    'true'
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    @staticmethod
    def get_default() -> TableConfig:
        """Return options that are all unset."""
        return TableConfig()

    def get(self, key: str, default_value: str) -> str:
        """Return an option."""
        return self._configuration.get_string(key, default_value)

    def set(self, key: str, value: str) -> TableConfig:
        """Set an option."""
        self._configuration.set_string(key, str(value))
        return self

    def get_local_timezone(self) -> str:
        """Return the time zone of the session, in which TIMESTAMP_LTZ is shown."""
        return self.get(_TIME_ZONE, "UTC")

    def set_local_timezone(self, timezone_id: str) -> None:
        """Set the time zone of the session: a name such as Europe/Berlin, or an offset such as GMT+08:00."""
        self.set(_TIME_ZONE, timezone_id)

    def get_max_generated_code_length(self) -> int:
        """Return an option that only Flink's code generation uses."""
        return int(self.get(_CODE_LENGTH, "4000"))

    def set_max_generated_code_length(self, max_generated_code_length: int) -> None:
        """Set an option that only Flink's code generation uses."""
        self.set(_CODE_LENGTH, str(max_generated_code_length))

    def get_idle_state_retention(self) -> datetime.timedelta:
        """Return how long state without changes is kept; zero keeps it."""
        text = self.get(_TTL, "0 ms")
        return datetime.timedelta(milliseconds=int(text.removesuffix("ms").strip()))

    def set_idle_state_retention(self, duration: datetime.timedelta) -> None:
        """Set how long state without changes is kept."""
        self.set(_TTL, f"{round(duration / datetime.timedelta(milliseconds=1))} ms")

    def get_configuration(self) -> Configuration:
        """Return all options."""
        return self._configuration

    def add_configuration(self, configuration: Configuration) -> None:
        """Take over options."""
        self._configuration.add_all(configuration)

    def to_map(self) -> dict[str, str]:
        """Return all options that are set."""
        return dict(self._configuration.to_dict())

    def get_sql_dialect(self) -> SqlDialect:
        """Return the dialect of SQL."""
        return SqlDialect.DEFAULT

    def set_sql_dialect(self, sql_dialect: SqlDialect) -> None:
        """Set the dialect of SQL; only the default one is there."""
        if sql_dialect is not SqlDialect.DEFAULT:
            raise ProgramError("Flott has no Hive dialect; use SqlDialect.DEFAULT")

    def get_python_executable(self) -> str:
        """Return the Python that runs functions."""
        return self.get(_PYTHON, sys.executable)

    def set_python_executable(self, python_exec: str) -> None:
        """Set the Python that runs functions."""
        self.set(_PYTHON, python_exec)

"""Options of tables: given with the environment's settings, in the session, and seen by jobs."""

from __future__ import annotations

import pytest

from flott.common import Configuration
from flott.errors import ConfigurationError
from flott.table import EnvironmentSettings, TableEnvironment
from flott.testing.harness import in_process

COUNT = "SELECT k, COUNT(*) FROM (VALUES (1), (1), (1)) AS t(k) GROUP BY k"


def kinds(environment: TableEnvironment) -> list[str]:
    with environment.execute_sql(COUNT).collect() as rows:
        return [str(row.get_row_kind()) for row in rows]


def test_options_of_tables_may_stand_in_the_configuration_of_the_environment() -> None:
    configuration = Configuration()
    configuration.set_string("table.exec.mini-batch.enabled", "true")
    settings = EnvironmentSettings.new_instance().with_configuration(configuration).build()
    env = in_process(1)
    env.configure(configuration)
    assert len(kinds(TableEnvironment(env, settings))) == 1
    assert len(kinds(TableEnvironment(in_process(1), EnvironmentSettings.in_streaming_mode()))) == 5


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("table.exec.mini-batch.enabled", "yes", "true or false"),
        ("table.local-time-zone", "Mars/Olympus", "time zone"),
        ("table.exec.state.ttl", "soon", "duration"),
    ],
)
def test_a_value_that_is_wrong_is_refused_with_what_is_expected(key: str, value: str, said: str) -> None:
    environment = TableEnvironment(in_process(1), EnvironmentSettings.in_streaming_mode())
    environment.get_config().set(key, value)
    with pytest.raises(ConfigurationError, match=said):
        environment.execute_sql(COUNT)

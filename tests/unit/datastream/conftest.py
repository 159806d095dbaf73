"""An environment whose defaults do not depend on the machine."""

from __future__ import annotations

import pytest

from flott.datastream import StreamExecutionEnvironment


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)

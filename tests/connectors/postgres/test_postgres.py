"""PostgreSQL: the conformance kit, and what is special about databases."""

from __future__ import annotations

import pytest

from tests.connectors import databases
from tests.servers.postgres import PASSWORD


class TestAppend(databases.AppendByStaging):
    secrets = (PASSWORD,)


class TestAppendPrepared(databases.AppendByPreparedTransactions):
    secrets = (PASSWORD,)


class TestUpsert(databases.UpsertIdempotent):
    pass


@pytest.mark.connectors
class TestUpsertExactlyOnce(databases.UpsertByStaging):
    pass


@pytest.mark.connectors
class TestUpsertPrepared(databases.UpsertByPreparedTransactions):
    pass


@pytest.mark.connectors
class TestStatement(databases.StatementAtLeastOnce):
    secrets = (PASSWORD,)


@pytest.mark.connectors
class TestStatementExactlyOnce(databases.StatementExactlyOnce):
    pass


class TestSource(databases.PartitionedSource):
    secrets = (PASSWORD,)


class TestTableSink(databases.TableSinkTests):
    pass


class TestSourceDetails(databases.SourceTests):
    pass

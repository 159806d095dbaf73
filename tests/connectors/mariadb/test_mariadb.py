"""MariaDB: the conformance kit, and what is special about databases."""

from __future__ import annotations

import pytest

from tests.connectors import databases
from tests.servers.mariadb import PASSWORD

pytestmark = pytest.mark.connectors


class TestAppend(databases.AppendByStaging):
    secrets = (PASSWORD,)


class TestAppendPrepared(databases.AppendByPreparedTransactions):
    secrets = (PASSWORD,)


class TestUpsert(databases.UpsertIdempotent):
    pass


class TestUpsertExactlyOnce(databases.UpsertByStaging):
    pass


class TestUpsertPrepared(databases.UpsertByPreparedTransactions):
    pass


class TestStatement(databases.StatementAtLeastOnce):
    secrets = (PASSWORD,)


class TestStatementExactlyOnce(databases.StatementExactlyOnce):
    pass


class TestSource(databases.PartitionedSource):
    secrets = (PASSWORD,)


class TestTableSink(databases.TableSinkTests):
    pass


class TestSourceDetails(databases.SourceTests):
    pass

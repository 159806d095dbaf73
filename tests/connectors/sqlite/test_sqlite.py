"""SQLite: the conformance kit, and what is special about databases."""

from __future__ import annotations

import pytest

from tests.connectors import databases


class TestAppend(databases.AppendByStaging):
    pass


class TestUpsert(databases.UpsertIdempotent):
    pass


@pytest.mark.connectors
class TestUpsertExactlyOnce(databases.UpsertByStaging):
    pass


@pytest.mark.connectors
class TestStatement(databases.StatementAtLeastOnce):
    pass


class TestSource(databases.PartitionedSource):
    pass


class TestTableSink(databases.TableSinkTests):
    pass


class TestSourceDetails(databases.SourceTests):
    pass

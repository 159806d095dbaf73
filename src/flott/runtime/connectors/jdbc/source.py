"""Reads a query in ranges of a column. The enumerator runs on the driver, the reader in tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flott.common.types import restore_row
from flott.datastream.connectors.base import (
    Json,
    Pending,
    Records,
    Slice,
    SlicePlan,
    SliceRequest,
    SourceReader,
    SplitEnumerator,
)
from flott.datastream.connectors.jdbc._source import JdbcSource
from flott.errors import FlottError
from flott.runtime.connectors.jdbc.connection import Connection, failure, trouble_of
from flott.runtime.connectors.jdbc.partitions import as_datetime, boundaries, from_json, same_zone, to_json
from flott.runtime.connectors.jdbc.session import Session, Trouble
from flott.runtime.connectors.jdbc.validation import checking

STATE_VERSION = 1


class JdbcEnumerator(SplitEnumerator):
    """Hands out ranges. They are computed once and are part of the state, so that a restart has the same ones."""

    def __init__(self, source: JdbcSource):
        self._source = source
        self._starts: list[Json] | None = None  #: the lower ends of all ranges but the first
        self._read: frozenset[int] = frozenset()

    def open(self) -> None:
        checking(self._source.connection_options, f"read {self._source.query!r}", self._check)

    def _check(self, session: Session) -> None:
        session.check_statement(_ranged(self._source, session, ()), 0)

    def restore(self, state: Json) -> None:
        self._starts = state["starts"]
        self._read = frozenset(state["read"])

    def _ranges(self) -> list[Json]:
        if self._starts is None:
            source = self._source
            bounds = source.bounds
            if source.partition_column is not None and source.partitions > 1 and bounds is None:
                bounds = checking(
                    source.connection_options, "find the range of the partition column", self._find_bounds
                )
            if bounds is None or source.partitions == 1:
                self._starts = []
            else:
                self._starts = [to_json(step) for step in boundaries(*bounds, source.partitions)]
        return self._starts

    def _find_bounds(self, session: Session) -> tuple[Any, Any] | None:
        column = self._source.partition_column
        (found,) = session.rows(f"SELECT MIN({column}), MAX({column}) FROM ({self._source.query}) AS flott_rows")
        if found[0] is None:
            return None
        return same_zone(as_datetime(found[0]), as_datetime(found[1]))

    def plan(self, request: SliceRequest) -> SlicePlan:
        starts = self._ranges()
        waiting = [index for index in range(len(starts) + 1) if index not in self._read]
        allowed = [index for index in waiting if f"range-{index}" not in request.paused]
        chosen = allowed if request.everything else allowed[: max(1, request.parallelism)]
        slices = tuple(Slice(f"range-{index}", 0, 1, ends_split=True, detail=_range(starts, index)) for index in chosen)
        left = len(waiting) - len(chosen)
        return SlicePlan(slices, finished=left == 0, backlog=left > 0)

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        self._read |= {int(split.removeprefix("range-")) for split in reached}

    def snapshot(self) -> Json:
        return {"version": STATE_VERSION, "starts": self._ranges(), "read": sorted(self._read)}

    def pending(self, now_ms: int) -> Pending:
        return Pending()


def _range(starts: list[Json], index: int) -> Json:
    return {
        "lower": starts[index - 1] if index > 0 else None,
        "upper": starts[index] if index < len(starts) else None,
    }


class JdbcReader(SourceReader[Any]):
    """Reads ranges."""

    def __init__(self, source: JdbcSource):
        self._source = source
        self._connection = Connection(source.connection_options)

    def read(self, part: Slice) -> Iterator[Any]:
        for batch in self.read_batches(part):
            yield from batch.values

    def read_batches(self, part: Slice) -> Iterator[Records[Any]]:
        names: tuple[str, ...] = ()
        type_info = self._source.type_info
        for found, rows in self._batches(part):
            names = names or tuple(found)
            records: list[Any] = [restore_row(names, row) for row in rows]
            yield Records(records if type_info is None else type_info.conform(records))

    def _batches(self, part: Slice) -> Iterator[tuple[list[str], list[tuple[Any, ...]]]]:
        """Read a range; after a lost connection once more from the start, as long as nothing was handed over."""
        source, detail = self._source, part.detail
        ends = [from_json(detail[end]) for end in ("lower", "upper") if detail[end] is not None]
        what = f"read {source.query!r}, {part.split}"
        given = False
        for last_try in (False, True):
            try:
                session = self._connection.session()
                (values,) = session.adapted([ends])
                wanted = tuple(end for end in ("lower", "upper") if detail[end] is not None)
                for batch in session.stream(_ranged(source, session, wanted), values, source.fetch_size):
                    given = True
                    yield batch
                return
            except (FlottError, GeneratorExit):
                self._connection.drop()
                raise
            except Exception as error:
                self._connection.drop()
                trouble = trouble_of(source.connection_options, error)
                if given or last_try or trouble is not Trouble.LOST:
                    raise failure(source.connection_options, what, error, trouble) from None

    def locate(self, part: Slice, index: int) -> str:
        return f"{self._source.connection_options.address}, {self._source.query}, {part.split}, row {index}"

    def close(self) -> None:
        self._connection.release()


def _ranged(source: JdbcSource, session: Session, ends: tuple[str, ...]) -> str:
    """Return the query of a range. Rows without a value in the partition column are in the first one."""
    column = source.partition_column
    if column is None or not ends:
        return source.query
    conditions = []
    if "lower" in ends:
        conditions.append(f"{column} >= ?")
    if "upper" in ends:
        conditions.append(f"{column} < ?")
    condition = " AND ".join(conditions)
    if "lower" not in ends:
        condition += f" OR {column} IS NULL"
    return f"SELECT * FROM ({source.query}) AS flott_rows WHERE {condition}"

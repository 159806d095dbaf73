"""The replies of the gateway. Pure."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from starlette.responses import Response

from flott.common.types import Row
from flott.rest.app import JSON_TYPE
from flott.rest.gateway.fields import json_field, text_field
from flott.rest.gateway.logical_types import type_document
from flott.rest.gateway.messages import ColumnInfo, FetchReply, RowInfo
from flott.rest.gateway.operation import Fetched
from flott.table._types.logical import LogicalType, RowType

WRITERS: dict[str, Callable[[Any, LogicalType], Any]] = {"JSON": json_field, "PLAIN_TEXT": text_field}


def fetch_reply(fetched: Fetched, place: str, row_format: str, *, short: bool = False) -> FetchReply:
    """Return a page of a result. ``place`` is the path of the operation; ``short``: addresses name no row format."""
    executed, page = fetched.executed, fetched.page
    if executed is None:
        assert page.next_token is not None
        return {"resultType": "NOT_READY", "nextResultUri": _next_uri(place, page.next_token, row_format, short)}
    reply: FetchReply = {
        "resultType": "EOS" if page.next_token is None else "PAYLOAD",
        "isQueryResult": executed.is_query,
        "resultKind": executed.kind.name,
        "results": {
            "columns": columns_of(executed.schema),
            "rowFormat": row_format,
            "data": rows_of(page.rows, executed.schema, row_format),
        },
    }
    if executed.job_id is not None:
        reply["jobID"] = executed.job_id
    if page.next_token is not None:
        reply["nextResultUri"] = _next_uri(place, page.next_token, row_format, short)
    return reply


def columns_of(schema: RowType) -> list[ColumnInfo]:
    """Return names and types of columns."""
    return [
        {"name": column.name, "logicalType": type_document(column.type), "comment": column.description}
        for column in schema.fields
    ]


def rows_of(rows: Sequence[Row], schema: RowType, row_format: str) -> list[RowInfo]:
    """Return rows with their kinds."""
    write = WRITERS[row_format]
    types = schema.types
    return [
        {
            "kind": row.get_row_kind().name,
            "fields": [write(value, of) for value, of in zip(row, types, strict=True)],
        }
        for row in rows
    ]


def exact_response(content: Any) -> Response:
    """Return a JSON response in which decimals are numbers with all of their digits."""
    return Response(exact_json(content).encode("utf-8", "replace"), headers={"Content-Type": JSON_TYPE})


def exact_json(content: Any) -> str:
    """Return JSON in which decimals are numbers with all of their digits."""
    mark = uuid.uuid4().hex  # no text of a row can hold it by accident
    found = False

    def write(value: Any) -> str:
        nonlocal found
        if not isinstance(value, Decimal):
            raise TypeError(f"{type(value).__name__} has no JSON form")
        found = True
        # A DECIMAL has at most 38 digits; beyond that it is a DOUBLE that a client has read without loss.
        return f"{mark}{value:f}" if abs(value.adjusted()) <= 40 else f"{mark}{value}"

    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=write)
    return re.sub(f'"{mark}([^"]*)"', r"\1", text) if found else text


def _next_uri(place: str, token: int, row_format: str, short: bool) -> str:
    return f"{place}/result/{token}" if short else f"{place}/result/{token}?rowFormat={row_format}"

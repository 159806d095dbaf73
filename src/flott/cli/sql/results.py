"""Results on a terminal: paged, updated in place, or as lines of JSON."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable
from typing import TextIO

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flott.cli.sql.statement_session import ShownResult
from flott.common.types import Row
from flott.rest.gateway.shapes import exact_json
from flott.table._remaining_rows import RemainingRows
from flott.table._tableau import print_rows, text_of
from flott.table._types.logical import RowType

#: Rows that a live table shows; the others are counted.
_SHOWN = 40
#: Lines from which on a result is shown by the pager.
_PAGE_LINES = 60


def show_paged(rows: Iterable[Row], schema: RowType, out: TextIO) -> None:
    """Write a result that ends; a long one goes to the pager."""
    text = io.StringIO()
    print_rows(rows, schema, text, changelog=False)
    if text.getvalue().count("\n") > _PAGE_LINES:
        click.echo_via_pager(text.getvalue())
    else:
        out.write(text.getvalue())


def write_json_rows(rows: Iterable[Row], result: ShownResult, out: TextIO) -> None:
    """Write each row as a JSON document on a line, as it comes; a change has its kind as ``op``."""
    names, types = result.schema.names, result.schema.types
    for row in rows:
        values = [result.json_value(value, of) for value, of in zip(row, types, strict=True)]
        document = {"op": str(row.get_row_kind())} if result.changelog else {}
        out.write(exact_json({**document, "row": dict(zip(names, values, strict=True))}) + "\n")
        out.flush()


def show_live(rows: Iterable[Row], schema: RowType, out: TextIO) -> None:
    """Show the rows of a changelog as they stand, updated in place until the query ends."""
    folded, lock = RemainingRows(), threading.Lock()

    def drawn() -> Group:
        with lock:
            return _drawn(folded, schema)

    # The table is drawn when the terminal is refreshed, by a thread of its own, however slowly or quickly rows come.
    with Live(get_renderable=drawn, console=Console(file=out), refresh_per_second=4) as live:
        for row in rows:
            with lock:
                folded.apply(row)
        live.refresh()


def _drawn(folded: RemainingRows, schema: RowType) -> Group:
    drawing = Table()
    for name in schema.names:
        drawing.add_column(name)
    for row in folded.latest(_SHOWN):
        drawing.add_row(*[text_of(value, of) for value, of in zip(row, schema.types, strict=True)])
    return Group(drawing, Text(f"{len(folded)} rows after {folded.changes} changes"))

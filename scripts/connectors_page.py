"""Writes docs/table/connectors.md from the options of connectors and formats: ``make docs``."""

from __future__ import annotations

from pathlib import Path

from flott.table._connectors import filesystem, kafka
from flott.table._connectors.format_registry import FORMATS
from flott.table._connectors.registry import connector, connector_names

PAGE = Path(__file__).parent.parent / "docs" / "table" / "connectors.md"

HEAD = """# Connectors of tables

The option `connector` of a table says where its rows are. Names and options are Flink's, where Flink has them. Options
are checked when a table is used: an unknown one is refused with the nearest known one, a missing one is named, and
values that may be secrets appear in no message.

```sql
CREATE TABLE orders (
    id BIGINT,
    price DECIMAL(10, 2),
    ordered_at TIMESTAMP(3),
    file STRING METADATA FROM 'file.name' VIRTUAL,
    day DATE,
    WATERMARK FOR ordered_at AS ordered_at - INTERVAL '5' SECOND
) PARTITIONED BY (day) WITH (
    'connector' = 'filesystem',
    'path' = '/data/orders',
    'format' = 'json'
);
```

Rows are read and written as columns. Only the columns that a query uses are made, and of Parquet files only row groups
that may hold wanted rows are read. Folders of partitions that the query excludes are not read. JSON and CSV are decoded
a block at a time; a block that holds something unusual (a number in quotes, a decimal with too many digits, a map) is
decoded again row by row, with the same result that Flink has and about eight times slower.

Rows of Delta, Iceberg and databases are converted at the boundary.

This page is made by `make docs`.

## Overview

| Connector | Reads | Writes | Looks up by key |
|---|---|---|---|
"""

NOTES = {
    "filesystem": """Files in a folder and the folders below it, exactly once in both directions. Files whose name
begins with `.` or `_` are not read, and compressed files (`.gz`, `.bz2`, `.xz`) are unpacked. A large file is read
by several subtasks, except CSV and compressed ones. Partitions are folders such as `day=2026-01-31`.

`INSERT OVERWRITE` (in batch mode) replaces the files that are there when the rows are staged. New files become visible
first, then the replaced ones are deleted: a reader at that moment may see both. Files that other jobs add meanwhile
stay. A crash in between is repaired when the job recovers. In object stores, rows that a stopped streaming job has
committed but not yet put into a file are not replaced.""",
    "datagen": """Rows that are made up, for tests. Every value is a function of the number of its row, so a repeated
epoch makes the same rows. `#` stands for the name of a column; nested settings such as `fields.tags.element.max` are
those of the elements of a collection or of the fields of a row.""",
    "print": """Writes each change to standard output of the driver, as `+I[1, Ada]`.""",
    "blackhole": """Takes every change and keeps none.""",
    "kafka": """Topics of Kafka. Messages without a value are left out. With a format of changes (`debezium-json`,
`canal-json`, `maxwell-json`, `ogg-json`) the table is a changelog.""",
    "upsert-kafka": """A topic with a key, of which the last message counts. The table declares a primary key, whose
columns are the key of messages. A message without a value deletes.""",
    "jdbc": """Tables of PostgreSQL, MySQL, MariaDB and SQLite. A table with a primary key takes inserts, updates and
deletes (idempotent), one without takes inserts (exactly once). In a join `FOR SYSTEM_TIME AS OF` a processing time, the
keys of a batch are looked up by one query.""",
    "delta": """Delta tables. A table with a primary key takes changes. A table that is not there is created.""",
    "iceberg": """Iceberg tables of a catalog that pyiceberg knows. A table with a primary key takes changes.""",
}


def _rows(options: list[tuple[str, str, str]]) -> str:
    head = "| Option | Default | Meaning |\n|---|---|---|\n"
    return head + "".join(f"| `{name}` | {default} | {_cell(text)} |\n" for name, default, text in options)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _default(value: object) -> str:
    if value is None or value == []:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value!r}`" if value in ("\n", "") else f"`{value}`"


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for name in connector_names():
        found = connector(name)
        ways = ("yes" if way is not None else "" for way in (found.source, found.sink, found.lookup))
        parts.append(f"| [{name}](#{name}) | {' | '.join(ways)} |\n")
    for name in connector_names():
        found = connector(name)
        required = {*found.required}
        options = [(key, "required" if key in required else "", text) for key, text in sorted(found.options.items())]
        parts.append(f"\n## {name}\n\n{NOTES[name]}\n\n{_rows(options)}")
        known = {"filesystem": filesystem.METADATA, "kafka": kafka.METADATA}.get(name)
        if known:
            parts.append("\n| Metadata | Type |\n|---|---|\n")
            parts += [f"| `{key}` | `{of}` |\n" for key, of in known.items()]
    parts.append(
        "\n## Formats\n\nThe option `format` names the format of files or messages. Its own options begin with its"
        " name, such as\n`json.ignore-parse-errors`, and with `key.json.` or `value.json.` where key and value have"
        " formats of their own.\n"
    )
    for factory in FORMATS.values():
        uses = " and ".join(what for what, of in (("files", factory.files), ("messages", factory.messages)) if of)
        parts.append(f"\n### {factory.name}\n\n{factory.description} For {uses}.\n")
        options = [(each.key, _default(each.default), each.description) for each in factory.options]
        if options:
            parts.append(f"\n{_rows(options)}")
    parts.append(CATALOGS)
    return "".join(parts)


CATALOGS = """
## Catalogs

Definitions of tables are in catalogs. The catalog of a new session is in memory. One of the type `file` keeps
databases, tables, views and functions in a folder, so that they outlive the session:

```sql
CREATE CATALOG shop WITH ('type' = 'file', 'path' = '/data/catalogs/shop', 'default-database' = 'orders');
USE CATALOG shop;
```

Another session that names the same folder finds them. Of two sessions that change definitions at the same time, the
second one is told to repeat its statement. Passwords in the options of tables are in the files, which only their owner
can read.
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()

"""Finds whole transactions in a listing of the binary log (``SHOW BINLOG EVENTS``). Pure; driver side.

An event group begins with a Gtid event, and ends with Xid, with COMMIT (tables without transactions), with the
statement itself (data definition), or with XA_prepare. A group that the server did not live to finish has no end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

#: A row of the listing: file, position, type of the event, server, end of the event, text.
Event = tuple[str, int, str, int, int, str]

_TABLE = re.compile(r"table_id: \d+ \((.*)\)$")
#: Statements in the log that change rows without saying which, or that end a prepared transaction.
_TELLING = re.compile(
    r"(use `[^`]*`; *)?\s*(/\*.*?\*/\s*)*(truncate|xa\s+(commit|rollback)|insert|update|delete|replace)\b", re.I
)


#: Events that do not end a group, or a file.
_WITHIN = ("Table_map", "Rows_query", "Intvar", "User_var", "RAND", "Rotate", "Stop")


@dataclass
class Listing:
    """What a listing says about the log."""

    stop: int | None = None  #: the end of the last whole group that fits
    telling: bool = False  #: whether these groups may change tables of the source
    more: bool = False  #: whether whole groups follow


def whole_groups(events: Iterable[Event], limit: int, captures: Callable[[str, str], bool]) -> Listing:
    """Return how far to read: whole groups up to a position, but at least one.

    >>> gtid = ("l.1", 4, "Gtid", 1, 40, "BEGIN GTID 0-1-1")
    >>> change = ("l.1", 40, "Table_map", 1, 60, "table_id: 7 (d.t)")
    >>> whole_groups([gtid, change, ("l.1", 60, "Xid", 1, 80, "COMMIT")], 1000, lambda database, table: True)
    Listing(stop=80, telling=True, more=False)
    >>> whole_groups([gtid, change], 1000, lambda database, table: True)
    Listing(stop=None, telling=False, more=False)
    """
    found = Listing()
    telling = opened = False
    for _, _, kind, _, end, text in events:
        if kind == "Table_map":
            telling = telling or _captured(text, captures)
        elif kind == "Query" and not telling:
            telling = _TELLING.match(text) is not None
        if kind in ("Gtid", "Anonymous_Gtid"):
            opened = text.startswith(("BEGIN", "XA START"))
            continue
        if kind == "Query" and re.match(r"(BEGIN|XA START)\b", text, re.I):
            opened = True
            continue
        if _ends(kind, text, opened):
            if found.stop is not None and end > limit:
                found.more = True
                break
            found.stop, found.telling = end, found.telling or telling
            opened = telling = False
    return found


def _ends(kind: str, text: str, opened: bool) -> bool:
    if kind in ("Xid", "XA_prepare", "XA_Prepare"):
        return True
    if kind == "Query":
        return not opened or text.strip().upper() in ("COMMIT", "ROLLBACK")
    # Events between groups, such as Format_desc and Gtid_list, are passed over. The last of a file have no successor.
    return not opened and kind not in _WITHIN and "rows" not in kind.lower()


def _captured(text: str, captures: Callable[[str, str], bool]) -> bool:
    match = _TABLE.search(text)
    if match is None:
        return True
    database, _, table = match[1].partition(".")
    return captures(database, table)

"""The rows of one result on their way to a client: a bounded buffer that is read page by page. Thread-safe.

A page is read by its token. The last page may be read again, because a client may not have received it; an older one is
gone. A producer waits while the buffer is full, so a query that is not read costs bounded memory.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from flott.common.types import Row
from flott.rest.refusal import Refusal

#: The rows that wait for the client; also the largest page.
MAX_ROWS = 5000


@dataclass(frozen=True)
class Page:
    """Some rows, and the token of those that follow. The page without a next token is the end, and has no rows."""

    rows: Sequence[Row]
    next_token: int | None


class RowPages:
    """Takes rows from one thread, and gives pages to others."""

    def __init__(self, max_rows: int = MAX_ROWS) -> None:
        self._max_rows = max_rows
        self._rows: deque[Row] = deque()
        self._changed = threading.Condition()
        self._token = 0  #: of the next page, which no client has read yet
        self._last: Sequence[Row] = ()  #: the page before it
        self._ended = False
        self._failure: BaseException | None = None
        self._closed = False

    def put(self, row: Row) -> bool:
        """Add a row, and wait for room first. Return False if the pages were closed: no row is wanted any more."""
        with self._changed:
            while len(self._rows) >= self._max_rows and not self._closed:
                self._changed.wait()
            if self._closed:
                return False
            self._rows.append(row)
            self._changed.notify_all()
            return True

    def end(self, failure: BaseException | None = None) -> None:
        """Note that no more rows come; with a failure, reading behind the last row raises it."""
        with self._changed:
            self._ended, self._failure = True, failure
            self._changed.notify_all()

    def close(self) -> None:
        """Drop all rows and let the producer go on."""
        with self._changed:
            self._closed = self._ended = True
            self._rows.clear()
            self._last = ()
            self._changed.notify_all()

    @property
    def ended(self) -> bool:
        """Return whether no more rows come."""
        return self._ended

    def page(self, token: int) -> Page:
        """Return the page of a token: the next one, or the last one again. It is empty if no row has come since."""
        with self._changed:
            if token == self._token - 1:
                return Page(self._last, self._token)
            if token != self._token:
                expected = f"{self._token} or {self._token - 1}" if self._token else "0"
                raise Refusal(400, f"Expecting token to be {expected}, but found {token}.")
            if not self._rows and self._ended:
                if self._failure is not None:
                    raise self._failure
                return Page((), None)
            self._last = tuple(self._rows)
            self._rows.clear()
            self._token += 1
            self._changed.notify_all()
            return Page(self._last, self._token)

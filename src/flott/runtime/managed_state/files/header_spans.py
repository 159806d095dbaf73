"""What files say about tables, each for some key groups; of several that speak about a key group the last counts.

The type of a state changes in one file of a subtask, which then holds all of it. After a change of parallelism files of
several subtasks stand in one sequence, so one table may be of different types in different key groups.
"""

from __future__ import annotations

from dataclasses import replace

from flott.runtime.managed_state.files.table_header import TableHeader


class HeaderSpans:
    """The headers of tables by key groups."""

    def __init__(self) -> None:
        self._spans: dict[str, list[tuple[range, TableHeader]]] = {}

    def add(self, header: TableHeader, groups: range) -> None:
        """A file that counts for these key groups says this."""
        for said in (groups,) if header.groups is None else (_common(groups, range(*span)) for span in header.groups):
            if said:
                spans = self._spans.get(header.name, ())
                kept = [(rest, other) for earlier, other in spans for rest in _without(earlier, said)]
                self._spans[header.name] = [*kept, (said, header)]

    def take(self, table: str) -> list[tuple[range, TableHeader]]:
        """Return what was said about a table, which is then forgotten."""
        return self._spans.pop(table, [])

    def put(self, table: str, spans: list[tuple[range, TableHeader]]) -> None:
        """Say again what was taken."""
        self._spans[table] = spans

    def last(self, table: str) -> TableHeader | None:
        """Return what was said last, for whichever key groups."""
        spans = self._spans.get(table)
        return spans[-1][1] if spans else None

    def clear(self) -> None:
        """Forget everything."""
        self._spans.clear()

    def merged(self, table: str) -> list[TableHeader]:
        """Headers for a file that holds all of a table: one, or as many as there are types, with their key groups."""
        alike: list[tuple[TableHeader, list[range]]] = []
        for groups, header in self._spans.get(table, ()):
            for known, spans in alike:
                if _types_of(known) == _types_of(header):
                    spans.append(groups)
                    break
            else:
                alike.append((header, [groups]))
        if len(alike) == 1:
            return [replace(alike[0][0], groups=None)]
        return [
            replace(header, groups=tuple((groups.start, groups.stop) for groups in spans)) for header, spans in alike
        ]


def _types_of(header: TableHeader) -> tuple[object, ...]:
    return header.key_type, header.value_type, header.map_key_type


def _common(first: range, second: range) -> range:
    return range(max(first.start, second.start), min(first.stop, second.stop))


def _without(groups: range, cut: range) -> list[range]:
    """Return what is left of some key groups."""
    pieces = (range(groups.start, min(groups.stop, cut.start)), range(max(groups.start, cut.stop), groups.stop))
    return [piece for piece in pieces if piece]

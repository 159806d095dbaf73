"""Keeps all rows of a sink's key, so that the last one that is left wins. Task side.

Rows of one key may come from different keys upstream, so the sink must not see a row vanish because another one, which
came before it, is taken back. Rows of a key are a list in the order in which they came; positions of the list are
plain numbers while an epoch's rows are gone through, and rows are put together at the end.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.base import DELETE, INSERT, UPDATE_AFTER, Changes, ColumnarOperator
from flott.runtime.operators.columnar.join_pairs import taken
from flott.runtime.operators.columnar.kept_rows import Apart, KeptRows
from flott.runtime.operators.columnar.key_codes import Ints, codes_of
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.operations import MaterializeForSink


class MaterializeOperator(ColumnarOperator):
    """Sends upserts and deletes by key."""

    def __init__(self, context: OperatorContext, operation: MaterializeForSink):
        super().__init__(context, operation, [operation.input])
        self._told = operation
        self._store = KeptRows(
            context, "rows", self.input_schemas[0], operation.keys, Apart.NUMBERED, ttl_ms=operation.ttl_ms
        )

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        (changes,) = inputs
        store = self._store
        store.begin()
        if not len(changes):
            return
        columns, length = changes.columns, len(changes)
        keys = [columns.column(key) for key in self._told.keys]
        codes, first = codes_of(keys, length)
        positions, slots = store.matching([key.take(pa.array(first)) for key in keys], len(first))
        numbers = store.numbers(slots)
        in_order = np.lexsort((numbers, positions))
        positions, slots, numbers = positions[in_order], slots[in_order], numbers[in_order]
        rows = list(columns.columns)
        if len(slots):
            rows = [pa.concat_arrays([own, held]) for own, held in zip(rows, store.rows(slots), strict=True)]
        told = self._told.unique
        identity, _ = codes_of(rows if told is None else [rows[column] for column in told], length + len(slots))
        lists: list[list[int]] = [[] for _ in first]
        for at, position in enumerate(positions.tolist()):
            lists[position].append(length + at)
        sent, kinds = follow(codes.tolist(), (changes.signs > 0).tolist(), identity.tolist(), lists, told is not None)
        self.send(taken(rows, np.array(sent, np.int64)), np.array(kinds, np.int8))
        self._save(rows, length, lists, slots, numbers)

    def _save(self, rows: list[pa.Array], length: int, lists: list[list[int]], slots: Ints, numbers: Ints) -> None:
        """Write lists back: rows that stayed where they were are not touched."""
        gone = np.ones(len(slots), np.bool_)
        added: list[int] = []
        places: list[int] = []
        for members in lists:
            place = -1
            for member in members:
                if member >= length and numbers[member - length] > place:
                    gone[member - length] = False
                    place = int(numbers[member - length])
                else:
                    place += 1
                    added.append(member)
                    places.append(place)
        self._store.remove(slots[gone])
        if added:
            batch = pa.RecordBatch.from_arrays(taken(rows, np.array(added, np.int64)), schema=self.input_schemas[0])
            self._store.append(batch, np.array(places, np.int64))


def follow(
    codes: list[int], added: list[bool], identity: list[int], lists: list[list[int]], by_key: bool
) -> tuple[list[int], list[int]]:
    """Apply changes to the lists of their keys; return the rows to send and their kinds.

    ``identity``: rows with the same number are the same. ``by_key``: a row takes the place of one that is the same.
    """
    sent: list[int] = []
    kinds: list[int] = []
    for row, code in enumerate(codes):
        members = lists[code]
        name = identity[row]
        found = next((place for place, member in enumerate(members) if identity[member] == name), -1)
        if added[row]:
            sent.append(row)
            kinds.append(UPDATE_AFTER if members else INSERT)
            if by_key and found >= 0:
                members[found] = row
            else:
                members.append(row)
        elif found >= 0:
            was_last = found == len(members) - 1
            del members[found]
            if not members:
                sent.append(row)
                kinds.append(DELETE)
            elif was_last:
                sent.append(members[-1])
                kinds.append(UPDATE_AFTER)
    return sent, kinds

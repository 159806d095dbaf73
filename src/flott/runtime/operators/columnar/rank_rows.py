"""Top-N: the best rows of each partition, updated as rows come. Task side.

Of an input of inserts only the best rows are kept; of a changelog all rows are, since any of them may move up. With a
rank column, or ranks that do not begin at 1, every rank that has another row after a change is updated; otherwise only
the row that leaves and the one that comes in are sent.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.base import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Changes,
    ColumnarOperator,
)
from flott.runtime.operators.columnar.join_pairs import taken
from flott.runtime.operators.columnar.kept_rows import Apart, KeptRows
from flott.runtime.operators.columnar.key_codes import Ints, begins, by_group, codes_of, ordinals
from flott.runtime.operators.columnar.ranked_lists import NONE, RankChanges, follow, merged, promising, settle
from flott.runtime.operators.columnar.sort_order import ranks_of
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.operations import RankRows

#: Up to so many ranks are gone through one by one for all rows at once; for more there is a list for each partition.
_MAX_RANKS = 128


@dataclass(frozen=True)
class _Candidates:
    """The rows of an epoch, then those that are held for the same partitions, and their order."""

    length: int  #: of the epoch's rows
    groups: Ints  #: by row: the number of the partition
    count: int  #: of partitions
    slots: Ints  #: of held rows
    numbers: Ints  #: of held rows, by the order in which they came
    places: Ints  #: by row
    rows: Ints  #: by place


class RankRowsOperator(ColumnarOperator):
    """Keeps the rows whose rank is from ``start`` to ``end``."""

    def __init__(self, context: OperatorContext, operation: RankRows):
        super().__init__(context, operation, [operation.input])
        self._told = operation
        self._retracts = operation.retracts[0]
        #: Whether changes are told rank by rank. Of a single row inserts always update it, and changelogs never do.
        self._numbered = operation.rank or operation.start > 1
        if operation.end == 1:
            self._numbered = not self._retracts
        self._ties = operation.function.upper() != "ROW_NUMBER"
        self._store = KeptRows(
            context,
            "rows",
            self.input_schemas[0],
            operation.partition,
            Apart.NUMBERED,
            ttl_ms=operation.ttl_ms,
        )

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        (changes,) = inputs
        self._store.begin()
        if not len(changes) or self._told.start > self._told.end:
            return
        found = self._candidates(changes.columns)
        told = self._told
        if self._ties or self._retracts or told.end > _MAX_RANKS or changes.kinds is not None:
            self._follow(changes, found)
        elif told.mini_batch:
            self._merge(changes, found)
        else:
            self._settle(changes, found)

    def _candidates(self, columns: pa.RecordBatch) -> _Candidates:
        length, store = columns.num_rows, self._store
        keys = [columns.column(key) for key in self._told.partition]
        codes, first = codes_of(keys, length)
        at = pa.array(first)
        positions, slots = store.matching([key.take(at) for key in keys], len(first))
        numbers = store.numbers(slots)
        total = length + len(slots)
        held = store.some_columns(slots, sorted({key.column for key in self._told.order})) if len(slots) else {}

        def column(place: int) -> pa.Array:
            own = columns.column(place)
            return pa.concat_arrays([own, held[place]]) if len(slots) else own

        ranks = ranks_of(column, self._told.order, total)
        came = np.concatenate([np.arange(length) + NONE // 2, numbers])  # held rows were there before
        rows = np.lexsort((came, ranks))
        places = np.empty(total, np.int64)
        places[rows] = np.arange(total)
        return _Candidates(length, np.concatenate([codes, positions]), len(first), slots, numbers, places, rows)

    # --- only inserts ------------------------------------------------------------------------------------------------

    def _tops(self, found: _Candidates) -> Ints:
        tops = np.full((found.count, self._told.end), NONE, np.int64)
        held = np.arange(found.length, len(found.groups))
        if len(held):
            order = held[np.lexsort((found.places[held], found.groups[held]))]
            groups = found.groups[order]
            tops[groups, ordinals(begins(groups))] = found.places[order]
        return tops

    def _settle(self, changes: Changes, found: _Candidates) -> None:
        """Let rows come in turn by turn: rows that cannot be among the best any more are dropped between turns."""
        told, length = self._told, found.length
        before = self._tops(found)
        tops = before.copy()
        order, starts = by_group(found.groups[:length])
        turns = ordinals(starts)
        changes_at = RankChanges()
        entered: list[Ints] = []
        pushed: list[tuple[Ints, Ints]] = []
        begin, size = 0, 2 * told.end
        while len(order):
            now = turns < begin + size
            chosen = order[now]
            groups, places = found.groups[chosen], found.places[chosen]
            good = promising(tops, groups, places)
            inside, steps, out = settle(
                tops, groups[good], chosen[good], places[good], len(found.rows), told.start, changes_at
            )
            entered.append(inside)
            pushed.append((steps, out))
            order, turns = order[~now], turns[~now]
            begin, size = begin + size, 2 * size
        if self._numbered:
            self._send_ranks(changes, found, *changes_at.columns())
        else:
            self._send_entered(changes, found, entered, pushed)
        self._save(changes, found, before, tops)

    def _send_entered(
        self, changes: Changes, found: _Candidates, entered: list[Ints], pushed: list[tuple[Ints, Ints]]
    ) -> None:
        came = np.concatenate(entered)
        steps = np.concatenate([at for at, _ in pushed])
        gone = np.concatenate([out for _, out in pushed])
        real = np.isin(steps, came)
        steps, gone = steps[real], gone[real]
        rows = np.concatenate([came, found.rows[gone]])
        kinds = np.repeat(np.array([INSERT, DELETE], np.int8), [len(came), len(gone)])
        order = np.argsort(np.concatenate([2 * came + 1, 2 * steps]), kind="stable")
        self._send_rows(changes, found, rows[order], kinds[order], None)

    def _merge(self, changes: Changes, found: _Candidates) -> None:
        """Send what an epoch changes in all."""
        before = self._tops(found)
        codes, places = found.groups[: found.length], found.places[: found.length]
        good = promising(before, codes, places)
        after = merged(before, codes[good], places[good])
        self._send_difference(changes, found, before, after)
        self._save(changes, found, before, after)

    def _send_difference(self, changes: Changes, found: _Candidates, before: Ints, after: Ints) -> None:
        if self._numbered:
            groups, ranks = np.nonzero(before != after)
            wanted = ranks >= self._told.start - 1
            groups, ranks = groups[wanted], ranks[wanted]
            self._send_ranks(changes, found, groups, ranks + 1, before[groups, ranks], after[groups, ranks])
            return
        old, new = before[before != NONE], after[after != NONE]
        gone, came = np.setdiff1d(old, new), np.setdiff1d(new, old)
        kinds = np.repeat(np.array([DELETE, INSERT], np.int8), [len(gone), len(came)])
        self._send_rows(changes, found, found.rows[np.concatenate([gone, came])], kinds, None)

    def _save(self, changes: Changes, found: _Candidates, before: Ints, after: Ints) -> None:
        old, new = before[before != NONE], after[after != NONE]
        gone = found.rows[np.setdiff1d(old, new)] - found.length
        self._store.remove(found.slots[gone])
        added = np.sort(found.rows[np.setdiff1d(new, old)])
        self._add(changes.columns, found, added)

    def _add(self, columns: pa.RecordBatch, found: _Candidates, rows: Ints) -> None:
        """Keep rows of the epoch; their numbers follow those of their partition."""
        if not len(rows):
            return
        highest = np.full(found.count, -1, np.int64)
        np.maximum.at(highest, found.groups[found.length :], found.numbers)
        self._store.append(columns.take(pa.array(rows)), highest[found.groups[rows]] + 1 + rows)

    # --- changelogs --------------------------------------------------------------------------------------------------

    def _follow(self, changes: Changes, found: _Candidates) -> None:
        told, length, columns = self._told, found.length, changes.columns
        identity = told.unique if told.unique is not None else range(len(columns.schema))
        held = self._store.some_columns(found.slots, list(identity)) if len(found.slots) else {}
        arrays = [
            pa.concat_arrays([columns.column(place), held[place]]) if len(found.slots) else columns.column(place)
            for place in identity
        ]
        names, _ = codes_of([*arrays, pa.array(found.groups)], len(found.groups))
        old = np.arange(length, len(found.groups))
        old = old[np.lexsort((found.places[old], found.groups[old]))]
        bounds = np.searchsorted(found.groups[old], np.arange(found.count + 1)).tolist()
        places = found.places[old].tolist()
        lists = [places[start:stop] for start, stop in itertools.pairwise(bounds)]
        # Of the rows that are held only those can go that an epoch's row has the name of.
        named = old[np.isin(names[old], names[:length])]
        alive: dict[int, list[int]] = {}
        for place, name in zip(found.places[named].tolist(), names[named].tolist(), strict=True):
            alive.setdefault(name, []).append(place)
        former = [list(members) for members in lists] if told.mini_batch or self._ties else []
        happened = follow(
            lists,
            alive,
            found.groups[:length].tolist(),
            (changes.signs > 0).tolist(),
            found.places[:length].tolist(),
            names[:length].tolist(),
            told.end,
            told.unique is not None,
        )
        if self._ties:
            self._send_ties(changes, found, former, lists)
        elif told.mini_batch:
            width = min(told.end, max(map(len, former + lists), default=0))
            self._send_difference(changes, found, matrix(former, width), matrix(lists, width))
        else:
            steps, ranks, before, after = (np.array(part, np.int64) for part in happened)
            if self._numbered:
                wanted = ranks >= told.start
                self._send_ranks(changes, found, steps[wanted], ranks[wanted], before[wanted], after[wanted])
            else:
                self._send_in_and_out(changes, found, steps, before, after)
        self._save_lists(columns, found, lists, alive, named)

    def _save_lists(
        self,
        columns: pa.RecordBatch,
        found: _Candidates,
        lists: list[list[int]],
        alive: dict[int, list[int]],
        named: Ints,
    ) -> None:
        """Keep rows that came and are still there, and remove held rows that have gone."""
        kept = np.zeros(len(found.rows), np.bool_)
        if self._retracts or self._ties:
            kept[found.length :] = True
            kept[named] = False
            places = [place for members in alive.values() for place in members]
        else:
            places = [place for members in lists for place in members[: self._told.end]]
        kept[found.rows[np.array(places, np.int64)]] = True
        self._store.remove(found.slots[~kept[found.length :]])
        self._add(columns, found, np.flatnonzero(kept[: found.length]))

    def _send_in_and_out(self, changes: Changes, found: _Candidates, steps: Ints, before: Ints, after: Ints) -> None:
        """Send, for each step, the rows that are no longer among the best, and those that are now."""
        came, gone = after != NONE, before != NONE
        pairs = np.concatenate([steps[came], steps[gone]]), np.concatenate([after[came], before[gone]])
        change = np.repeat(np.array([1, -1]), [int(came.sum()), int(gone.sum())])
        order = np.lexsort((pairs[1], pairs[0]))
        step, place, change = pairs[0][order], pairs[1][order], change[order]
        starts = np.ones(len(order), np.bool_)
        starts[1:] = (step[1:] != step[:-1]) | (place[1:] != place[:-1])
        net = np.add.reduceat(change, np.flatnonzero(starts)) if len(order) else change
        step, place = step[starts], place[starts]
        real = net != 0
        step, place, net = step[real], place[real], net[real]
        order = np.lexsort((net > 0, step))
        kinds = np.where(net[order] > 0, INSERT, DELETE).astype(np.int8)
        self._send_rows(changes, found, found.rows[place[order]], kinds, None)

    def _send_ties(self, changes: Changes, found: _Candidates, former: list[list[int]], lists: list[list[int]]) -> None:
        """Send what an epoch changes where rows may share a rank."""
        values = ranks_of_places(self, changes.columns, found)
        old, new = self._ranked(former, values), self._ranked(lists, values)
        gone = [(place, rank) for place, rank in old.items() if new.get(place) != rank]
        came = [(place, rank) for place, rank in new.items() if old.get(place) != rank]
        if not self._told.rank:
            gone = [(place, rank) for place, rank in gone if place not in new]
            came = [(place, rank) for place, rank in came if place not in old]
        kinds = [UPDATE_BEFORE if place in new else DELETE for place, _ in gone]
        kinds += [UPDATE_AFTER if place in old else INSERT for place, _ in came]
        places = np.array([place for place, _ in gone + came], np.int64)
        ranks = np.array([rank for _, rank in gone + came], np.int64)
        self._send_rows(changes, found, found.rows[places], np.array(kinds, np.int8), ranks)

    def _ranked(self, lists: list[list[int]], values: Ints) -> dict[int, int]:
        """Return the rank of every place that is wanted, with equal ranks for equal rows."""
        told, dense = self._told, self._told.function.upper() == "DENSE_RANK"
        found: dict[int, int] = {}
        for members in lists:
            rank, last = 0, None
            for number, place in enumerate(members, 1):
                value = int(values[place])
                if value != last:
                    rank, last = (rank + 1 if dense else number), value
                if rank > told.end:
                    break
                if rank >= told.start:
                    found[place] = rank
        return found

    # --- rows out ----------------------------------------------------------------------------------------------------

    def _send_ranks(
        self, changes: Changes, found: _Candidates, steps: Ints, ranks: Ints, before: Ints, after: Ints
    ) -> None:
        """Send changes rank by rank."""
        there, comes = before != NONE, after != NONE
        update = there & comes
        gone = np.flatnonzero(there if self._told.update_before else there & ~comes)
        came = np.flatnonzero(comes)
        position = np.concatenate([2 * gone, 2 * came + 1])
        order = np.argsort(position, kind="stable")
        rows = found.rows[np.concatenate([before[gone], after[came]])[order]]
        kinds = np.concatenate(
            [np.where(update[gone], UPDATE_BEFORE, DELETE), np.where(update[came], UPDATE_AFTER, INSERT)]
        ).astype(np.int8)[order]
        self._send_rows(changes, found, rows, kinds, np.concatenate([ranks[gone], ranks[came]])[order])

    def _send_rows(self, changes: Changes, found: _Candidates, rows: Ints, kinds: Ints, ranks: Ints | None) -> None:
        if not len(rows):
            return
        columns = list(changes.columns.columns)
        held = np.unique(rows[rows >= found.length])
        if len(held):  # of the rows that are held only those that are sent are fetched
            fetched = self._store.rows(found.slots[held - found.length])
            columns = [pa.concat_arrays([own, more]) for own, more in zip(columns, fetched, strict=True)]
            rows = np.where(rows >= found.length, found.length + np.searchsorted(held, rows), rows)
        arrays = taken(columns, rows)
        if self._told.rank:
            arrays.append(pa.array(np.ones(len(rows), np.int64) if ranks is None else ranks, pa.int64()))
        self.send(arrays, kinds if kinds.any() else None)


def ranks_of_places(operator: RankRowsOperator, columns: pa.RecordBatch, found: _Candidates) -> Ints:
    """Return by place the number that rows with equal sort keys share."""
    told, store = operator._told, operator._store
    held = store.some_columns(found.slots, sorted({key.column for key in told.order})) if len(found.slots) else {}

    def column(place: int) -> pa.Array:
        own = columns.column(place)
        return pa.concat_arrays([own, held[place]]) if len(found.slots) else own

    return ranks_of(column, told.order, len(found.groups))[found.rows]


def matrix(lists: list[list[int]], width: int) -> Ints:
    """Return the first places of lists as rows of so many ranks."""
    found = np.full((len(lists), width), NONE, np.int64)
    for group, members in enumerate(lists):
        best = members[:width]
        found[group, : len(best)] = best
    return found

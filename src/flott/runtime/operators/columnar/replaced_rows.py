"""One row for a key, replaced by the next one: what deduplication and normalization send. Pure but for the state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.base import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from flott.runtime.operators.columnar.join_pairs import taken
from flott.runtime.operators.columnar.kept_rows import KeptRows
from flott.runtime.operators.columnar.key_codes import Flags, Ints, begins, same_rows


@dataclass(frozen=True)
class Steps:
    """Rows of an epoch that become the row of their key, or end it; by key, and in the order in which they came.

    ``former`` is the position of the row that was there before, counted on from the epoch's rows in those of the state,
    or -1 if there was none.
    """

    rows: Ints
    slots: Ints
    former: Ints
    added: Flags  #: False: the key has no row any more


def steps_of(rows: Ints, slots: Ints, added: Flags, known: Flags, length: int) -> tuple[Steps, Ints]:
    """Return the steps of rows that are sorted by slot, and the slots whose rows of the state they refer to.

    ``known``: whether state holds a row for the key, by row.
    """
    starts = begins(slots)
    former = np.empty(len(rows), np.int64)
    if len(rows):
        former[1:] = np.where(added[:-1], rows[:-1], -1)
    first = np.flatnonzero(starts)
    held = first[known[first]]
    former[first] = -1
    former[held] = length + np.arange(len(held))
    return Steps(rows, slots, former, added), slots[held]


@dataclass(frozen=True)
class Replacement:
    """What is sent: positions of rows as in :class:`Steps`, with kinds, in the order in which rows came."""

    rows: Ints
    kinds: Ints


def replacement(steps: Steps, same: Flags | None, update_before: bool) -> Replacement:
    """Return the changes of steps. ``same``: the row equals the one before, so there is nothing to send."""
    there = steps.former >= 0
    inserts = steps.added & ~there
    updates = steps.added & there
    if same is not None:
        updates &= ~same
    deletes = ~steps.added & there
    parts = [
        (steps.rows[inserts], steps.rows[inserts], INSERT, 1),
        (steps.rows[updates], steps.rows[updates], UPDATE_AFTER, 1),
        (steps.rows[deletes], steps.former[deletes], DELETE, 0),
    ]
    if update_before:
        parts.append((steps.rows[updates], steps.former[updates], UPDATE_BEFORE, 0))
    order = np.concatenate([2 * at + later for at, _, _, later in parts])
    rows = np.concatenate([source for _, source, _, _ in parts])
    kinds = np.concatenate([np.full(len(at), kind, np.int8) for at, _, kind, _ in parts])
    sequence = np.argsort(order, kind="stable")
    return Replacement(rows[sequence], kinds[sequence])


def with_held_rows(columns: pa.RecordBatch, store: KeptRows, slots: Ints) -> list[pa.Array]:
    """Return the rows of an epoch, and behind them rows of the state."""
    if not len(slots):
        return list(columns.columns)
    held = store.rows(slots)
    return [pa.concat_arrays([column, former]) for column, former in zip(columns.columns, held, strict=True)]


def equal_to_former(steps: Steps, columns: list[pa.Array], skip: tuple[int, ...]) -> Flags:
    """Return which rows equal those that they replace, apart from some columns that are equal anyway."""
    compared = np.flatnonzero(steps.added & (steps.former >= 0))
    same = np.zeros(len(steps.rows), np.bool_)
    if len(compared):
        others = [column for place, column in enumerate(columns) if place not in skip]
        same[compared] = same_rows(
            taken(others, steps.rows[compared]), taken(others, steps.former[compared]), len(compared)
        )
    return same

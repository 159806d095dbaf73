"""Kinds of changes that a stream of changes may hold."""

from __future__ import annotations

from dataclasses import dataclass

from flott.common.types import RowKind

__all__ = ["ChangelogMode"]


@dataclass(frozen=True)
class ChangelogMode:
    """The kinds of rows in a changelog."""

    kinds: frozenset[RowKind]

    @staticmethod
    def insert_only() -> ChangelogMode:
        """Return the mode of streams that only add rows."""
        return ChangelogMode(frozenset({RowKind.INSERT}))

    @staticmethod
    def upsert() -> ChangelogMode:
        """Return the mode of streams in which a row replaces the one of its key."""
        return ChangelogMode(frozenset({RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE}))

    @staticmethod
    def all() -> ChangelogMode:
        """Return the mode of streams with all kinds of changes."""
        return ChangelogMode(frozenset(RowKind))

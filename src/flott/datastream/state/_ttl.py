"""The time to live of state: a value and its builder, nested as in PyFlink.

The runtime reads the value and expires entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import ClassVar

from flott.common.time import Duration, Time


class _Value:
    """A value that is compared and hashed by its ``_content``."""

    __slots__ = ()

    def _content(self) -> tuple[object, ...]:
        return ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Value) or type(self) is not type(other):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash((type(self).__qualname__, self._content()))


class StateTtlConfig(_Value):
    """When entries of a state expire, and how they are removed.

    >>> config = StateTtlConfig.new_builder(Time.days(1)).update_ttl_on_read_and_write().build()
    >>> config.get_update_type().name, str(config.get_ttl())
    ('OnReadAndWrite', '86400000 ms')
    """

    class UpdateType(Enum):
        """The accesses that renew the time to live of an entry. ``Disabled``: entries do not expire."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """Whether an entry is visible between its expiry and its removal."""

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """The clock of the time to live. Event time is Flott's own; Flink has only processing time."""

        ProcessingTime = 0
        EventTime = 1

    class CleanupStrategies(_Value):
        """How expired entries that are not read are removed."""

        class Strategies(Enum):
            """The strategies that remove expired entries."""

            FULL_STATE_SCAN_SNAPSHOT = 0
            INCREMENTAL_CLEANUP = 1
            ROCKSDB_COMPACTION_FILTER = 2

        class CleanupStrategy(_Value):
            """The settings of one strategy."""

        class EmptyCleanupStrategy(CleanupStrategy):
            """A strategy without settings."""

        class IncrementalCleanupStrategy(CleanupStrategy):
            """Checks a few entries at each access to state."""

            def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool):
                self._cleanup_size = cleanup_size
                self._run_cleanup_for_every_record = run_cleanup_for_every_record

            def _content(self) -> tuple[object, ...]:
                return self._cleanup_size, self._run_cleanup_for_every_record

            def get_cleanup_size(self) -> int:
                """Return the number of entries that are checked each time."""
                return self._cleanup_size

            def run_cleanup_for_every_record(self) -> bool:
                """Return whether entries are also checked for records that do not access state."""
                return self._run_cleanup_for_every_record

        class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
            """Drops expired entries during compaction."""

            def __init__(self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None):
                self._query_time_after_num_entries = query_time_after_num_entries
                self._periodic_compaction_time = periodic_compaction_time or Duration.of_days(30)

            def _content(self) -> tuple[object, ...]:
                return self._query_time_after_num_entries, self._periodic_compaction_time

            def get_query_time_after_num_entries(self) -> int:
                """Return the number of entries after which the clock is read again."""
                return self._query_time_after_num_entries

            def get_periodic_compaction_time(self) -> Duration:
                """Return the age at which a file is compacted in any case."""
                return self._periodic_compaction_time

        EMPTY_STRATEGY: ClassVar[EmptyCleanupStrategy] = EmptyCleanupStrategy()

        def __init__(self, strategies: Mapping[Strategies, CleanupStrategy], is_cleanup_in_background: bool):
            self._strategies = dict(strategies)
            self._is_cleanup_in_background = is_cleanup_in_background

        def _content(self) -> tuple[object, ...]:
            return frozenset(self._strategies.items()), self._is_cleanup_in_background

        def is_cleanup_in_background(self) -> bool:
            """Return whether expired entries are also removed by strategies that were not chosen explicitly."""
            return self._is_cleanup_in_background

        def in_full_snapshot(self) -> bool:
            """Return whether snapshots omit expired entries."""
            return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

        def get_incremental_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy | None:
            """Return the chosen strategy, or the default (5 entries) for background cleanup, or ``None``."""
            chosen = self._strategies.get(self.Strategies.INCREMENTAL_CLEANUP)
            if isinstance(chosen, StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy):
                return chosen
            return self.IncrementalCleanupStrategy(5, False) if self._is_cleanup_in_background else None

        def get_rocksdb_compact_filter_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy | None:
            """Return the chosen strategy, or the default (1000 entries) for background cleanup, or ``None``."""
            chosen = self._strategies.get(self.Strategies.ROCKSDB_COMPACTION_FILTER)
            if isinstance(chosen, StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy):
                return chosen
            return self.RocksdbCompactFilterCleanupStrategy(1000) if self._is_cleanup_in_background else None

    class Builder:
        """Collects the settings. Each method returns the builder."""

        def __init__(self, ttl: Time | Duration):
            self._ttl = _positive_time(ttl)
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._state_visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._ttl_time_characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._is_cleanup_in_background = True
            self._strategies: dict[
                StateTtlConfig.CleanupStrategies.Strategies, StateTtlConfig.CleanupStrategies.CleanupStrategy
            ] = {}

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> StateTtlConfig.Builder:
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: StateTtlConfig.StateVisibility) -> StateTtlConfig.Builder:
            self._state_visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> StateTtlConfig.Builder:
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            self._ttl_time_characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def use_event_time(self) -> StateTtlConfig.Builder:
            """Let entries age by the timestamps of records and timers. Flott's own; Flink has only processing time."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime)

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Omit expired entries in savepoints."""
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.FULL_STATE_SCAN_SNAPSHOT] = strategies.EMPTY_STRATEGY
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> StateTtlConfig.Builder:
            """Check ``cleanup_size`` entries at each access to state, or for every record."""
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.INCREMENTAL_CLEANUP] = strategies.IncrementalCleanupStrategy(
                cleanup_size, run_cleanup_for_every_record
            )
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
        ) -> StateTtlConfig.Builder:
            """Drop expired entries during the compaction of state files, with either backend.

            Arguments have no effect.
            """
            strategies = StateTtlConfig.CleanupStrategies
            self._strategies[strategies.Strategies.ROCKSDB_COMPACTION_FILTER] = (
                strategies.RocksdbCompactFilterCleanupStrategy(query_time_after_num_entries, periodic_compaction_time)
            )
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Remove expired entries only when they are read, and by the strategies that were chosen explicitly."""
            self._is_cleanup_in_background = False
            return self

        def set_ttl(self, ttl: Time | Duration) -> StateTtlConfig.Builder:
            self._ttl = _positive_time(ttl)
            return self

        def build(self) -> StateTtlConfig:
            return StateTtlConfig(
                self._update_type,
                self._state_visibility,
                self._ttl_time_characteristic,
                self._ttl,
                StateTtlConfig.CleanupStrategies(self._strategies, self._is_cleanup_in_background),
            )

    def __init__(
        self,
        update_type: UpdateType,
        state_visibility: StateVisibility,
        ttl_time_characteristic: TtlTimeCharacteristic,
        ttl: Time,
        cleanup_strategies: CleanupStrategies,
    ):
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = ttl
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Time | Duration) -> StateTtlConfig.Builder:
        """Start with a time to live, a ``Duration`` or PyFlink's ``Time``."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> UpdateType:
        return self._update_type

    def get_state_visibility(self) -> StateVisibility:
        return self._state_visibility

    def get_ttl(self) -> Time:
        return self._ttl

    def get_ttl_time_characteristic(self) -> TtlTimeCharacteristic:
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Return whether entries expire."""
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> CleanupStrategies:
        return self._cleanup_strategies

    def _content(self) -> tuple[object, ...]:
        return (
            self._update_type,
            self._state_visibility,
            self._ttl_time_characteristic,
            self._ttl,
            self._cleanup_strategies,
        )

    def __repr__(self) -> str:
        return f"StateTtlConfig<{self._ttl}, {self._update_type.name}, {self._state_visibility.name}>"


def _positive_time(ttl: Time | Duration) -> Time:
    time = Time.milliseconds(ttl.to_millis()) if isinstance(ttl, Duration) else ttl
    if time.to_milliseconds() <= 0:
        raise ValueError(f"State lives for at least one millisecond, found a time to live of {ttl}.")
    return time

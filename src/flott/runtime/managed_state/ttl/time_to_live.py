"""Time to live of state: what a program asked for, and what follows from it. Values and pure decisions; either side.

State that has a time to live is kept *stamped*: ``(value, stamp)``, the stamp being the time, in milliseconds, at which
the value was last written (or read, if reading prolongs its life). A value of a value table is stamped, every element
of a list, every value in a map; each expires on its own:

    stamp ──── time to live ────► expired, and gone                                  NeverReturnExpired
    stamp ──── time to live ────► expired ──── once more the same ────► gone         ReturnExpiredIfNotCleanedUp

What is *gone* is never seen again, and nothing else is removed without the program. So it does not matter when that
happens, or in which copy of the state: a repeated epoch sees what the first attempt saw.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from flott.common.watermark_strategy import MAX_WATERMARK
from flott.datastream.state._ttl import StateTtlConfig
from flott.errors import ProgramError
from flott.runtime.managed_state.files.table_header import Json
from flott.runtime.managed_state.kinds.registry import kind_of
from flott.runtime.managed_state.kinds.table_kind import Delta

#: How the names of tables end whose values are stamped, by whether the stamps are of event time. A state that gets a
#: time to live, or loses it, thereby gets another table: no table, and so no file of it, ever holds both forms.
_ENDINGS = {False: "@ttl", True: "@event-ttl"}

#: The stamp of what was written before event time began, by a record without a timestamp: it never expires.
UNSTAMPED = MAX_WATERMARK

_Update = StateTtlConfig.UpdateType
_Visibility = StateTtlConfig.StateVisibility
_Characteristic = StateTtlConfig.TtlTimeCharacteristic


@dataclass(frozen=True)
class TimeToLive:
    """A StateTtlConfig as the runtime reads it."""

    ms: int
    in_event_time: bool = False
    on_read: bool = False  #: reading prolongs life, too
    returns_expired: bool = False
    sweep_entries: int = 0  #: how many entries are looked at for every access of state; 0: none
    sweep_every_record: bool = False  #: ... and for every record
    in_snapshots: bool = False  #: savepoints leave out what is gone
    in_compaction: bool = False  #: compaction leaves out what is gone
    since_ms: int = field(default=0, compare=False)  #: when a program first asked for it

    @property
    def lifespan_ms(self) -> int:
        """Return how long after its stamp something is gone."""
        return 2 * self.ms if self.returns_expired else self.ms

    @staticmethod
    def of(config: StateTtlConfig | None) -> TimeToLive | None:
        """Return what a program asked for; None: state does not expire."""
        if config is None or not config.is_enabled():
            return None
        cleanup = config.get_cleanup_strategies()
        sweep = cleanup.get_incremental_cleanup_strategy()
        return TimeToLive(
            ms=config.get_ttl().to_milliseconds(),
            in_event_time=config.get_ttl_time_characteristic() is _Characteristic.EventTime,
            on_read=config.get_update_type() is _Update.OnReadAndWrite,
            returns_expired=config.get_state_visibility() is _Visibility.ReturnExpiredIfNotCleanedUp,
            sweep_entries=max(sweep.get_cleanup_size(), 0) if sweep is not None else 0,
            sweep_every_record=sweep is not None and sweep.run_cleanup_for_every_record(),
            in_snapshots=cleanup.in_full_snapshot(),
            in_compaction=cleanup.get_rocksdb_compact_filter_cleanup_strategy() is not None,
        )

    def to_json(self) -> Json:
        """As the header of a table spells it."""
        return {
            "since": self.since_ms,
            "ms": self.ms,
            "time": "event" if self.in_event_time else "processing",
            "update": (_Update.OnReadAndWrite if self.on_read else _Update.OnCreateAndWrite).name,
            "visibility": (
                _Visibility.ReturnExpiredIfNotCleanedUp if self.returns_expired else _Visibility.NeverReturnExpired
            ).name,
            "cleanup": {
                "entries": self.sweep_entries,
                "every-record": self.sweep_every_record,
                "snapshots": self.in_snapshots,
                "compaction": self.in_compaction,
            },
        }

    @staticmethod
    def from_json(content: Json) -> TimeToLive:
        """Return what the header of a table says; names it does not know are passed over."""
        cleanup = content.get("cleanup", {})
        return TimeToLive(
            since_ms=content["since"],
            ms=content["ms"],
            in_event_time=content["time"] == "event",
            on_read=content["update"] == _Update.OnReadAndWrite.name,
            returns_expired=content["visibility"] == _Visibility.ReturnExpiredIfNotCleanedUp.name,
            sweep_entries=cleanup.get("entries", 0),
            sweep_every_record=cleanup.get("every-record", False),
            in_snapshots=cleanup.get("snapshots", False),
            in_compaction=cleanup.get("compaction", False),
        )


def table_name(state: str, ttl: TimeToLive | None) -> str:
    """Return the name of the table that holds a state."""
    if ttl is not None:
        return state + _ENDINGS[ttl.in_event_time]
    if state_name(state) != state:
        raise ProgramError(
            f"The name of the state {state!r} ends as those do by which Flott keeps state with a time to live. Give it"
            " another name."
        )
    return state


def state_name(table: str) -> str:
    """Return the name of the state that a table holds."""
    for ending in _ENDINGS.values():
        table = table.removesuffix(ending)
    return table


def former_names(state: str, ttl: TimeToLive | None) -> list[str]:
    """Return the names of tables that may hold a state since it had another time to live, or none."""
    names = [state, *(state + ending for ending in _ENDINGS.values())]
    return [name for name in names if name != table_name(state, ttl)]


def newest(ttls: Iterable[Json | None]) -> Json | None:
    """Of what several files say about the time to live of a table, what was said last."""
    return max((ttl for ttl in ttls if ttl is not None), key=lambda ttl: ttl["since"], default=None)


@dataclass(frozen=True)
class Horizon:
    """The time to which a base of state files belongs: that of a checkpoint. No later epoch has an earlier one."""

    now_ms: int
    watermark: int  #: what closed the checkpoint's epoch, for the subtask
    detached: bool = False  #: it is a savepoint: no copy of the state in memory goes on from it


def drop_expired(kind: str, delta: Delta, ttl: Json, horizon: Horizon) -> Delta:
    """Return a base of a table without what is gone, if the program wants files cleaned up."""
    wanted, detached = TimeToLive.from_json(ttl), horizon.detached
    if not (wanted.in_compaction or (detached and wanted.in_snapshots)):
        return delta
    deadline = (horizon.watermark if wanted.in_event_time else horizon.now_ms) - wanted.lifespan_ms
    return kind_of(kind).drop_expired(delta, deadline, detached=detached)

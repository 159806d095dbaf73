"""State backends as values. Nothing is opened here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from flott.errors import ConfigurationError, ProgramError

__all__ = [
    "StateBackend",
    "HashMapStateBackend",
    "EmbeddedRocksDBStateBackend",
    "CustomStateBackend",
    "PredefinedOptions",
]


class StateBackend:
    """The base class of state backends."""


@dataclass(frozen=True)
class HashMapStateBackend(StateBackend):
    """State as Python objects in the memory of the tasks.

    >>> HashMapStateBackend() == HashMapStateBackend()
    True
    """


class PredefinedOptions(Enum):
    """RocksDB settings for kinds of disks."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class EmbeddedRocksDBStateBackend(StateBackend):
    """State in RocksDB on the executors' local disks, for state larger than memory. Needs ``flott[rocksdb]``.

    >>> backend = EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=True)
    >>> backend.is_incremental_checkpoints_enabled()
    True
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None):
        if enable_incremental_checkpointing not in (None, True, False):
            raise TypeError(
                f"enable_incremental_checkpointing is True, False or None (as configured), "
                f"found {enable_incremental_checkpointing!r}."
            )
        self._incremental = enable_incremental_checkpointing
        self._db_storage_paths: tuple[str, ...] = ()
        self._predefined_options = PredefinedOptions.DEFAULT
        self._number_of_transfer_threads = 4

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set the local directories of RocksDB's files. Without any, the executor's temporary directories are used."""
        self._db_storage_paths = paths

    def get_db_storage_paths(self) -> list[str]:
        return list(self._db_storage_paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        return bool(self._incremental)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        self._predefined_options = options

    def get_predefined_options(self) -> PredefinedOptions:
        return self._predefined_options

    def set_options(self, options_factory_class_name: str) -> NoReturn:
        """Refuse the call: an options factory is a Java class."""
        raise ProgramError(
            f"set_options({options_factory_class_name!r}) names a Java class, which Flott does not run. Use"
            " set_predefined_options()."
        )

    def get_options(self) -> None:
        """Return None: an options factory is a Java class."""

    def get_number_of_transfer_threads(self) -> int:
        return self._number_of_transfer_threads

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        if number_of_transfering_threads < 1:
            raise ConfigurationError(
                f"RocksDB transfers files with at least one thread, found {number_of_transfering_threads}."
            )
        self._number_of_transfer_threads = number_of_transfering_threads

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if isinstance(other, EmbeddedRocksDBStateBackend) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it has setters, as in PyFlink

    def __repr__(self) -> str:
        return f"EmbeddedRocksDBStateBackend(enable_incremental_checkpointing={self._incremental})"


class CustomStateBackend(StateBackend):
    """A state backend written in Java in PyFlink. Flott has none and refuses to create one."""

    def __init__(self, j_custom_state_backend: object = None):
        raise ProgramError(
            f"CustomStateBackend({j_custom_state_backend!r}) names a Java object, which Flott does not run. Use"
            " HashMapStateBackend(), or leave the state backend out."
        )

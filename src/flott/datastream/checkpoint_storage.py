"""Checkpoint storages as values. Nothing is opened or created here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar

from flott.errors import ConfigurationError, ProgramError

__all__ = [
    "CheckpointStorage",
    "JobManagerCheckpointStorage",
    "FileSystemCheckpointStorage",
    "CustomCheckpointStorage",
]


class CheckpointStorage:
    """The base class of checkpoint storages."""


@dataclass(frozen=True, init=False)
class JobManagerCheckpointStorage(CheckpointStorage):
    """Checkpoints in the driver's memory, for experiments. They are lost when the driver ends.

    >>> JobManagerCheckpointStorage().get_max_state_size()
    5242880
    """

    #: The default maximum size of one state: 5 MiB.
    DEFAULT_MAX_STATE_SIZE: ClassVar[int] = 5 * 1024 * 1024

    checkpoint_path: str | None
    max_state_size: int

    def __init__(self, checkpoint_path: str | os.PathLike[str] | None = None, max_state_size: int | None = None):
        size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        if size <= 0:
            raise ConfigurationError(f"The largest state a checkpoint may hold is at least one byte, found {size}.")
        object.__setattr__(self, "checkpoint_path", None if checkpoint_path is None else os.fspath(checkpoint_path))
        object.__setattr__(self, "max_state_size", size)

    def get_checkpoint_path(self) -> str | None:
        """Return the directory for metadata, or ``None`` for that of the configuration."""
        return self.checkpoint_path

    def get_max_state_size(self) -> int:
        """Return the maximum size of one state in bytes."""
        return self.max_state_size

    def get_savepoint_path(self) -> str | None:
        """Return ``None``: the savepoint directory of the configuration is used."""
        return None


@dataclass(frozen=True, init=False)
class FileSystemCheckpointStorage(CheckpointStorage):
    """Checkpoints as files in a directory that the driver and all executors can access.

    >>> FileSystemCheckpointStorage("file:///data/checkpoints").get_checkpoint_path()
    'file:///data/checkpoints'
    """

    #: The maximum threshold: 1 MiB.
    MAX_FILE_STATE_THRESHOLD: ClassVar[int] = 1024 * 1024
    _DEFAULT_FILE_STATE_THRESHOLD: ClassVar[int] = 20 * 1024
    _DEFAULT_WRITE_BUFFER_SIZE: ClassVar[int] = 4096

    checkpoint_path: str
    file_state_size_threshold: int  #: -1: that of the configuration
    write_buffer_size: int  #: -1: that of the configuration

    def __init__(
        self,
        checkpoint_path: str | os.PathLike[str] | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
    ):
        path = os.fspath(checkpoint_path) if checkpoint_path is not None else ""
        if not path:
            raise ConfigurationError(
                "FileSystemCheckpointStorage needs a directory, found none: pass a path such as 'file:///data/checkpoints'."
            )
        threshold = -1 if file_state_size_threshold is None else file_state_size_threshold
        if not -1 <= threshold <= self.MAX_FILE_STATE_THRESHOLD:
            raise ConfigurationError(
                f"The threshold for small state lies between 0 and {self.MAX_FILE_STATE_THRESHOLD} bytes "
                f"(-1: as configured), found {threshold}."
            )
        object.__setattr__(self, "checkpoint_path", path)
        object.__setattr__(self, "file_state_size_threshold", threshold)
        object.__setattr__(self, "write_buffer_size", write_buffer_size)

    def get_checkpoint_path(self) -> str:
        """Return the directory as it was given."""
        return self.checkpoint_path

    def get_savepoint_path(self) -> str | None:
        """Return ``None``: the savepoint directory of the configuration is used."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """Return the size in bytes below which state is stored with the metadata and not in a separate file."""
        if self.file_state_size_threshold < 0:
            return self._DEFAULT_FILE_STATE_THRESHOLD
        return self.file_state_size_threshold

    def get_write_buffer_size(self) -> int:
        """Return the size of the write buffer in bytes."""
        return self.write_buffer_size if self.write_buffer_size > 0 else self._DEFAULT_WRITE_BUFFER_SIZE


class CustomCheckpointStorage(CheckpointStorage):
    """A storage written in Java in PyFlink. Flott has none and refuses to create one."""

    def __init__(self, j_custom_checkpoint_storage: object = None):
        raise ProgramError(
            f"CustomCheckpointStorage({j_custom_checkpoint_storage!r}) names a Java object, which Flott does not run."
            " Use FileSystemCheckpointStorage(directory)."
        )

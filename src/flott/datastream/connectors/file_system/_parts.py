"""When output becomes a part file, and what that is called: values only."""

from __future__ import annotations

import os
from dataclasses import dataclass

from flott._absent import no_java_object
from flott.errors import ProgramError


class RollingPolicy:
    """When the output of several checkpoints is put together and published as one part file."""

    get_java_object = no_java_object("get_java_object")

    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128,
        rollover_interval: int = 60 * 1000,
        inactivity_interval: int = 60 * 1000,
    ) -> DefaultRollingPolicy:
        """When it is large enough, old enough, or nothing was added for long enough. Bytes and milliseconds."""
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """After every checkpoint."""
        return OnCheckpointRollingPolicy()


@dataclass(frozen=True)
class DefaultRollingPolicy(RollingPolicy):
    """By size, by age and by inactivity, whichever comes first. Checked after each checkpoint."""

    part_size: int = 1024 * 1024 * 128
    rollover_interval: int = 60 * 1000
    inactivity_interval: int = 60 * 1000

    def __post_init__(self) -> None:
        for name in ("part_size", "rollover_interval", "inactivity_interval"):
            if getattr(self, name) <= 0:
                raise ProgramError(f"The {name} of a rolling policy is above 0, found {getattr(self, name)}.")


@dataclass(frozen=True)
class OnCheckpointRollingPolicy(RollingPolicy):
    """After every checkpoint: the only policy for bulk formats, whose files cannot be put together."""


@dataclass(frozen=True)
class OutputFileConfig:
    """How part files are called: ``{prefix}-{writer}-{subtask}-{first epoch}-{last epoch}{suffix}``."""

    part_prefix: str = "part"
    part_suffix: str = ""

    get_java_object = no_java_object("get_java_object")

    def __post_init__(self) -> None:
        for text in (self.part_prefix, self.part_suffix):
            if os.sep in text or "\0" in text:
                raise ProgramError(f"A part file's prefix and suffix are parts of a name, found {text!r}.")
        if not self.part_prefix or self.part_prefix[0] in "._":
            raise ProgramError(f"Readers take {self.part_prefix!r}-… for unfinished: choose a prefix without . or _.")

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        return self.part_prefix

    def get_part_suffix(self) -> str:
        return self.part_suffix

    class OutputFileConfigBuilder:
        """Collects the prefix and the suffix."""

        def __init__(self) -> None:
            self.part_prefix = "part"
            self.part_suffix = ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            self.part_prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            self.part_suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            return OutputFileConfig(self.part_prefix, self.part_suffix)


@dataclass(frozen=True)
class FileCompactStrategy:
    """When Flink would compact. Flott's sink always puts the output of several checkpoints together: see the policy."""

    num_checkpoints_before_compaction: int = -1
    size_threshold: int = -1
    num_compact_threads: int = 1

    get_java_object = no_java_object("get_java_object")

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        return FileCompactStrategy.Builder()

    class Builder:
        """Collects what a ported program says."""

        def __init__(self) -> None:
            self._checkpoints = -1
            self._size = -1
            self._threads = 1

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            self._checkpoints = num_checkpoints_before_compaction
            return self

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            self._size = size_threshold
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            self._threads = num_compact_threads
            return self

        def build(self) -> FileCompactStrategy:
            return FileCompactStrategy(self._checkpoints, self._size, self._threads)


@dataclass(frozen=True)
class FileCompactor:
    """How Flink would compact. Here for ported programs: row formats are concatenated in any case."""

    get_java_object = no_java_object("get_java_object")

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """One file after the other, with nothing between them."""
        if file_delimiter:
            raise ProgramError(
                f"Flott puts nothing between the files it concatenates, found the delimiter {file_delimiter!r}: let the"
                " encoder end each record with what must follow it."
            )
        return FileCompactor()

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Return one that leaves files as they are."""
        return FileCompactor()

"""Slot sharing groups and memory sizes, as values.

Spark places tasks, so a group does not affect where an operator runs. It is kept with the operator, and shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from flott._absent import no_java_object
from flott.errors import ConfigurationError

__all__ = ["MemorySize", "SlotSharingGroup"]

_KIBI = 1024
_UNITS = ((_KIBI**4, "tb"), (_KIBI**3, "gb"), (_KIBI**2, "mb"), (_KIBI, "kb"))


@dataclass(frozen=True, order=True)
class MemorySize:
    """A memory size.

    >>> MemorySize.of_mebi_bytes(2048).get_gibi_bytes()
    2
    >>> str(MemorySize(bytes_size=3 * 1024))
    '3 kb'
    """

    bytes_size: int

    get_java_memory_size = no_java_object("get_java_memory_size")

    def __post_init__(self) -> None:
        if self.bytes_size < 0:
            raise ConfigurationError(f"A memory size is zero or more bytes, found {self.bytes_size}.")

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        return MemorySize(mebi_bytes * _KIBI**2)

    def get_bytes(self) -> int:
        return self.bytes_size

    def get_kibi_bytes(self) -> int:
        return self.bytes_size // _KIBI

    def get_mebi_bytes(self) -> int:
        return self.bytes_size // _KIBI**2

    def get_gibi_bytes(self) -> int:
        return self.bytes_size // _KIBI**3

    def get_tebi_bytes(self) -> int:
        return self.bytes_size // _KIBI**4

    def __str__(self) -> str:
        """Return the form of configuration files, with the largest exact unit: ``3 mb``."""
        for size, label in _UNITS:
            if self.bytes_size and self.bytes_size % size == 0:
                return f"{self.bytes_size // size} {label}"
        return f"{self.bytes_size} bytes"


@dataclass(frozen=True)
class SlotSharingGroup:
    """A name for a group of operators, and their requested resources.

    >>> group = SlotSharingGroup.builder("heavy").set_cpu_cores(2.0).set_task_heap_memory_mb(512).build()
    >>> group.get_name(), str(group.get_task_heap_memory())
    ('heavy', '512 mb')
    """

    name: str
    cpu_cores: float | None = None
    task_heap_memory: MemorySize | None = None
    task_off_heap_memory: MemorySize | None = None
    managed_memory: MemorySize | None = None
    external_resources: tuple[tuple[str, float], ...] = ()  #: pairs sorted by name, so that equal groups compare equal

    get_java_slot_sharing_group = no_java_object("get_java_slot_sharing_group")

    def get_name(self) -> str:
        return self.name

    def get_managed_memory(self) -> MemorySize | None:
        return self.managed_memory

    def get_task_heap_memory(self) -> MemorySize | None:
        return self.task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        return self.task_off_heap_memory

    def get_cpu_cores(self) -> float | None:
        return self.cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        return dict(self.external_resources)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        return SlotSharingGroup.Builder(name)

    class Builder:
        """Collects the resources. Each method returns the builder. Either none is given, or at least CPU and heap."""

        def __init__(self, name: str):
            self._name = name
            self._cpu_cores: float | None = None
            self._task_heap_memory: MemorySize | None = None
            self._task_off_heap_memory: MemorySize | None = None
            self._managed_memory: MemorySize | None = None
            self._external_resources: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            if cpu_cores <= 0:
                raise ConfigurationError(f"Slot sharing group {self._name!r}: CPU cores are positive, not {cpu_cores}.")
            self._cpu_cores = cpu_cores
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            if not task_heap_memory.get_bytes():
                raise ConfigurationError(f"Slot sharing group {self._name!r}: task heap memory is positive, not 0.")
            self._task_heap_memory = task_heap_memory
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            self._task_off_heap_memory = task_off_heap_memory
            return self

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            self._managed_memory = managed_memory
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            self._external_resources[name] = value
            return self

        def build(self) -> SlotSharingGroup:
            given = (self._cpu_cores, self._task_heap_memory, self._task_off_heap_memory, self._managed_memory)
            if given == (None, None, None, None) and not self._external_resources:
                return SlotSharingGroup(self._name)
            if self._cpu_cores is None or self._task_heap_memory is None:
                raise ConfigurationError(
                    f"Slot sharing group {self._name!r} names some resources but not both CPU cores and task heap "
                    f"memory: call set_cpu_cores and set_task_heap_memory too, or name no resources at all."
                )
            return SlotSharingGroup(
                self._name,
                self._cpu_cores,
                self._task_heap_memory,
                self._task_off_heap_memory or MemorySize(0),
                self._managed_memory or MemorySize(0),
                tuple(sorted(self._external_resources.items())),
            )

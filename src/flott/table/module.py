"""Modules of functions. Flott has the core module only."""

from __future__ import annotations

from dataclasses import dataclass

from flott.errors import ProgramError

__all__ = ["HiveModule", "Module", "ModuleEntry"]


@dataclass(frozen=True)
class Module:
    """A set of functions by name."""

    name: str


class HiveModule(Module):
    """Hive's functions, which are Java classes."""

    def __init__(self, hive_version: str | None = None) -> None:
        raise ProgramError("Hive's functions are Java classes; Flott has the core module only")


@dataclass(frozen=True)
class ModuleEntry:
    """A loaded module, and whether its functions are used."""

    module_name: str
    is_used: bool

    def name(self) -> str:
        """Return the name of the module."""
        return self.module_name

    def used(self) -> bool:
        """Return whether its functions are used."""
        return self.is_used

"""Schemas that derive functions from their settings, once in each process. Runs in tasks."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class CompiledSchema:
    """The base of a frozen dataclass with cached properties: a pickle holds the fields only."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

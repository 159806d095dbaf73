"""Where a compiled plan is: in a file or in a text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flott.errors import ProgramError

__all__ = ["BytesContentPlanReference", "FilePlanReference", "JsonContentPlanReference", "PlanReference"]


class PlanReference:
    """Where a compiled plan is."""

    @staticmethod
    def from_file(path: str | Path) -> FilePlanReference:
        """Return the plan in a file."""
        return FilePlanReference(Path(path))

    @staticmethod
    def from_json_string(json_string: str) -> JsonContentPlanReference:
        """Return the plan that a text is."""
        return JsonContentPlanReference(json_string)

    @staticmethod
    def from_smile_bytes(smile_bytes: bytes) -> BytesContentPlanReference:
        """Refuse the plan: Smile is a binary form of JSON that only Jackson writes."""
        raise ProgramError("Flott stores compiled plans as JSON; use PlanReference.from_json_string()")


@dataclass(frozen=True)
class FilePlanReference(PlanReference):
    """A plan in a file."""

    path: Path

    def get_file(self) -> Path:
        """Return the file."""
        return self.path


@dataclass(frozen=True)
class JsonContentPlanReference(PlanReference):
    """A plan in a text."""

    content: str

    def get_content(self) -> str:
        """Return the text."""
        return self.content


@dataclass(frozen=True)
class BytesContentPlanReference(PlanReference):
    """A plan in bytes."""

    content: bytes

    def get_content(self) -> bytes:
        """Return the bytes."""
        return self.content

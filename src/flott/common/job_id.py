"""The identity of a job: sixteen bytes, written as 32 hexadecimal digits."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flott.errors import ConfigurationError

__all__ = ["JobID"]


@dataclass(frozen=True, slots=True)
class JobID:
    """Identifies one job through restarts and recoveries.

    >>> str(JobID.from_bytes(bytes(16)))
    '00000000000000000000000000000000'
    """

    hex: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9a-f]{32}", str(self.hex)):
            raise ConfigurationError(f"A job id is 32 hexadecimal digits in lower case, found {self.hex!r}.")

    @staticmethod
    def from_bytes(random_bytes: bytes) -> JobID:
        """Create an id from sixteen bytes. The caller provides the randomness."""
        return JobID(random_bytes.hex())

    def __str__(self) -> str:
        return self.hex

"""Records as JSON documents. Task side."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from flott.common.types import Row


def json_bytes(document: Any) -> bytes:
    """Return a document in compact JSON. Dates are ISO 8601, decimal numbers stay exact as text, bytes are base64.

    >>> json_bytes({"at": date(2024, 2, 29), "price": Decimal("1.10"), "raw": b"x"})
    b'{"at":"2024-02-29","price":"1.10","raw":"eA=="}'
    """
    return _ENCODER.encode(document).encode()


def _converted(value: Any) -> Any:
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, Row):
        return value.as_dict() if value._fields is not None else list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"A value of type {type(value).__name__} has no form in JSON: {value!r}. Convert it first.")


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_converted)

"""A user's own module, next to the script that imports it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flott.datastream.functions import MapFunction


class Double(MapFunction[Any, Any]):
    """Doubles the page of a visit; travels by name."""

    def map(self, value: Any) -> Any:
        return replace(value, page=value.page * 2)

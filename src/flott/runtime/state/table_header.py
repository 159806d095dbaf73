"""What a state file says about one of its tables: a value, and its JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class TableHeader:
    """One table of a state file. A schema of None: pickled."""

    name: str
    kind: str
    namespaced: bool = False
    key_type: Json | None = None
    value_type: Json | None = None  #: of a value, of an element of a list, of a value in a map
    map_key_type: Json | None = None
    ttl: Json | None = None  #: set if values are stored with the time of their last access

    def to_json(self) -> Json:
        """As the footer spells it; what is unset is left out."""
        content = {
            "name": self.name,
            "kind": self.kind,
            "namespaced": self.namespaced,
            "key-type": self.key_type,
            "value-type": self.value_type,
            "map-key-type": self.map_key_type,
            "ttl": self.ttl,
        }
        return {name: value for name, value in content.items() if value is not None}

    @staticmethod
    def from_json(content: Json) -> TableHeader:
        """The header that a footer spells; names it does not know are those of later versions and are passed over."""
        return TableHeader(
            content["name"],
            content["kind"],
            content["namespaced"],
            content.get("key-type"),
            content.get("value-type"),
            content.get("map-key-type"),
            content.get("ttl"),
        )

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
    #: Set if the table is of other types in other key groups: from and up to, of those the header is about.
    groups: tuple[tuple[int, int], ...] | None = None

    def is_about(self, group: int) -> bool:
        """Return whether the header says what the table is in a key group."""
        return self.groups is None or any(start <= group < stop for start, stop in self.groups)

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
            "groups": None if self.groups is None else [list(span) for span in self.groups],
        }
        return {name: value for name, value in content.items() if value is not None}

    @staticmethod
    def from_json(content: Json) -> TableHeader:
        """Return the header that a footer spells. Unknown names are those of later versions and are ignored."""
        name, kind, namespaced = content["name"], content["kind"], content["namespaced"]
        groups = content.get("groups")
        return TableHeader(
            name,
            kind,
            namespaced,
            content.get("key-type"),
            content.get("value-type"),
            content.get("map-key-type"),
            content.get("ttl"),
            None if groups is None else tuple((start, stop) for start, stop in groups),
        )

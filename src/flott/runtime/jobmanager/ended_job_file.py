"""The file ``end.json`` that says how a job ended: the only place that knows its form. JobManager side.

    {"version": 1, "view": {"job_id": ..., "status": "FINISHED", "vertices": [...], ...}, "result": {...}}

An object has the fields of its view class. Enum members are written by name, bytes in base64. Bytes hold values of the
user's classes (results of accumulators), which Flott pickles and never reads in the JobManager. A field that is missing
has its default, and a field that is not known is left out, so a later version may add fields. A form that an earlier
reader would misunderstand gets a new version number, and a reader for each version stays here.
"""

from __future__ import annotations

import base64
import json
import numbers
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from flott.common._late_records import LedgerEntry
from flott.runtime.jobmanager import former_pickles
from flott.runtime.jobmanager.views.job_view import JobResultView, JobView

VERSION = 1


def encode_end(view: JobView, result: JobResultView) -> bytes:
    """Return the content of ``end.json``."""
    document = {"version": VERSION, "view": _plain(view), "result": _plain(result)}
    return json.dumps(document, separators=(",", ":"), default=_number_or_text).encode()


def decode_end(data: bytes) -> tuple[JobView, JobResultView]:
    """Return how a job ended; raise ``ValueError`` for a file that this version cannot read."""
    document = json.loads(data)
    if not isinstance(document, dict) or document.get("version") != VERSION:
        found = document.get("version") if isinstance(document, dict) else document
        raise ValueError(f"the version of the file is {VERSION}, found {str(found)[:80]!r}")
    return _made(JobView, document["view"]), _made(JobResultView, document["result"])


def decode_former_end(data: bytes) -> tuple[JobView, JobResultView]:
    """Return how a job ended, from the file ``end.pickle`` of an earlier version."""
    view, result = former_pickles.loads(data)
    if not (isinstance(view, JobView) and isinstance(result, JobResultView)):
        raise TypeError(f"the file holds {type(view).__name__} and {type(result).__name__}")
    return JobView(**vars(view)), result  # made once more, so that fields that were added since have their defaults


def encode_ledger(entries: tuple[LedgerEntry, ...]) -> bytes:
    """Return the late-data ledger in the form in which a result carries it."""
    return json.dumps(_plain(entries), separators=(",", ":"), default=_number_or_text).encode()


def decode_ledger(data: bytes) -> tuple[LedgerEntry, ...]:
    """Return the late-data ledger of a result; an earlier version pickled it."""
    if not data:
        return ()
    if data.startswith(b"\x80"):
        former: tuple[LedgerEntry, ...] = former_pickles.loads(data)
        return former
    entries: tuple[LedgerEntry, ...] = _made(tuple[LedgerEntry, ...], json.loads(data))
    return entries


# --- values and their types ------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _number_or_text(value: object) -> int | float | str:
    """Return a value that is not JSON's, such as a number of numpy in a user's metric, as one that is."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return str(value)


@cache
def _types_of(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _made(kind: Any, found: Any) -> Any:
    """Return a value of this type from its JSON form."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if found is None:
            return None
        given = [argument for argument in arguments if argument is not type(None)]
        return _made(given[0], found) if len(given) == 1 else found
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_made(arguments[0], item) for item in found)
        return tuple(_made(argument, item) for argument, item in zip(arguments, found, strict=True))
    if origin is Mapping:
        return {_made(arguments[0], key): _made(arguments[1], item) for key, item in found.items()}
    if isinstance(kind, type):
        if is_dataclass(kind):
            types_of = _types_of(kind)
            return kind(**{name: _made(types_of[name], item) for name, item in found.items() if name in types_of})
        if issubclass(kind, Enum):
            return kind[found]
        if kind is bytes:
            return base64.b64decode(found)
    return found

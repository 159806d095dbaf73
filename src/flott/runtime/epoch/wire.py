"""The rows that travel between stages: plain tuples, because Spark pickles every one of them. Task side.

    (stage, subtask, kind, edge, channel, sequence, payload)

``stage`` and ``subtask`` are the destination; a task passes rows for later stages on unopened. ``channel`` is the
sending subtask. DATA payloads are bytes that hold a batch; a subtask takes them by edge, channel and sequence, in
whichever order Spark fetched them. The TIME row of a sender also names the attempt that sends: ``edge`` is its stage,
and the payload begins with its attempt id. So a receiver can say whose output it has consumed.

The first byte of a DATA payload says which form it has:

    0x80    rows, pickled (this is the first byte of every pickle of protocol 2 and later)
    F       rows of a declared type, field by field
    A       columns, as an Arrow IPC stream behind a header: its length (3 bytes), a pickle, and zeros up to a multiple
            of 64 bytes, so that columns can be read where they are

Rows are sent field by field where that is faster (decision 0022): records of a declared ``ROW`` type, which pickle
would write with a function call each, and tuples with an int of more than 32 bits, which pickle writes digit by digit.
The values of a field are packed if they are all ints, or all floats; otherwise they are pickled as they are.
"""

from __future__ import annotations

import pickle
from collections import deque
from io import BytesIO
from struct import error as struct_error
from struct import pack, unpack
from typing import Any

import cloudpickle

from flott.common.typeinfo import TypeInformation
from flott.common.typeinfo._composite import RowTypeInfo, TupleTypeInfo
from flott.common.types import Row as DataRow
from flott.common.types import restore_row
from flott.errors import ProgramError
from flott.runtime.operators.batch import Batch, ColumnBatch, RowBatch

Row = tuple[int, int, int, int, int, int, Any]

DATA = 0  #: payload: bytes of a batch and its origin
TIME = 1  #: payload: (attempt id, [(edge, watermark, idle, ended)]), one row per sender and receiver
REPORT = 2  #: payload: bytes of a SubtaskReport; for the driver
FAILURE = 3  #: payload: bytes of a FailureCard; for the driver
ABORT = 4  #: the epoch has failed: do nothing more, pass on what is for the driver
LOG = 5  #: payload: bytes of a TaskLog; for the driver
MARKER = 6  #: payload: a latency marker; only between tasks that run continuously

Origin = tuple[str, str] | None

_COLUMNS = b"A"
_FIELDS = b"F"
_COLUMNS_CODE, _FIELDS_CODE = _COLUMNS[0], _FIELDS[0]
_COLUMNS_PREFIX = 4
_ALIGNMENT = 64
#: The types that buffers of columns had last, with their bytes; and those that were received.
_DESCRIBED: deque[tuple[TypeInformation, bytes]] = deque(maxlen=8)
_READ_TYPES: dict[bytes, TypeInformation] = {}

#: How the values of a field are packed, by their class.
_PACKINGS: dict[type, str] = {int: "q", float: "d"}
#: Pickle writes ints beyond this digit by digit.
_LARGE = 1 << 31


def encode_batch(batch: Batch, origin: Origin = None) -> bytes:
    """Return a batch as bytes. Instances of classes that exist in this process only travel with their class."""
    if batch.__class__ is ColumnBatch:
        return _encode_columns(batch, origin)
    rows = batch.to_rows()
    content = (rows.values, _pack(rows.timestamps), rows.kinds, origin)
    try:
        return pickle.dumps(content, protocol=5)
    except Exception:
        try:
            return bytes(cloudpickle.dumps(content, protocol=5))
        except Exception as error:
            raise ProgramError(_unpicklable(rows.values, error)) from error


def _encode_columns(batch: ColumnBatch, origin: Origin) -> bytes:
    from flott.runtime.operators.arrow import to_bytes

    stamped, kinded = batch.timestamps is not None, batch.kinds is not None
    described = pickle.dumps((_described(batch.record_type), stamped, kinded, origin), protocol=5)
    length = -(-(_COLUMNS_PREFIX + len(described)) // _ALIGNMENT) * _ALIGNMENT
    header = (_COLUMNS + length.to_bytes(_COLUMNS_PREFIX - 1, "big") + described).ljust(length, b"\0")
    return to_bytes(batch, header)


def _described(record_type: TypeInformation) -> bytes:
    """Return the bytes of a record type; those of the last types are remembered, since all buffers have the same."""
    for known, described in _DESCRIBED:
        if known is record_type:
            return described
    # A record type may refer to a class of the main script, which only cloudpickle can send.
    described = bytes(cloudpickle.dumps(record_type, protocol=5))
    _DESCRIBED.appendleft((record_type, described))
    return described


def _record_type(described: bytes) -> TypeInformation:
    if described not in _READ_TYPES:
        if len(_READ_TYPES) >= 64:
            _READ_TYPES.clear()
        _READ_TYPES[described] = pickle.loads(described)
    return _READ_TYPES[described]


class BatchEncoder:
    """Encodes the rows that one sender puts on one edge. All of them are of the declared type, if there is one.

    Pickle remembers every object it writes, in case it comes again: half of its time goes there, and records seldom
    share anything. So the first buffer of an epoch is encoded both ways, and if it does not grow by much without that
    memory, the rest of the epoch does without. Cycles are noticed by pickle and encoded the ordinary way.
    """

    #: Fewer records than this prove nothing.
    SAMPLE_RECORDS = 64
    #: Sharing is worth remembering if forgetting it makes a buffer this many times as large.
    MAX_GROWTH = 1.25

    __slots__ = ("_forgetful", "_record_type")

    def __init__(self, record_type: TypeInformation | None = None) -> None:
        self._forgetful: bool | None = None  #: None: not known yet
        self._record_type = record_type

    def begin(self) -> None:
        """Begin an epoch: decide again, so that a repeated epoch decides the same."""
        self._forgetful = None

    def encode(self, batch: RowBatch, origin: Origin) -> bytes:
        """Return a batch as bytes."""
        if self._record_type is not None and (payload := _encode_fields(batch, self._record_type, origin)) is not None:
            return payload
        if self._forgetful:
            try:
                return _encode_forgetfully(batch, origin)
            except Exception:
                self._forgetful = False
        payload = encode_batch(batch, origin)
        if self._forgetful is None and len(batch) >= self.SAMPLE_RECORDS:
            self._forgetful = self._grows_little(len(payload), batch, origin)
        return payload

    def _grows_little(self, size: int, batch: RowBatch, origin: Origin) -> bool:
        try:
            return len(_encode_forgetfully(batch, origin)) <= self.MAX_GROWTH * size
        except Exception:
            return False


def _encode_forgetfully(batch: RowBatch, origin: Origin) -> bytes:
    return _pickle_forgetfully((batch.values, _pack(batch.timestamps), batch.kinds, origin))


def _pickle_forgetfully(content: Any) -> bytes:
    target = BytesIO()
    pickler = pickle.Pickler(target, protocol=5)
    pickler.fast = True
    pickler.dump(content)
    return target.getvalue()


def _encode_fields(batch: RowBatch, record_type: TypeInformation, origin: Origin) -> bytes | None:
    """Return rows of a declared type as bytes, field by field; None if they are pickled better as they are."""
    values = batch.values
    names: tuple[str, ...] | None = None
    if isinstance(record_type, RowTypeInfo):
        if list(map(type, values)).count(DataRow) != len(values):
            return None  # a null, or a subclass
        names = values[0]._fields
        if names is None or any(row._fields != names for row in values):
            return None
        kinds = bytes(row._row_kind._value_ for row in values)
        rows: list[Any] = [row._values for row in values]
    elif isinstance(record_type, TupleTypeInfo):
        if not _has_large_int(values[0]) or list(map(type, values)).count(tuple) != len(values):
            return None
        kinds, rows = b"", values
    else:
        return None
    if not rows[0]:
        return None
    try:
        fields = [_pack_field(field) for field in zip(*rows, strict=True)]
        content = (names, kinds if any(kinds) else None, fields, _pack(batch.timestamps), batch.kinds, origin)
        return _FIELDS + _pickle_forgetfully(content)
    except Exception:  # what is wrong is found out, and reported, where the rows are pickled
        return None


def _has_large_int(record: Any) -> bool:
    return record.__class__ is tuple and any(
        value.__class__ is int and not -_LARGE <= value < _LARGE for value in record
    )


def _pack_field(values: tuple[Any, ...]) -> tuple[str, bytes] | tuple[None, tuple[Any, ...]]:
    """Return the values of a field packed, if all are of one class exactly and fit; otherwise as they are."""
    found = values[0].__class__
    packing = _PACKINGS.get(found)
    if packing is not None and list(map(type, values)).count(found) == len(values):
        try:
            return packing, pack(f"<{len(values)}{packing}", *values)
        except struct_error:
            pass  # an int of more than 64 bits
    return None, values


def _decode_fields(payload: bytes) -> tuple[RowBatch, Origin]:
    names, row_kinds, packed_fields, packed, kinds, origin = pickle.loads(memoryview(payload)[1:])
    fields = [
        held if packing is None else unpack(f"<{len(held) // 8}{packing}", held) for packing, held in packed_fields
    ]
    values: list[Any] = list(zip(*fields, strict=True))
    if row_kinds is not None:
        values = [restore_row(names, row, kind) for row, kind in zip(values, row_kinds, strict=True)]
    elif names is not None:
        values = [restore_row(names, row) for row in values]
    return RowBatch(values, _unpack(packed), kinds), origin


def decode_batch(payload: bytes) -> tuple[Batch, Origin]:
    """Return the batch of a DATA payload, and where its records come from."""
    if payload[0] == _COLUMNS_CODE:
        return _decode_columns(payload)
    if payload[0] == _FIELDS_CODE:
        return _decode_fields(payload)
    values, packed, kinds, origin = pickle.loads(payload)
    return RowBatch(values, _unpack(packed), kinds), origin


def _decode_columns(payload: bytes) -> tuple[ColumnBatch, Origin]:
    from flott.runtime.operators.arrow import from_bytes

    length = int.from_bytes(payload[1:_COLUMNS_PREFIX], "big")
    view = memoryview(payload)
    described, stamped, kinded, origin = pickle.loads(view[_COLUMNS_PREFIX:length])
    return from_bytes(view[length:], _record_type(described), stamped, kinded), origin


def _pack(timestamps: list[int] | None) -> bytes | list[int] | None:
    """Return timestamps as 64-bit numbers, which is twice as fast as pickling them; as they are if one does not fit."""
    if timestamps is None:
        return None
    try:
        return pack(f"<{len(timestamps)}q", *timestamps)
    except struct_error:
        return timestamps


def _unpack(packed: bytes | list[int] | None) -> list[int] | None:
    if isinstance(packed, bytes):
        return list(unpack(f"<{len(packed) // 8}q", packed))
    return packed


def _unpicklable(values: list[Any], error: Exception) -> str:
    for value in values:
        try:
            cloudpickle.dumps(value)
        except Exception as cause:
            shown = repr(value)
            shown = shown if len(shown) <= 200 else shown[:197] + "..."
            return (
                f"The record {shown} of type {type(value).__qualname__} cannot be sent to another task: {cause}."
                " Emit plain data (numbers, strings, tuples, dicts, dataclasses) instead of live objects."
            )
    return f"A batch of records cannot be sent to another task: {error}."

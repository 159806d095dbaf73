"""The rows that travel between stages: plain tuples, because Spark pickles every one of them. Task side.

    (stage, subtask, kind, edge, channel, sequence, payload)

``stage`` and ``subtask`` are the destination; a task passes rows for later stages on unopened. ``channel`` is the
sending subtask. DATA payloads are bytes holding many records; a subtask takes them by edge, channel and sequence,
whatever order Spark fetched them in. The TIME row of a sender also names the attempt that sends: ``edge`` is its stage,
and the payload begins with its attempt id. So a receiver can say whose output it has consumed.
"""

from __future__ import annotations

import pickle
from io import BytesIO
from struct import error as struct_error
from struct import pack, unpack
from typing import Any

import cloudpickle

from flott.errors import ProgramError
from flott.runtime.operators.batch import RowBatch

Row = tuple[int, int, int, int, int, int, Any]

DATA = 0  #: payload: bytes of a batch and its origin
TIME = 1  #: payload: (attempt id, [(edge, watermark, idle, ended)]), one row per sender and receiver
REPORT = 2  #: payload: bytes of a SubtaskReport; for the driver
FAILURE = 3  #: payload: bytes of a FailureCard; for the driver
ABORT = 4  #: the epoch has failed: do nothing more, pass on what is for the driver
LOG = 5  #: payload: bytes of a TaskLog; for the driver

Origin = tuple[str, str] | None


def encode_batch(batch: RowBatch, origin: Origin = None) -> bytes:
    """Return a batch as bytes. Instances of classes that exist in this process only travel with their class."""
    content = (batch.values, _pack(batch.timestamps), batch.kinds, origin)
    try:
        return pickle.dumps(content, protocol=5)
    except Exception:
        try:
            return bytes(cloudpickle.dumps(content, protocol=5))
        except Exception as error:
            raise ProgramError(_unpicklable(batch.values, error)) from error


class BatchEncoder:
    """Encodes the buffers that one sender puts on one edge.

    Pickle remembers every object it writes, in case it comes again: half of its time goes there, and records seldom
    share anything. So the first buffer of an epoch is encoded both ways, and if it does not grow by much without that
    memory, the rest of the epoch does without. Cycles are noticed by pickle and encoded the ordinary way.
    """

    #: Fewer records than this prove nothing.
    SAMPLE_RECORDS = 64
    #: Sharing is worth remembering if forgetting it makes a buffer this many times as large.
    MAX_GROWTH = 1.25

    __slots__ = ("_forgetful",)

    def __init__(self) -> None:
        self._forgetful: bool | None = None  #: None: not known yet

    def begin(self) -> None:
        """An epoch begins: find out anew, so that a repeated epoch decides the same."""
        self._forgetful = None

    def encode(self, batch: RowBatch, origin: Origin) -> bytes:
        """Return a batch as bytes."""
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
    target = BytesIO()
    pickler = pickle.Pickler(target, protocol=5)
    pickler.fast = True
    pickler.dump((batch.values, _pack(batch.timestamps), batch.kinds, origin))
    return target.getvalue()


def decode_batch(payload: bytes) -> tuple[RowBatch, Origin]:
    """Return the batch of :func:`encode_batch`, and where its records come from."""
    values, packed, kinds, origin = pickle.loads(payload)
    if packed.__class__ is bytes:
        packed = list(unpack(f"<{len(packed) // 8}q", packed))
    return RowBatch(values, packed, kinds), origin


def _pack(timestamps: list[int] | None) -> bytes | list[int] | None:
    """Timestamps as 64-bit numbers, which is twice as fast as pickling them; as they are if one does not fit."""
    if timestamps is None:
        return None
    try:
        return pack(f"<{len(timestamps)}q", *timestamps)
    except struct_error:
        return timestamps


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

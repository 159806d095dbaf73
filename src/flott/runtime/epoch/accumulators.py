"""Passes accumulators from tasks to the driver, and from checkpoint to checkpoint.

The bytes are pickled objects of the user. The sum over all epochs is a part of the checkpoint, so an accumulator counts
exactly the epochs of that checkpoint: a failed epoch adds nothing, and a resumed job continues to count.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from typing import Any

import cloudpickle

from flott.common._accumulators import Accumulator
from flott.errors import ProgramError


def encode_accumulators(accumulators: Mapping[str, Accumulator[Any, Any]]) -> bytes:
    """Return accumulators by name, as bytes. Task and driver side."""
    try:
        return pickle.dumps(dict(accumulators), protocol=5)
    except Exception:  # a class that exists in this process only
        return bytes(cloudpickle.dumps(dict(accumulators), protocol=5))


def add_up(total: bytes | None, added: Iterable[bytes]) -> bytes | None:
    """Return the total after an epoch: the former total and what the subtasks added, in this order. Driver side."""
    parts = [total, *added] if total is not None else list(added)
    if len(parts) < 2:
        return parts[0] if parts else None
    merged: dict[str, Accumulator[Any, Any]] = {}
    for part in parts:
        for name, accumulator in pickle.loads(part).items():
            if name in merged:
                _merge(name, merged[name], accumulator)
            else:
                merged[name] = accumulator
    return encode_accumulators(merged)


def values_of(total: bytes | None) -> dict[str, Any]:
    """Return the results by name. Driver side."""
    if total is None:
        return {}
    return {name: accumulator.get_local_value() for name, accumulator in pickle.loads(total).items()}


def _merge(name: str, into: Accumulator[Any, Any], other: Accumulator[Any, Any]) -> None:
    if type(into).__qualname__ != type(other).__qualname__:  # a class of the main script may exist twice
        raise ProgramError(
            f"The job has two accumulators of the name {name!r}, a {type(into).__name__} and a {type(other).__name__}."
            " All accumulators of a name are added up, so they must be of one class: rename one of them."
        )
    try:
        into.merge(other)
    except Exception as error:
        raise ProgramError(
            f"The accumulator {name!r} could not be merged: {type(error).__name__}: {error}. Check merge() of"
            f" {type(into).__name__}."
        ) from error

"""What a function of the library is: one entry says all of it. Families of functions are modules beside this one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import pyarrow as pa

from flott.errors import ProgramError
from flott.table._types.logical import LogicalType

#: A column, or a constant that stands for a column of equal values.
Datum: TypeAlias = Any  # pa.Array | pa.Scalar


class SignatureError(ProgramError):
    """A function was called with arguments that it does not take. The resolver adds the position."""


@dataclass(frozen=True)
class Session:
    """What an expression may know besides its arguments. Constant for an epoch: a repeated one answers alike."""

    time_zone: str = "UTC"
    now_ms: int = 0  #: processing time of the epoch
    watermark_ms: int | None = None  #: event time that the former epoch ended with; None: there is none yet
    database: str = "default_database"
    catalog: str = "default_catalog"
    seed: int = 0  #: different for each epoch and subtask, for RAND and UUID
    legacy_cast: bool = False  #: table.exec.legacy-cast-behaviour
    parameters: dict[str, str] = field(default_factory=dict, hash=False, compare=False)

    @property
    def zone(self) -> ZoneInfo:
        """Return the time zone of the session."""
        return ZoneInfo(self.time_zone)


@dataclass(frozen=True)
class CallArguments:
    """What is known of a call before it runs."""

    name: str
    types: tuple[LogicalType, ...]
    #: The value of each argument that is a literal, else None; ``is_literal`` tells a literal NULL from no literal.
    literals: tuple[Any, ...] = ()
    is_literal: tuple[bool, ...] = ()

    @property
    def nullable(self) -> bool:
        """Return whether any argument may be NULL."""
        return any(of.nullable for of in self.types)

    def refuse(self, expected: str) -> SignatureError:
        """Return the error that says which arguments were expected."""
        given = ", ".join(map(str, self.types))
        return SignatureError(f"{self.name} cannot be called with ({given}). Expected: {expected}.")


@dataclass(frozen=True)
class KernelCall:
    """A call over columns of one batch."""

    arguments: Sequence[Datum]
    types: Sequence[LogicalType]  #: of the arguments
    type: LogicalType  #: of the result
    length: int  #: rows of the batch; a constant stands for so many equal values
    session: Session

    def column(self, index: int) -> pa.Array:
        """Return an argument as a column, even if it is a constant."""
        value = self.arguments[index]
        if isinstance(value, pa.Scalar):
            return pa.repeat(value, self.length)
        return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value

    def constant(self, index: int) -> Any:
        """Return the Python value of an argument that is a constant; raise ``LookupError`` if it is a column."""
        value = self.arguments[index]
        if not isinstance(value, pa.Scalar):
            raise LookupError(index)
        return value.as_py()

    def is_constant(self, index: int) -> bool:
        """Return whether an argument is the same for all rows."""
        return isinstance(self.arguments[index], pa.Scalar)


Infer: TypeAlias = Callable[[CallArguments], LogicalType]
Kernel: TypeAlias = Callable[[KernelCall], Datum]


@dataclass(frozen=True)
class Function:
    """A scalar function: signature, kernel over columns, and what the reference says about it.

    ``coerce`` returns the types to which the resolver casts the arguments before the call (None: as they are). A kernel
    therefore sees exactly the types that ``coerce`` named; it returns a column (or a constant) of Arrow type
    ``arrow_type(call.type)``.
    """

    name: str
    infer: Infer
    kernel: Kernel
    coerce: Callable[[CallArguments], tuple[LogicalType, ...] | None] | None = None
    #: Spark's function with the same results, or what prints a call of it; None: Spark gets an Arrow function.
    spark: str | Callable[[Sequence[str], Sequence[LogicalType], LogicalType], str | None] | None = None
    deterministic: bool = True
    #: It gives one value for a whole epoch (CURRENT_TIMESTAMP), or a new one for each row (RAND).
    per_row: bool = False
    #: Whether a row may make it fail, so that CASE must not evaluate it for rows of another branch.
    may_fail: bool = False
    aliases: tuple[str, ...] = ()
    family: str = "other"
    syntax: str = ""
    description: str = ""

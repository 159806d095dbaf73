"""What the API builds: a program as a list of transformations, each pointing at its inputs by id.

Transformations are frozen. Calls such as ``.name("x")`` that refine an earlier step replace it in the
:class:`Program` under the same id, so streams derived before the call see the change, as they would in Flink.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NewType

from flott.graph.partitioning import Partitioning
from flott.graph.specs import KeySpec, OperatorSpec, SinkSpec

if TYPE_CHECKING:
    from flott.common.typeinfo import TypeInformation

TransformationId = NewType("TransformationId", int)

DEFAULT_SLOT_SHARING_GROUP = "default"


class Chaining(Enum):
    """Whether an operator may be fused with its neighbours (Flink's ChainingStrategy)."""

    ALWAYS = "ALWAYS"
    HEAD = "HEAD"  #: may start a chain, never join its input's
    NEVER = "NEVER"


@dataclass(frozen=True)
class Operation:
    """A physical step: becomes a node of the stream graph."""

    spec: OperatorSpec
    #: One entry per input: how its key is found, or None where the input is not keyed.
    keys: tuple[KeySpec | None, ...] = ()
    output_type: TypeInformation | None = None


@dataclass(frozen=True)
class Partition:
    """A virtual step: says how the records of its input are distributed."""

    partitioning: Partitioning


@dataclass(frozen=True)
class Union:
    """A virtual step: several inputs taken as one."""


@dataclass(frozen=True)
class SideOutput:
    """A virtual step: the records its input emits under a tag."""

    tag_id: str
    type_info: TypeInformation | None = None  #: what the tag declares


Step = Operation | Partition | Union | SideOutput


@dataclass(frozen=True)
class Transformation:
    """One node of the program. Settings that are ``None`` were not given by the user."""

    id: TransformationId
    name: str
    step: Step
    #: Inputs in order; a two-input operation has exactly two.
    inputs: tuple[TransformationId, ...]
    source_line: str = ""  #: ``file:line`` of the user's call, for errors and plans
    uid: str | None = None
    uid_hash: str | None = None
    description: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    slot_sharing_group: str | None = None
    chaining: Chaining = Chaining.ALWAYS
    implicit: bool = False  #: the API added it behind a call that means more: it has no state and needs no uid

    @property
    def is_sink(self) -> bool:
        """Return whether a stream ends here."""
        return isinstance(self.step, Operation) and isinstance(self.step.spec, SinkSpec)


@dataclass
class Program:
    """The transformations of one environment, in the order they were made. The only mutable thing in this package."""

    _steps: dict[TransformationId, Transformation] = field(default_factory=dict)
    _made: int = 0  #: so that the id of a removed step is not given again

    def add(self, name: str, step: Step, inputs: tuple[TransformationId, ...] = (), **settings: Any) -> Transformation:
        """Append a transformation and return it."""
        self._made += 1
        ident = TransformationId(self._made)
        made = Transformation(ident, name, step, inputs, source_line=_user_line(), **settings)
        self._steps[ident] = made
        return made

    def refine(self, ident: TransformationId, **changes: Any) -> None:
        """Replace a transformation by a copy with other settings, under the same id."""
        self._steps[ident] = replace(self._steps[ident], **changes)

    def discard(self, ident: TransformationId) -> None:
        """Remove a transformation that nothing else reads, if it is there."""
        self._steps.pop(ident, None)

    def remove_sinks(self) -> None:
        """Start over after a job: its sinks are gone, its streams remain, so that the next job can build on them."""
        for ident in [t.id for t in self if t.is_sink]:
            self.discard(ident)

    def leading_to(self, ident: TransformationId) -> Program:
        """Return a program that contains only a transformation and what it is made from."""
        wanted, pending = set(), [ident]
        while pending:
            current = pending.pop()
            if current not in wanted:
                wanted.add(current)
                pending.extend(self._steps[current].inputs)
        return Program({t.id: t for t in self if t.id in wanted}, self._made)

    def __getitem__(self, ident: TransformationId) -> Transformation:
        return self._steps[ident]

    def __iter__(self) -> Iterator[Transformation]:
        return iter(self._steps.values())

    def __len__(self) -> int:
        return len(self._steps)


def _user_line() -> str:
    """Return ``file:line`` of the nearest caller outside Flott, which a user recognises in an error."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module != "flott" and not module.startswith("flott."):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""

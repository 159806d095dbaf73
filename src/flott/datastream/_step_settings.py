"""Settings of an operator after it was added: name, uid, parallelism and others. Driver side.

A stream or sink object represents one transformation of the program. A setting replaces this transformation by a copy
with the same id. Virtual steps (``key_by``, ``union``, ``rebalance`` …) are not operators and have no settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from flott.common.execution_config import ExecutionConfig
from flott.datastream.slot_sharing_group import SlotSharingGroup
from flott.errors import ProgramError
from flott.graph.operator_ids import id_of_uid_hash
from flott.graph.specs import SinkSpec, SourceSpec
from flott.graph.transformations import Chaining, Operation, SideOutput, Transformation, TransformationId

if TYPE_CHECKING:
    from flott.datastream.stream_execution_environment import StreamExecutionEnvironment

#: Flink's limit for the number of key groups.
MAX_PARALLELISM_LIMIT = 32768


class ProgramStep:
    """One step of the program, represented by a stream or a sink."""

    def __init__(self, environment: StreamExecutionEnvironment, ident: TransformationId):
        self._environment = environment
        self._id = ident

    def name(self, name: str) -> Self:
        """Set the name for plans, logs and errors. Sources and sinks keep their prefix: ``Sink: name``."""
        operator = self._operator("name")
        _check_text(name, "name", operator)
        return self._refine(name=_prefix(operator) + name.removeprefix(_prefix(operator)))

    def uid(self, uid: str) -> Self:
        """Set the operator's identity, by which its state is found after the program has changed.

        It is unique in the job.
        """
        operator = self._operator("uid")
        _check_text(uid, "uid", operator)
        return self._refine(uid=uid)

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Set the identity as 32 hexadecimal digits, to match state of an operator that had no uid."""
        return self._refine(uid_hash=id_of_uid_hash(uid_hash, self._operator("set_uid_hash").name))

    def set_description(self, description: str) -> Self:
        """Set a longer text than the name, shown in the plan."""
        operator = self._operator("set_description")
        _check_text(description, "set_description", operator)
        return self._refine(description=description)

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks of the operator. -1 removes the setting."""
        operator = self._operator("set_parallelism")
        if parallelism == ExecutionConfig.PARALLELISM_DEFAULT:
            return self._refine(parallelism=None)
        check_parallelism(parallelism, f"set_parallelism() of {operator.name!r}")
        _check_order(operator, parallelism, operator.max_parallelism)
        return self._refine(parallelism=parallelism)

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups of the operator, which limits every later rescaling of its state."""
        operator = self._operator("set_max_parallelism")
        check_max_parallelism(max_parallelism, f"set_max_parallelism() of {operator.name!r}")
        _check_order(operator, operator.parallelism, max_parallelism)
        return self._refine(max_parallelism=max_parallelism)

    def disable_chaining(self) -> Self:
        """Do not chain the operator with others."""
        self._operator("disable_chaining")
        return self._refine(chaining=Chaining.NEVER)

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Set the group. Operators of different groups are not chained. Spark decides where they run."""
        operator = self._operator("slot_sharing_group")
        if isinstance(slot_sharing_group, SlotSharingGroup):
            self._environment.register_slot_sharing_group(slot_sharing_group)
            slot_sharing_group = slot_sharing_group.get_name()
        _check_text(slot_sharing_group, "slot_sharing_group", operator)
        return self._refine(slot_sharing_group=slot_sharing_group)

    @property
    def _transformation(self) -> Transformation:
        try:
            return self._environment._program[self._id]
        except KeyError:
            raise ProgramError(
                "This sink belongs to a job that was executed already, so it cannot be changed any more. Set its name,"
                " uid and so on before execute(); for another job, add a new sink to the stream."
            ) from None

    def _operator(self, setting: str) -> Transformation:
        """Return the transformation. Refuse the setting if it is not an operator."""
        step = self._transformation
        if isinstance(step.step, Operation):
            return step
        raise ProgramError(
            f"{setting}() was called on the result of {step.name}() ({step.source_line}), which is not an operator: it"
            f" only determines {_meaning(step)}. Call {setting}() on the operator before {step.name}(), or on the one"
            " after it."
        )

    def _refine(self, **changes: Any) -> Self:
        self._environment._program.refine(self._id, **changes)
        return self


def check_parallelism(parallelism: int, where: str) -> None:
    """Refuse an invalid number of subtasks."""
    if not is_integer(parallelism) or parallelism < 1:
        raise ProgramError(f"{where} takes a whole number of at least 1, found {parallelism!r}.")


def check_max_parallelism(max_parallelism: int, where: str) -> None:
    """Refuse an invalid number of key groups."""
    if not is_integer(max_parallelism) or not 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT:
        raise ProgramError(
            f"{where} takes a whole number from 1 to {MAX_PARALLELISM_LIMIT}, found {max_parallelism!r}."
        )


def is_integer(value: object) -> bool:
    """Return whether the value is an integer and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def _check_order(operator: Transformation, parallelism: int | None, max_parallelism: int | None) -> None:
    if parallelism is not None and max_parallelism is not None and parallelism > max_parallelism:
        raise ProgramError(
            f"Operator {operator.name!r} ({operator.source_line}) cannot have parallelism {parallelism} and a maximum"
            f" of {max_parallelism}. Lower the parallelism, or raise the maximum with set_max_parallelism()."
        )


def _check_text(text: object, setting: str, operator: Transformation) -> None:
    if not isinstance(text, str) or not text:
        raise ProgramError(f"{setting}() of {operator.name!r} takes a text that is not empty, found {text!r}.")


def _prefix(step: Transformation) -> str:
    if isinstance(step.step, Operation):
        if isinstance(step.step.spec, SourceSpec):
            return "Source: "
        if isinstance(step.step.spec, SinkSpec):
            return "Sink: "
    return ""


def own_name(step: Transformation) -> str:
    """Return the name that the user gave, without the prefix of sources and sinks."""
    return step.name.removeprefix(_prefix(step))


def _meaning(step: Transformation) -> str:
    if isinstance(step.step, SideOutput):
        return "which output of the operator is read"
    return "how records reach the operator that comes next"

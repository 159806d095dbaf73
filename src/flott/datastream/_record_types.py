"""The types of a stream's records: declared, or from a function's annotations. Pure; driver side.

A declared type is enforced where records are produced. An annotation is not, because it may be wrong in a correct
program, and checking every record takes time. It is read only when the type of a stream is requested.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from types import NoneType, UnionType
from typing import Any

from flott.common.typeinfo._composite import TupleTypeInfo
from flott.common.typeinfo._infer import PICKLED, resolved, type_of, type_variables
from flott.common.typeinfo._records import NamedTupleTypeInfo
from flott.common.typeinfo._type_information import TypeInformation
from flott.datastream._field_functions import Projection
from flott.datastream.functions._basic import Function
from flott.datastream.functions._join import CoGroupFunction, FlatJoinFunction, JoinFunction
from flott.datastream.output_tag import OutputTag
from flott.errors import ProgramError
from flott.graph import specs
from flott.graph.transformations import Operation, Partition, Program, SideOutput, Step, TransformationId, Union


def record_type(program: Program, ident: TransformationId) -> TypeInformation | None:
    """Return the type of the records of a step, or ``None`` if it is unknown."""
    ident = _where_made(program, ident)
    match program[ident].step:
        case SideOutput(type_info=declared) | Operation(output_type=declared) if declared is not None:
            return declared
        case Operation(spec=specs.MapSpec(function=Projection() as projection)):
            return projected(record_type(program, program[ident].inputs[0]), projection.indexes)
        case Operation(spec=spec):
            return emitted_type(spec)
    return None


def declared_type(program: Program, ident: TransformationId) -> TypeInformation | None:
    """Return the declared type of the records of a step. An annotation is not a declaration."""
    ident = _where_made(program, ident, through_unions=False)
    match program[ident].step:
        case Union():
            first, *others = [declared_type(program, above) for above in program[ident].inputs]
            return first if all(other == first for other in others) else None
        case Operation(spec=specs.MapSpec(function=Projection() as projection)):
            return projected(declared_type(program, program[ident].inputs[0]), projection.indexes)
        case SideOutput(type_info=declared) | Operation(output_type=declared):
            return declared
    return None


def _where_made(program: Program, ident: TransformationId, through_unions: bool = True) -> TransformationId:
    """Return the step that determined the type of the records. For a union, this is the one of its first stream."""
    while _keeps_records(step := program[ident].step) and (through_unions or not isinstance(step, Union)):
        ident = program[ident].inputs[0]
    return ident


def _keeps_records(step: Step) -> bool:
    """Return whether the undeclared output of a step has the type of its input."""
    match step:
        case Partition() | Union():
            return True
        case Operation(output_type=None, spec=specs.FilterSpec() | specs.TimestampsSpec() | specs.ReduceSpec()):
            return True
        case Operation(output_type=None, spec=specs.WindowSpec(fold=specs.ReduceFold(), function=None)):
            return True
    return False


def projected(record: TypeInformation | None, indexes: tuple[int, ...]) -> TypeInformation | None:
    """Return the type of some fields of tuples, if the tuples have them."""
    if not isinstance(record, (TupleTypeInfo, NamedTupleTypeInfo)):
        return None
    types = record.get_field_types()
    return TupleTypeInfo([types[index] for index in indexes]) if max(indexes) < len(types) else None


def emitted_type(spec: specs.OperatorSpec) -> TypeInformation | None:
    """Return the type that the annotations of an operator's function state for the emitted records."""
    function, methods, many = _function_of(spec)
    try:
        stated = _class_hint(function)
        if stated is None:
            stated = _common_hint([_of_element(hint) if many else hint for hint in _return_hints(function, methods)])
        found = None if stated is None else type_of(stated, type_variables(type(function)))
    except ProgramError:
        return None
    return None if found == PICKLED else found


# ---------------------------------------------------------------------------------------------------------------------
# The functions and their annotations
# ---------------------------------------------------------------------------------------------------------------------

#: For each kind of operator: the emitting methods of its function, and whether they return many records at once.
_EMITTING: Mapping[type[specs.OperatorSpec], tuple[tuple[str, ...], bool]] = {
    specs.MapSpec: (("map",), False),
    specs.FlatMapSpec: (("flat_map",), True),
    specs.ProcessSpec: (("process_element", "on_timer"), True),
    specs.CoMapSpec: (("map1", "map2"), False),
    specs.CoFlatMapSpec: (("flat_map1", "flat_map2"), True),
    specs.CoProcessSpec: (("process_element1", "process_element2", "on_timer"), True),
    specs.BroadcastProcessSpec: (("process_element", "process_broadcast_element", "on_timer"), True),
    specs.AsyncSpec: (("async_invoke",), True),
    specs.IntervalJoinSpec: (("process_element",), True),
    specs.WindowSpec: (("apply", "process"), True),
}


def _function_of(spec: specs.OperatorSpec) -> tuple[Any, tuple[str, ...], bool]:
    match spec:
        case specs.WindowSpec(fold=specs.AggregateFold(function=function), function=None):
            return function, ("get_result",), False
        case specs.WindowSpec(function=Function() as outer) if _is_ours(type(outer)):
            return _joining(getattr(outer, "function", None))
    methods, many = _EMITTING.get(type(spec), ((), False))
    return getattr(spec, "function", None), methods, many


def _joining(function: Any) -> tuple[Any, tuple[str, ...], bool]:
    """Return the function of a window join, which runs inside a window function of the API."""
    match function:
        case JoinFunction():
            return function, ("join",), False
        case FlatJoinFunction():
            return function, ("join",), True
        case CoGroupFunction():
            return function, ("co_group",), True
    return None, (), False


def _class_hint(function: Any) -> Any:
    """Return the hint for OUT in ``class Parse(MapFunction[str, Event])``, or None."""
    if not isinstance(function, Function):
        return None
    variables = type_variables(type(function))
    for kind in type(function).__mro__:
        if _is_ours(kind):
            meanings = [variables.get(v) for v in getattr(kind, "__parameters__", ()) if v.__name__ == "OUT"]
            return meanings[0] if meanings and meanings[0] is not Any else None
    return None


def _return_hints(function: Any, methods: tuple[str, ...]) -> list[Any]:
    """Return the return annotations of the program's methods, or that of a callable."""
    if not isinstance(function, Function):
        return [return_hint(function)] if callable(function) else []
    written = [getattr(type(function), name, None) for name in methods]
    return [return_hint(method) for method in written if callable(method) and not _is_ours(method)]


def _is_ours(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).startswith("flott.datastream.")


def return_hint(function: Callable[..., Any]) -> Any:
    """Return the annotated return type of a callable, the class itself for a class, or ``Any``."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        return function
    if not inspect.isroutine(function):
        function = type(function).__call__  # a callable object
    function = inspect.unwrap(function)
    function = getattr(function, "__func__", function)
    if not inspect.isfunction(function):
        return Any
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    known = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    return resolved(inspect.get_annotations(function).get("return", Any), function.__globals__, known)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


# ---------------------------------------------------------------------------------------------------------------------
# The type of an annotation
# ---------------------------------------------------------------------------------------------------------------------


def _common_hint(hints: list[Any]) -> Any:
    """Return the hint on which all emitting methods agree, or None."""
    stated = [hint for hint in hints if hint is not NoneType]
    return stated[0] if stated and all(hint == stated[0] for hint in stated) and stated[0] is not Any else None


def _of_element(hint: Any) -> Any:
    """Return the hint of a record for an annotation of many: ``int`` for ``Iterator[int] | None``."""
    if _is_union(hint):
        members = [member for member in typing.get_args(hint) if member is not NoneType]
        return _of_element(members[0]) if len(members) == 1 else Any
    if hint in (NoneType, str):
        return hint  # nothing is emitted, or texts of one character each
    kind, arguments = typing.get_origin(hint), typing.get_args(hint)
    if not (isinstance(kind, type) and issubclass(kind, Iterable) and arguments):
        return Any
    if kind is tuple and arguments[1:] != (Ellipsis,) and any(other != arguments[0] for other in arguments):
        return Any  # several records of different types
    return _without_side_outputs(arguments[0])


def _without_side_outputs(hint: Any) -> Any:
    """Return the hint without the pairs of a tag and a value, which are side outputs."""
    members = typing.get_args(hint) if _is_union(hint) else (hint,)
    here = [member for member in members if not _is_for_side_output(member)]
    if not here:
        return NoneType
    return hint if len(here) == len(members) else functools.reduce(lambda a, b: a | b, here)


def _is_for_side_output(hint: Any) -> bool:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is not tuple or len(arguments) != 2:
        return False
    return (typing.get_origin(arguments[0]) or arguments[0]) is OutputTag


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, UnionType)

"""The names and signatures of PyFlink's ``datastream`` vocabulary, compared with a stored manifest.

The manifest was made once from PyFlink 2.3, by ``describe`` below. To make it anew, where PyFlink and pytest are
installed::

    python tests/parity/test_datastream_vocabulary_names.py pyflink > tests/parity/datastream_vocabulary_names.json
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import pytest

MANIFEST = Path(__file__).with_name("datastream_vocabulary_names.json")

MODULES = (
    "functions",
    "window",
    "async_retry_strategies",
    "async_retry_predicates",
    "state",
    "timerservice",
    "time_domain",
    "output_tag",
    "checkpointing_mode",
    "execution_mode",
    "slot_sharing_group",
    "externalized_checkpoint_retention",
    "checkpoint_config",
    "checkpoint_storage",
    "state_backend",
)

#: Modules whose functions are as public as the classes of the others.
MODULES_OF_FUNCTIONS = ("async_retry_predicates",)

#: Operators a program uses on state and values; other dunders say nothing about the API.
OPERATORS = ("__getitem__", "__setitem__", "__delitem__", "__contains__", "__iter__", "__eq__", "__hash__")

_INTERNAL = "internal to PyFlink's runtime"
_JAVA = "wraps a Java object"

UNSUPPORTED: dict[str, str] = {
    "functions.AsyncFunctionDescriptor": _INTERNAL,
    "functions.InternalWindowFunction": _INTERNAL,
    "functions.InternalSingleValueWindowFunction": _INTERNAL,
    "functions.InternalSingleValueAllWindowFunction": _INTERNAL,
    "functions.InternalIterableWindowFunction": _INTERNAL,
    "functions.InternalIterableAllWindowFunction": _INTERNAL,
    "functions.InternalProcessWindowContext": _INTERNAL,
    "functions.InternalProcessAllWindowContext": _INTERNAL,
    "functions.InternalSingleValueProcessWindowFunction": _INTERNAL,
    "functions.InternalSingleValueProcessAllWindowFunction": _INTERNAL,
    "functions.InternalIterableProcessWindowFunction": _INTERNAL,
    "functions.InternalIterableProcessAllWindowFunction": _INTERNAL,
    "functions.FunctionWrapper": _INTERNAL,
    "functions.ReduceFunctionWrapper": _INTERNAL,
    "functions.JavaFunctionWrapper": _JAVA,
    "window.WindowOperationDescriptor": _INTERNAL,
    "window.Min": "the function with which PyFlink's continuous triggers reduce; Python's min does it",
}

#: Members of enumerations that only Flott has.
OWN_MEMBERS: dict[str, str] = {
    "state.StateTtlConfig.TtlTimeCharacteristic.EventTime": "state may age in event time as well",
}

#: Parameters that Flott requires where PyFlink does not, or gives another default.
OTHER_DEFAULTS: dict[str, str] = {
    "slot_sharing_group.MemorySize(bytes_size)": "PyFlink's is optional only beside a Java object",
    "functions.SourceFunction(source_func)": "optional, so that the class can be extended",
    "functions.SinkFunction(sink_func)": "optional, so that the class can be extended",
    "state.StateDescriptor(type_info)": "optional: pickled without it",
    "state.ValueStateDescriptor(value_type_info)": "optional: pickled without it",
    "state.ListStateDescriptor(elem_type_info)": "optional: pickled without it",
    "state.MapStateDescriptor(key_type_info)": "optional: pickled without it",
    "state.MapStateDescriptor(value_type_info)": "optional: pickled without it",
    "state.ReducingStateDescriptor(type_info)": "optional: pickled without it",
    "state.AggregatingStateDescriptor(state_type_info)": "optional: pickled without it",
}


# ---------------------------------------------------------------------------------------------------------------------
# Describing a module, of either library
# ---------------------------------------------------------------------------------------------------------------------


def describe(package: str) -> dict[str, Any]:
    """Every public class of the modules: path → parameters of the constructor, methods, members and nested classes.

    A function is described as a class without methods.
    """
    described: dict[str, Any] = {}
    for name in MODULES:
        module = importlib.import_module(f"{package}.datastream.{name}")
        for attribute, value in vars(module).items():
            if inspect.isclass(value) and not attribute.startswith("_") and _belongs(value, module):
                _describe_class(value, f"{name}.{attribute}", described)
            elif inspect.isfunction(value) and name in MODULES_OF_FUNCTIONS:
                described[f"{name}.{attribute}"] = {"parameters": _parameters(value, False), "methods": {}}
    return described


def _belongs(kind: type, module: Any) -> bool:
    inside = kind.__module__ == module.__name__ or kind.__module__.startswith(f"{module.__name__}.")
    return inside or kind.__name__ in getattr(module, "__all__", ())


def _describe_class(kind: type, path: str, described: dict[str, Any]) -> None:
    if issubclass(kind, enum.Enum):
        described[path] = {"members": {member.name: member.value for member in kind}}
        return
    methods: dict[str, dict[str, str]] = {}
    described[path] = {"parameters": _parameters(inspect.getattr_static(kind, "__init__"), True), "methods": methods}
    for name in sorted(dir(kind)):
        value = inspect.getattr_static(kind, name)
        if inspect.isclass(value) and not name.startswith("_") and value.__module__ == kind.__module__:
            _describe_class(value, f"{path}.{name}", described)
        elif _is_method(value) and (not name.startswith("_") or (name in OPERATORS and _overridden(kind, name))):
            skip_self = not isinstance(value, staticmethod)
            function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
            methods[name] = _parameters(function, skip_self)


def _is_method(value: Any) -> bool:
    return inspect.isfunction(value) or isinstance(value, (staticmethod, classmethod))


def _overridden(kind: type, name: str) -> bool:
    return getattr(kind, name) is not getattr(object, name, None)


def _parameters(function: Any, skip_self: bool) -> dict[str, str]:
    """Parameter → its default as text; ``required``, ``*`` or ``**`` without one. Java objects are left out."""
    if function is object.__init__ or not inspect.isfunction(function):
        return {}
    parameters = list(inspect.signature(function).parameters.values())[1 if skip_self else 0 :]
    return {parameter.name: _default(parameter) for parameter in parameters if not parameter.name.startswith("j_")}


def _default(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return "*"
    if parameter.kind is parameter.VAR_KEYWORD:
        return "**"
    return "required" if parameter.default is parameter.empty else repr(parameter.default)


# ---------------------------------------------------------------------------------------------------------------------
# Comparing
# ---------------------------------------------------------------------------------------------------------------------


def _supported(path: str) -> bool:
    parts = path.split(".")
    return not any(".".join(parts[:end]) in UNSUPPORTED for end in range(2, len(parts) + 1))


def _names(described: dict[str, Any]) -> set[str]:
    """Every path, those of methods and enum members included."""
    inner = {
        f"{path}.{name}"
        for path, entry in described.items()
        for group in ("methods", "members")
        for name in entry.get(group, ())
    }
    return inner | set(described)


@pytest.fixture(scope="module")
def pyflink() -> dict[str, Any]:
    described: dict[str, Any] = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return described


@pytest.fixture(scope="module")
def flott() -> dict[str, Any]:
    described: dict[str, Any] = json.loads(json.dumps(describe("flott")))  # tuples become lists, as in the manifest
    return described


def test_every_name_of_pyflink_exists_or_is_listed_as_unsupported(
    pyflink: dict[str, Any], flott: dict[str, Any]
) -> None:
    wanted = {name for name in _names(pyflink) if _supported(name)}
    assert wanted - _names(flott) == set()


def test_what_is_listed_as_unsupported_exists_in_pyflink_and_not_in_flott(
    pyflink: dict[str, Any], flott: dict[str, Any]
) -> None:
    assert set(UNSUPPORTED) - _names(pyflink) == set()
    assert set(UNSUPPORTED) & _names(flott) == set()


def test_enum_members_have_the_same_values(pyflink: dict[str, Any], flott: dict[str, Any]) -> None:
    enums = {path: entry["members"] for path, entry in pyflink.items() if "members" in entry and _supported(path)}
    found = {
        path: {name: value for name, value in flott[path]["members"].items() if f"{path}.{name}" not in OWN_MEMBERS}
        for path in enums
    }
    assert found == enums


def test_parameters_have_the_same_names_order_and_defaults(pyflink: dict[str, Any], flott: dict[str, Any]) -> None:
    differences = {}
    for path, entry in pyflink.items():
        if not _supported(path) or "members" in entry:
            continue
        calls = {path: (entry["parameters"], flott[path]["parameters"])}
        for name, parameters in entry["methods"].items():
            if _supported(f"{path}.{name}") and not name.startswith("__"):
                calls[f"{path}.{name}"] = (parameters, flott[path]["methods"][name])
        for call, (expected, found) in calls.items():
            agreed = {
                name: found.get(name) if f"{call}({name})" in OTHER_DEFAULTS else default
                for name, default in expected.items()
            }
            if list(agreed.items()) != list(found.items())[: len(agreed)]:
                differences[call] = (expected, found)
    assert differences == {}


def test_every_supported_class_is_exported_by_its_module(pyflink: dict[str, Any]) -> None:
    classes = [path.split(".") for path in pyflink if path.count(".") == 1 and _supported(path)]
    hidden = [
        f"{module}.{name}"
        for module, name in classes
        if name not in importlib.import_module(f"flott.datastream.{module}").__all__
    ]
    assert hidden == []


if __name__ == "__main__":
    print(json.dumps(describe(sys.argv[1]), indent=1))

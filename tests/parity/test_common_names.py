"""flott.common and flott.metrics have PyFlink's modules, classes, methods and parameter names.

``pyflink_common.json`` was taken from apache-flink 2.3.0 with ``inspect``: module -> class -> member -> parameters, or
null for a member that is no function. Parameters that begin with ``j_`` are PyFlink's handles on Java objects and are
left out of the comparison. What Flott does not have is listed below, each name with its reason.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from pathlib import Path
from typing import Any

import pytest

import flott.common
from flott.errors import ProgramError

MANIFEST: dict[str, dict[str, dict[str, list[str] | None]]] = json.loads(
    (Path(__file__).parent / "pyflink_common.json").read_text("utf-8")
)

JAVA = "a handle on a Java object; there is no Java object behind Flott's classes"
WIRE_FORMAT = "converts to PyFlink's wire format between Python and Java; Flott has no such border"
BULK_FORMAT = "wraps a Java writer; bulk formats belong to flott.datastream.formats"

UNSUPPORTED: dict[str, str] = {
    "pyflink.common.AssignerWithPeriodicWatermarksWrapper": JAVA,
    "pyflink.common.io": "InputFormat wraps a Java class; sources are in flott.datastream.connectors",
    "pyflink.common.utils": JAVA,
    "pyflink.common.watermark_strategy.AssignerWithPeriodicWatermarksWrapper": JAVA,
    "pyflink.common.serialization.BulkWriterFactory": BULK_FORMAT,
    "pyflink.common.serialization.RowDataBulkWriterFactory": BULK_FORMAT,
    "pyflink.common.serializer.VoidNamespaceSerializer": "an internal of PyFlink's state backend",
    "pyflink.common.types.RowKind.to_j_row_kind": JAVA,
    "pyflink.common.typeinfo.InstantTypeInfo": WIRE_FORMAT,
    "pyflink.common.typeinfo.DateTypeInfo.EPOCH_ORDINAL": WIRE_FORMAT,
    "pyflink.common.typeinfo.TimeTypeInfo.EPOCH_ORDINAL": WIRE_FORMAT,
}

#: Constructors that programs do not call: the objects come from factories or from Flott itself.
NOT_CONSTRUCTED = {
    "CompletableFuture",
    "RestartStrategies.FailureRateRestartStrategyConfiguration",
    "RestartStrategies.FixedDelayRestartStrategyConfiguration",
}

#: Modules without an underscore that the manifest does not have.
NOT_IN_THE_MANIFEST = {"execution_mode": "in PyFlink up to 1.x; old programs import it"}


def supported_modules() -> list[str]:
    return [module for module in MANIFEST if module not in UNSUPPORTED]


def supported_classes() -> list[tuple[str, str]]:
    return [
        (module, name)
        for module in supported_modules()
        for name in MANIFEST[module]
        if f"{module}.{name}" not in UNSUPPORTED
    ]


def supported_members() -> list[tuple[str, str, str]]:
    return [
        (module, name, member)
        for module, name in supported_classes()
        for member in MANIFEST[module][name]
        if f"{module}.{name}.{member}" not in UNSUPPORTED
        if not (member == "__init__" and (name in NOT_CONSTRUCTED or wraps_java(MANIFEST[module][name][member])))
    ]


def wraps_java(parameters: list[str] | None) -> bool:
    """Whether a constructor takes a Java object and nothing else: no program calls it."""
    return bool(parameters) and all(parameter.startswith("j_") for parameter in parameters or ())


def in_flott(path: str) -> Any:
    """The object at PyFlink's dotted path, with flott for pyflink."""
    parts = path.replace("pyflink", "flott", 1).split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(path)


@pytest.mark.parametrize("module", supported_modules())
def test_every_module_is_at_pyflinks_path(module: str):
    importlib.import_module(module.replace("pyflink", "flott", 1))


@pytest.mark.parametrize(("module", "name"), supported_classes())
def test_every_class_is_in_pyflinks_module(module: str, name: str):
    assert inspect.isclass(in_flott(f"{module}.{name}"))


@pytest.mark.parametrize(("module", "name", "member"), supported_members())
def test_every_member_has_pyflinks_parameters(module: str, name: str, member: str):
    expected = MANIFEST[module][name][member]
    found = in_flott(f"{module}.{name}.{member}") if member != "__init__" else in_flott(f"{module}.{name}")
    if expected is None:
        return
    theirs = [parameter for parameter in expected if not parameter.startswith("j_")]
    parameters = list(inspect.signature(found).parameters.values())
    if parameters and parameters[0].name == "self":
        del parameters[0]
    ours = [parameter.name.lstrip("_") for parameter in parameters]
    if name.endswith("TypeInfo") and member in ("__init__", "to_internal_type", "from_internal_type"):
        # Named after the field of a frozen dataclass, or after the type in PyFlink; programs pass it by position.
        assert len(ours) == len(theirs)
        return
    assert ours[: len(theirs)] == theirs
    for parameter in parameters[len(theirs) :]:
        assert parameter.default is not inspect.Parameter.empty or parameter.kind in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        ), f"{parameter.name} is required here and unknown to PyFlink"


@pytest.mark.parametrize("path", sorted(UNSUPPORTED))
def test_what_is_listed_as_unsupported_is_in_pyflink_and_not_in_flott(path: str):
    known = set(MANIFEST)
    known |= {f"{module}.{name}" for module in MANIFEST for name in MANIFEST[module]}
    known |= {f"{m}.{name}.{member}" for m in MANIFEST for name in MANIFEST[m] for member in MANIFEST[m][name]}
    assert path in known, "the manifest has no such name"
    with pytest.raises((AttributeError, ModuleNotFoundError, ProgramError)):
        in_flott(path)


def test_a_module_without_an_underscore_exists_in_pyflink():
    ours = {module.name for module in pkgutil.iter_modules(flott.common.__path__) if not module.name.startswith("_")}
    theirs = {module.removeprefix("pyflink.common.") for module in MANIFEST}
    assert ours - theirs == set(NOT_IN_THE_MANIFEST)

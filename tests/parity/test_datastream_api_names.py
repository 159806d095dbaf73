"""The names and signatures of PyFlink's streams and environment, compared with a stored manifest.

The manifest was made once from PyFlink 2.3, by ``describe`` below. To make it anew, where PyFlink is installed::

    python tests/parity/test_datastream_api_names.py pyflink > tests/parity/datastream_api_names.json
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

MANIFEST = Path(__file__).with_name("datastream_api_names.json")

CLASSES = {
    "StreamExecutionEnvironment": "stream_execution_environment",
    "DataStream": "data_stream",
    "KeyedStream": "data_stream",
    "WindowedStream": "data_stream",
    "AllWindowedStream": "data_stream",
    "ConnectedStreams": "data_stream",
    "BroadcastStream": "data_stream",
    "BroadcastConnectedStream": "data_stream",
    "DataStreamSink": "data_stream",
    "CloseableIterator": "data_stream",
    "AsyncDataStream": "async_data_stream",
}

UNSUPPORTED: dict[str, str] = {}

UNSUPPORTED_EXPORTS: dict[str, str] = {}

_JAVA_API = "Flink's Java API has it"

#: What Flott has beyond PyFlink.
ADDITIONAL_EXPORTS: dict[str, str] = {
    "JoinedStreams": _JAVA_API,
    "CoGroupedStreams": _JAVA_API,
    "JoinFunction": _JAVA_API,
    "FlatJoinFunction": _JAVA_API,
    "CoGroupFunction": _JAVA_API,
    "ProcessJoinFunction": _JAVA_API,
    "reinterpret_as_keyed_stream": _JAVA_API,
}

#: Calls whose parameters differ on purpose; every call PyFlink's signature allows must still be possible.
OTHER_PARAMETERS: dict[str, str] = {
    "StreamExecutionEnvironment.execute_async": "without a name, the option pipeline.name decides, as in execute()",
    "KeyedStream.broadcast": "refused in both; Flott inherits the signature of DataStream.broadcast",
}


# ---- describing, of either library -----------------------------------------------------------------------------------


def describe(package: str) -> dict[str, Any]:
    """The public methods of each class with their parameters, and what the package exports."""
    classes = {
        name: _methods(getattr(importlib.import_module(f"{package}.datastream.{module}"), name))
        for name, module in CLASSES.items()
    }
    exports = sorted(importlib.import_module(f"{package}.datastream").__all__)
    return {"classes": classes, "exports": exports}


def _methods(kind: type) -> dict[str, dict[str, str]]:
    methods: dict[str, dict[str, str]] = {}
    for name in sorted(dir(kind)):
        value: Any = inspect.getattr_static(kind, name)
        is_static = isinstance(value, staticmethod)
        function: Any = value.__func__ if is_static else value
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        parameters = list(inspect.signature(function).parameters.values())
        parameters = parameters if is_static else parameters[1:]
        methods[name] = {parameter.name: _default(parameter) for parameter in parameters}
    return methods


def _default(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return "*"
    return "required" if parameter.default is parameter.empty else repr(parameter.default)


# ---- comparing -------------------------------------------------------------------------------------------------------


def pyflink() -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return manifest


def _calls(described: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {
        f"{kind}.{method}": parameters
        for kind, methods in described["classes"].items()
        for method, parameters in methods.items()
    }


def test_every_method_of_pyflink_exists_or_is_listed_as_unsupported() -> None:
    assert _calls(pyflink()).keys() - _calls(describe("flott")).keys() - UNSUPPORTED.keys() == set()


def test_what_is_listed_as_unsupported_exists_in_pyflink_and_not_in_flott() -> None:
    assert UNSUPPORTED.keys() - _calls(pyflink()).keys() == set()
    assert UNSUPPORTED.keys() & _calls(describe("flott")).keys() == set()


def test_parameters_have_the_same_names_order_and_defaults() -> None:
    found = _calls(describe("flott"))
    different = {
        call: (expected, found[call])
        for call, expected in _calls(pyflink()).items()
        if call not in UNSUPPORTED
        and call not in OTHER_PARAMETERS
        and list(expected.items()) != list(found[call].items())[: len(expected)]
    }
    assert different == {}


def test_what_is_listed_as_different_is_different() -> None:
    expected, found = _calls(pyflink()), _calls(describe("flott"))
    assert [call for call in OTHER_PARAMETERS if expected[call] == found[call]] == []


def test_the_package_exports_what_pyflink_exports() -> None:
    exported = set(describe("flott")["exports"])
    assert set(pyflink()["exports"]) - exported == UNSUPPORTED_EXPORTS.keys()
    assert exported - set(pyflink()["exports"]) == ADDITIONAL_EXPORTS.keys()


if __name__ == "__main__":
    print(json.dumps(describe(sys.argv[1]), indent=1))

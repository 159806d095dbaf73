"""No public name of PyFlink ends in an AttributeError: it works, or a sentence says why it does not.

``pyflink_surface.json`` lists every public name of ``pyflink.common``, ``.datastream``, ``.metrics`` and ``.table`` of
PyFlink 2.3: module -> name -> members, nested classes as ``Outer.inner``. To make it anew, where PyFlink is
installed::

    python tests/parity/test_whole_surface.py > tests/parity/pyflink_surface.json
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MANIFEST = Path(__file__).with_name("pyflink_surface.json")
PORTING = Path(__file__).parents[2] / "docs" / "porting.md"

_BUILDER = "the unnamed base of builders, which programs get from for_row_format() and for_bulk_format()"
_PLUMBING = "plumbing between PyFlink and the JVM, public by name only"

#: Public by name, but no part of the API: nobody has written a program with them.
INTERNAL: dict[str, str] = {
    "pyflink.datastream.KeyedStream.AccumulateType": _PLUMBING,
    "pyflink.datastream.data_stream.KeyedStream.AccumulateType": _PLUMBING,
    "pyflink.datastream.connectors.base.StreamTransformer": _PLUMBING,
    "pyflink.datastream.connectors.base.SupportsPreprocessing": _PLUMBING,
    "pyflink.datastream.connectors.file_system.FileSink.BaseBuilder": _BUILDER,
    "pyflink.datastream.connectors.file_system.FileSink.get_transformer": _PLUMBING,
    "pyflink.datastream.connectors.file_system.StreamingFileSink.BaseBuilder": _BUILDER,
    "pyflink.datastream.formats.csv.CsvReaderFormat.text_line_format": "inherited by accident from StreamFormat",
    "pyflink.datastream.functions.AsyncFunctionDescriptor": _PLUMBING,
}

#: Of PyFlink, but outside the packages that the manifest covers.
OTHER_MODULES = {"flott.java_gateway", "flott.util"}


# ---- describing PyFlink ----------------------------------------------------------------------------------------------


def describe(package: str) -> dict[str, dict[str, list[str]]]:
    """Module -> public name -> its public members."""
    described: dict[str, dict[str, list[str]]] = {}
    for root in ("common", "datastream", "metrics", "table"):
        top = importlib.import_module(f"{package}.{root}")
        below = [info.name for info in pkgutil.walk_packages(top.__path__, f"{top.__name__}.")]
        for name in [top.__name__, *below]:
            if not re.search(r"\.(_|tests|examples)", name):
                described[name] = _describe_module(importlib.import_module(name), package)
    return described


def _describe_module(module: Any, package: str) -> dict[str, list[str]]:
    exported = getattr(module, "__all__", None)
    names = exported or [name for name, value in vars(module).items() if _own(value, module)]
    return {name: sorted(_members(getattr(module, name), package)) for name in names if not name.startswith("_")}


def _own(value: Any, module: Any) -> bool:
    return getattr(value, "__module__", None) == module.__name__ and not inspect.ismodule(value)


def _members(value: Any, package: str, prefix: str = "") -> Iterator[str]:
    if inspect.isclass(value):
        for name in dir(value):
            if not name.startswith("_"):
                yield f"{prefix}{name}"
                member = inspect.getattr_static(value, name)
                if inspect.isclass(member) and member.__module__.startswith(package):
                    yield from _members(member, package, f"{prefix}{name}.")


# ---- comparing -------------------------------------------------------------------------------------------------------


def surface() -> list[str]:
    manifest: dict[str, dict[str, list[str]]] = json.loads(MANIFEST.read_text("utf-8"))
    names = list(manifest)
    for module, content in manifest.items():
        for name, members in content.items():
            names += [f"{module}.{name}", *(f"{module}.{name}.{member}" for member in members)]
    return names


def in_flott(path: str) -> Any:
    """What PyFlink's name is in Flott."""
    parts = path.replace("pyflink", "flott", 1).split(".")
    found: Any = None
    for length in range(1, len(parts) + 1):
        module = ".".join(parts[:length])
        try:
            found = importlib.import_module(module)
        except AbsentModuleError:
            raise
        except ModuleNotFoundError:
            for part in parts[length - 1 :]:
                found = getattr(found, part)
            return found
    return found


def test_every_name_of_pyflink_works_or_is_refused_with_a_sentence() -> None:
    lost, refused = [], {}
    for path in surface():
        try:
            in_flott(path)
        except ProgramError as error:
            refused[path] = str(error)
        except AttributeError:
            lost.append(path)
    outer = [path for path in lost if not any(path.startswith(f"{other}.") for other in lost)]
    assert set(outer) == INTERNAL.keys()
    for message in refused.values():
        assert "See docs/porting.md" in message


def test_what_is_said_to_be_absent_is_absent_and_of_pyflink() -> None:
    known = {path.replace("pyflink", "flott", 1) for path in surface()} | OTHER_MODULES
    known |= {"flott.common.serialization.RowDataBulkWriterFactory"}  # not in its module's __all__
    for name in (*_absent.MODULES, *_absent.NAMES):
        assert name in known
        with pytest.raises(ProgramError):
            in_flott(name)


def test_a_missing_module_can_be_caught_as_an_import_error() -> None:
    with pytest.raises(ImportError, match="no ORC format") as caught:
        importlib.import_module("flott.datastream.formats.orc")
    assert caught.value.name == "flott.datastream.formats.orc"
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'flott\.nothing'"):
        importlib.import_module("flott.nothing")
    with pytest.raises(ProgramError, match="Bulk writers come from"):
        exec("from flott.common.serialization import BulkWriterFactory")
    with pytest.raises(ImportError, match="cannot import name"):
        exec("from flott.common.serialization import Nothing")


def test_java_objects_are_refused_by_the_method_that_would_give_them() -> None:
    handles = [path for path in surface() if path.rpartition(".")[2].startswith("get_java_")]
    assert len(handles) > 20
    for path in handles:
        try:
            method = in_flott(path)
        except ProgramError:
            continue  # its class is refused already
        with pytest.raises(ProgramError, match="Java object"):
            method(object())


# ---- the page for those who port -------------------------------------------------------------------------------------


def unsupported_names() -> dict[str, str]:
    """Every name that some parity list says is missing, refused or different, with where it is listed."""
    lists = {
        "common": test_common_names.UNSUPPORTED,
        "vocabulary": test_datastream_vocabulary_names.UNSUPPORTED,
        "other defaults": test_datastream_vocabulary_names.OTHER_DEFAULTS,
        "api": test_datastream_api_names.UNSUPPORTED | test_datastream_api_names.UNSUPPORTED_EXPORTS,
        "other parameters": test_datastream_api_names.OTHER_PARAMETERS,
        "beyond PyFlink": test_datastream_api_names.ADDITIONAL_EXPORTS,
        "internal": INTERNAL,
        "absent": _absent.MODULES | _absent.NAMES,
    }
    return {name: where for where, names in lists.items() for name in names}


def test_the_porting_page_mentions_every_name_that_is_missing_or_different() -> None:
    words = set(re.findall(r"\w+", PORTING.read_text("utf-8")))
    missing = {}
    for name, where in unsupported_names().items():
        last = re.sub(r"\(.*\)$", "", name).rpartition(".")[2]
        if last not in words:
            missing[name] = where
    assert missing == {}


def test_the_porting_page_mentions_every_setting_that_has_no_effect() -> None:
    page = PORTING.read_text("utf-8")
    settings = [
        name
        for kind in (IgnoredSettings, IgnoredExecutionSettings)
        for name, value in vars(kind).items()
        if inspect.isfunction(value) and name.startswith(("set_", "add_", "enable_", "disable_", "register_"))
    ]
    assert [name for name in settings if name not in page] == []
    assert [key for key in options._WITHOUT_EFFECT if key.rstrip(".") not in page] == []


if __name__ == "__main__":
    print(json.dumps(describe("pyflink"), separators=(",", ":"), sort_keys=True))
else:
    import pytest

    from flott import _absent
    from flott.common import _options as options
    from flott.common._ignored_execution_settings import IgnoredExecutionSettings
    from flott.datastream._ignored_settings import IgnoredSettings
    from flott.errors import AbsentModuleError, ProgramError
    from tests.parity import test_common_names, test_datastream_api_names, test_datastream_vocabulary_names

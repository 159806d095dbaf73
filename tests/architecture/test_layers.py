"""The architecture as tests: layers, the one door to Spark, the one clock, and names that say something.

No JVM and no import of the code under test: everything is read from the source text with ``ast``, except the layers,
which import-linter checks with the contracts of ``pyproject.toml``. Each scan is a function of one parsed module, and
is itself tested on a module that breaks its rule.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"

SPARK_ROOM = PurePosixPath("flott/runtime/spark")
SPARK_LIBRARIES = {"pyspark", "py4j"}

CLOCK_MODULES = {PurePosixPath("flott/runtime/clock.py"), PurePosixPath("flott/runtime/entrypoint/executors.py")}
WALL_CLOCKS = {
    "time.time",
    "time.time_ns",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
}

#: Who may issue a permit to commit: the store, when a checkpoint is complete, and the kit for tests of committers.
PERMIT_ISSUERS = {
    PurePosixPath("flott/datastream/connectors/base.py"),
    PurePosixPath("flott/runtime/checkpoint/store.py"),
    PurePosixPath("flott/testing/sinks.py"),
}

EMPTY_MODULE_NAMES = {"util", "utils", "helper", "helpers", "misc"}
# JobManager and ResourceManager are what everybody who knows Flink calls them.
EMPTY_CLASS_NAME = re.compile(r"^_?Abstract[A-Z]|Impl$|(?<!^Job)(?<!^Resource)Manager$")


@dataclass(frozen=True)
class Module:
    """One source file: ``path`` is relative to ``src``."""

    path: PurePosixPath
    tree: ast.Module


def parse(path: str, text: str) -> Module:
    return Module(PurePosixPath(path), ast.parse(text, filename=path))


def source_modules() -> list[Module]:
    files = sorted((SOURCE / "flott").rglob("*.py"))
    return [parse(file.relative_to(SOURCE).as_posix(), file.read_text(encoding="utf-8")) for file in files]


#: The tests that read all modules run in one process, which parses them once.
pytestmark = pytest.mark.xdist_group("all modules")


@pytest.fixture(scope="module")
def modules() -> list[Module]:
    found = source_modules()
    assert found, f"no Python file under {SOURCE / 'flott'}"
    return found


# ---- the scans -------------------------------------------------------------------------------------------------------


def imported_packages(module: Module) -> Iterator[tuple[int, str]]:
    """(line, top-level package) of every absolute import, wherever it stands in the module."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module.partition(".")[0]


def spark_imports(module: Module) -> list[str]:
    if module.path.is_relative_to(SPARK_ROOM):
        return []
    return [
        f"{module.path}:{line} imports {name}" for line, name in imported_packages(module) if name in SPARK_LIBRARIES
    ]


def module_level_classes(module: Module) -> Iterator[ast.ClassDef]:
    """Classes outside any class or function. A nested one (``ProcessFunction.Context``) is named by its owner."""
    pending: list[ast.AST] = [module.tree]
    while pending:
        for child in ast.iter_child_nodes(pending.pop()):
            if isinstance(child, ast.ClassDef):
                yield child
            elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                pending.append(child)


#: Packages whose classes are named by SQL itself, so that a syntax node, a plan node and a class of the API may share a
#: name. The last one is the API of tables: PyFlink has an ``AggregateFunction`` there and one of streams. Within each
#: of them a name is still defined once.
VOCABULARIES = (
    "table/_sql/", "table/_plan/", "table/_expressions/", "table/_functions/", "table/_types/", "table/_catalog/",
    "table/_connectors/", "flott/table/",
)  # fmt: skip


def vocabulary(path: Path) -> str:
    """Return the package that a module's class names belong to; the empty text for all ordinary modules."""
    return next((package for package in VOCABULARIES if package in path.as_posix()), "")


def classes_defined_twice(modules: list[Module]) -> list[str]:
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module in modules:
        for definition in module_level_classes(module):
            places[definition.name, vocabulary(module.path)].append(f"{module.path}:{definition.lineno}")
    return [f"{name}: {', '.join(where)}" for (name, _), where in sorted(places.items()) if len(where) > 1]


def missing_docstring(module: Module) -> bool:
    return not (ast.get_docstring(module.tree) or "").strip()


def empty_module_names(module: Module) -> list[str]:
    parts = [part.removesuffix(".py").strip("_") for part in module.path.parts]
    found = EMPTY_MODULE_NAMES.intersection(parts)
    if "common" in parts[2:]:
        found = found | {"common"}
    return [f"{module.path}: {name!r} does not say what lives there" for name in sorted(found)]


def empty_class_names(module: Module) -> list[str]:
    return [
        f"{module.path}:{node.lineno} {node.name}"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and EMPTY_CLASS_NAME.search(node.name)
    ]


def wall_clock_reads(module: Module) -> list[str]:
    """Every mention of a wall clock, called or passed on, under whatever name it was imported."""
    if module.path in CLOCK_MODULES:
        return []
    origins: dict[str, str] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                origins[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                origins[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def dotted(node: ast.AST) -> str:
        if isinstance(node, ast.Name):
            return origins.get(node.id, "")
        if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
            return f"{owner}.{node.attr}"
        return ""

    return [
        f"{module.path}:{node.lineno} reads {name}"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name | ast.Attribute) and (name := dotted(node)) in WALL_CLOCKS
    ]


def permit_issuers(module: Module) -> list[str]:
    """Every mention of the function that issues permits to commit, outside the modules that may call it."""
    if module.path in PERMIT_ISSUERS:
        return []
    mentions = [
        node.lineno
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.ImportFrom) and any(alias.name == "_issue_permit" for alias in node.names))
        or (isinstance(node, ast.Attribute) and node.attr == "_issue_permit")
    ]
    return [f"{module.path}:{line} issues permits to commit" for line in mentions]


# ---- the promises ----------------------------------------------------------------------------------------------------


def expect_none(violations: Iterable[str]) -> None:
    found = list(violations)
    assert not found, "\n".join(["", *found])


def test_imports_respect_the_layers() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    if not command.exists():
        pytest.fail("import-linter is not installed beside this Python; run the tests with make test")
    finished = subprocess.run(
        [str(command), "--config", str(ROOT / "pyproject.toml"), "--no-cache"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_only_the_spark_room_imports_pyspark(modules: list[Module]) -> None:
    expect_none(line for module in modules for line in spark_imports(module))


def test_tasks_need_the_standard_library_and_cloudpickle_only() -> None:
    """Executors get Flott and cloudpickle from the driver; whatever else they have is their own affair."""
    program = """
import sys
class Bare:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        known = root in {"flott", "cloudpickle"} or root in sys.stdlib_module_names or root.startswith("_")
        if not known:
            raise ModuleNotFoundError(f"No module named {name!r} on a bare executor", name=name)
sys.meta_path.insert(0, Bare())
import flott.datastream, flott.runtime.epoch.task, flott.runtime.operators.build
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_only_the_checkpoint_store_issues_permits_to_commit(modules: list[Module]) -> None:
    expect_none(line for module in modules for line in permit_issuers(module))


@pytest.mark.parametrize(
    "text",
    ["from flott.datastream.connectors.base import _issue_permit", "permit = base._issue_permit(7, 0)"],
)
def test_a_permit_that_is_issued_elsewhere_is_noticed(text: str) -> None:
    assert permit_issuers(parse("flott/runtime/jobmaster/commits.py", text))
    assert not permit_issuers(parse("flott/runtime/checkpoint/store.py", text))


def test_no_class_name_is_defined_twice(modules: list[Module]) -> None:
    expect_none(classes_defined_twice(modules))


def test_every_module_says_what_lives_in_it(modules: list[Module]) -> None:
    expect_none(f"{module.path} has no docstring" for module in modules if missing_docstring(module))


def test_module_names_say_something(modules: list[Module]) -> None:
    expect_none(line for module in modules for line in empty_module_names(module))


def test_class_names_say_something(modules: list[Module]) -> None:
    expect_none(line for module in modules for line in empty_class_names(module))


def test_the_wall_clock_is_read_in_one_place(modules: list[Module]) -> None:
    expect_none(line for module in modules for line in wall_clock_reads(module))


# ---- the scans notice ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "import pyspark",
        "import pyspark.sql as s",
        "from pyspark.sql import SparkSession",
        "def f():\n    from py4j.java_gateway import JavaGateway",
    ],
)
def test_a_spark_import_is_noticed_outside_the_spark_room_only(text: str) -> None:
    assert spark_imports(parse("flott/runtime/epoch/task.py", text))
    assert not spark_imports(parse("flott/runtime/spark/runner.py", text))


def test_a_class_defined_twice_is_noticed_and_a_nested_one_is_not() -> None:
    one = parse("flott/a.py", "class Twice: ...\nclass A:\n    class Context: ...")
    two = parse("flott/b.py", "if True:\n    class Twice: ...\nclass B:\n    class Context: ...")
    assert classes_defined_twice([one, two]) == ["Twice: flott/a.py:1, flott/b.py:2"]


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.time()",
        "import time as t\nt.time_ns()",
        "from time import time\ndef f(clock=time): ...",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime as dt\ndt.now(None)",
        "from datetime import date\ndate.today()",
    ],
)
def test_a_wall_clock_is_noticed_under_any_name_outside_the_clock_modules(text: str) -> None:
    assert wall_clock_reads(parse("flott/runtime/operators/process.py", text))
    assert not wall_clock_reads(parse("flott/runtime/clock.py", text))


def test_measuring_a_duration_is_not_reading_the_wall_clock() -> None:
    text = "import time\nfrom flott.common import time as t\ntime.monotonic()\nt.time"
    assert not wall_clock_reads(parse("flott/runtime/epoch/task.py", text))


@pytest.mark.parametrize(
    "path", ["flott/utils.py", "flott/graph/_helpers.py", "flott/misc/x.py", "flott/runtime/common.py"]
)
def test_an_empty_module_name_is_noticed(path: str) -> None:
    assert empty_module_names(parse(path, ""))


def test_the_public_common_package_may_be_called_common() -> None:
    assert not empty_module_names(parse("flott/common/time.py", ""))


@pytest.mark.parametrize("name", ["StoreImpl", "AbstractSink", "_AbstractSink", "CheckpointManager"])
def test_an_empty_class_name_is_noticed(name: str) -> None:
    assert empty_class_names(parse("flott/a.py", f"class {name}: ..."))


@pytest.mark.parametrize("name", ["Implicit", "Abstraction", "ManagerOfState", "JobMaster", "JobManager"])
def test_a_class_name_that_only_looks_like_it_passes(name: str) -> None:
    assert not empty_class_names(parse("flott/a.py", f"class {name}: ..."))

"""The program's own modules: what it has imported, or may import later, from beside its main script. Client side.

    python folder/script.py       modules below folder
    python -m package.module      the package, and modules beside it
    python folder|program.zip     modules below the folder, or the whole archive

Top-level packages travel whole, with their data files, because they may import the rest of themselves at any time. What
is installed (site-packages, the standard library) and Flott itself never travel.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from flott.errors import ConfigurationError
from flott.runtime.dependencies.archives import files_in

#: A program is not a data set.
LIMIT_BYTES = 64 << 20


def root_of(main: ModuleType) -> Path | None:
    """Return the folder or archive in which Python finds the program's modules; None if it is not known."""
    spec = getattr(main, "__spec__", None)
    file = getattr(main, "__file__", None)
    if file is None:
        return None
    if spec is None:
        root = Path(file).resolve().parent  # Python follows the links of a script
    elif spec.name == "__main__":
        root = Path(file).absolute().parent
    else:  # python -m package.module: the folder that holds the top-level package
        root = Path(file).absolute().parents[spec.name.count(".")]
    return None if any(root.is_relative_to(place) for place in _installed()) else root


def members(main: ModuleType) -> list[tuple[Path, str]]:
    """Return the files of the program's own modules by their path below an entry of ``sys.path``."""
    root = root_of(main)
    if root is None or root.is_file():
        return []
    found: dict[str, Path] = {}
    for name in _own_names(main, root):
        found.update((member, file) for file, member in _files_of(name, root))
    _refuse_too_much(found, root)
    return [(file, member) for member, file in sorted(found.items())]


def archive_of(main: ModuleType) -> Path | None:
    """Return the archive that the program was started from, if there is one."""
    root = root_of(main)
    return root if root is not None and root.is_file() and zipfile.is_zipfile(root) else None


def _own_names(main: ModuleType, root: Path) -> list[str]:
    """Return the top-level modules of the program: those that are imported, or named by an import statement."""
    names = {name.partition(".")[0] for name, module in list(sys.modules.items()) if _is_own(module, name, root)}
    names -= {"__main__", "__mp_main__"}  # the second one is the first, to multiprocessing
    waiting = [Path(main.__file__)] if main.__file__ else []
    waiting += [file for name in names for file, _ in _files_of(name, root)]
    looked_at: set[str] = set()
    while waiting:
        for name in _imported_by(waiting.pop()) - looked_at - names:
            looked_at.add(name)
            if _is_found_in(name, root):
                names.add(name)
                waiting += [file for file, _ in _files_of(name, root)]
    return sorted(names)


def _is_own(module: ModuleType | None, name: str, root: Path) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and name.partition(".")[0] != "flott" and _is_below(Path(file), root)


def _is_found_in(name: str, root: Path) -> bool:
    if name in sys.stdlib_module_names or name == "flott":
        return False
    return any(True for _ in _files_of(name, root))


def _files_of(name: str, root: Path) -> Iterator[tuple[Path, str]]:
    """Return the file of a top-level module, or the files of a package, if they are the program's own."""
    spec = _spec_of(name)
    if spec is None:
        return
    if spec.submodule_search_locations is not None:
        for location in map(Path, spec.submodule_search_locations):
            if _is_below(location, root):
                yield from ((file, f"{name}/{member}") for file, member in files_in(location))
    elif spec.origin and spec.has_location and _is_below(Path(spec.origin), root) and Path(spec.origin).is_file():
        yield Path(spec.origin), Path(spec.origin).name


def _spec_of(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except (ValueError, ImportError, AttributeError):  # a module that was made by hand, and says it has none
        return PathFinder.find_spec(name)


def _is_below(path: Path, root: Path) -> bool:
    path = path.absolute()
    if not path.is_relative_to(root) or {"site-packages", "dist-packages"} & set(path.relative_to(root).parts):
        return False
    return not any(path.is_relative_to(place) for place in _installed())


@cache
def _installed() -> tuple[Path, ...]:
    return tuple({Path(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib", "purelib", "platlib")})


def _imported_by(file: Path) -> set[str]:
    """Return the top-level names in the import statements of a source file, also of those inside functions."""
    if file.suffix != ".py":
        return set()
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def _refuse_too_much(found: dict[str, Path], root: Path) -> None:
    sizes = {member: file.stat().st_size for member, file in found.items()}
    if (total := sum(sizes.values())) <= LIMIT_BYTES:
        return
    largest = sorted(sizes, key=lambda member: -sizes[member])[:3]
    shown = ", ".join(f"{member} ({sizes[member] >> 20} MB)" for member in largest)
    raise ConfigurationError(
        f"The program's own modules below {root} have {total >> 20} MB, and {LIMIT_BYTES >> 20} MB can travel with a"
        f" job; the largest files are {shown}. Keep data outside the program's packages: python.archives brings it"
        " along."
    )

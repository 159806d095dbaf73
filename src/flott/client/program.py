"""Runs a user's program as Python itself would: a script, a folder, an archive, or a module. Client side.

    python -m flott.client.program script.py|folder|program.zip [ARGUMENT ...]
    python -m flott.client.program -m module [ARGUMENT ...]

The program is ``__main__`` in its process, so that its classes and functions are found where Python would have them.
Its settings come by ``flott.yaml``, the environment and ``FLOTT_PROPERTIES``, as those of every program.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, ModuleType

import flott
from flott import execution
from flott.client.exit_codes import ExitCode, exit_code_of
from flott.common import _options as options
from flott.common import _settings
from flott.errors import FlottError, ProgramError, SubmissionError
from flott.runtime.dependencies.job_dependencies import local_paths

_OUR_FOLDER = str(Path(flott.__file__).parent)


def run_program(path: str, arguments: Sequence[str]) -> None:
    """Run a script, a folder with a ``__main__.py`` or an archive with one; or, if it is ``-m``, a module by name."""
    if path == "-m":
        if not arguments:
            raise SubmissionError("Behind -m stands the name of a module, as in: -m package.module.")
        _run(*_module(arguments[0]), arguments[1:])
    else:
        _run(*_script(path), arguments)


def _run(code: CodeType, main: ModuleType, arguments: Sequence[str]) -> None:
    sys.argv[:] = [main.__file__ or "", *arguments]
    sys.modules["__main__"] = main  # and stays: threads and exit handlers of the program look there
    exec(code, vars(main))


def _script(path: str) -> tuple[CodeType, ModuleType]:
    file = Path(path)
    if file.is_dir() or (file.is_file() and file.suffix != ".py"):
        return _archive(file)
    if not file.is_file():
        raise SubmissionError(f"There is no program at {path}: name a .py file, a folder, a .zip or a .whl.")
    _import_first(str(file.resolve().parent))
    main = _new_main(str(file))
    code = compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    return code, main


def _archive(path: Path) -> tuple[CodeType, ModuleType]:
    entry = str(path.absolute())
    spec = PathFinder.find_spec("__main__", [entry])
    if spec is None or spec.loader is None:
        raise SubmissionError(
            f"There is no __main__.py in {path}: add one, or name the module to run: -m package.module, with"
            f" python.files set to {path}."
        )
    _import_first(entry)
    return _found(spec)


def _module(name: str) -> tuple[CodeType, ModuleType]:
    if "" not in sys.path:
        _import_first(os.getcwd())
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise SubmissionError(f"The module {name!r} cannot be run: {error}.") from error
    if spec is None or spec.loader is None:
        raise SubmissionError(
            f"There is no module {name!r} to run; a package needs a __main__.py. It is looked for in the working"
            " directory, in python.files and among what is installed."
        )
    return _found(spec)


def _found(spec: ModuleSpec) -> tuple[CodeType, ModuleType]:
    loader = spec.loader
    assert loader is not None
    find_code = getattr(loader, "get_code", None)
    code = find_code(spec.name) if find_code is not None else None
    if code is None:
        raise SubmissionError(f"{spec.name} has no Python code that could be run.")
    main = _new_main(_file_of(spec))
    main.__spec__, main.__loader__, main.__package__ = spec, loader, spec.parent
    return code, main


def _file_of(spec: ModuleSpec) -> str:
    find_file = getattr(spec.loader, "get_filename", None)
    return str(find_file(spec.name)) if find_file is not None else spec.origin or ""


def _new_main(file: str) -> ModuleType:
    main = ModuleType("__main__")
    main.__file__ = file
    vars(main)["__builtins__"] = __builtins__
    return main


def _import_first(entry: str) -> None:
    sys.path.insert(0, entry)


# --- the process -----------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Run a program; the exit code of the process."""
    if not arguments:
        sys.stderr.write("usage: python -m flott.client.program script.py|folder|archive|-m module [ARGUMENT ...]\n")
        return ExitCode.USAGE
    try:
        _begin()
        run_program(arguments[0], arguments[1:])
    except SystemExit as leaving:
        return _code_of(leaving)
    except BaseException as error:
        _show(error)
        return exit_code_of(error)
    if not execution.was_asked() and execution.PLAN_VARIABLE not in os.environ:  # for a plan no job runs
        sys.stderr.write(f"{ended_without_job(arguments)}\n")
    return ExitCode.OK


def program_of(arguments: Sequence[str]) -> str:
    """Return the name of the program in a command line of ``main``."""
    return " ".join(arguments[:2]) if arguments[0] == "-m" else arguments[0]


def ended_without_job(arguments: Sequence[str]) -> str:
    """Return the message for a program that has ended without running a job."""
    return f"{program_of(arguments)} ended without running a job: does it call execute() or execute_async()?"


def _begin() -> None:
    """Let the program import the Python files that were named for its jobs."""
    files = _settings.load().configuration.get(options.PYTHON_FILES)
    for path in reversed(local_paths(files or "")):
        _import_first(str(path.absolute().parent if path.suffix == ".py" else path.absolute()))


def _code_of(leaving: SystemExit) -> int:
    if leaving.code is None or isinstance(leaving.code, int):
        return leaving.code or 0
    sys.stderr.write(f"{leaving.code}\n")
    return ExitCode.FAILED


def _show(error: BaseException) -> None:
    """Print an error as Python would, without the lines of Flott. An error of Flott is printed without its causes."""
    if isinstance(error, KeyboardInterrupt):
        return
    if isinstance(error, ImportError) and "no known parent package" in str(error):
        error.add_note("Modules of a package can import each other relatively if it runs as one: -m package.module.")
    if isinstance(error, FlottError) and not isinstance(error, ProgramError):
        sys.stderr.write(f"{error}\n")
        return
    shown = traceback.TracebackException.from_exception(error, compact=True)
    if isinstance(error, ProgramError):  # the line of the program is what matters
        shown.__cause__ = shown.__context__ = None
    _leave_out_ours(shown)
    sys.stderr.writelines(shown.format())


def _leave_out_ours(shown: traceback.TracebackException | None) -> None:
    while shown is not None:
        shown.stack[:] = [
            frame
            for frame in shown.stack
            if not frame.filename.startswith((_OUR_FOLDER, "<frozen importlib", "<frozen runpy"))
        ]
        _leave_out_ours(shown.__context__)
        shown = shown.__cause__


if __name__ == "__main__":
    if not sys.flags.safe_path:
        sys.path.pop(0)  # the working directory, which Python puts there for -m
    from flott.client import program  # not this module's second self

    sys.exit(program.main(sys.argv[1:]))

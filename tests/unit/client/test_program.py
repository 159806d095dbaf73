"""Programs run as Python would run them."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import flott

SOURCES = str(Path(flott.__file__).parent.parent)

#: Says what a program sees of itself.
SELF = """
import json, sys
class Own: pass
print(json.dumps({
    "argv": sys.argv[1:], "name": __name__, "class": Own.__module__, "package": __package__,
    "main": sys.modules["__main__"].Own is Own, "file": __file__, "beside": __import__("beside").NAME,
}))
"""

RUNS_NOTHING = "ended without running a job"


def run(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flott.client.program", *arguments],
        cwd=cwd,
        env={"PYTHONPATH": SOURCES, "HOME": str(cwd), **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "beside.py").write_text("NAME = 'beside'\n")
    (folder / "__main__.py").write_text(SELF)
    (folder / "script.py").write_text(SELF)
    return folder


@pytest.mark.parametrize("kind", ["script", "link", "folder", "zip", "module", "package"])
def test_a_program_is_main_in_its_process(tmp_path: Path, folder: Path, kind: str) -> None:
    variables = {}
    match kind:
        case "script":
            arguments, package = [str(folder / "script.py")], None
        case "link":
            (tmp_path / "link.py").symlink_to(folder / "script.py")
            arguments, package = ["link.py"], None
        case "folder":
            arguments, package = [str(folder)], ""
        case "zip":
            with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
                for name in ("beside.py", "__main__.py"):
                    archive.write(folder / name, name)
            arguments, package = [str(tmp_path / "p.zip")], ""
        case "module":
            arguments, package = ["-m", "script"], ""
            variables = {"FLOTT_PROPERTIES": json.dumps({"python.files": str(folder)})}
        case _:
            (folder / "pack").mkdir()
            (folder / "pack" / "__init__.py").write_text("")
            (folder / "pack" / "__main__.py").write_text(SELF)
            arguments, package = ["-m", "pack"], "pack"
            variables = {"FLOTT_PROPERTIES": json.dumps({"python.files": str(folder)})}
    done = run(*arguments, "a", "-m", "--b", cwd=tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["argv"] == ["a", "-m", "--b"]
    assert (seen["name"], seen["class"], seen["main"]) == ("__main__", "__main__", True)
    assert (seen["package"], seen["beside"]) == (package, "beside")
    assert RUNS_NOTHING in done.stderr


def test_exit_codes_and_messages_are_the_programs_own(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("import sys\nsys.exit({'7': 7, 'text': 'no luck'}.get(sys.argv[1]))\n")
    assert run("p.py", "7", cwd=tmp_path).returncode == 7
    assert run("p.py", "nothing", cwd=tmp_path).returncode == 0
    said = run("p.py", "text", cwd=tmp_path)
    assert (said.returncode, said.stderr) == (1, "no luck\n")


def test_a_traceback_shows_the_programs_lines_and_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(
        "from flott.datastream import StreamExecutionEnvironment\n"
        "def build(env):\n    env.from_collection(5)\n"
        "build(StreamExecutionEnvironment.get_execution_environment())\n"
    )
    done = run("p.py", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[:5] == [
        "Traceback (most recent call last):",
        '  File "p.py", line 4, in <module>',
        "    build(StreamExecutionEnvironment.get_execution_environment())",
        '  File "p.py", line 3, in build',
        "    env.from_collection(5)",
    ]
    assert "from_collection() takes a list" in done.stderr
    assert SOURCES not in done.stderr


def test_a_module_that_runs_nothing_is_named_as_it_was_started(tmp_path: Path) -> None:
    (tmp_path / "idle.py").touch()
    assert run("-m", "idle", "x", cwd=tmp_path).stderr.startswith("-m idle ended without running a job")


@pytest.mark.parametrize("program", ["shop", "shop/__main__.py"])
def test_a_package_that_is_run_as_a_folder_is_told_how_its_modules_find_each_other(
    tmp_path: Path, program: str
) -> None:
    (tmp_path / "shop").mkdir()
    for name, text in (("__init__", ""), ("orders", ""), ("__main__", "from . import orders")):
        (tmp_path / "shop" / f"{name}.py").write_text(text)
    done = run(program, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("relatively if it runs as one: -m package.module.")
    assert run("-m", "shop", cwd=tmp_path).returncode == 0


def test_a_failed_job_shows_its_card_and_has_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(
        "from flott.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1]).map(lambda n: n / 0).print()\n"
        "env.execute('breaks')\n"
    )
    properties = {"execution.target": "in-process", "restart-strategy.type": "none"}
    done = run("p.py", cwd=tmp_path, FLOTT_PROPERTIES=json.dumps(properties))
    assert done.returncode == 5
    assert "Job 'breaks' failed." in done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert "Traceback" not in done.stderr.partition("failed.")[0]


def test_a_plan_is_written_instead_of_running_the_job(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(
        "from flott.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1]).key_by(lambda n: n).map(lambda n: print('ran')).print()\n"
        "try:\n    env.execute('planned')\nexcept Exception:\n    print('caught')\nprint('went on')\n"
    )
    done = run("p.py", cwd=tmp_path, FLOTT_PLAN_FILE=str(tmp_path / "plan.json"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    plans = json.loads((tmp_path / "plan.json").read_text())
    assert plans["plan"]["name"] == "planned"
    source, keyed = plans["plan"]["nodes"]
    assert keyed["inputs"] == [
        {"num": 0, "id": source["id"], "ship_strategy": "HASH", "exchange": "pipelined_bounded"}
    ]
    assert plans["execution-plan"]["nodes"][0]["type"] == "Source: Collection Source"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.py"], "no program at missing.py"),
        (["empty"], r"no __main__.py in empty"),
        (["-m"], "name of a module"),
        (["-m", "no_such_module"], "no module 'no_such_module'"),
        (["-m", "no.such.module"], "'no.such.module'"),
    ],
)
def test_what_is_no_program_is_refused_in_words(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "empty").mkdir()
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr

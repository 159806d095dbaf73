"""The command line as a whole: help, options of every command, errors and exit codes, completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import click
import pytest

import flott as package
from flott import errors
from flott.cli.command_list import COMMANDS
from flott.cli.invocation import Invocation
from flott.cli.jobs import JobType
from flott.cli.options import GlobalOption, set_jobmanager
from flott.cli.root import flott
from flott.client.exit_codes import ExitCode, exit_code_of
from tests.unit.cli.conftest import Ran
from tests.unit.cli.fake_jobmanager import JOB, OTHER_JOB, FakeJobManager

Cli = Callable[..., Ran]


def test_the_version_is_the_packages(cli: Cli) -> None:
    assert cli("--version") == Ran(0, f"flott {package.__version__}\n", "")


def test_help_lists_every_command_and_imports_none(cli: Cli) -> None:
    shown = cli("--help").out
    assert all(f"  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_listed_command_is_there_and_takes_the_global_options(name: str, cli: Cli) -> None:
    module, _, attribute = COMMANDS[name].place.partition(":")
    command = getattr(import_module(f"flott.cli.commands.{module}"), attribute)
    assert isinstance(command, click.Command)
    assert command.name == name
    spelled = {opt for param in command.params if isinstance(param, GlobalOption) for opt in param.opts}
    assert {"--json", "--cluster", "--jobmanager", "-D", "--config"} <= spelled
    assert cli(name, "--help").code == 0


def test_starting_the_command_line_imports_nothing_heavy() -> None:
    program = "import sys, flott.cli.root; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"pyspark", "starlette", "uvicorn", "pydantic", "httpx", "rich", "yaml", "flott.common", "flott.runtime"}
    assert heavy & set(loaded) == set()


def test_json_may_stand_before_and_after_the_command(cli: Cli) -> None:
    before = cli("--json", "config", "rest.port")
    assert before.document[0]["key"] == "rest.port"
    assert cli("config", "rest.port", "--json") == before


def test_nothing_but_data_is_on_stdout(cli: Cli) -> None:
    ran = cli("cluster", "stop")
    assert (ran.code, ran.out) == (0, "")
    assert "No JobManager runs" in ran.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ClusterError("x"), 1),
        (errors.SavepointError("x"), 1),
        (errors.ConfigurationError("x"), 2),
        (errors.UnreachableError("x"), 3),
        (errors.JobNotFoundError("x"), 4),
        (errors.JobFailedError("x"), 5),
        (errors.JobCancelledError("x"), 6),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 141),
        (ValueError("x"), 1),
    ],
)
def test_every_kind_of_error_has_its_exit_code(error: BaseException, code: int) -> None:
    assert exit_code_of(error) == code


def test_every_exit_code_has_a_meaning() -> None:
    assert all(code.meaning for code in ExitCode)


def test_a_jobmanager_that_does_not_answer_is_one_message_and_exit_code_3(cli: Cli) -> None:
    ran = cli("-m", "localhost:1", "cluster", "status")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("flott: No JobManager answers at http://localhost:1:")
    assert "Traceback" not in ran.err


def test_with_json_an_error_is_a_document_on_stderr(cli: Cli) -> None:
    for arguments, kind, code in (
        (["-m", "localhost:1", "cluster", "status"], "UnreachableError", 3),
        (["-D", "rest.prt=1", "config"], "ConfigurationError", 2),
        (["nonsense"], "UsageError", 2),
    ):
        ran = cli("--json", *arguments)
        assert (ran.code, ran.out) == (code, "")
        assert (json.loads(ran.err)["error"]["kind"], json.loads(ran.err)["exit-code"]) == (kind, code)


@pytest.mark.parametrize(
    "line",
    [
        "list --json --nonsense",
        "list --nonsense --json",
        "lst --json",
        "--nonsense list --json",
        "cluster strat --json",
        "rescale --json a many",
        "run --json -p 0 x.py",
        "-m nowhere list --json",
    ],
)
def test_what_is_wrong_with_a_command_line_is_a_document_wherever_json_stands_in_it(cli: Cli, line: str) -> None:
    ran = cli(*line.split())
    assert (ran.code, ran.out) == (2, "")
    assert json.loads(ran.err)["error"]["kind"] == "UsageError"


def test_a_json_that_is_the_programs_is_not_ours(cli: Cli) -> None:
    assert cli("run", "nowhere.py", "--json").err.endswith("There is no program at nowhere.py.\n")


def test_an_interrupt_is_told_in_a_word_or_as_a_document(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Invocation) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Invocation, "settings", property(interrupted))
    ran = cli("config")
    assert (ran.code, ran.out, ran.err.strip()) == (130, "", "Interrupted.")
    assert json.loads(cli("--json", "config").err) == {
        "error": {"kind": "Interrupted", "message": "Interrupted."}, "exit-code": 130,
    }  # fmt: skip


def test_what_the_system_refuses_is_told_as_it_is(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Invocation) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Invocation, "settings", property(full))
    assert cli("config") == Ran(1, "", "flott: [Errno 28] No space left on device\n")


def test_a_misspelt_command_is_answered_with_the_nearest_one(cli: Cli) -> None:
    ran = cli("confg")
    assert ran.code == 2
    assert "No such command 'confg'. Did you mean 'config'?" in ran.err
    assert "Did you mean 'start'?" in cli("cluster", "strat").err


def test_an_unexpected_error_says_how_to_see_where_it_comes_from(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Invocation) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(Invocation, "settings", property(broken))
    ran = cli("config")
    assert ran.code == 1
    assert "RuntimeError: a mistake of ours" in ran.err
    assert "FLOTT_DEBUG=1" in ran.err
    assert "Traceback" not in ran.err
    monkeypatch.setenv("FLOTT_DEBUG", "1")
    assert "Traceback" in cli("config").err


def test_a_reader_that_has_gone_ends_the_command_quietly(home: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "import flott.cli as c; c.main()", "config"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait() == 141


MAIN = "import flott.cli as c; c.main()"


def test_an_interrupt_while_the_command_line_is_loaded_is_no_traceback() -> None:
    program = f"""
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "flott.cli.root":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
{MAIN}
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")


def test_a_reader_of_errors_that_has_gone_does_not_change_the_exit_code(home: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "-D", "nonsense=1", "config"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    process.stderr.close()
    assert process.stdout is not None
    assert process.stdout.read() == b""
    assert process.wait() == 2


@pytest.mark.parametrize(("closed", "code"), [(">&-", 0), ("2>&-", 0), (">&- 2>&-", 0), ("<&-", 0)])
def test_streams_that_are_closed_are_not_written_to(home: Path, closed: str, code: int) -> None:
    script = f'exec "$0" -c "$1" config rest.port {closed}'
    ran = subprocess.run(["sh", "-c", script, sys.executable, MAIN], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (code, "")


def test_a_name_that_does_not_fit_the_terminals_encoding_is_written_as_well_as_can_be(home: Path) -> None:
    arguments = [sys.executable, "-c", MAIN, "-D", "pipeline.name=gr\u00f6\u00dfe \u6570 \U0001f600", "config"]
    ran = subprocess.run(
        [*arguments, "--changed"], capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"gr??e ? ?" in ran.stdout
    as_json = subprocess.run(
        [*arguments, "--changed", "--json"], capture_output=True, check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert json.loads(as_json.stdout)[0]["value"] == "gr\u00f6\u00dfe \u6570 \U0001f600"


# ---- options of every command ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "properties"),
    [
        ("localhost:8081", {"rest.address": "localhost", "rest.port": "8081"}),
        ("http://h:1/", {"rest.address": "h", "rest.port": "1", "security.ssl.rest.enabled": "false"}),
        ("https://h", {"rest.address": "h", "rest.port": "443", "security.ssl.rest.enabled": "true"}),
        ("[::1]:8081", {"rest.address": "::1", "rest.port": "8081"}),
        ("https://[::1]", {"rest.address": "::1", "rest.port": "443", "security.ssl.rest.enabled": "true"}),
    ],
)
def test_a_jobmanager_is_named_by_host_and_port_or_by_url(address: str, properties: dict[str, str]) -> None:
    invocation = Invocation()
    set_jobmanager(invocation, address)
    assert invocation.properties == properties


@pytest.mark.parametrize(
    "address",
    ["localhost", "localhost:", ":8081", "h:0", "h:65536", "h:port", "ftp://h:1", "http://h:1/path", "://h:1", ""],
)
def test_anything_else_is_no_jobmanager(address: str, cli: Cli) -> None:
    with pytest.raises(click.BadParameter):
        set_jobmanager(Invocation(), address)
    assert cli("-m", address, "config").code == 2


def test_properties_before_and_after_the_command_add_up_and_the_last_one_wins(cli: Cli) -> None:
    ran = cli("-D", "rest.port=1", "-Dpipeline.name=a=b", "config", "--json", "--changed", "-D", "rest.port=2")
    assert {entry["key"]: entry["value"] for entry in ran.document} == {"rest.port": "2", "pipeline.name": "a=b"}
    assert {entry["origin"]["place"] for entry in ran.document} == {"-D"}


def test_a_configuration_file_can_be_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "flott.yaml").write_text("rest.port: 1")
    (tmp_path / "other.yaml").write_text("rest.port: 2")
    assert cli("config", "rest.port", "--json").document[0]["value"] == "1"
    found = cli("config", "rest.port", "--json", "--config", "other.yaml").document[0]
    assert (found["value"], found["origin"]["place"]) == ("2", "other.yaml:1")
    assert cli("config", "--config", "nowhere.yaml").code == 2


def test_a_cluster_that_is_named_is_not_looked_for_where_the_file_says_another_one_is(
    cli: Cli, home: Path, tmp_path: Path, jobmanager: FakeJobManager
) -> None:
    (tmp_path / "flott.yaml").write_text("rest.port: 1")
    folder = home / "clusters" / "mine"
    folder.mkdir(parents=True)
    (folder / "cluster.json").write_text(json.dumps({"pid": 1, "url": jobmanager.url, "started": 1}))
    assert cli("cluster", "status").code == 3
    ran = cli("--cluster", "mine", "cluster", "status", "--json")
    assert (ran.document["url"], ran.document["pid"]) == (jobmanager.url, None)


# ---- completion ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script(shell: str, cli: Cli) -> None:
    ran = cli("completion", shell)
    assert ran.code == 0
    assert "_FLOTT_COMPLETE" in ran.out
    assert cli("completion", shell, "--json").document["script"] in ran.out


def complete(*words: str) -> list[str]:
    completed = subprocess.run(
        [sys.executable, "-c", "import flott.cli as c; c.main()"], capture_output=True, text=True,
        env={"_FLOTT_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(["flott", *words]),
             "COMP_CWORD": str(len(words)), "PATH": "/usr/bin:/bin", "FLOTT_HOME": "/nowhere", "HOME": "/nowhere"},
    )  # fmt: skip
    return [line.partition(",")[2] for line in completed.stdout.splitlines() if line]


def test_commands_and_options_complete() -> None:
    assert complete("clus") == ["cluster"]
    assert complete("cluster", "sta") == ["start", "status"]
    assert "--jobmanager" in complete("cluster", "status", "--")


def test_job_ids_complete_from_the_cluster(jobmanager: FakeJobManager) -> None:
    jobmanager.add_job(JOB)
    jobmanager.add_job(OTHER_JOB)
    assert complete("-m", jobmanager.address, "cancel", "ab") == [OTHER_JOB]
    assert complete("-m", jobmanager.address, "cancel", "a") == [JOB, OTHER_JOB]
    assert complete("-m", "localhost:1", "cancel", "a") == []


def test_what_completes_is_what_can_stand_there(jobmanager: FakeJobManager) -> None:
    jobmanager.add_job(JOB)
    jobmanager.add_job(OTHER_JOB, state="FINISHED")
    at = ("-m", jobmanager.address)
    assert complete(*at, "cancel", "a") == complete(*at, "rescale", "a") == [JOB], "what has ended cannot be cancelled"
    assert complete(*at, "status", "a") == [JOB, OTHER_JOB]
    assert complete(*at, "logs", "j") == ["jobmanager"]
    for words in (("state", "ls"), ("state", "diff"), ("replay",), ("info",)):
        assert complete(*at, *words, "a") == [JOB, OTHER_JOB, "a"], "a job, or a file that the shell completes"


def test_completing_does_not_wait_for_a_jobmanager(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(self: object, stop: object, delay_ms: int) -> bool:
        raise AssertionError("somebody waits with a finger on a key")

    monkeypatch.setattr("flott.client.rest_client.SystemClock.wait", wait)
    invocation = Invocation()
    invocation.properties["rest.port"] = "1"
    context = click.Context(flott, obj=invocation)
    assert JobType(words=("jobmanager",)).shell_complete(context, click.Argument(["job"]), "a") == []


def test_the_root_has_no_command_that_is_not_listed() -> None:
    assert flott.commands == {}

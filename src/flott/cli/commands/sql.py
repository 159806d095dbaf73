"""``flott sql``: a shell for SQL, or statements of a file or the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flott.cli.command import command
from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.programs.placement import SESSION, Target, place, session_address
from flott.client.exit_codes import ExitCode
from flott.errors import FlottError, UnreachableError

if TYPE_CHECKING:
    from flott.cli.sql.executing import StatementRunner
    from flott.cli.sql.statement_session import ShellSession

    _TextType = click.ParamType[str]
else:
    _TextType = click.ParamType  # click before 8.4 has no type parameter


class GatewayUrl(_TextType):
    """The address of a SQL gateway: a URL, or HOST:PORT."""

    name = "gateway"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        scheme, found, rest = str(value).rpartition("://")
        host = rest.partition("/")[0]
        name, colon, port = host.rpartition(":")
        has_port = bool(colon) and not host.endswith("]")
        if scheme not in ("", "http", "https") or (found and not scheme) or not (name if has_port else host):
            self.fail(f"found {value!r}, expected HOST:PORT, http://HOST:PORT or https://HOST:PORT.", param, ctx)
        if (has_port and not (port.isdecimal() and 0 < int(port) < 65536)) or not (has_port or scheme):
            self.fail(f"found {value!r}, expected HOST:PORT, such as localhost:8083.", param, ctx)
        return f"{scheme or 'http'}://{rest}".rstrip("/")


@command("sql")
@click.option("-f", "--file", "files", multiple=True, type=click.Path(exists=True, dir_okay=False), help="Run a file.")
@click.option("-e", "--execute", "statements", multiple=True, help="Run statements, separated by semicolons.")
@click.option("-i", "--init", "init", type=click.Path(exists=True, dir_okay=False), help="Run a file before the rest.")
@click.option("--batch", is_flag=True, help="Run queries in batch mode.")
@click.option("-g", "--gateway", type=GatewayUrl(), metavar="URL",
              help="Run statements at a SQL gateway, of Flott or Flink: HOST:PORT or a URL.")  # fmt: skip
@click.option("-t", "--target", type=Target(), metavar="TARGET",
              help="Where jobs run: session, or a Spark that ends with the shell: local, local[N], spark://HOST:PORT, …"
                   " Default: the session if there is one, else local.")  # fmt: skip
@click.option("--history", type=click.Path(dir_okay=False), default=None, help="Where the shell keeps its history.")
@pass_invocation
def sql(
    invocation: Invocation,
    files: tuple[str, ...],
    statements: tuple[str, ...],
    init: str | None,
    batch: bool,
    gateway: str | None,
    target: str | None,
    history: str | None,
) -> int:
    """Run SQL: statements of -e, then files of -f, or an interactive shell if neither is given.

    Statements end with a semicolon. The first statement that fails ends a script, with exit code 1. With --json every
    row is a JSON document on a line.

    \b
    flott sql -e "SELECT 1"
    flott sql -i tables.sql -f job.sql
    flott sql --gateway localhost:8083
    """
    from flott.cli.sql.executing import Leave, StatementRunner

    if gateway is not None and target is not None:
        raise click.UsageError("--gateway and --target exclude each other: a gateway decides where its jobs run.")
    scripts = [*statements, *(Path(file).read_text("utf-8") for file in files)]
    if init is not None:
        scripts.insert(0, Path(init).read_text("utf-8"))
    prompts = not (files or statements) and sys.stdin.isatty()
    if not (files or statements or prompts):
        scripts.append(sys.stdin.read())
    where, session = _at_gateway(invocation, gateway, batch) if gateway else _here(invocation, target, batch)
    try:
        code = _run_scripts(invocation, StatementRunner(session, json=invocation.terminal.json), scripts)
        if code is not ExitCode.OK or not prompts:
            return code
        from flott.cli.sql.shell import run_shell

        place_of_history = Path(history) if history else Path.home() / ".flott" / "sql-history"
        return run_shell(session, place_of_history, where, json=invocation.terminal.json)
    except Leave:
        return ExitCode.OK
    finally:
        session.close()


def _run_scripts(invocation: Invocation, runner: StatementRunner, scripts: Sequence[str]) -> ExitCode:
    from flott.cli.sql.executing import failure_of

    for script in scripts:
        failure = failure_of(lambda text=script: runner.run_script(text))  # type: ignore[misc]
        if failure is not None:
            code = ExitCode.UNREACHABLE if isinstance(failure, UnreachableError) else ExitCode.FAILED
            if invocation.terminal.json:
                invocation.terminal.error(str(failure), type(failure).__name__, code)
            else:
                sys.stdout.flush()  # so that the error is shown behind the results that came before it
                sys.stderr.write(f"[ERROR] {failure}\n")
            return code
    return ExitCode.OK


def _at_gateway(invocation: Invocation, url: str, batch: bool) -> tuple[str, ShellSession]:
    """Return the session of a gateway, with a text that says where it is."""
    from flott.cli.sql.gateway_session import RemoteShellSession, session_properties
    from flott.client.gateway_client import GatewayClient, SqlClientSession

    properties = session_properties(invocation.properties)
    if batch:
        properties["execution.runtime-mode"] = "batch"
    client = GatewayClient(url, invocation.configuration)
    try:
        where = f"Statements run at {client.product()}, {url}."
        return where, RemoteShellSession(SqlClientSession(client, properties), json=invocation.terminal.json)
    except FlottError:
        client.close()
        raise


def _here(invocation: Invocation, target: str | None, batch: bool) -> tuple[str, ShellSession]:
    """Return a session of this process, with a text that says where its jobs run."""
    from flott.cli.sql.statement_session import LocalSession
    from flott.common.configuration import Configuration
    from flott.table import EnvironmentSettings, TableEnvironment

    configuration = Configuration(invocation.configuration)
    if not configuration.contains_key("flott.progress"):
        configuration.set_string("flott.progress", "off")  # its line would be drawn into the results
    own, text = _own_properties(invocation, target)
    for key, value in own.items():
        configuration.set_string(key, value)
    builder = EnvironmentSettings.new_instance().with_configuration(configuration)
    settings = (builder.in_batch_mode() if batch else builder.in_streaming_mode()).build()
    on_session = configuration.get_string("execution.target", "") == "remote"
    return text, LocalSession(TableEnvironment.create(settings), jobs_continue=on_session)


def _own_properties(invocation: Invocation, target: str | None) -> tuple[dict[str, str], str]:
    """Return the options that send jobs to their target, with a text that says which one it is."""
    configured = invocation.configuration.get_string("execution.target", "")
    if target is None and configured in ("in-process", "spark"):
        return {}, ""
    where, reason = place(invocation, target)
    if where == SESSION:
        invocation.client.get("/overview")  # says at once if there is none
        return {"execution.target": "remote", **session_address(invocation)}, f"Jobs run on {reason}."
    master = "local[*]" if where == "local" else where
    return {"execution.target": "spark"} | ({"spark.master": master} if target else {}), ""

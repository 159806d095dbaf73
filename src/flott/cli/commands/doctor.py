"""``flott doctor``: check this machine and suggest fixes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from flott.cli import diagnosis
from flott.cli.command import command
from flott.cli.diagnosis import Diagnosis, Verdict
from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.local_cluster import LocalCluster
from flott.client.exit_codes import ExitCode
from flott.common import _settings
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError
from flott.runtime.clock import SystemClock

_STYLES = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.WRONG: "bold red"}


@command("doctor")
@click.option("--spark", "with_spark", is_flag=True, help="Also run a small job on Spark (about ten seconds).")
@pass_invocation
def doctor(invocation: Invocation, with_spark: bool) -> int:
    """Check this machine: Python, packages, Java, Spark, folders, memory, limits, ports, configuration and session.

    Each line is ok, warn or wrong, with the fix. The exit code is 1 if something is wrong.
    """
    found = []
    for entry in _all(invocation, with_spark):
        found.append(entry)
        if not invocation.terminal.json:
            invocation.terminal.draw(_drawn(entry))
    verdict = diagnosis.worst(found)
    findings = [
        {"check": entry.check, "verdict": entry.verdict.value, "found": entry.found, "fix": entry.fix or None}
        for entry in found
    ]
    invocation.terminal.show({"verdict": verdict.value, "findings": findings})
    return ExitCode.FAILED if verdict is Verdict.WRONG else ExitCode.OK


def _all(invocation: Invocation, with_spark: bool) -> Iterator[Diagnosis]:
    clock = SystemClock()
    file = list(_file(invocation))
    yield from file
    try:
        configuration = invocation.configuration
    except ConfigurationError as error:
        configuration = Configuration()
        if diagnosis.worst(file) is not Verdict.WRONG:
            yield Diagnosis("configuration", Verdict.WRONG, str(error), "Mend it.")
        invocation.terminal.note("The rest is checked with the defaults, because the configuration is wrong.")
    yield diagnosis.python()
    yield from diagnosis.packages(configuration)
    yield diagnosis.java()
    if with_spark:
        with invocation.terminal.busy("Running a small job on Spark"):
            found = diagnosis.spark(clock)
        yield found
    yield from diagnosis.folders(configuration, clock)
    yield diagnosis.memory()
    yield diagnosis.limits()
    yield diagnosis.machine_clock(clock)
    yield diagnosis.port(configuration)
    yield _session(configuration)


def _file(invocation: Invocation) -> Iterator[Diagnosis]:
    try:
        path = Path(invocation.config_file) if invocation.config_file else _settings.find_file(os.environ)
    except ConfigurationError as error:
        yield Diagnosis("configuration", Verdict.WRONG, str(error), "Create the file, or unset the variable.")
        return
    yield from diagnosis.configuration_file(path)


def _session(configuration: Configuration) -> Diagnosis:
    from flott.client.rest_client import RestClient

    def ask() -> str:
        with RestClient(configuration) as client:
            client.get("/overview")["taskmanagers"]  # another server would not have this field
            return client.url

    named = any(configuration.contains_key(key) for key in ("rest.address", "rest.port", "high-availability.type"))
    return diagnosis.session(ask, named or LocalCluster.of(configuration).announcement is not None)


def _drawn(entry: Diagnosis) -> Any:
    from rich.text import Text

    verdict = (f"{entry.verdict.value:<6}", _STYLES[entry.verdict])
    text = Text.assemble(verdict, (f"{entry.check}: ", "bold"), entry.found)
    if entry.fix:
        text.append(f"\n      → {entry.fix}", "cyan")
    return text

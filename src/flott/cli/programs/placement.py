"""Where a program or a statement runs: on a session that runs already, or with a Spark of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from flott.cli.invocation import Invocation
from flott.cli.local_cluster import LocalCluster
from flott.cli.options import set_jobmanager

if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:
    _TextType = click.ParamType  # click before 8.4 has no type parameter

#: The value of --target for a running cluster.
SESSION = "session"
_MASTER = re.compile(r"local|local\[.+\]|local-cluster\[.+\]|yarn|(spark|k8s)://.+")
#: If one of these is set, the session is configured and used even if it does not answer.
_NAME_A_SESSION = ("rest.address", "rest.port", "high-availability.type", "high-availability.cluster-id")


class Target(_TextType):
    """The target of a program: the session, or a Spark master."""

    name = "target"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = {"remote": SESSION, "spark": "local"}.get(str(value), str(value))
        if text != SESSION and not _MASTER.fullmatch(text):
            self.fail(
                f"found {text!r}, expected session, local, local[N], local-cluster[WORKERS,CORES,MB], spark://HOST:PORT,"
                " yarn or k8s://URL.", param, ctx,
            )  # fmt: skip
        return text

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        known = (SESSION, "local", "local[2]", "local-cluster[2,1,1024]", "spark://", "yarn", "k8s://")
        return [click.shell_completion.CompletionItem(text) for text in known if text.startswith(incomplete)]


def place(invocation: Invocation, target: str | None) -> tuple[str, str]:
    """Return the session or a Spark master, with a text that says which one and why."""
    configuration = invocation.configuration
    master = configuration.get_string("spark.master", "")
    if target is None and "spark.master" in invocation.properties:
        target = master
    configured = configuration.get_string("execution.target", "")
    named = [key for key in _NAME_A_SESSION if configuration.contains_key(key)]
    if target == SESSION or (target is None and (configured == "remote" or named)):
        return SESSION, f"the session at {invocation.client.url}"
    if target is not None:
        return target, f"{target}, with a JobManager of its own"
    here = LocalCluster.of(configuration)
    # A running session is used even if it refuses to answer, so that the user sees the error.
    if here.announcement is not None and (here.running is not None or invocation.is_answered()):
        url = here.announcement.url
        return SESSION, f"the session at {url}, which runs on this machine (--target local: without it)"
    if master:
        return master, f"{master}, as configured, with a JobManager of its own"
    none = "no session runs" if here.announcement is None else f"the session at {here.announcement.url} has died"
    return "local", f"this machine, with a JobManager of its own ({none}; `flott cluster start` starts one)"


def session_address(invocation: Invocation) -> dict[str, str]:
    """Return the options that name the session for a program.

    With high availability, the program looks up the leader itself.
    """
    if invocation.configuration.get_string("high-availability.type", "none").lower() != "none":
        return {}
    found = Invocation()
    set_jobmanager(found, invocation.client.url)
    return found.properties

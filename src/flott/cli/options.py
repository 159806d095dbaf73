"""The options of every command, before and after its name. Each writes into the ``Invocation``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click

from flott.cli.invocation import Invocation


class GlobalOption(click.Option):
    """An option of every command."""

    def __init__(self, declarations: list[str], apply: Callable[[Invocation, Any], None], **attributes: Any):
        def callback(context: click.Context, parameter: click.Parameter, value: Any) -> None:
            if value is not None and value is not False and value != ():
                apply(context.ensure_object(Invocation), value)

        super().__init__(declarations, expose_value=False, callback=callback, is_eager=True, **attributes)


def global_options(taken: set[str]) -> Iterator[GlobalOption]:
    """Return all global options, without the spellings that a command uses for another option."""
    for declarations, apply, attributes in _TABLE:
        free = [name for name in declarations if name not in taken]
        yield GlobalOption(free, apply, **attributes)


def _set_cluster(invocation: Invocation, cluster: str) -> None:
    invocation.properties["high-availability.cluster-id"] = cluster


def set_jobmanager(invocation: Invocation, address: str) -> None:
    """Set the address of the JobManager to HOST:PORT or a URL."""
    scheme, found, rest = address.rpartition("://")
    host, _, path = rest.partition("/")
    name, colon, port = host.rpartition(":")
    if scheme not in ("", "http", "https") or path.strip("/") or (found and not scheme):
        raise click.BadParameter(f"found {address!r}, expected HOST:PORT, http://HOST:PORT or https://HOST:PORT")
    if not colon or host.endswith("]"):
        name, port = host, {"http": "80", "https": "443"}.get(scheme, "")
    if not name or not port.isdecimal() or not 0 < int(port) < 65536:
        raise click.BadParameter(f"found {address!r}, expected HOST:PORT, such as localhost:8081")
    invocation.properties |= {"rest.address": name.strip("[]"), "rest.port": port}
    if scheme:
        invocation.properties["security.ssl.rest.enabled"] = "true" if scheme == "https" else "false"


def _set_properties(invocation: Invocation, entries: tuple[str, ...]) -> None:
    for entry in entries:
        key, found, value = entry.partition("=")
        if not found or not key.strip():
            raise click.BadParameter(f"found {entry!r}, expected KEY=VALUE, such as -D parallelism.default=4")
        invocation.properties[key.strip()] = value


def _set_config_file(invocation: Invocation, path: str) -> None:
    invocation.config_file = path


def _set_json(invocation: Invocation, value: bool) -> None:
    invocation.terminal.json = value


def _set_color(invocation: Invocation, value: Any) -> None:
    invocation.terminal.color = value


_TABLE: tuple[tuple[list[str], Callable[[Invocation, Any], None], dict[str, Any]], ...] = (
    (["--cluster"], _set_cluster, {
        "metavar": "ID", "help": "The cluster to connect to, by its id (default: default)."}),
    (["-m", "--jobmanager"], set_jobmanager, {
        "metavar": "HOST:PORT", "help": "The JobManager to connect to, as HOST:PORT or URL."}),
    (["-D", "--property", "properties"], _set_properties, {
        "metavar": "KEY=VALUE", "multiple": True, "help": "Set an option; see flott config."}),
    (["--config", "config_file"], _set_config_file, {
        "metavar": "FILE", "type": click.Path(exists=True, dir_okay=False),
        "help": "The configuration file, instead of flott.yaml."}),
    (["--json", "json"], _set_json, {
        "is_flag": True, "help": "Write JSON to stdout."}),
    (["--color"], _set_color, {
        "type": click.Choice(["auto", "always", "never"]), "default": None, "help": "Whether to use colors."}),
)  # fmt: skip

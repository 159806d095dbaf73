"""``flott sql-gateway``: serve SQL over HTTP, with Flink's gateway REST API."""

from __future__ import annotations

import signal

import click

from flott.cli.command import command
from flott.cli.invocation import Invocation, pass_invocation
from flott.client.exit_codes import ExitCode


@command("sql-gateway")
@click.option("--host", metavar="HOST", help="The address to listen on (default: localhost).")
@click.option("--port", type=click.IntRange(0, 65535), help="The port (default: 8083); 0: a free one.")
@pass_invocation
def sql_gateway(invocation: Invocation, host: str | None, port: int | None) -> int:
    """Serve SQL over HTTP until it is interrupted: sessions, statements and results in the form of Flink's SQL gateway.

    Another address than localhost needs an access token (flott.rest.token-file) or client certificates.
    """
    from flott.rest.gateway.app import SqlGateway

    if host is not None:
        invocation.properties["sql-gateway.endpoint.rest.address"] = host
    if port is not None:
        invocation.properties["sql-gateway.endpoint.rest.port"] = str(port)
    gateway = SqlGateway(invocation.configuration)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: gateway.stop())
    url = gateway.start()
    invocation.terminal.show({"url": url}, f"The SQL gateway is ready: {url}")
    gateway.run()
    return ExitCode.OK

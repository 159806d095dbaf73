"""The command line against a cluster made of data, through its REST application."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner, Result
from starlette.testclient import TestClient

from flott.cli.invocation import Invocation
from flott.cli.root import flott
from flott.client.rest_client import RestClient
from flott.common.configuration import Configuration
from flott.rest.app import create_app
from flott.runtime.jobmanager.programs import ProgramStore
from tests.unit.rest.fake_cluster import FakeCluster


class CommandLine:
    """Runs commands against a cluster."""

    def __init__(self, cluster: FakeCluster, server: TestClient, *, terminal: bool = False):
        self.cluster = cluster
        self._server = server
        self._terminal = terminal

    def __call__(self, *args: str | Path, input: str | None = None) -> Result:
        invocation = Invocation()
        configuration = Configuration.of({"rest.address": "localhost", "rest.port": "8081"})
        invocation.__dict__["client"] = RestClient(configuration, transport=self._server._transport)
        return CliRunner().invoke(flott, [str(arg) for arg in args], obj=invocation, input=input)

    def lines(self, *args: str | Path) -> list[str]:
        """What a command that ends well writes to stdout."""
        result = self(*args)
        assert result.exit_code == 0, result.output
        return result.stdout.splitlines()


@contextmanager
def command_line(folder: Path) -> Iterator[CommandLine]:
    """A command line, and the cluster it talks to."""
    cluster = FakeCluster(folder)
    app = create_app(cluster, ProgramStore(folder / "programs", cluster.configuration))
    with TestClient(app, base_url="http://localhost:8081", raise_server_exceptions=False) as server:
        yield CommandLine(cluster, server)


def without_client(*args: str | Path | Sequence[str]) -> Result:
    """A command that needs no cluster."""
    return CliRunner().invoke(flott, [str(arg) for arg in args])

"""One use of the command line: the global options, and the objects created from them on demand."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import click

from flott.cli.terminal import Terminal

if TYPE_CHECKING:
    from flott.client.rest_client import RestClient
    from flott.common._settings import Settings
    from flott.common.configuration import Configuration

_CLUSTER_ID = "high-availability.cluster-id"
_ADDRESS = ("rest.address", "rest.port")


class Invocation:
    """The first argument of every command: ``@pass_invocation``."""

    def __init__(self) -> None:
        self.terminal = Terminal()
        #: Options of Flott on the command line, by key: ``-D``, ``--cluster``, ``--jobmanager``.
        self.properties: dict[str, str] = {}
        self.config_file: str | None = None

    @cached_property
    def settings(self) -> Settings:
        """Return the configuration with the origin of each value: file < environment < command line."""
        from flott.common import _settings

        return _settings.load(self.properties, file=self.config_file)

    @property
    def configuration(self) -> Configuration:
        """Return the configuration."""
        return self.settings.configuration

    @property
    def client_configuration(self) -> Configuration:
        """Return the configuration of a client.

        A cluster given by its id is found by the id, not by a configured address.
        """
        from flott.common.configuration import Configuration

        made = Configuration(self.configuration)
        if _CLUSTER_ID in self.properties:
            for key in _ADDRESS:
                if key not in self.properties:
                    made.remove_config(key)
        return made

    @cached_property
    def client(self) -> RestClient:
        """Return the client of the JobManager's REST API."""
        from flott.client.rest_client import RestClient

        return RestClient(self.client_configuration)

    def is_answered(self) -> bool:
        """Return whether a JobManager answers at the address, even with a refusal."""
        from flott.errors import ClusterError, UnreachableError

        try:
            self.client.get("/overview")
        except UnreachableError:
            return False
        except ClusterError:
            return True
        return True


#: Passes the invocation to a command as its first argument.
pass_invocation = click.make_pass_decorator(Invocation, ensure=True)

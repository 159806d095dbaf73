"""Hosts for tests: network namespaces with addresses of their own, on a bridge of this machine. Needs root.

A process in a namespace has no other network, so what it exchanges with another host travels over TCP between two
addresses. All names and the subnet are chosen at random, and all are deleted at the end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class NamespaceHost:
    """One host."""

    namespace: str
    address: str

    @property
    def prefix(self) -> list[str]:
        """The beginning of a command that is to run on this host."""
        return ["ip", "netns", "exec", self.namespace]


class HostNetwork:
    """Some hosts, and this machine's own address in their network."""

    def __init__(self, hosts: int):
        self._token = uuid.uuid4().hex[:6]
        subnet = f"10.{Random(self._token).randrange(64, 128)}.{Random(self._token[::-1]).randrange(256)}"
        self._bridge = f"fl{self._token}"
        self.address = f"{subnet}.1"
        self.hosts = [NamespaceHost(f"flott-{self._token}-{n}", f"{subnet}.{n + 2}") for n in range(hosts)]
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
            _ip("addr", "add", f"{self.address}/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            for number, host in enumerate(self.hosts):
                self._connect(number, host)
        except BaseException:
            self.delete()
            raise

    def _connect(self, number: int, host: NamespaceHost) -> None:
        outer, inner = f"{self._bridge}o{number}", f"{self._bridge}i{number}"
        _ip("netns", "add", host.namespace)
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner)
        _ip("link", "set", outer, "master", self._bridge, "up")
        _ip("link", "set", inner, "netns", host.namespace)
        for words in (["addr", "add", f"{host.address}/24", "dev", inner], ["link", "set", inner, "up"]):
            _ip("-n", host.namespace, *words)
        _ip("-n", host.namespace, "link", "set", "lo", "up")

    def delay(self, milliseconds: int) -> None:
        """Let every packet that leaves a host come so much later."""
        for number, host in enumerate(self.hosts):
            words = ["qdisc", "add", "dev", f"{self._bridge}i{number}", "root", "netem", "delay", f"{milliseconds}ms"]
            subprocess.run([*host.prefix, "tc", *words], check=True, capture_output=True, text=True, timeout=60)

    def delete(self) -> None:
        """Delete everything, whether it exists or not. A pair of interfaces goes with its namespace."""
        for host in self.hosts:
            _ip("netns", "del", host.namespace, check=False)
        _ip("link", "del", self._bridge, check=False)


def why_not() -> str | None:
    """Return why there can be no such network here; None if there can."""
    if shutil.which("ip") is None:
        return "network namespaces need the command ip (Debian: iproute2)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        HostNetwork(1).delete()
    except subprocess.CalledProcessError as error:
        return f"network namespaces are not allowed here: {error.stderr.strip()}"
    return None


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True, text=True, timeout=60)

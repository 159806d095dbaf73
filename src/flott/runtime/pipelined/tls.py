"""TLS of the connections between hosts: one certificate for all processes of a job, checked by all of them.

The driver reads the files and sends their contents to the slots with the job. Both sides of a connection must show a
certificate that the CA has signed; names in certificates are not compared, since slots come and go on any host. Driver
and task side.
"""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError, WorkerLostError


@dataclass(frozen=True)
class ConnectionTls:
    """The contents of the files of ``flott.internal.ssl.*``. The text of a value shows none of them."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    ca: bytes = field(repr=False)

    @staticmethod
    def of(configuration: Configuration) -> ConnectionTls | None:
        """Return what the configuration names; None: connections are not encrypted. Refuses files of no use."""
        if not options.read(configuration, options.INTERNAL_TLS):
            return None
        found = {}
        for option in (options.INTERNAL_TLS_CERTIFICATE, options.INTERNAL_TLS_KEY, options.INTERNAL_TLS_CA):
            path = options.read(configuration, option)
            if not path:
                raise ConfigurationError(
                    f"{options.INTERNAL_TLS.key} is true, but {option.key} is not set. Name the certificate, its key"
                    " and the CA that has signed it."
                )
            try:
                found[option] = Path(path).read_bytes()
            except OSError as error:
                reason = f"The file {path} of {option.key} cannot be read: {error.strerror}."
                raise ConfigurationError(reason) from error
        return ConnectionTls(*found.values())

    def check(self) -> None:
        """Refuse a certificate that the job's own processes would refuse: another CA's, an expired one."""
        try:
            client, server = _Memory(self._context(server_side=False)), _Memory(self._context(server_side=True))
            while not (client.is_done and server.is_done):
                client.shake_hands(server)
                server.shake_hands(client)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise ConfigurationError(
                "The files of flott.internal.ssl.* (certificate, key, ca) cannot be used for connections between"
                f" slots: {reason_of(error)}. The certificate must be valid and signed by the CA."
            ) from error

    def wrap(self, found: socket.socket, *, server_side: bool) -> ssl.SSLSocket:
        """Return the connection, encrypted, when both sides have accepted the other's certificate."""
        try:
            return self._context(server_side=server_side).wrap_socket(found, server_side=server_side)
        except OSError as error:
            found.close()
            raise WorkerLostError(f"A TLS connection between two slots was refused: {reason_of(error)}.") from error

    def _context(self, *, server_side: bool) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self.ca.decode("ascii", "replace"))
        # OpenSSL reads keys from files only. No other user may enter the folder.
        with tempfile.TemporaryDirectory(prefix="flott-") as folder:
            files = [os.path.join(folder, name) for name in ("certificate", "key")]
            for path, content in zip(files, (self.certificate, self.key), strict=True):
                Path(path).write_bytes(content)
            context.load_cert_chain(files[0], files[1], password=lambda: "")  # it would ask for one on the terminal
        return context


class _Memory:
    """One side of a handshake in memory."""

    def __init__(self, context: ssl.SSLContext):
        self._coming, self._going = ssl.MemoryBIO(), ssl.MemoryBIO()
        server_side = context.protocol == ssl.PROTOCOL_TLS_SERVER
        self._object = context.wrap_bio(self._coming, self._going, server_side=server_side)
        self.is_done = False

    def shake_hands(self, other: _Memory) -> None:
        try:
            self._object.do_handshake()
            self.is_done = True
        except ssl.SSLWantReadError:
            pass
        other._coming.write(self._going.read())


def reason_of(error: Exception) -> str:
    """Return why a certificate or a connection was refused, in OpenSSL's words without its line numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed, {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error) or type(error).__name__

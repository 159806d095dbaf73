"""Access control: access tokens, requests of foreign web pages, and the addresses a JobManager may listen on.

A JobManager runs what it receives, so a client that may send orders can do everything its user can do. Three paths are
protected: the network (an access token or client certificates outside of loopback), the user's browser (pages of
another origin must not send orders), and host names (a foreign name that resolves to loopback is refused). A browser
that has logged in shows a cookie instead of the token (``flott.rest.browser_sessions``).
"""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from flott.common import _cluster_options as options
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError
from flott.rest.browser_sessions import BrowserSessions
from flott.rest.refusal import Refusal
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.jobmanager.access_token import access_token_of


@dataclass(frozen=True)
class Access:
    """The access rules of one JobManager."""

    token: str | None
    #: The host names under which requests are admitted; None: any.
    hosts: frozenset[str] | None
    sessions: BrowserSessions | None = None  #: None: no token is needed

    @staticmethod
    def of(configuration: Configuration, clock: Clock | None = None) -> Access:
        """Return the configured rules."""
        token = access_token_of(configuration)
        sessions = None if token is None else BrowserSessions(token, clock or SystemClock())
        proven = token is not None or _shows_certificates(configuration)
        bound = configuration.get(options.REST_BIND_ADDRESS)
        if proven or not is_loopback(bound):
            return Access(token, None, sessions)
        return Access(token, frozenset({bound.lower(), configuration.get(options.REST_ADDRESS).lower()}), sessions)

    def admit_token(self, headers: Headers) -> None:
        """Refuse a request with neither the access token nor the cookie of a session."""
        if not self.is_admitted(headers):
            raise Refusal(401, "The request needs the cluster's token: Authorization: Bearer … (flott.rest.token).")

    def is_admitted(self, headers: Headers) -> bool:
        """Return whether a request shows the access token or the cookie of a session, if one is needed."""
        return self.sessions is None or self._shows_token(headers) or self.sessions.admits(headers.get("cookie", ""))

    def is_token(self, text: str) -> bool:
        """Return whether a text is the access token."""
        return self.token is not None and hmac.compare_digest(_bytes(text), _bytes(self.token))

    def _shows_token(self, headers: Headers) -> bool:
        kind, _, shown = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and self.is_token(shown.strip())

    def admit_host(self, headers: Headers) -> None:
        """Refuse a request with a foreign host name."""
        host = _host(headers.get("host", ""))
        if self.hosts is not None and host and host not in self.hosts and not is_loopback(host):
            raise Refusal(403, f"This JobManager answers requests for localhost, found {host!r} as the Host.")

    def admit_order(self, headers: Headers) -> None:
        """Refuse an order that a page of another origin made a browser send.

        A request with the access token is admitted. A browser sends a cookie by itself, also if a page on another port
        of the host asks for it. So an order with a cookie must say where it comes from. A browser does not say that of
        a GET without TLS; then a header of the page's own shows it, which a page of another origin cannot set.
        """
        if self._shows_token(headers):
            return
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None:
            foreign = site not in ("same-origin", "none")
        elif origin is not None:
            foreign = urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
        else:
            shows_cookie = self.sessions is not None and self.sessions.admits(headers.get("cookie", ""))
            foreign = shows_cookie and "x-requested-with" not in headers
        if foreign:
            raise Refusal(403, "Orders are not taken from pages of another origin unless they show a token.")


def check_exposure(configuration: Configuration) -> None:
    """Refuse to listen on an address where other machines could send orders without authentication."""
    bound = configuration.get(options.REST_BIND_ADDRESS)
    token = access_token_of(configuration)  # a token that cannot be read is an error, regardless of the address
    if is_loopback(bound) or token is not None or _shows_certificates(configuration):
        return
    if not configuration.get(options.REST_ALLOW_UNAUTHENTICATED):
        raise ConfigurationError(
            f"rest.bind-address {bound} is open to other machines, and anyone who reaches it could run programs as you."
            " Set flott.rest.token-file, or mutual TLS (security.ssl.rest.authentication-enabled), or bind to"
            " localhost. If the network itself is guarded, set flott.rest.allow-unauthenticated: true."
        )


def is_loopback(host: str) -> bool:
    """Return whether a name or an address refers to this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _shows_certificates(configuration: Configuration) -> bool:
    return configuration.get(options.REST_TLS) and configuration.get(options.REST_TLS_MUTUAL)


def _host(header: str) -> str:
    """Return the host without the port."""
    if header.startswith("["):
        return header.partition("]")[0].strip("[").lower()
    return header.partition(":")[0].lower()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")

"""Log-in of browsers: a signed cookie takes the place of the access token. JobManager side.

A page cannot keep the token: a script that got into the page could read it, and it would end up in URLs. So the user
sends it once, and gets a cookie that scripts cannot read and that other sites cannot make the browser send. The cookie
is signed with the token and says when it expires. It is valid at every JobManager with this token, so a restart or a
new leader does not end sessions; another token does.
"""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie

from flott.runtime.clock import Clock

#: A session lasts a working day.
LIFETIME_MS = 12 * 60 * 60 * 1000
#: How many ended sessions are remembered; beyond that, those that expire first are forgotten.
MAX_ENDED = 10_000


class BrowserSessions:
    """Makes and checks the cookies of one JobManager. Used by the event loop only."""

    def __init__(self, token: str, clock: Clock):
        self._key = token.encode("utf-8", "surrogateescape")
        self._clock = clock
        self._ended: dict[str, int] = {}  #: sessions that were logged out: their value and when it expires
        #: Browsers send a cookie to all ports of a host, so JobManagers with other tokens have cookies of other names.
        self.name = f"flott-session-{self._signed('name')[:8]}"

    def begin(self, *, secure: bool) -> str:
        """Return the header ``Set-Cookie`` of a new session."""
        expires_ms = self._clock.now_ms() + LIFETIME_MS
        content = f"{expires_ms}.{secrets.token_hex(16)}"
        return self._header(f"{content}.{self._signed(content)}", LIFETIME_MS // 1000, secure)

    def end(self, cookies: str, *, secure: bool) -> str:
        """End the session of a request; return the header ``Set-Cookie`` that deletes the cookie."""
        value = self._value_in(cookies)
        if self._is_valid(value):
            now_ms = self._clock.now_ms()
            self._ended = {known: expires for known, expires in self._ended.items() if expires > now_ms}
            while len(self._ended) >= MAX_ENDED:
                self._ended.pop(min(self._ended, key=self._ended.__getitem__))
            self._ended[value] = int(value.partition(".")[0])
        return self._header("", 0, secure)

    def admits(self, cookies: str) -> bool:
        """Return whether a request with this header ``Cookie`` has a valid session."""
        value = self._value_in(cookies)
        return self._is_valid(value) and value not in self._ended

    def _is_valid(self, value: str) -> bool:
        content, _, signature = value.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signed(content).encode()):
            return False
        expires = content.partition(".")[0]
        return expires.isdecimal() and int(expires) > self._clock.now_ms()

    def _value_in(self, cookies: str) -> str:
        try:
            found = SimpleCookie(cookies).get(self.name)
        except CookieError:
            return ""
        return found.value if found is not None and found.value.isascii() else ""

    def _signed(self, content: str) -> str:
        return hmac.new(self._key, f"flott browser session {content}".encode(), sha256).hexdigest()

    def _header(self, value: str, max_age_s: int, secure: bool) -> str:
        parts = [f"{self.name}={value}", "Path=/", f"Max-Age={max_age_s}", "HttpOnly", "SameSite=Strict"]
        return "; ".join([*parts, "Secure"] if secure else parts)

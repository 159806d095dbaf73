"""Log-in of browsers: the token is sent once, a cookie opens everything else, and other sites get nothing out of it."""

from __future__ import annotations

from collections.abc import Callable
from http.cookies import SimpleCookie

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from flott.rest.browser_sessions import LIFETIME_MS, MAX_ENDED, BrowserSessions
from flott.testing.clock import ManualClock
from tests.unit.rest.fake_cluster import RUNNING

Serve = Callable[..., TestClient]
TOKEN = "s3cret"
OWN = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def guarded(serve: Serve) -> TestClient:
    return serve(**{"flott.rest.token": TOKEN})


def log_in(client: TestClient, token: str = TOKEN) -> str:
    """Log in as a page does; return the header Set-Cookie."""
    reply = client.post("/flott/session", json={"token": token}, headers=OWN)
    assert reply.status_code == 200, reply.text
    return reply.headers["set-cookie"]


def test_after_log_in_the_cookie_opens_what_the_token_opens(guarded: TestClient) -> None:
    assert guarded.get("/flott/session").json() == {"token-required": True, "logged-in": False}
    assert guarded.get("/jobs").status_code == 401
    log_in(guarded)
    assert guarded.get("/flott/session").json() == {"token-required": True, "logged-in": True}
    assert guarded.get("/jobs").status_code == 200
    assert guarded.patch(f"/jobs/{RUNNING}", headers=OWN).status_code == 202


def test_scripts_cannot_read_the_cookie_and_it_does_not_hold_the_token(guarded: TestClient) -> None:
    header = log_in(guarded)
    [morsel] = SimpleCookie(header).values()
    assert morsel["httponly"]
    assert morsel["samesite"] == "Strict"
    assert morsel["path"] == "/"
    assert not morsel["domain"]
    assert TOKEN not in header


def test_over_tls_the_cookie_is_sent_over_tls_only(serve: Serve) -> None:
    client = serve(**{"flott.rest.token": TOKEN})
    client.base_url = client.base_url.copy_with(scheme="https")
    assert "; Secure" in log_in(client)
    client.base_url = client.base_url.copy_with(scheme="http")
    assert "Secure" not in log_in(client)


def test_after_log_out_the_cookie_opens_nothing_even_if_somebody_kept_it(guarded: TestClient) -> None:
    kept = log_in(guarded).partition(";")[0]
    reply = guarded.delete("/flott/session", headers=OWN)
    assert reply.json()["logged-in"] is False
    assert "Max-Age=0" in reply.headers["set-cookie"]
    guarded.cookies.clear()
    assert guarded.get("/jobs", headers={"Cookie": kept}).status_code == 401


@pytest.mark.parametrize("token", ["", "wrong", "s3cre", "s3crett", "\u00e4", "s3cret\x00"])
def test_a_wrong_token_begins_no_session(guarded: TestClient, token: str) -> None:
    reply = guarded.post("/flott/session", json={"token": token}, headers=OWN)
    assert reply.status_code == 401
    assert "set-cookie" not in reply.headers
    assert TOKEN not in reply.text


def test_a_token_in_the_url_opens_nothing(guarded: TestClient) -> None:
    for path in (f"/jobs?token={TOKEN}", f"/flott/session?token={TOKEN}&access_token={TOKEN}"):
        guarded.get(path)
        assert guarded.get("/jobs").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://localhost:3000"},  # another port: browsers send the cookie there
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {},  # a browser says where an order comes from
    ],
)
def test_an_order_with_the_cookie_comes_from_ones_own_page(guarded: TestClient, headers: dict[str, str]) -> None:
    log_in(guarded)
    assert guarded.patch(f"/jobs/{RUNNING}", headers=headers).status_code == 403
    assert guarded.get(f"/jobs/{RUNNING}/yarn-cancel", headers=headers).status_code == 403
    with_token = {**headers, "Authorization": f"Bearer {TOKEN}"}
    assert guarded.patch(f"/jobs/{RUNNING}", headers=with_token).status_code == 202


def test_without_tls_a_page_shows_by_a_header_of_its_own_where_a_get_comes_from(guarded: TestClient) -> None:
    """A browser sends neither Origin nor Sec-Fetch-Site with a GET of a page that came without TLS."""
    log_in(guarded)
    path = f"/jobs/{RUNNING}/jobmanager/config"
    own = {"X-Requested-With": "flott-web"}
    assert guarded.get(path).status_code == 200  # not an order
    assert guarded.get(f"/jobs/{RUNNING}/yarn-cancel").status_code == 403
    assert guarded.get(f"/jobs/{RUNNING}/yarn-cancel", headers=own).status_code == 202
    foreign = {"Origin": "http://localhost:3000", **own}
    assert guarded.get(f"/jobs/{RUNNING}/yarn-cancel", headers=foreign).status_code == 403
    asked = guarded.options("/jobs", headers={"Origin": "http://x", "Access-Control-Request-Method": "GET"})
    assert "x-requested-with" not in asked.headers["access-control-allow-headers"].lower()


def test_a_foreign_page_cannot_log_a_browser_in_or_out(guarded: TestClient) -> None:
    log_in(guarded)
    foreign = {"Origin": "https://evil.example"}
    assert guarded.post("/flott/session", json={"token": TOKEN}, headers=foreign).status_code == 403
    assert guarded.delete("/flott/session", headers=foreign).status_code == 403
    assert guarded.get("/jobs").status_code == 200


def test_pages_of_others_may_not_read_with_the_cookie(guarded: TestClient) -> None:
    log_in(guarded)
    reply = guarded.get("/jobs", headers={"Origin": "http://localhost:3000"})
    assert "access-control-allow-credentials" not in reply.headers  # so the browser keeps the answer from the page


def test_without_a_token_nobody_has_to_log_in(client: TestClient) -> None:
    expected = {"token-required": False, "logged-in": True}
    assert client.get("/flott/session").json() == expected
    for reply in (client.post("/flott/session", json={"token": "x"}), client.delete("/flott/session")):
        assert reply.json() == expected
        assert "set-cookie" not in reply.headers


def cookie_of(sessions: BrowserSessions) -> str:
    return sessions.begin(secure=False).partition(";")[0]


def test_a_session_ends_by_itself() -> None:
    clock = ManualClock()
    sessions = BrowserSessions(TOKEN, clock)
    cookie = cookie_of(sessions)
    clock.advance(LIFETIME_MS - 1)
    assert sessions.admits(cookie)
    clock.advance(1)
    assert not sessions.admits(cookie)


def test_a_session_outlives_the_jobmanager_but_not_the_token() -> None:
    clock = ManualClock()
    cookie = cookie_of(BrowserSessions(TOKEN, clock))
    assert BrowserSessions(TOKEN, clock).admits(cookie)
    other = BrowserSessions("another", clock)
    assert not other.admits(cookie)
    assert other.name != BrowserSessions(TOKEN, clock).name  # two JobManagers on one host do not log each other out
    value = cookie.partition("=")[2]
    assert not other.admits(f"{other.name}={value}")


ALPHABET = "0123456789abcdef."


@given(st.integers(0, 10_000), st.integers(1, len(ALPHABET) - 1))
def test_a_cookie_that_was_changed_is_refused(place: int, shift: int) -> None:
    sessions = BrowserSessions(TOKEN, ManualClock())
    name, _, value = cookie_of(sessions).partition("=")
    at = place % len(value)
    letter = ALPHABET[(ALPHABET.index(value[at]) + shift) % len(ALPHABET)]
    assert not sessions.admits(f"{name}={value[:at]}{letter}{value[at + 1 :]}")


@given(st.text() | st.from_regex(r"flott-session-[0-9a-f]{8}=[0-9]*\.[0-9a-f]*\.?.*"))
def test_any_header_is_answered_and_admits_nobody(cookies: str) -> None:
    sessions = BrowserSessions(TOKEN, ManualClock())
    assert not sessions.admits(cookies)
    assert not sessions.admits(f"{sessions.name}={cookies}")
    assert sessions.end(cookies, secure=False).startswith(sessions.name)


def test_ended_sessions_take_bounded_memory_and_are_forgotten_when_they_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flott.rest.browser_sessions.MAX_ENDED", 3)
    assert MAX_ENDED > 1000
    clock = ManualClock()
    sessions = BrowserSessions(TOKEN, clock)
    for _ in range(5):
        sessions.end(cookie_of(sessions), secure=False)
        clock.advance(1)
    assert len(sessions._ended) == 3
    clock.advance(LIFETIME_MS)
    sessions.end(cookie_of(sessions), secure=False)
    assert len(sessions._ended) == 1

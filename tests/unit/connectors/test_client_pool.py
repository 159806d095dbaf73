"""Clients that outlive an epoch are kept, closed after an error, and never shared between processes."""

from __future__ import annotations

import os

import pytest

from flott.runtime.connectors.client_pool import ClientPool


class Client:
    made: list[Client]

    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


def test_a_client_is_lent_again_to_the_next_borrower_of_its_key():
    pool: ClientPool[Client] = ClientPool("test")
    with pool.borrow("a", Client, Client.close) as first:
        pass
    with pool.borrow("a", Client, Client.close) as again, pool.borrow("a", Client, Client.close) as other:
        assert again is first
        assert other is not first
    with pool.borrow("b", Client, Client.close) as foreign:
        assert foreign is not first


def test_a_client_is_closed_after_an_error():
    pool: ClientPool[Client] = ClientPool("test")
    with pytest.raises(OSError), pool.borrow("a", Client, Client.close) as broken:
        raise OSError
    assert broken.closed
    with pool.borrow("a", Client, Client.close) as new:
        assert new is not broken


def test_a_client_is_closed_when_it_was_idle_for_long():
    now = [0.0]
    pool: ClientPool[Client] = ClientPool("test", idle_seconds=10, monotonic=lambda: now[0])
    with pool.borrow("a", Client, Client.close) as old:
        pass
    now[0] = 11
    with pool.borrow("b", Client, Client.close):
        assert old.closed


def test_a_forked_process_does_not_use_or_close_the_clients_of_its_parent(monkeypatch: pytest.MonkeyPatch):
    pool: ClientPool[Client] = ClientPool("test")
    with pool.borrow("a", Client, Client.close) as parents:
        pass
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pool.borrow("a", Client, Client.close) as own:
        assert own is not parents
    pool.close()
    assert own.closed
    assert not parents.closed


def test_closing_a_pool_closes_what_is_idle_even_if_one_refuses():
    pool: ClientPool[Client] = ClientPool("test")

    def refuse(client: Client) -> None:
        raise OSError

    pool.give_back("a", Client(), refuse)
    second = Client()
    pool.give_back("a", second, Client.close)
    pool.close()
    assert second.closed

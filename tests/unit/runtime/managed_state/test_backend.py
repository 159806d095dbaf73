"""Where state is while a job runs, and what becomes of databases nobody needs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flott.runtime.managed_state.backends.backend import (
    FORGOTTEN_AFTER_MS,
    ROCKSDB,
    BackendSettings,
    StateOwner,
    make_keyed_state,
)
from flott.runtime.managed_state.backends.hashmap import KeyedState

OWNER = StateOwner("counter (uid c)", 128, range(64))


def test_without_a_choice_state_is_in_memory():
    state = make_keyed_state(BackendSettings(), OWNER, "job", "operator", lambda: 1)
    assert type(state) is KeyedState
    assert not state.pages


def test_a_job_that_begins_deletes_what_others_left_long_ago_and_nothing_else(tmp_path: Path):
    pytest.importorskip("rocksdict", reason="the RocksDB binding is not installed")
    settings = BackendSettings(ROCKSDB, 64 << 20, str(tmp_path))
    old, young = settings.job_folder("old"), settings.job_folder("young")
    for folder in (old, young):
        (folder / "database").mkdir(parents=True)
    past = (old / "database").stat().st_mtime - FORGOTTEN_AFTER_MS / 1000 - 60
    for path in (old / "database", old):
        os.utime(path, (past, past))
    make_keyed_state(settings, OWNER, "new", "operator", lambda: 1)
    assert not old.exists()
    assert young.exists()


def test_a_job_that_is_over_takes_its_databases_along(tmp_path: Path):
    settings = BackendSettings(ROCKSDB, 64 << 20, str(tmp_path))
    for job in ("one", "two"):
        (settings.job_folder(job) / "database").mkdir(parents=True)
    settings.delete_local_state("one")
    assert [path.name for path in settings.job_folder("one").parent.iterdir()] == ["two"]
    settings.delete_local_state("two")
    assert not list(tmp_path.iterdir())

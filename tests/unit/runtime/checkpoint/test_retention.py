"""What may be deleted, as decisions. What comes of them is in ``jobmanager/test_retained.py``."""

from __future__ import annotations

import pytest

from flott.runtime.checkpoint.manifest import Manifest
from flott.runtime.checkpoint.retention import orphans, subsumed

OPERATOR = "0123456789abcdef"


def manifest(checkpoint_id: int) -> Manifest:
    return Manifest("j", "job", checkpoint_id, 0, 0)


def test_the_oldest_checkpoints_go():
    completed = [manifest(1), manifest(2), manifest(3)]
    assert subsumed(completed, 2) == (completed[0],)
    assert subsumed(completed, 1) == tuple(completed[:2])


def test_nothing_goes_while_there_are_no_more_than_wanted():
    completed = [manifest(1), manifest(2)]
    for retained in (2, 3, 100):
        assert subsumed(completed, retained) == ()
    assert subsumed([], 1) == ()


@pytest.mark.parametrize("retained", [0, -1])
def test_the_last_checkpoint_stays_whatever_was_asked(retained):
    completed = [manifest(1), manifest(2)]
    assert subsumed(completed, retained) == (completed[0],)


def name(epoch: int, attempt: str = "r1-0-7") -> str:
    return f"{OPERATOR}-3-{epoch}-{attempt}"


def test_orphans_are_files_of_past_epochs_that_nobody_refers_to():
    used, failed, compacted, running = name(1), name(2, "r1-1-9"), name(2, "r1-fold-4"), name(3)
    referenced = {f"state/{used}"}.__contains__
    found = [used, failed, compacted, running, "notes.txt"]
    assert orphans(found, referenced, 2) == (f"state/{failed}", f"state/{compacted}")
    assert orphans(found, referenced, 3) == (f"state/{failed}", f"state/{compacted}", f"state/{running}")
    assert orphans([used], lambda path: False, 1) == (f"state/{used}",)

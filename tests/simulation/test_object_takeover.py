"""Leaders that compete through an object store: some seeds here, any number with ``python -m tests.simulation``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flott.runtime.storage.object_head import Head, ObjectFence
from tests.simulation.object_takeover import StormyObjects, run_object_takeover
from tests.simulation.simulation import SeedFailed

SEEDS = 12


def test_whichever_leads_results_come_once_and_no_object_is_lost_or_left() -> None:
    traces = [run_object_takeover(seed).trace for seed in range(SEEDS)]
    events = [line for trace in traces for line in trace]
    assert sum("takes over" in line for line in events) > SEEDS
    assert sum(line.endswith("ends: SUSPENDED") for line in events) > 3
    assert any("the answer is lost" in line for line in events)
    assert any("is delayed" in line for line in events)
    assert any("asked for a savepoint" in line for line in events)


def run_object_takeovers(seeds: range) -> None:
    for seed in seeds:
        run_object_takeover(seed)


# --- each of these breaks one promise ---------------------------------------------------------------------------------


def break_condition(patch: pytest.MonkeyPatch) -> None:
    """A check, and then a put without a condition: another leader may take over in between."""

    def replace(self: StormyObjects, key: str, data: bytes, etag: str) -> str:
        self._asked("replace", key)
        version = self._store("replace", key, data, told=False)
        self.after("replace", key)
        return version

    patch.setattr(StormyObjects, "replace", replace)


def break_refusal(patch: pytest.MonkeyPatch) -> None:
    """A leader that comes too late takes over from the one after it."""
    patch.setattr(ObjectFence, "_refuse", lambda self, head, take_over: None)


def break_check(patch: pytest.MonkeyPatch) -> None:
    """Files are deleted, and staged output is discarded, without a look whether another leader has taken over."""

    def owned(self: ObjectFence) -> Head:
        return self._head()

    patch.setattr(ObjectFence, "owned", owned)
    patch.setattr(ObjectFence, "check", lambda self: None)


#: What breaks, and from which seed on that is soon noticed.
DEFECTS = [(break_condition, 0), (break_refusal, 0), (break_check, 50)]


@pytest.mark.parametrize(("breaks", "first"), DEFECTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_broken_promise_is_noticed(
    breaks: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch)
    with pytest.raises(SeedFailed, match=r"python -m tests\.simulation --object-takeover \d+"):
        run_object_takeovers(range(first, first + 150))

"""Answers about the state in a job's checkpoints, as plain data. Inspector side.

What may take long stops when its time is over, and says that it is not complete. The job may delete a checkpoint at any
moment; then the answer is an error that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from flott.common._ids import EpochId, KeyGroup
from flott.errors import StateError, StorageError
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import Manifest
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.jobmanager.inspection.questions import (
    CompareStates,
    CountKeys,
    FindKey,
    ListCheckpoints,
    ListStates,
    PageRows,
    Question,
    TraceKey,
)
from flott.runtime.jobmanager.inspection.rendering import literal, rendered
from flott.runtime.storage import open_storage
from flott.snapshots.difference import SnapshotDifference, StateDifference, same
from flott.snapshots.operators import OperatorView
from flott.snapshots.snapshot import StateSnapshot, open_snapshot_at
from flott.snapshots.views import KeyedStateView, OperatorStateView, StateView

#: An answer is begun to be sent after so many seconds, complete or not.
BUDGET_SECONDS = 8.0
#: How often the latest checkpoint is looked for, if the job deletes it while it is read.
_ATTEMPTS = 5
_NOTHING: Any = object()


class StateAnswers:
    """Answers questions about one job. ``monotonic`` is the clock."""

    def __init__(self, directory: str, monotonic: Callable[[], float], budget_seconds: float = BUDGET_SECONDS):
        self._directory = directory
        self._monotonic = monotonic
        self._budget = budget_seconds
        self._opened: StateSnapshot | None = None  #: the last checkpoint that was asked for by its number

    def answer(self, question: Question) -> dict[str, Any]:
        """Return the answer to a question. If the latest checkpoint is deleted meanwhile, ask the one after it."""
        for _ in range(_ATTEMPTS - 1):
            latest = self._latest()
            try:
                return self._answer(question)
            except StateError:
                if getattr(question, "checkpoint", 0) is not None or self._latest() == latest:
                    raise
        return self._answer(question)

    def _latest(self) -> int | None:
        found = self._store().checkpoint_ids() if self._directory else []
        return found[-1] if found else None

    def _answer(self, question: Question) -> dict[str, Any]:
        match question:
            case ListCheckpoints():
                return self._checkpoints()
            case ListStates():
                return self._states(question)
            case CountKeys():
                return self._count(question)
            case PageRows():
                return self._page(question)
            case FindKey():
                return self._find(question)
            case TraceKey():
                return self._trace(question)
            case CompareStates():
                return self._compare(question)
        raise TypeError(f"No answer is known to {question!r}.")

    # --- checkpoints and states --------------------------------------------------------------------------------------

    def _checkpoints(self) -> dict[str, Any]:
        return {
            "checkpoints": [
                {"checkpoint": manifest.checkpoint_id, "completed": manifest.completed_at_ms, "path": path}
                for manifest, path in self._readable()
            ]
        }

    def _readable(self) -> Iterator[tuple[Manifest, str]]:
        """Yield manifests and paths of the checkpoints that are there, oldest first."""
        store = self._store()
        for checkpoint in store.checkpoint_ids():
            try:
                manifest = store.read(checkpoint)
            except StorageError:  # it was deleted meanwhile
                continue
            yield manifest, store.storage.location(paths.checkpoint(checkpoint))

    def _store(self) -> CheckpointStore:
        if not self._directory:
            raise StateError("The job has no checkpoint directory: it has not begun, or it has ended.")
        return CheckpointStore(open_storage(self._directory, sync=False))

    def _snapshot(self, checkpoint: int | None) -> StateSnapshot:
        if checkpoint is None:
            self._store()
            return open_snapshot_at(self._directory)
        if self._opened is None or self._opened.checkpoint_id != checkpoint:
            store = self._store()
            if checkpoint not in store.checkpoint_ids():
                kept = ", ".join(map(str, store.checkpoint_ids())) or "none"
                raise StateError(
                    f"Checkpoint {checkpoint} is not kept any more; the job keeps {kept}."
                    " execution.checkpointing.num-retained says how many."
                )
            self._opened = StateSnapshot(
                store.storage,
                store.read(EpochId(checkpoint)),
                store.storage.location(paths.checkpoint(EpochId(checkpoint))),
            )
        return self._opened

    def _states(self, question: ListStates) -> dict[str, Any]:
        snapshot = self._snapshot(question.checkpoint)
        return {
            "checkpoint": snapshot.checkpoint_id,
            "completed": snapshot.completed_at_ms,
            "path": snapshot.path,
            "operators": [_operator(operator) for operator in snapshot.operators],
        }

    # --- keys and rows -----------------------------------------------------------------------------------------------

    def _count(self, question: CountKeys) -> dict[str, Any]:
        snapshot = self._snapshot(question.checkpoint)
        view = snapshot.state(question.operator, question.state)
        deadline = self._monotonic() + self._budget
        groups: dict[str, int] = {}
        entries, complete = 0, True
        if isinstance(view, KeyedStateView):
            for group, found in view.groups():
                groups[str(group)] = len({entry[0] for entry in found})
                entries += len(found)
                if self._monotonic() > deadline:
                    complete = False
                    break
        else:
            for _ in view.items():
                entries += 1
        return {
            "checkpoint": snapshot.checkpoint_id,
            "keys": sum(groups.values()) if isinstance(view, KeyedStateView) else None,
            "entries": entries,
            "groups": groups,
            "complete": complete,
        }

    def _page(self, question: PageRows) -> dict[str, Any]:
        snapshot = self._snapshot(question.checkpoint)
        view = snapshot.state(question.operator, question.state)
        deadline = self._monotonic() + self._budget
        rows: list[dict[str, Any]] = []
        following: str | None = None
        for place, key, window, value in _entries(view, _place(question.after)):
            if len(rows) >= question.limit or self._monotonic() > deadline:
                following = f"{place[0]}.{place[1]}"
                break
            if question.prefix is None or _begins(key, question.prefix):
                rows.append(_row(key, window, value))
        return {"checkpoint": snapshot.checkpoint_id, "rows": rows, "next": following}

    def _find(self, question: FindKey) -> dict[str, Any]:
        snapshot = self._snapshot(question.checkpoint)
        key, value = _looked_up(snapshot.state(question.operator, question.state), question.key)
        found = value is not _NOTHING
        return {
            "checkpoint": snapshot.checkpoint_id,
            "found": found,
            "row": _row(key, None, value) if found else None,
        }

    def _trace(self, question: TraceKey) -> dict[str, Any]:
        deadline = self._monotonic() + self._budget
        history: list[dict[str, Any]] = []
        key: Any = literal(question.key)
        before, complete = _NOTHING, True
        store = self._store()
        for manifest, path in self._readable():
            if history and self._monotonic() > deadline:
                complete = False
                break
            snapshot = StateSnapshot(store.storage, manifest, path)
            try:
                key, value = _looked_up(snapshot.state(question.operator, question.state), question.key)
            except StateError:  # the state came later, or the checkpoint was deleted meanwhile
                continue
            found = value is not _NOTHING
            history.append(
                {
                    "checkpoint": manifest.checkpoint_id,
                    "completed": manifest.completed_at_ms,
                    "found": found,
                    "value": rendered(value) if found else None,
                    "changed": bool(history) and _differs(before, value),
                }
            )
            before = value
        if not history:
            raise StateError(
                f"No checkpoint that is kept has a state {question.state!r} of operator {question.operator!r}."
            )
        return {"key": rendered(key), "history": history, "complete": complete}

    # --- differences -------------------------------------------------------------------------------------------------

    def _compare(self, question: CompareStates) -> dict[str, Any]:
        deadline = self._monotonic() + self._budget
        before, after = self._snapshot(question.before), self._snapshot(question.after)
        wanted = None if question.operator is None else after.operator(question.operator)
        names = None if wanted is None else {wanted.uid or wanted.name}
        states = []
        for state in SnapshotDifference(before, after).states:
            chosen = (names is None or state.operator in names) and question.state in (None, state.name)
            if chosen:
                states.append(self._difference(state, question.limit, deadline))
        return {
            "before": before.checkpoint_id,
            "after": after.checkpoint_id,
            "states": states,
        }

    def _difference(self, state: StateDifference, limit: int, deadline: float) -> dict[str, Any]:
        counts = {"added": 0, "removed": 0, "changed": 0}
        changes: list[dict[str, Any]] = []
        complete = True
        for change in state:
            counts[change.kind.value] += 1
            if len(changes) < limit:
                changes.append(
                    {
                        "kind": change.kind.value,
                        "key": rendered(change.key),
                        "before": None if change.before is None else rendered(change.before),
                        "after": None if change.after is None else rendered(change.after),
                    }
                )
            if self._monotonic() > deadline:
                complete = False
                break
        return {
            "operator": state.operator,
            "state": state.name,
            "kind": state.kind,
            **counts,
            "changes": changes,
            "complete": complete,
        }


# --- parts of answers ------------------------------------------------------------------------------------------------


def _operator(operator: OperatorView) -> dict[str, Any]:
    return {
        "id": operator.id,
        "uid": operator.uid,
        "name": operator.name,
        "parallelism": operator.parallelism,
        "max-parallelism": operator.max_parallelism,
        "states": [_state(state) for state in operator.states],
    }


def _state(state: StateView) -> dict[str, Any]:
    return {
        "name": state.name,
        "kind": state.kind,
        "key-type": state.key_type,
        "value-type": state.value_type,
        "map-key-type": state.map_key_type,
        "size": state.size_bytes,
        "keyed": isinstance(state, KeyedStateView),
        "time-to-live": state.time_to_live_ms if isinstance(state, KeyedStateView) else None,
    }


def _row(key: Any, window: Any, value: Any) -> dict[str, Any]:
    return {
        "key": rendered(key),
        "window": None if window is None else rendered(window)["text"],
        "value": rendered(value),
    }


def _entries(view: StateView, start: tuple[int, int]) -> Iterator[tuple[tuple[int, int], Any, Any, Any]]:
    """Yield the entries from a place on: place, key, window and value. A place is a key group and a number in it."""
    first, skipped = start
    if isinstance(view, KeyedStateView):
        for group in range(first, view.max_parallelism):
            found = view.entries_of(KeyGroup(group))
            begin = skipped if group == first else 0
            for number, (key, namespace, held) in enumerate(found[begin:], begin):
                named = view.key_of(key, namespace)  # of windowed state a pair of key and window
                yield (group, number), key, None if named is key else named[1], view.shown(held)
        return
    assert isinstance(view, OperatorStateView)
    pairs = view.kind == "broadcast"
    for number, item in enumerate(islice(view.items(), skipped, None), skipped):
        key, value = item if pairs else (number, item)
        yield (0, number), key, None, value


def _place(after: str | None) -> tuple[int, int]:
    """Return the place at which a page begins."""
    if after is None:
        return 0, 0
    group, dot, number = after.partition(".")
    if not (dot and group.isdecimal() and number.isdecimal() and len(after) < 40):
        raise StateError(f"{after[:80]!r} is not where a page ended: use the value of 'next' of the former page.")
    return int(group), int(number)


def _begins(key: Any, prefix: str) -> bool:
    try:
        return str(key).startswith(prefix) or repr(key).startswith(prefix)
    except Exception:  # the user's str
        return False


def _looked_up(view: StateView, text: str) -> tuple[Any, Any]:
    """Return a key and its value. A text that looks like a number may be a text nevertheless."""
    key = literal(text)
    candidates = [key] if key == text and type(key) is str else [key, text]
    for candidate in candidates:
        try:
            value = view.get(candidate, _NOTHING)
        except (TypeError, AttributeError, ValueError):  # it is not hashable, or of another form than the keys
            continue
        if value is not _NOTHING:
            return candidate, value
    return key, _NOTHING


def _differs(before: Any, value: Any) -> bool:
    if before is _NOTHING or value is _NOTHING:
        return before is not value
    return not same(before, value)

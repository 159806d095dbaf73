"""A savepoint in the making: what it is to hold. A value; nothing is read or written before ``write``. Driver side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flott.datastream._step_settings import MAX_PARALLELISM_LIMIT
from flott.errors import StateError
from flott.graph.operator_ids import OperatorId, id_of_uid
from flott.runtime.checkpoint.manifest import OperatorSnapshot
from flott.runtime.operators.process import EVENT_TIMERS, PROCESSING_TIMERS
from flott.snapshots.new_states import NewOperatorState, NewState
from flott.snapshots.snapshot import Place, StateSnapshot, open_snapshot_at
from flott.snapshots.transforms import Transform
from flott.snapshots.views import KeyedStateView, StateView


@dataclass(frozen=True)
class OperatorDraft:
    """What is to become of one operator."""

    ident: OperatorId
    uid: str | None
    name: str
    max_parallelism: int
    before: OperatorSnapshot | None = None  #: as it is in the snapshot that is edited ...
    former: OperatorId | None = None  #: ... under this id
    removed: frozenset[str] = frozenset()  #: states of the snapshot that are left out
    transforms: Mapping[str, tuple[Transform, ...]] = field(default_factory=dict)  #: by state
    states: Mapping[str, NewState] = field(default_factory=dict)
    operator_states: Mapping[str, NewOperatorState] = field(default_factory=dict)

    @property
    def keyed_changes(self) -> bool:
        """Return whether its keyed state has to be written again."""
        return bool(self.removed or self.transforms or self.states)

    @property
    def operator_changes(self) -> bool:
        """Return whether its operator state has to be written again."""
        return bool(self.removed or self.operator_states)


@dataclass(frozen=True)
class SavepointEditor:
    """A savepoint that is being put together. Every method returns a new editor and leaves this one as it is.

    Made by :func:`new_savepoint` and :func:`edit`. Operators are named by their uid, or by id or name.
    """

    max_parallelism: int
    origin: StateSnapshot | None = None
    drafts: Mapping[OperatorId, OperatorDraft] = field(default_factory=dict)

    def with_operator(
        self,
        uid: str,
        *,
        keyed: Mapping[str, NewState] | None = None,
        event_time_timers: NewState | None = None,
        processing_time_timers: NewState | None = None,
        operator_state: Mapping[str, NewOperatorState] | None = None,
        name: str | None = None,
        max_parallelism: int | None = None,
    ) -> SavepointEditor:
        """Give an operator these states. If it is new it is made; otherwise its states of these names are replaced.

        ``keyed`` holds what ``value_state``, ``list_state`` and ``map_state`` make, by name; ``operator_state`` what
        ``split_state``, ``union_state`` and ``broadcast_state`` make. ``max_parallelism`` must be that of the operator
        in the program that will start from the savepoint.
        """
        known = self._find(uid)
        if known is None:
            draft = OperatorDraft(id_of_uid(uid), uid, name or uid, _checked(max_parallelism or self.max_parallelism))
        else:
            draft = known
            if max_parallelism not in (None, draft.max_parallelism):
                raise StateError(
                    f"Operator {uid!r} has its state in {draft.max_parallelism} key groups; it cannot be cut into"
                    f" {max_parallelism}."
                )
        states = _named(keyed or {}, NewState, uid)
        for table, timers in ((EVENT_TIMERS, event_time_timers), (PROCESSING_TIMERS, processing_time_timers)):
            if timers is not None:
                if timers.kind != "timers":
                    raise StateError(f"Timers of {uid!r} are made with timers(...), found a {timers.kind} state.")
                states[table] = timers
        for state, made in states.items():
            if made.kind == "timers" and state not in (EVENT_TIMERS, PROCESSING_TIMERS):
                raise StateError(
                    f"The state {state!r} of operator {uid!r} is made with timers(...): give it as event_time_timers or"
                    " processing_time_timers."
                )
        return self._with(
            replace(
                draft,
                states={**draft.states, **states},
                operator_states={**draft.operator_states, **_named(operator_state or {}, NewOperatorState, uid)},
            )
        )

    def transform(self, operator: str, state: str, function: Transform) -> SavepointEditor:
        """Let a function change every entry of a keyed state: ``function(key, value)`` returns the new value, or DROP.

        The value is what ``items()`` gives: of a list state the list, of a map state the dict, of timers their
        timestamps. In windowed state the function is ``function(key, window, value)``. Records come as rows with names;
        rows, dicts and instances may be returned.
        """
        draft = self._draft(operator)
        if not isinstance(self._require(draft, state), KeyedStateView):
            raise StateError(
                f"The state {state!r} of operator {operator!r} does not belong to keys. Read its items(), and replace"
                " it by with_operator(..., operator_state=...)."
            )
        functions = (*draft.transforms.get(state, ()), function)
        return self._with(replace(draft, transforms={**draft.transforms, state: functions}))

    def remove_state(self, operator: str, state: str) -> SavepointEditor:
        """Leave a state out."""
        draft = self._draft(operator)
        if state in draft.states or state in draft.operator_states:
            kept = {name: made for name, made in draft.states.items() if name != state}
            kept_operator = {name: made for name, made in draft.operator_states.items() if name != state}
            draft = replace(draft, states=kept, operator_states=kept_operator)
        else:
            self._require(draft, state)
        if draft.before is not None:
            transforms = {name: functions for name, functions in draft.transforms.items() if name != state}
            draft = replace(draft, removed=draft.removed | {state}, transforms=transforms)
        return self._with(draft)

    def remove_operator(self, operator: str) -> SavepointEditor:
        """Leave an operator out, with all its state."""
        ident = self._draft(operator).ident
        return replace(self, drafts={known: draft for known, draft in self.drafts.items() if known != ident})

    def change_uid(self, operator: str, uid: str) -> SavepointEditor:
        """Let another operator continue the state: the one with this uid. Also gives a uid to one that had none."""
        draft, ident = self._draft(operator), id_of_uid(uid)
        if ident in self.drafts:
            raise StateError(f"There is an operator {uid!r} already. Remove it first, or choose another uid.")
        changed = replace(draft, ident=ident, uid=uid)
        kept = (changed if other is draft else other for other in self.drafts.values())
        return replace(self, drafts={other.ident: other for other in kept})

    def write(self, path: Any, *, sync: bool = True) -> StateSnapshot:
        """Write the savepoint into a new folder; returns it opened. A job starts from it with
        ``execution.state-recovery.path``.

        Files of operators that were not changed are copied as they are. Everything else is written key group by key
        group: memory is that of one key group. If anything fails, nothing is left behind.
        """
        from flott.snapshots.writing import write_savepoint

        return write_savepoint(self, path, sync)

    # --- finding operators and states --------------------------------------------------------------------------------

    def _find(self, name: str) -> OperatorDraft | None:
        for draft in self.drafts.values():
            if name in (draft.uid, draft.ident):
                return draft
        named = [draft for draft in self.drafts.values() if draft.name == name and draft.uid is None]
        return named[0] if len(named) == 1 else None

    def _draft(self, name: str) -> OperatorDraft:
        draft = self._find(name)
        if draft is None:
            known = ", ".join(sorted(other.uid or f"{other.name!r} (no uid)" for other in self.drafts.values()))
            raise StateError(f"There is no operator {name!r} in what is edited; there are {known or 'none'}.")
        return draft

    def _require(self, draft: OperatorDraft, state: str) -> StateView:
        """Return the state in the snapshot, unless it was replaced or removed."""
        if state in draft.states or state in draft.operator_states:
            raise StateError(f"The state {state!r} of operator {draft.uid!r} is new: change the rows it is made of.")
        if state in draft.removed:
            raise StateError(f"The state {state!r} of operator {draft.uid or draft.name!r} was removed.")
        if self.origin is None or draft.former is None:
            raise StateError(f"The new operator {draft.uid!r} has no state {state!r}.")
        return self.origin.operator(draft.former).state(state)

    def _with(self, draft: OperatorDraft) -> SavepointEditor:
        return replace(self, drafts={**self.drafts, draft.ident: draft})


def new_savepoint(max_parallelism: int = 128) -> SavepointEditor:
    """A savepoint from nothing. ``max_parallelism`` is that of operators for which no other is given: it must be what
    the program has, which is 128 unless it says ``set_max_parallelism``."""
    return SavepointEditor(_checked(max_parallelism))


def edit(snapshot: StateSnapshot | Place) -> SavepointEditor:
    """Return a savepoint made from another, or from a checkpoint, which stays as it is."""
    origin = snapshot if isinstance(snapshot, StateSnapshot) else open_snapshot_at(snapshot)
    if origin.manifest.channels:
        raise StateError(
            f"Checkpoint {origin.manifest.checkpoint_id} is unaligned: it holds records that were on their way between"
            " tasks, which belong to the program as it was. Edit a savepoint of the job instead: it holds none."
        )
    drafts = {
        ident: OperatorDraft(ident, operator.uid, operator.name, operator.max_parallelism, operator, ident)
        for ident, operator in origin.manifest.operators.items()
    }
    groups = max((draft.max_parallelism for draft in drafts.values()), default=128)
    return SavepointEditor(groups, origin, drafts)


def _checked(max_parallelism: int) -> int:
    if not 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT:
        raise StateError(f"The maximum parallelism is from 1 to {MAX_PARALLELISM_LIMIT}, found {max_parallelism}.")
    return max_parallelism


def _named(states: Mapping[str, Any], kind: type, uid: str) -> dict[str, Any]:
    for name, state in states.items():
        if not isinstance(state, kind):
            keyed = kind is NewState
            expected = "value_state, list_state or map_state" if keyed else "split_, union_ or broadcast_state"
            raise StateError(f"The state {name!r} of operator {uid!r} is made with {expected}; found {state!r}.")
    return dict(states)

"""``flott state``: inspect the state of a savepoint, a checkpoint or a job."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flott.cli.command import group
from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.jobs import JOB_OR_PATH, job_id
from flott.cli.terminal import table, time_text
from flott.common._sizes import size_text
from flott.errors import StateError

if TYPE_CHECKING:
    from flott.snapshots.views import StateView
    from flott.state import StateSnapshot

_MISSING: Any = object()


@group("state")
def state() -> None:
    """Inspect the state of a savepoint, a checkpoint, a job's directory or a job of the cluster.

    Keys are Python literals: 17, 'alice', ('alice', 3). Anything else is a text.
    """


@state.command("ls")
@click.argument("place", type=JOB_OR_PATH)
@click.option("--count", is_flag=True, help="Count the keys of every state, which reads the whole state.")
@pass_invocation
def ls(invocation: Invocation, place: str, count: bool) -> None:
    """List the operators and states in PLACE, with their types and sizes."""
    from rich.text import Text

    from flott.snapshots.views import KeyedStateView, OperatorStateView

    snapshot = open_place(invocation, place)
    rows, document = [], []
    for operator in snapshot.operators:
        for view in operator.states:
            keys = None
            if count and isinstance(view, KeyedStateView):
                keys = view.key_count
            elif count and isinstance(view, OperatorStateView):
                keys = view.item_count
            named = operator.uid or operator.name
            types = " -> ".join(text for text in (view.key_type, view.value_type) if text) or "pickled"
            rows.append((named, view.name, view.kind, types, None if keys is None else f"{keys:,}",
                         size_text(view.size_bytes)))  # fmt: skip
            document.append({
                "operator": named, "id": operator.id, "state": view.name, "kind": view.kind, "key-type": view.key_type,
                "value-type": view.value_type, "keys": keys, "size": view.size_bytes,
            })  # fmt: skip
    title = f"{snapshot.header}, {time_text(snapshot.completed_at_ms)}"
    drawn = table(("operator", "state", "kind", "type", "keys", "size"), rows, {"keys", "size"})
    invocation.terminal.show(
        {"path": snapshot.path, "job": snapshot.job_id, "checkpoint": snapshot.checkpoint_id, "states": document},
        Text(title, style="bold"), "", drawn if rows else "no state",
    )  # fmt: skip


@state.command("get")
@click.argument("place", type=JOB_OR_PATH)
@click.argument("operator")
@click.argument("name", metavar="STATE")
@click.argument("key")
@pass_invocation
def get(invocation: Invocation, place: str, operator: str, name: str, key: str) -> None:
    """Print the content of STATE of OPERATOR (uid, id or name) for KEY. Reads only the key's group."""
    view = open_place(invocation, place).state(operator, name)
    found = view.get(literal(key), _MISSING)
    if found is _MISSING and literal(key) != key:
        found = view.get(key, _MISSING)  # a text that looks like a number
    if found is _MISSING:
        raise StateError(f"State {name!r} of operator {operator!r} holds nothing for the key {literal(key)!r}.")
    invocation.terminal.report(repr(found), {"key": plain(literal(key)), "value": plain(found)})


@state.command("scan")
@click.argument("place", type=JOB_OR_PATH)
@click.argument("operator")
@click.argument("name", metavar="STATE")
@click.option(
    "-n", "--limit", type=click.IntRange(0), default=20, show_default=True, help="The number of entries; 0: all."
)
@click.option("--where-key", metavar="PREFIX", help="Only keys whose text begins with this.")
@pass_invocation
def scan(invocation: Invocation, place: str, operator: str, name: str, limit: int, where_key: str | None) -> None:
    """Print the entries of STATE of OPERATOR, one key group after the other."""
    view = open_place(invocation, place).state(operator, name)
    entries = _entries(view, where_key)
    shown = list(islice(entries, limit + 1)) if limit else list(entries)
    more = bool(limit) and len(shown) > limit
    shown = shown[:limit] if limit else shown
    invocation.terminal.show(
        {"entries": [{"key": plain(key), "value": plain(value)} for key, value in shown], "more": more},
        table(("key", "value"), ((repr(key), repr(value)) for key, value in shown)),
    )
    if more:
        invocation.terminal.note(f"There are more than {limit}: --limit 0 shows all of them.")


def _entries(view: StateView, prefix: str | None) -> Iterator[tuple[Any, Any]]:
    from flott.snapshots.views import KeyedStateView

    pairs = isinstance(view, KeyedStateView) or view.kind == "broadcast"
    for index, item in enumerate(view.items()):
        key, value = item if pairs else (index, item)
        if prefix is None or str(key).startswith(prefix) or repr(key).startswith(prefix):
            yield key, value


@state.command("diff")
@click.argument("before", type=JOB_OR_PATH)
@click.argument("after", type=JOB_OR_PATH)
@click.option("--operator", metavar="UID", help="Only the states of this operator.")
@click.option(
    "-n", "--limit", type=click.IntRange(0), default=0, help="Also show so many changed entries of each state."
)
@pass_invocation
def diff(invocation: Invocation, before: str, after: str, operator: str | None, limit: int) -> None:
    """Compare two snapshots: count the keys of each state that were added, removed and changed from BEFORE to AFTER."""
    from flott.state import diff as compared

    difference = compared(open_place(invocation, before), open_place(invocation, after))
    rows, document, examples = [], [], []
    for one in difference.states:
        if operator not in (None, one.operator) or not (counts := one.counts):
            continue
        rows.append(
            (one.operator, one.name, one.kind, f"{counts.added:,}", f"{counts.removed:,}", f"{counts.changed:,}")
        )
        changes = list(islice(one, limit)) if limit else []
        examples += [
            (one.operator, one.name, c.kind.value, repr(c.key), repr(c.before), repr(c.after)) for c in changes
        ]
        document.append({
            "operator": one.operator, "state": one.name, "added": counts.added, "removed": counts.removed,
            "changed": counts.changed,
            "changes": [
                {"kind": c.kind.value, "key": plain(c.key), "before": plain(c.before), "after": plain(c.after)}
                for c in changes
            ],
        })  # fmt: skip
    columns = ("operator", "state", "kind", "added", "removed", "changed")
    drawn: list[Any] = [f"from {difference.before.header}\nto   {difference.after.header}\n"]
    drawn.append(table(columns, rows, {"added", "removed", "changed"}) if rows else "no difference")
    if examples:
        drawn += ["", table(("operator", "state", "change", "key", "before", "after"), examples)]
    invocation.terminal.show({"states": document}, *drawn)


# --------------------------------------------------------------------------------------------------- places and values


def open_place(invocation: Invocation, place: str) -> StateSnapshot:
    """Return the snapshot at a path, or the latest checkpoint of a job of the cluster."""
    from flott.runtime.storage import initialize_object_stores
    from flott.state import open as open_snapshot

    initialize_object_stores(invocation.configuration)
    if not Path(place.removeprefix("file:")).exists() and "/" not in place:
        place = directory_of(invocation, job_id(invocation, place))
    snapshot = open_snapshot(place)
    _import_classes(invocation, snapshot.job_id)
    return snapshot


def _import_classes(invocation: Invocation, ident: str) -> None:
    """Import the classes of the job's state, if the job is stored here. If not, reading them raises an error."""
    from flott.cli.commands.replay import graph_of_kept_job

    with suppress(Exception):
        graph_of_kept_job(invocation, ident)


def directory_of(invocation: Invocation, ident: str) -> str:
    """Return the checkpoint directory of a job of the cluster, as a path on the JobManager's machine."""
    directory = invocation.client.get(f"/jobs/{ident}").get("checkpoint-directory")
    if not directory:
        raise StateError(f"Job {ident} has no checkpoint directory: it has ended, or not begun.")
    if not Path(directory).is_dir():
        raise StateError(
            f"The checkpoints of job {ident} are in {directory}, which is not on this machine, or the job has ended and"
            " they were deleted. Run the command where they are, or give the path of a savepoint."
        )
    return str(directory)


def literal(text: str) -> Any:
    """Return a key for its text on the command line: a Python literal, or else the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def plain(value: Any) -> Any:
    """Return a value as JSON. A value without a JSON form becomes a text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "as_dict"):
        try:
            return plain(value.as_dict(True))
        except Exception:
            return repr(value)
    return repr(value)

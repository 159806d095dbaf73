"""Deletes copies of state that slots have left on a host when they moved to another. Task side.

A copy belongs to the host: processes of all its executors may use it. Which slots run on which host is known when all
have met.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.report import TaskPlace
from flott.runtime.epoch.stage_task import StageTask
from flott.runtime.managed_state.backends.backend import database_name
from flott.runtime.managed_state.key_groups import groups_of

log = logging.getLogger("flott.state")


def delete_foreign_copies(
    image: JobImage, partition: int, tasks: Iterable[StageTask], places: Sequence[TaskPlace]
) -> None:
    """Delete the copies of all subtasks that do not run on this host, if this is the first slot of the host.

    ``tasks``: those of this slot, which have not restored their state. ``places``: where all slots run.
    """
    here = [slot for slot, place in enumerate(places) if place.host == places[partition].host]
    if not places[partition].host or here[0] != partition:
        return
    own = database_names(tasks, here)
    deleted = image.settings.backend.keep_only(image.job_id, own)
    if deleted:
        log.info("Deleted %d copies of state that belong to slots on other hosts.", deleted)


def database_names(tasks: Iterable[StageTask], slots: Sequence[int]) -> frozenset[str]:
    """Return the names of the databases of some slots. The first of them has all operators that the others have."""
    return frozenset(
        database_name(operator.id, groups_of(slot, node.max_parallelism, node.parallelism))
        for task in tasks
        for subtask in task.subtasks
        for operator in subtask.vertex.operators
        for node in (operator.node,)
        for slot in slots
        if node.is_keyed and slot < node.parallelism
    )

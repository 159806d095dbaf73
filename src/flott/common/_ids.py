"""Types of the ids that cross module boundaries. A ``NewType`` costs nothing at run time."""

from __future__ import annotations

from typing import NewType

#: The number of an epoch, and of the checkpoint that completes it. The first epoch of a job has number 1.
EpochId = NewType("EpochId", int)

#: The id of a job: 32 hexadecimal digits. ``flott.common.JobID`` is the class that programs see.
JobId = NewType("JobId", str)

#: The position of a subtask among the parallel subtasks of its operator: 0 up to the parallelism, exclusive.
SubtaskIndex = NewType("SubtaskIndex", int)

#: A key group: 0 up to the maximum parallelism, exclusive. Keyed state is stored and moved in key groups.
KeyGroup = NewType("KeyGroup", int)

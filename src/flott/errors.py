"""Every exception Flott raises on purpose.

    FlottError
    ├── ProgramError             the program cannot run as written; refused before anything runs
    │   ├── UnserializableError  a function captures something that cannot travel to a worker
    │   └── AbsentModuleError    a module of PyFlink's that Flott does not have
    ├── ConfigurationError       an option is unknown, malformed or contradicts another
    ├── TypeMismatchError        a record is not of the type that was declared for it
    ├── KeyTypeError             a key has no stable identity across processes
    ├── StateError               durable state is missing, damaged or belongs to another program
    │   ├── CorruptStateError    a file does not hold what its header promises
    │   ├── StateMigrationError  state cannot become what the program declares it to be now
    │   └── JobLockedError       another process is running the same job directory
    ├── EpochFailure             one epoch did not complete; the restart strategy decides what follows
    │   ├── UserCodeError        … because user code raised: carries the failure card
    │   ├── WorkerLostError      … because Spark lost a worker, an executor or published shuffle output
    │   ├── StorageError         … because durable storage refused a read or a write
    │   └── EpochTimeoutError    … because it took longer than a checkpoint may
    ├── SavepointError           a savepoint could not be taken; the job goes on
    ├── JobError                 the job as a whole ended without finishing
    │   ├── JobFailedError       the restart strategy gave up
    │   └── JobCancelledError    somebody asked for it
    └── ClusterError             a JobManager refused, or could not do, what it was asked
        ├── JobNotFoundError     it has no such job, or not any more
        ├── JobEndedError        the job has ended, and with it what could be asked of it
        ├── JobRestartingError   the job has no process at the moment that could do what was asked
        ├── SubmissionError      a job was handed over in a form that cannot be run
        ├── StorageFullError     there is no room for what was handed over
        ├── UnreachableError     nobody answers where the JobManager should be
        └── LeadershipLostError  another JobManager has taken over: this one may change nothing any more

A message says what was found, what was expected and what to do. This module imports nothing, so any room may use it.
"""

from __future__ import annotations


class FlottError(Exception):
    """The root: catch it to catch everything Flott raises on purpose."""

    culprit: object = None  #: the failure card of the task that failed, if one did


class ProgramError(FlottError):
    """The program cannot run as written. Raised while it is built or submitted, never while it runs."""


class UnserializableError(ProgramError):
    """A function holds an object that cannot be sent to a worker process."""


class AbsentModuleError(ProgramError, ModuleNotFoundError):
    """A module of PyFlink's that Flott does not have was imported; the message says what to use instead."""


class ConfigurationError(FlottError, ValueError):
    """An option is unknown, has a value it cannot have, or contradicts another option."""


class TypeMismatchError(FlottError, TypeError):
    """A record is not of its declared type. ``index`` is its position in the batch that was checked."""

    def __init__(self, message: str, index: int | None = None):
        super().__init__(message)
        self.index = index

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.index)


class KeyTypeError(FlottError, TypeError):
    """A key has no identity that is the same in every process (unhashable, NaN, or hashed by address)."""


class StateError(FlottError):
    """Durable state cannot be used by this program."""


class CorruptStateError(StateError):
    """A durable file does not hold what its header promises."""


class StateMigrationError(StateError):
    """State was saved with another type than the program declares now, and cannot become one of it."""


class JobLockedError(StateError):
    """Another process holds the job's directory."""


class EpochFailure(FlottError):
    """One epoch did not complete. It left nothing visible behind and may be run again."""


class WorkerLostError(EpochFailure):
    """Spark lost a worker process, an executor or shuffle output more often than it may retry by itself."""


class StorageError(EpochFailure):
    """Durable storage refused a read or a write during an epoch."""


class EpochTimeoutError(EpochFailure):
    """An epoch took longer than ``execution.checkpointing.timeout``."""


class UserCodeError(EpochFailure):
    """User code raised. ``card`` is the failure card: a readable account without a line of engine or Java code."""

    def __init__(self, card: str):
        super().__init__(card)
        self.card = card


class SavepointError(FlottError):
    """A savepoint could not be taken. The job goes on as if nobody had asked for it."""


class JobError(FlottError):
    """The job ended without finishing."""


class JobFailedError(JobError):
    """The job failed and its restart strategy allows no further attempt."""


class JobCancelledError(JobError):
    """The job was cancelled."""


class ClusterError(FlottError):
    """A JobManager refused a request, or could not do what it was asked."""


class JobNotFoundError(ClusterError):
    """The JobManager has no such job, or has forgotten it."""


class JobEndedError(ClusterError):
    """The job has ended already."""


class JobRestartingError(ClusterError):
    """The job is being started again, and can be asked in a while."""


class SubmissionError(ClusterError):
    """A job was handed over in a form that cannot be run."""


class StorageFullError(ClusterError):
    """The JobManager's storage has no room for what was handed over. Nothing of it was kept."""


class UnreachableError(ClusterError):
    """Nobody answers where the JobManager should be."""


class LeadershipLostError(ClusterError):
    """Another JobManager leads now. Whatever this one would still write or publish is refused."""

"""Every exception that Flott raises on purpose.

    FlottError
    ├── ProgramError             the program, or a use of the API in it, is wrong; running it again does not help
    │   ├── UnserializableError  a function captures an object that cannot be sent to a worker
    │   ├── AbsentModuleError    the program imports a module of PyFlink that Flott does not have
    │   └── MissingExtraError    the program uses a connector whose packages are not installed
    ├── ConfigurationError       an option is unknown, malformed or contradicts another
    ├── TypeMismatchError        a record is not of its declared type
    ├── KeyTypeError             a key has no stable identity across processes
    ├── StateError               durable state is missing, damaged or belongs to another program
    │   ├── CorruptStateError    the content of a file contradicts its header
    │   ├── StateMigrationError  state cannot be converted to the type that the program declares
    │   └── JobLockedError       another process is running the same job directory
    ├── EpochFailure             one epoch did not complete; the restart strategy decides what follows
    │   ├── UserCodeError        … because user code raised; it carries the failure card
    │   ├── WorkerLostError      … because Spark lost a worker, an executor or published shuffle output
    │   │   └── NoSlotsError     … because Spark did not give a pipelined job its slots
    │   ├── StorageError         … because durable storage refused a read or a write
    │   ├── ConnectorError       … because an external system refused a request or does not answer
    │   ├── BadRecordError       … because an input record cannot be decoded
    │   └── EpochTimeoutError    … because it exceeded the checkpoint timeout
    ├── SavepointError           a savepoint could not be taken; the job continues
    ├── JobError                 the job ended without finishing
    │   ├── JobFailedError       the restart strategy allows no further attempt
    │   └── JobCancelledError    the job was cancelled by a request
    └── ClusterError             a JobManager refused or could not carry out a request
        ├── JobNotFoundError     the JobManager has no such job, or has removed it from its archive
        ├── JobEndedError        the job has ended
        ├── JobRestartingError   the job has no process at the moment that could carry out the request
        ├── SubmissionError      the submitted job cannot be run in this form
        ├── StorageFullError     the JobManager's storage is full
        ├── UnreachableError     no JobManager answers at the address
        └── LeadershipLostError  another JobManager leads; this one may not change anything

A message says what was found, what was expected and what to do. This module imports nothing, so that any package may
import it.
"""

from __future__ import annotations


class FlottError(Exception):
    """The base class of all exceptions that Flott raises on purpose."""

    culprit: object = None  #: the failure card of the task that failed, if one did


class ProgramError(FlottError, ValueError):
    """The program, or a use of the API in it, is wrong. Running it again unchanged does not help.

    It is a ``ValueError`` too, because PyFlink raises one for most wrong arguments.

    Most errors of this kind are raised while the program is built or submitted, before anything runs. Three kinds can
    only be detected later:

    - when a job starts: an input file does not exist, or restored state has no operator in the program;
    - in a task, from the call in user code: a state that was not declared, a record that cannot be pickled, a
      partitioner that returns a subtask which does not exist. The epoch then fails with a ``UserCodeError``, whose
      failure card contains this error;
    - when a running job receives a request that its program does not allow, such as an impossible parallelism. The
      request fails, and the job continues.
    """


class UnserializableError(ProgramError):
    """A function captures an object that cannot be sent to a worker process."""


class AbsentModuleError(ProgramError, ModuleNotFoundError):
    """The program imports a module of PyFlink that Flott does not have. The message says what to use instead."""


class MissingExtraError(ProgramError, ImportError):
    """The program uses a connector or format whose packages are not installed. The message says what to install."""


class ConfigurationError(FlottError, ValueError):
    """An option is unknown, has an invalid value, or contradicts another option."""


class TypeMismatchError(FlottError, TypeError):
    """A record is not of its declared type. ``index`` is its position in the checked batch."""

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
    """The content of a durable file contradicts its header."""


class StateMigrationError(StateError):
    """State was saved with another type than the program declares, and cannot be converted to it."""


class JobLockedError(StateError):
    """Another process holds the lock of the job's directory."""


class EpochFailure(FlottError):
    """One epoch did not complete. It has no visible effect and may be run again."""


class WorkerLostError(EpochFailure):
    """Spark lost a worker process, an executor or shuffle output, and may not retry any further."""


class NoSlotsError(WorkerLostError):
    """Spark did not give a pipelined job its slots within ``slot.request.timeout``."""


class StorageError(EpochFailure):
    """Durable storage refused a read or a write during an epoch."""


class ConnectorError(EpochFailure):
    """An external system refused a request, or does not answer. The restart strategy decides whether to try again."""


class BadRecordError(EpochFailure):
    """An input record cannot be decoded, and the source is to fail in this case. ``place`` says where the record is.

    Without a reason, the first argument is the whole message: so an error is made again that another process reported.
    """

    def __init__(self, place: str, reason: str | None = None, value: bytes | None = None):
        self.place, self.reason, self.value = place, reason, value
        if reason is None:
            super().__init__(place)
            return
        shown = "" if value is None else f" Found {_beginning(value)}."
        super().__init__(
            f"{place}: the record cannot be decoded: {reason.rstrip('.')}.{shown} Repair the producer or the format, or"
            " let the source continue with on_error: OnError.skip() or OnError.dead_letter(sink)."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.place, self.reason, self.value)


def _beginning(value: bytes, shown: int = 120) -> str:
    return repr(value) if len(value) <= shown else f"{value[:shown]!r}… ({len(value)} bytes)"


class EpochTimeoutError(EpochFailure):
    """An epoch took longer than ``execution.checkpointing.timeout``."""


class UserCodeError(EpochFailure):
    """User code raised an exception. ``card`` is the failure card, which contains no engine or Java code."""

    def __init__(self, card: str):
        super().__init__(card)
        self.card = card


class SavepointError(FlottError):
    """A savepoint could not be taken. The job continues unaffected."""


class JobError(FlottError):
    """The job ended without finishing."""


class JobFailedError(JobError):
    """The job failed and its restart strategy allows no further attempt."""


class JobCancelledError(JobError):
    """The job was cancelled."""


class ClusterError(FlottError):
    """A JobManager refused a request, or could not carry it out."""


class JobNotFoundError(ClusterError):
    """The JobManager has no such job, or has removed it from its archive."""


class JobEndedError(ClusterError):
    """The job has ended already."""


class JobRestartingError(ClusterError):
    """The job is being restarted. The request can be repeated later."""


class SubmissionError(ClusterError):
    """The submitted job cannot be run in this form."""


class StorageFullError(ClusterError):
    """The JobManager's storage is full. Nothing of the submission was kept."""


class UnreachableError(ClusterError):
    """No JobManager answers at the address."""


class LeadershipLostError(ClusterError):
    """Another JobManager leads. Writes and publications of this one are refused."""

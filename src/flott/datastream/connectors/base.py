"""What a source and a sink are: the interfaces every connector implements, and anyone can.

A **source** has an enumerator and readers. The enumerator lives on the driver: it discovers splits and says, before an
epoch runs, exactly which slice of each split the epoch reads. A reader lives in a task: it turns a slice into records.
Because the slice is fixed and durable before anything runs, an epoch that is repeated reads exactly the same input.

A **sink** has writers and a committer. A writer lives in a task: it stages what it is given, under names of its own,
and hands back committables. The committer lives on the driver: it makes the committables of a *completed* checkpoint
visible, and must be idempotent, because after a crash the last checkpoint's committables are committed once more.

Splits, offsets, committables and enumerator state are written to checkpoints, so they are JSON values: strings,
numbers, booleans, ``None``, and lists and dicts of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from flott._absent import no_java_object
from flott.common.typeinfo import TypeInformation
from flott.errors import ProgramError

T = TypeVar("T")

#: A JSON value. (Spelled ``Any`` because a recursive alias would burden every connector with casts.)
Json = Any

#: How many records a reader hands over at once unless the connector chooses otherwise.
READ_BATCH_RECORDS = 1024


class Boundedness(Enum):
    """Whether a source ends by itself."""

    BOUNDED = "BOUNDED"
    CONTINUOUS_UNBOUNDED = "CONTINUOUS_UNBOUNDED"


class DeliveryGuarantee(Enum):
    """What the program asks of a sink that offers several guarantees."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"


class Guarantee(Enum):
    """What a source or sink promises about every record when epochs are repeated. From the strongest to the weakest."""

    EXACTLY_ONCE = "exactly-once"  #: a source reads positions again; the output of a sink is transactional
    IDEMPOTENT = "idempotent"  #: a record may be written several times, with the result of writing it once
    AT_LEAST_ONCE = "at-least-once"  #: a record may take effect several times
    NONE = "none"  #: a record may be lost

    @property
    def strength(self) -> int:
        """Return a number that is higher the more is promised."""
        return -list(Guarantee).index(self)


# ---------------------------------------------------------------------------------------------------------------------
# Sources
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slice:
    """What one epoch reads of one split: from ``start`` (inclusive) to ``stop`` (exclusive)."""

    split: str  #: stable name of the split, unique in its source
    start: Json
    stop: Json
    records: int | None = None  #: how many records it holds, if known; used to balance subtasks
    ends_split: bool = False  #: nothing of this split comes after this slice, so it stops holding event time back
    detail: Json = None  #: whatever else the reader needs (a path, a schema)
    #: The slice has no end yet: its reader follows the split (:meth:`SourceReader.follow`) until the job ends it.
    #: ``stop`` means nothing then. Only for a request that says ``may_be_open``.
    is_open: bool = False


@dataclass(frozen=True)
class SliceRequest:
    """What the job asks an enumerator for before each epoch."""

    max_records: int  #: plan about this many records at most; the job has measured what it can do
    parallelism: int  #: how many subtasks will read
    now_ms: int  #: the epoch's clock; enumerators read no other
    #: Splits that must not be read in this epoch, because event time would run too far ahead of other splits.
    paused: frozenset[str] = frozenset()
    #: A batch job reads everything in one epoch: plan all that is left, however much it is and whenever it would have
    #: been due. The answer must be ``finished``.
    everything: bool = False
    #: The job runs continuously: slices may be open, so that records are read as they come, without a question to the
    #: enumerator in between.
    may_be_open: bool = False


@dataclass(frozen=True)
class SlicePlan:
    """An enumerator's answer: the slices of the next epoch, and what to expect afterwards."""

    slices: tuple[Slice, ...] = ()
    finished: bool = False  #: after these slices there will never be another: the source has ended
    backlog: bool = False  #: more input is waiting already; beside open slices: more than ``max_records``
    #: There may be more input at this time; ``None``: ask again at the poll interval. Open slices end at this time, and
    #: with every checkpoint.
    wake_at_ms: int | None = None
    #: Splits that are open but have nothing to read at present. One of which nothing was ever read holds event time
    #: back all the same, until it is idle, if it is named here.
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pending:
    """What waits to be read. ``None``: the source does not know."""

    records: int | None = None
    bytes: int | None = None
    splits: Mapping[str, int] = field(default_factory=dict)  #: records by split, where the source knows them
    gauges: Mapping[str, int] = field(default_factory=dict)  #: more numbers that are metrics of the source, by name


class SplitEnumerator(ABC):
    """Discovers splits and decides what each epoch reads. Lives on the driver; called by one thread at a time.

    Its state changes in two steps, so that a failed epoch leaves no trace: ``plan`` only proposes, ``advance`` is
    called when the epoch that read the slices has completed. After a failure ``restore`` is called on a new
    enumerator, with the state of the last completed epoch.
    """

    #: Whether another enumerator and its readers may read on from the same state while the job runs, and take nothing
    #: away from it: a preview does so. None: yes, unless :meth:`acknowledge` tells the outside world something.
    readable_beside: ClassVar[bool | None] = None

    def open(self) -> None:
        """Called once before anything else; raise :class:`~flott.errors.ProgramError` for unreadable input."""

    def restore(self, state: Json) -> None:
        """Continue from a state that :meth:`snapshot` returned."""

    @abstractmethod
    def plan(self, request: SliceRequest) -> SlicePlan:
        """Propose the slices of the next epoch. Must not change what :meth:`snapshot` returns."""

    @abstractmethod
    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        """The epoch that read ``plan`` is complete; ``reached`` maps each split read to the position after it."""

    @abstractmethod
    def snapshot(self) -> Json:
        """Return the state to continue from, as a JSON value."""

    def acknowledge(self) -> None:
        """Tell the outside world: what :meth:`snapshot` returned last is durable, and its output is committed.

        Here a connector commits offsets to a group, acknowledges messages or confirms a position in a log. Called after
        every completed checkpoint, and once after :meth:`restore`, because the process may have died in between. It may
        be called twice for the same state. An exception is logged, and the job continues.
        """

    def pending(self, now_ms: int) -> Pending:
        """How much is there that no completed epoch has read: the lag of the source. Asked after every epoch, so it
        looks nowhere but in memory. Override it if that is known."""
        return Pending()

    def close(self) -> None:
        """Release what :meth:`open` took."""


@dataclass(frozen=True)
class BadRecord:
    """A record that cannot be decoded, as a dead-letter sink receives it."""

    place: str  #: where it is, in words: "topic orders, partition 3, offset 17"
    error: str  #: why it cannot be decoded
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None  #: in milliseconds, if the source knows it


@dataclass(frozen=True)
class OnError:
    """What a source does with a record that cannot be decoded.

    >>> OnError.skip()
    OnError.skip()
    """

    keeps_going: bool  #: False: the job fails, and its failure card says where the record is
    dead_letters: Sink[BadRecord] | None = None  #: where bad records go; None: they are counted only

    @staticmethod
    def fail() -> OnError:
        """Fail the job. This is the default."""
        return _FAIL

    @staticmethod
    def skip() -> OnError:
        """Leave the record out and count it (``numRecordsInErrors``)."""
        return _SKIP

    @staticmethod
    def dead_letter(sink: Sink[BadRecord]) -> OnError:
        """Count the record and write it to a sink, with the guarantee of that sink."""
        if not isinstance(sink, Sink):
            raise ProgramError(
                f"OnError.dead_letter() takes a Sink of BadRecord, found {sink!r}. Use a dead-letter sink of"
                " flott.datastream.connectors, such as FileDeadLetterSink."
            )
        return OnError(True, sink)

    def __repr__(self) -> str:
        if self.dead_letters is not None:
            return f"OnError.dead_letter({type(self.dead_letters).__name__})"
        return "OnError.skip()" if self.keeps_going else "OnError.fail()"


_FAIL, _SKIP = OnError(False), OnError(True)


@dataclass
class Records(Generic[T]):
    """A batch of records as a reader hands it over. The lists must not be changed afterwards."""

    values: list[T]
    timestamps: list[int] | None = None  #: one per value, in milliseconds, if the source knows them
    rejected: list[BadRecord] | None = None  #: records between the values that could not be decoded


@dataclass(frozen=True)
class ColumnRecords:
    """A batch of records in columns, from a reader whose source is a table. What it refers to must not be changed."""

    columns: Any  #: an Arrow record batch
    record_type: TypeInformation  #: what its rows are
    kinds: Any = None  #: row kinds as a numpy array of int8; None: all rows are inserts
    rejected: list[BadRecord] | None = None  #: records between the rows that could not be decoded


@dataclass(frozen=True)
class Pause:
    """What a reader yields that follows splits and has no record at present."""

    seconds: float | None = None  #: when there may be one; ``None``: it is not known, so look again soon


#: What a reader yields that follows splits: a generator, so that it can be closed.
Followed = Generator[tuple[Slice, Records[T] | ColumnRecords] | Pause, None, None]


class SourceReader(ABC, Generic[T]):
    """Turns slices into records. Lives in a task; made for each epoch unless it is worth keeping."""

    def open(self) -> None:
        """Called once before the first slice."""

    @abstractmethod
    def read(self, part: Slice) -> Iterator[T]:
        """Yield the records of the slice, always the same ones in the same order."""

    def read_batches(self, part: Slice) -> Iterator[Records[T] | ColumnRecords]:
        """Like :meth:`read`, many records at a time: override it where the format allows to be faster."""
        records = self.read(part)
        while batch := list(islice(records, READ_BATCH_RECORDS)):
            yield Records(batch)

    def follow(self, parts: Sequence[Slice]) -> Followed[T]:
        """Yield the records of open slices as they come, each batch with its slice, and a pause when there is none.

        Write it as a generator. It must not wait: a pause is the time for other work. The job closes it when it ends
        the slices, and asks then for the position :meth:`reached` in each of them. Needed only if the enumerator plans
        open slices.
        """
        raise NotImplementedError(f"{type(self).__name__} follows no open slices.")

    def reached(self, part: Slice) -> Json:
        """Return the position after the slice once it was read. Override it if that is not ``part.stop``.

        For an open slice: the position behind the records that :meth:`follow` has yielded.
        """
        return part.stop

    def locate(self, part: Slice, index: int) -> str:
        """Return where the ``index``-th record of the slice stands, in words for a failure card."""
        if isinstance(part.start, int) and not isinstance(part.start, bool):
            return f"split {part.split}, offset {part.start + index}"
        return f"split {part.split}, record {index} after {part.start!r}"

    def roughly(self, part: Slice, index: int) -> str:
        """Like :meth:`locate`, but called for every batch: override it if :meth:`locate` has to read to find out."""
        return self.locate(part, index)

    def close(self) -> None:
        """Called once after the last slice, also when reading failed."""


class Source(ABC, Generic[T]):
    """A description of an input. Travels to tasks, so it must be picklable and hold no open resource.

    A source of one's own needs little. This one counts down, in one split, and can be interrupted anywhere:

    >>> class Launch(SplitEnumerator):
    ...     left = 10
    ...     def restore(self, state):
    ...         self.left = state
    ...     def plan(self, request):
    ...         stop = max(0, self.left - request.max_records)
    ...         part = Slice("countdown", self.left, stop, ends_split=stop == 0)
    ...         return SlicePlan((part,), finished=stop == 0, backlog=stop > 0)
    ...     def advance(self, plan, reached):
    ...         self.left = reached["countdown"]
    ...     def snapshot(self):
    ...         return self.left
    >>> class Backwards(SourceReader[int]):
    ...     def read(self, part):
    ...         yield from range(part.start, part.stop, -1)
    >>> class Countdown(Source[int]):
    ...     def create_enumerator(self):
    ...         return Launch()
    ...     def create_reader(self):
    ...         return Backwards()
    >>> plan = Countdown().create_enumerator().plan(SliceRequest(max_records=3, parallelism=1, now_ms=0))
    >>> list(Countdown().create_reader().read(plan.slices[0]))
    [10, 9, 8]
    """

    get_java_function = no_java_object("get_java_function")

    #: What happens to records that cannot be decoded. A source that decodes bytes lets its users choose.
    on_error: OnError = _FAIL

    @property
    def boundedness(self) -> Boundedness:
        """Return whether the source ends by itself."""
        return Boundedness.BOUNDED

    @property
    def guarantee(self) -> Guarantee:
        """Return what the source promises. The default is right for sources that read the same slice again."""
        return Guarantee.EXACTLY_ONCE

    @property
    def preferred_parallelism(self) -> int | None:
        """Return how many subtasks make sense, where the program does not say; ``None``: the job's default."""
        return None

    @abstractmethod
    def create_enumerator(self) -> SplitEnumerator:
        """Return the part that plans, for the driver."""

    @abstractmethod
    def create_reader(self) -> SourceReader[T]:
        """Return the part that reads, for a task."""


# ---------------------------------------------------------------------------------------------------------------------
# Sinks
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WriterContext:
    """Who is writing. ``attempt_id`` is different for each attempt at each epoch, so names made of it never collide."""

    subtask: int
    parallelism: int
    epoch: int
    attempt_id: str
    job_id: str
    operator_id: str
    now_ms: int
    record_type: TypeInformation | None = None  #: what the program declares its records to be


class SinkWriter(ABC, Generic[T]):
    """Stages records. Lives in a task, for one epoch: nothing it does may be visible to readers of the output."""

    @abstractmethod
    def write(self, values: Sequence[T], timestamps: Sequence[int] | None) -> None:
        """Stage a batch of records."""

    def write_columns(self, columns: Any, kinds: Any) -> None:
        """Stage rows in columns: an Arrow record batch, and row kinds (numpy, int8; None: inserts).

        Called instead of :meth:`write` if the sink ``takes_columns``.
        """
        raise NotImplementedError(f"{type(self).__name__} takes no columns.")

    def prepare_commit(self) -> list[Json]:
        """The epoch's input is complete: make what was staged durable and describe it for the committer."""
        return []

    def close(self) -> None:
        """Called once at the end, also after a failure. Without ``prepare_commit`` the staged data is void."""


class CommitPermit:
    """Proof that a checkpoint is complete: a committer cannot be called without one.

    The checkpoint store issues permits, and nothing else does: when it has published the metadata of a checkpoint, and
    after a restart for a checkpoint that it has read as complete. A call of the class raises TypeError, so "commit
    before durable" cannot be written. A test of a committer gets its permits from ``flott.testing.sinks``.

    With high availability two committers may commit the same checkpoint, even at the same time: that of the leader, and
    that of a process which lost its leadership while it committed. Idempotence covers that, if it is kept step by step.
    A committer that does more than make committables visible refuses permits of a ``leader`` lower than the highest it
    has seen.
    """

    __slots__ = ("checkpoint_id", "final", "leader", "now_ms", "replay")

    checkpoint_id: int
    now_ms: int
    replay: bool  #: the checkpoint's committables may have been committed before
    final: bool  #: the job has finished with this checkpoint: nothing comes after it
    leader: int  #: the fencing token of the JobManager that commits; a later one's is higher. 0: there is no other

    def __init__(self, *arguments: object, **named: object):
        raise TypeError(
            "A CommitPermit cannot be created: the checkpoint store issues one when a checkpoint is complete. In the"
            " test of a committer, call flott.testing.sinks.commit_permit(...)."
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"A CommitPermit does not change, so {name} cannot be set.")

    def __repr__(self) -> str:
        return f"CommitPermit({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


def _issue_permit(
    checkpoint_id: int, now_ms: int, *, replay: bool = False, final: bool = False, leader: int = 0
) -> CommitPermit:
    """Return a permit for a checkpoint. Only the checkpoint store may call this (``tests/architecture``)."""
    permit = object.__new__(CommitPermit)
    facts = {"checkpoint_id": checkpoint_id, "now_ms": now_ms, "replay": replay, "final": final, "leader": leader}
    for name, value in facts.items():
        object.__setattr__(permit, name, value)
    return permit


class Committer(ABC):
    """Makes staged output visible. Lives on the driver; must be idempotent.

    It is called by one thread at a time, but not always by the same one.
    """

    @property
    def takes_several_epochs(self) -> bool:
        """Return whether one call of ``commit`` may bring the committables of several epochs, the oldest first.

        It does so in a pipelined job after a checkpoint has failed: its output belongs to the next one. While a
        committer cannot take that, a failed checkpoint restarts the tasks.
        """
        return True

    def open(self, job_id: str, operator_id: str) -> None:
        """Called once before anything else: whose output it is, as writers see it in their context."""

    @abstractmethod
    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        """Make the committables of a completed checkpoint visible; raise to be called again later.

        Called once for every completed checkpoint, with an empty list too: time has passed.
        """

    def discard(self, live_attempts: frozenset[str]) -> None:
        """Remove what was staged by attempts other than these: they failed. Called after recovery.

        Ask for each thing you have found whether its attempt is ``in live_attempts``, and remove it then: asked so, a
        process that was deposed in the meantime is stopped, before it removes what its successor stages.
        """

    def close(self) -> None:
        """Called once at the end."""


class Sink(ABC, Generic[T]):
    """A description of an output. Travels to tasks, so it must be picklable and hold no open resource.

    A sink of one's own is a writer and, for exactly once, a committer. This one publishes a file for each subtask and
    epoch; what a task wrote is hidden until the committer renames it, which does no harm when it is done again:

    >>> import json, os, tempfile
    >>> class Draft(SinkWriter[dict]):
    ...     def __init__(self, name):
    ...         self.name, self.values = name, []
    ...     def write(self, values, timestamps):
    ...         self.values += values
    ...     def prepare_commit(self):
    ...         with open(f"{self.name}.draft", "w") as file:
    ...             json.dump(self.values, file)
    ...         return [self.name]
    >>> class Publisher(Committer):
    ...     def commit(self, permit, committables):
    ...         for name in committables:
    ...             if not os.path.exists(name):
    ...                 os.rename(f"{name}.draft", name)
    >>> class FolderSink(Sink[dict]):
    ...     def __init__(self, folder):
    ...         self.folder = folder
    ...     def create_writer(self, context):
    ...         return Draft(f"{self.folder}/{context.subtask}-{context.epoch}-{context.attempt_id}")
    ...     def create_committer(self):
    ...         return Publisher()
    >>> sink = FolderSink(tempfile.mkdtemp())
    >>> writer = sink.create_writer(WriterContext(0, 1, 7, "first", "job", "operator", now_ms=0))
    >>> writer.write([{"id": 1}], None)
    >>> committables = writer.prepare_commit()
    >>> from flott.testing.sinks import commit_permit
    >>> sink.create_committer().commit(commit_permit(7, now_ms=0), committables)
    >>> os.listdir(sink.folder)
    ['0-7-first']
    """

    get_java_function = no_java_object("get_java_function")

    #: Whether its writers take rows in columns (``write_columns``), with row kinds. Sinks of tables do.
    takes_columns: ClassVar[bool] = False

    #: Whether the sink has the parallelism of the operator that it reads, where the program does not say: then records
    #: are not distributed again, and keep their order.
    follows_input: ClassVar[bool] = False

    @property
    def waits_for_commits(self) -> bool:
        """Return whether a writer must not write while what the one before it prepared is not committed yet.

        In a pipelined job the next writer begins behind the barrier, before the commit. Say True if it could wait for
        locks of what is prepared: its task then does nothing between barrier and commit.
        """
        return False

    @property
    def guarantee(self) -> Guarantee | None:
        """Return what the sink promises. None: its output does not outlive the job, so nothing can be promised."""
        return Guarantee.AT_LEAST_ONCE

    def validate(self) -> None:
        """Raise :class:`~flott.errors.ProgramError` if the output cannot work; called on the driver at submission."""

    def validate_records(self, record_type: TypeInformation | None) -> None:
        """Like :meth:`validate`, with what the program declares the sink's records to be; None: it does not."""

    def rehearsal(self, folder: str) -> Sink[T] | None:
        """The same sink with all it writes below this folder, for a replay. None: a replay does without its writers."""
        return None

    @abstractmethod
    def create_writer(self, context: WriterContext) -> SinkWriter[T]:
        """Return the part that stages, for a task."""

    def create_committer(self) -> Committer | None:
        """Return the part that publishes, for the driver; ``None`` if there is nothing to commit."""
        return None


class DriverSink(Sink[T]):
    """A sink whose records come back to the driver: they are delivered there, in order, after their checkpoint.

    Meant for what a person or a test looks at; an epoch's records must fit into the driver's memory.
    """

    @property
    def guarantee(self) -> Guarantee | None:
        return None

    #: Whether ``deliver`` needs something of the program's own process: a job elsewhere sends its records there.
    stays_in_program: ClassVar[bool] = False

    def rehearsal(self, folder: str) -> DriverSink[T]:
        return self  # its writers keep what they are given, and it is not delivered

    def create_writer(self, context: WriterContext) -> SinkWriter[T]:
        return _DriverWriter()

    @abstractmethod
    def deliver(self, subtask: int, values: Sequence[T]) -> None:
        """Called on the driver with the records one subtask wrote in one completed epoch."""


@dataclass
class _DriverWriter(SinkWriter[T]):
    """Keeps the records; the task's report carries them to the driver."""

    values: list[T] = field(default_factory=list)

    def write(self, values: Sequence[T], timestamps: Sequence[int] | None) -> None:
        self.values.extend(values)

"""Tests that every sink must pass, as methods of a class to inherit from."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import cloudpickle

from flott.common.typeinfo import TypeInformation
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import Guarantee, Sink
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.datastream.functions import MapFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.runtime.clock import SystemClock
from flott.testing.connectors.sink_run import PREPARED, WRITTEN, SinkRun, Staged
from flott.testing.connectors.source_conformance import STEPS, as_keywords
from flott.testing.harness import Crash, Faults, UnreliableStorage, in_process, live
from flott.testing.sinks import commit_permit

#: How often a job of ``test_a_pipelined_job_whose_checkpoints_fail_writes_every_record`` cannot save its state.
FAILED_WRITES = 20


class SinkConformance(ABC):
    """The promises of a sink. Inherit from it in a test module, under a name that begins with ``Test``.

    What is checked depends on the guarantee that the sink declares. Exactly once: nothing is visible before its commit,
    and everything once after it. Idempotent: everything once in the end. At least once: everything, nothing else.
    """

    #: How many random runs with failures there are.
    seeds: ClassVar[int] = 5
    #: How many records an epoch of a test has.
    records: ClassVar[int] = 12
    #: The type that the program declares its records to be, if the sink needs one.
    record_type: ClassVar[TypeInformation | None] = None
    #: Passwords and the like that must not appear in a text.
    secrets: ClassVar[tuple[str, ...]] = ()
    #: Options of the jobs and processes that the tests start, such as how an object store is reached.
    job_options: Mapping[str, str] = {}

    @abstractmethod
    def sink(self) -> Sink[Any]:
        """Return a sink into a new, empty place."""

    @abstractmethod
    def visible(self) -> Sequence[Any]:
        """Return the records that a reader of the last :meth:`sink`'s place sees at this moment, in any order."""

    def record(self, number: int) -> Any:
        """Return the record with a number. Different numbers have different records, and different keys if there are
        any."""
        return f"record {number}"

    # --- the tests ---------------------------------------------------------------------------------------------------

    def test_committed_epochs_are_visible(self) -> None:
        """Writes epochs with several subtasks, one of them empty."""
        run = self._begin()
        for epoch in range(1, 4):
            run.commit(run.stage(epoch, self._values(epoch), parallelism=epoch), final=epoch == 3)
        run.commit(run.stage(4, [], parallelism=2))
        self._check(1, 2, 3)
        run.close()

    def test_nothing_is_visible_before_its_commit(self) -> None:
        """Looks at the output between staging and committing."""
        run = self._begin()
        run.commit(run.stage(1, self._values(1)))
        staged = run.stage(2, self._values(2), parallelism=2)
        if run.sink.guarantee is Guarantee.EXACTLY_ONCE:
            self._check(1)
        run.commit(staged)
        self._check(1, 2)
        run.close()

    def test_a_writer_that_never_prepared_leaves_nothing(self) -> None:
        """Closes a writer in the middle of an epoch, and repeats the epoch."""
        run = self._begin()
        writer = run.writer(1, "failed")
        writer.write(self._values(1)[:5], None)
        writer.close()
        run.restart(None)
        if run.sink.guarantee is Guarantee.EXACTLY_ONCE:
            self._check()
        run.commit(run.stage(1, self._values(1)))
        self._check(1)
        run.close()

    def test_a_commit_can_be_repeated(self) -> None:
        """Commits a checkpoint again, by the same committer, by that of a new process, and after a crash half way."""
        run = self._begin()
        first = run.stage(1, self._values(1), parallelism=3)
        run.commit(first)
        run.commit(first, replay=True)
        run.restart(first)
        self._check(1)
        second = run.stage(2, self._values(2), parallelism=3)
        run.commit(Staged(2, second.attempt, second.committables[:1]))
        run.restart(second)
        self._check(1, 2)
        run.close()

    def test_two_processes_commit_the_same_checkpoint_at_once(self) -> None:
        """Lets a deposed leader and its successor commit at the same time."""
        run = self._begin()
        staged = run.stage(1, self._values(1), parallelism=3)
        committers = [committer for committer in (run.new_committer(), run.new_committer()) if committer is not None]
        permit = commit_permit(1, run.now_ms, replay=True)
        with ThreadPoolExecutor(2) as threads:
            tries = [threads.submit(committer.commit, permit, staged.committables) for committer in committers]
        for attempt in tries:
            with suppress(Exception):  # the job tries again
                attempt.result()
        run.restart(staged)
        for committer in committers:
            committer.close()
        self._check(1)
        run.close()

    def test_a_failed_attempt_is_removed(self) -> None:
        """Prepares an epoch twice: the first attempt was lost on its way to the checkpoint."""
        run = self._begin()
        first = run.stage(1, self._values(1), parallelism=2)
        run.commit(first)
        run.stage(2, self._values(2), parallelism=2)
        run.restart(first)
        run.commit(run.stage(2, self._values(2), parallelism=1))
        self._check(1, 2)
        run.close()

    def test_a_zombie_writer_changes_nothing(self) -> None:
        """Lets a writer go on after another attempt at its epoch was committed."""
        run = self._begin()
        zombie = run.writer(1, "zombie")
        zombie.write(self._values(1)[:4], None)
        staged = run.stage(1, self._values(1))
        run.commit(staged)
        with suppress(Exception):  # it may be refused
            zombie.write(self._values(1)[4:], None)
            zombie.prepare_commit()
        with suppress(Exception):
            zombie.close()
        run.restart(staged)
        self._check(1)
        run.commit(run.stage(2, self._values(2)))
        self._check(1, 2)
        run.close()

    def test_a_writing_process_may_be_killed(self) -> None:
        """Kills processes by SIGKILL: after writing, and after preparing, which is then committed by another."""
        run = self._begin()
        run.stage_and_die(1, self._values(1), WRITTEN, "killed-1")
        run.restart(None)
        first = run.stage_and_die(1, self._values(1), PREPARED, "killed-2")
        run.commit(first)
        self._check(1)
        run.restart(first)
        self._check(1)
        run.close()

    def test_random_failures_lose_and_repeat_nothing(self) -> None:
        """Runs epochs with random parallelism, failed attempts, crashes before and after commits."""
        for seed in range(self.seeds):
            rng, run, last = Random(seed), self._begin(), None
            for epoch in range(1, 7):
                while rng.random() < 0.4:
                    self._fail(run, rng, epoch)
                    if rng.random() < 0.5:
                        run.restart(last)
                staged = run.stage(epoch, self._values(epoch), rng.randint(1, 3))
                if rng.random() < 0.3:
                    run.restart(staged)  # the process died between the checkpoint and its commit
                else:
                    run.commit(staged)
                last = staged
                if rng.random() < 0.3:
                    run.restart(last)
            self._check(*range(1, 7))
            run.close()

    def test_a_job_that_crashes_at_any_step_writes_every_record(self, tmp_path: Path) -> None:
        """Runs a whole job in this process, which dies at each step of the protocol in turn."""
        self._die_at_each_step(tmp_path / "job", "epochs")

    def test_a_pipelined_job_that_crashes_at_any_step_writes_every_record(self, tmp_path: Path) -> None:
        """Does the same with tasks that run continuously: a writer begins before the former output is committed."""
        self._die_at_each_step(tmp_path / "job", "pipelined")

    def test_a_pipelined_job_whose_checkpoints_fail_writes_every_record(self, tmp_path: Path) -> None:
        """Fails to save state now and then: the output of such a checkpoint is committed with the next one."""
        faults, calls = Faults(), count(1)

        def fails(verb: str, name: str) -> bool:
            # In the end nothing fails: a job whose attempts all make so many calls would never come to its end.
            is_turn = next(calls) % 5 == 2 and faults.refused < FAILED_WRITES
            return is_turn and verb == "write" and "state/" in name

        faults.fails = fails
        self._die_at_each_step(tmp_path / "job", "pipelined", faults)

    def test_a_sink_can_be_pickled_and_shows_no_secret(self) -> None:
        """Sends the sink to a task and prints it."""
        sink = self.sink()
        cloudpickle.loads(cloudpickle.dumps(sink))
        assert isinstance(sink.guarantee, Guarantee), "a sink declares its guarantee"
        sink.validate()
        for text in (repr(sink), str(sink), repr(sink.create_committer())):
            assert not [secret for secret in self.secrets if secret in text], "the text of a sink shows a secret"

    # --- how they run ------------------------------------------------------------------------------------------------

    def _begin(self) -> SinkRun:
        self._guarantee_now = (sink := self.sink()).guarantee
        run = SinkRun(sink, self.record_type, options=self.job_options)
        run.restart(None)
        return run

    def _values(self, epoch: int) -> list[Any]:
        return [self.record(epoch * 1000 + index) for index in range(self.records)]

    def _fail(self, run: SinkRun, rng: Random, epoch: int) -> None:
        attempt = f"failed-{rng.randint(0, 10**9)}"
        writer = run.writer(epoch, attempt)
        writer.write(self._values(epoch)[: rng.randint(1, self.records)], None)
        if rng.random() < 0.5:
            writer.prepare_commit()
        writer.close()

    def _check(self, *epochs: int) -> None:
        self._compare(self._guarantee_now, [value for epoch in epochs for value in self._values(epoch)])

    def _compare(self, guarantee: Guarantee | None, expected: Sequence[Any]) -> None:
        found, wanted = Counter(map(_text, self.visible())), Counter(map(_text, expected))
        if guarantee in (Guarantee.EXACTLY_ONCE, Guarantee.IDEMPOTENT):
            assert found == wanted, f"lost: {wanted - found}, too many: {found - wanted}"
        elif guarantee is Guarantee.AT_LEAST_ONCE:
            assert set(found) == set(wanted), f"lost: {set(wanted) - set(found)}, invented: {set(found) - set(wanted)}"
        else:
            assert set(found) <= set(wanted), f"invented: {set(found) - set(wanted)}"

    def _die_at_each_step(self, folder: Path, mode: str, faults: Faults | None = None) -> None:
        sink = self.sink()
        for step in (*STEPS, None):
            self._live(sink, folder, step, mode, faults or Faults())
        guarantee = sink.guarantee
        if mode == "pipelined" and guarantee is Guarantee.IDEMPOTENT:
            guarantee = Guarantee.AT_LEAST_ONCE  # records without keys: the same may get other names in another attempt
        self._compare(guarantee, [self.record(number) for number in range(48)])

    def _live(self, sink: Sink[Any], folder: Path, crash_at: str | None, mode: str, faults: Faults) -> None:
        options = {
            "execution__mode": mode,
            "execution__checkpointing__interval": "1 ms",
            "execution__checkpointing__tolerable_failed_checkpoints": "1000",
            "flott__epoch__max_records": "4",
        }
        env = in_process(2, **options, **as_keywords(self.job_options))
        numbers = env.from_source(NumberSequenceSource(0, 47), WatermarkStrategy.no_watermarks(), "numbers")
        numbers = numbers.key_by(lambda number: number % 5).map(_Counting())
        values = [self.record(number) for number in range(48)]
        records = numbers.map(lambda number: values[number], output_type=self.record_type)
        records.sink_to(sink).uid("sink")
        deadline = time.monotonic() + 300

        def on_step(step: str, epoch: int) -> None:
            assert time.monotonic() < deadline, "the job did not finish in time"
            if step == crash_at:
                raise Crash

        storage = UnreliableStorage(str(folder), sync=False, faults=faults)
        job = live(env, folder, on_step=on_step, clock=SystemClock(), storage=storage)
        assert job.failure is None, job.failure


class _Counting(MapFunction[int, int]):
    """Counts what passes for each key, so that there is state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def map(self, value: int) -> int:
        self.count.update((self.count.value() or 0) + 1)
        return value


def _text(value: Any) -> str:
    return repr(value)

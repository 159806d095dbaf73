"""Tests that every source must pass, as methods of a class to inherit from."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, ClassVar
from uuid import uuid4

import cloudpickle

from flott.common.configuration import Configuration
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import Boundedness, Guarantee, OnError, SliceRequest, Source
from flott.errors import BadRecordError
from flott.runtime.clock import SystemClock
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.storage import initialize_object_stores
from flott.testing.connectors.source_run import (
    SourceRun,
    enumerator_of,
    read_slice,
    restored_plan,
    run_source,
    through_json,
)
from flott.testing.harness import Crash, in_process, live
from flott.testing.sinks import Ledger, LedgerSink

#: The steps of an epoch's protocol at which a job is made to crash.
STEPS = ("planned", "ran", "acknowledged", "completed", "committed")


class SourceConformance(ABC):
    """The promises of a source. Inherit from it in a test module, under a name that begins with ``Test``."""

    #: How many records a test reads. More find more; fewer are faster where the system is slow.
    records: ClassVar[int] = 40
    #: How many random runs with failures there are.
    seeds: ClassVar[int] = 5
    #: Whether the records of one split come in the order of their numbers.
    ordered: ClassVar[bool] = True
    #: How long a source may take until it finds what :meth:`source` has put there.
    patience_seconds: ClassVar[float] = 60.0
    #: Passwords and the like that must not appear in a text.
    secrets: ClassVar[tuple[str, ...]] = ()
    #: Options of the jobs and processes that the tests start, such as how an object store is reached.
    job_options: Mapping[str, str] = {}

    @abstractmethod
    def source(self, count: int) -> Source[Any]:
        """Put the records 0 … count - 1 into a new place, and return a source that reads them and nothing else."""

    def number(self, record: Any) -> int:
        """Return the number of a record that the source gave."""
        return int(record)

    def bad_source(self, count: int, bad: frozenset[int], on_error: OnError) -> Source[Any] | None:
        """Return a :meth:`source` whose records with these numbers cannot be decoded. None: it does not decode."""
        return None

    # --- the tests ---------------------------------------------------------------------------------------------------

    def test_every_record_is_read_once(self) -> None:
        """Reads everything without any failure."""
        self._check(self._run(self.source(self.records), Random(1), troubled=False))

    def test_failures_between_any_two_calls_lose_and_repeat_nothing(self) -> None:
        """Lets epochs fail, plans outlive their enumerator, splits pause and the parallelism change."""
        for seed in range(self.seeds):
            self._check(self._run(self.source(self.records), Random(seed), troubled=True))

    def test_a_source_continues_at_every_position(self) -> None:
        """Restores a new enumerator after every epoch, from what a checkpoint keeps."""
        source, found, state = self.source(self.records), SourceRun(), None
        deadline = time.monotonic() + self.patience_seconds
        while len(found.records) < self.records:
            enumerator = enumerator_of(source, state)
            plan = restored_plan(enumerator.plan(SliceRequest(3, 2, SystemClock().now_ms())))
            reached = {}
            for part in plan.slices:
                values, _, reached[part.split] = read_slice(source, part)
                found.by_split.setdefault(part.split, []).extend(values)
            enumerator.advance(plan, reached)
            state = through_json(enumerator.snapshot())
            enumerator.close()
            if plan.finished:
                break
            if not plan.slices:
                self._wait(deadline)
        self._check(found)

    def test_a_slice_is_the_same_in_another_process(self) -> None:
        """Reads slices again in a process that has only the pickled source."""
        source = self.source(self.records)
        enumerator = enumerator_of(source, None)
        deadline = time.monotonic() + self.patience_seconds
        while not (plan := enumerator.plan(SliceRequest(self.records, 2, SystemClock().now_ms()))).slices:
            self._wait(deadline)
        here = [read_slice(source, part)[0] for part in plan.slices]
        pickled = cloudpickle.dumps((source, restored_plan(plan).slices, dict(self.job_options)))
        with ProcessPoolExecutor(1, get_context("spawn")) as other:
            assert other.submit(_read_elsewhere, pickled).result(180) == here
        enumerator.close()

    def test_acknowledging_twice_and_closing_twice_do_no_harm(self) -> None:
        """Repeats what a restart repeats."""
        source = self.source(self.records)
        enumerator = enumerator_of(source, None)
        enumerator.acknowledge()
        enumerator.acknowledge()
        enumerator.close()
        enumerator.close()
        self._check(self._run(source, Random(1), troubled=False))

    def test_a_job_that_crashes_at_any_step_gives_every_record_once(self, tmp_path: Path) -> None:
        """Runs a whole job in this process, which dies at each step of the protocol in turn."""
        self._die_at_each_step(tmp_path, "epochs")

    def test_a_pipelined_job_that_crashes_at_any_step_gives_every_record_once(self, tmp_path: Path) -> None:
        """Does the same with tasks that run continuously."""
        self._die_at_each_step(tmp_path, "pipelined")

    def test_a_source_can_be_pickled_and_shows_no_secret(self) -> None:
        """Sends the source to a task and prints it."""
        source = self.source(1)
        cloudpickle.loads(cloudpickle.dumps(source))
        assert isinstance(source.guarantee, Guarantee)
        for text in (repr(source), str(source), repr(source.create_enumerator()), repr(source.create_reader())):
            assert not [secret for secret in self.secrets if secret in text], "the text of a source shows a secret"

    def test_bad_records_are_left_out_and_reported(self) -> None:
        """Skips records that cannot be decoded, says where they are, and fails if it is to fail."""
        bad = frozenset({3, self.records - 1})
        source = self.bad_source(self.records, bad, OnError.skip())
        if source is None:
            return  # it hands on what it is given
        run = self._run(source, Random(1), troubled=True)
        assert sorted(map(self.number, run.records)) == sorted(set(range(self.records)) - bad)
        assert len(run.rejected) == len(bad)
        assert len({rejected.place for rejected in run.rejected}) == len(bad), "places must tell bad records apart"
        failing = self.bad_source(self.records, bad, OnError.fail())
        assert failing is not None
        assert self._fails(failing), "a source that is to fail on a bad record did not raise BadRecordError"

    # --- how they run ------------------------------------------------------------------------------------------------

    def _run(self, source: Source[Any], rng: Random, *, troubled: bool) -> SourceRun:
        deadline = time.monotonic() + self.patience_seconds
        bounded = source.boundedness is Boundedness.BOUNDED
        quiet = 0

        def until(run: SourceRun) -> bool:
            # An unbounded source that has given everything is asked a few times more: it must give nothing else.
            nonlocal quiet
            quiet += not bounded and len(run.records) + len(run.rejected) >= self.records
            return quiet > 3

        run = run_source(
            source, rng, budgets=(1, max(2, self.records // 4)), troubled=troubled,
            until=until, idle=lambda: self._wait(deadline),
        )  # fmt: skip
        return run

    def _fails(self, source: Source[Any]) -> bool:
        try:
            self._run(source, Random(1), troubled=False)
        except BadRecordError as error:
            return bool(error.place)
        return False

    def _wait(self, deadline: float) -> None:
        assert time.monotonic() < deadline, f"nothing to read within {self.patience_seconds} seconds"
        time.sleep(0.02)

    def _check(self, run: SourceRun) -> None:
        numbers = [self.number(record) for record in run.records]
        assert Counter(numbers) == Counter(range(self.records))
        if self.ordered:
            for split, records in run.by_split.items():
                own = [self.number(record) for record in records]
                assert own == sorted(own), f"split {split} is out of order"

    def _die_at_each_step(self, folder: Path, mode: str) -> None:
        source = self.source(self.records)
        ledger = Ledger(f"source-{uuid4().hex}")
        for step in (*STEPS, None):
            self._live(source, ledger, folder / "job", step, mode)
        assert Counter(map(self.number, ledger.records)) == Counter(range(self.records))

    def _live(self, source: Source[Any], ledger: Ledger, folder: Path, crash_at: str | None, mode: str) -> None:
        options = {
            "execution__mode": mode,
            "execution__checkpointing__interval": "20 ms",
            "flott__epoch__max_records": str(max(1, self.records // 8)),
        }
        env = in_process(2, **options, **as_keywords(self.job_options))
        env.from_source(source, WatermarkStrategy.no_watermarks(), "source").sink_to(LedgerSink(ledger)).uid("ledger")
        ended = Event()

        def on_step(step: str, epoch: int) -> None:
            if step == crash_at:
                raise Crash

        def cancel_at_the_end(master: JobMaster) -> None:
            # An unbounded source is asked for a while after it has given everything: it must give nothing else.
            deadline = time.monotonic() + self.patience_seconds
            while time.monotonic() < deadline and len(ledger.records) < self.records:
                if ended.wait(0.02):
                    return
            ended.wait(0.3)
            master.cancel()

        def start(master: JobMaster) -> None:
            Thread(target=cancel_at_the_end, args=(master,), daemon=True).start()

        try:
            job = live(env, folder, on_step=on_step, on_start=start, clock=SystemClock())
        finally:
            ended.set()
        assert job.failure is None, job.failure


def as_keywords(options: Mapping[str, str]) -> dict[str, str]:
    """Return options as keyword arguments of ``in_process``.

    >>> as_keywords({"s3.path-style-access": "true"})
    {'s3__path_style_access': 'true'}
    """
    return {key.replace(".", "__").replace("-", "_"): value for key, value in options.items()}


def _read_elsewhere(pickled: bytes) -> list[list[Any]]:
    source, slices, options = cloudpickle.loads(pickled)
    initialize_object_stores(Configuration.of(options))
    return [read_slice(source, part)[0] for part in slices]


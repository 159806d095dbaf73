"""``flott replay``: run a retained epoch of a job again in this process, to inspect it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from flott.cli.command import command
from flott.cli.commands.state import directory_of, literal, plain
from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.jobs import JOB_OR_PATH, job_id
from flott.cli.terminal import table
from flott.client.exit_codes import ExitCode
from flott.common._ids import EpochId
from flott.errors import FlottError, ProgramError, StateError, UnreachableError

if TYPE_CHECKING:
    from flott.common.configuration import Configuration
    from flott.graph.operator_ids import OperatorId
    from flott.graph.stream_graph import StreamGraph
    from flott.runtime.replay.debugger import RecordDebugger
    from flott.runtime.replay.observation import SeenRecord, Watch
    from flott.runtime.replay.recorded_epoch import RecordedEpoch
    from flott.runtime.replay.replay import Replayed

#: The default number of records of an operator that are shown.
_LIMIT = 20


@command("replay")
@click.argument("job", type=JOB_OR_PATH, metavar="JOB|DIRECTORY")
@click.option("-e", "--epoch", metavar="N", help="Which epoch: a number, latest (that completed) or failed. Without it:"
              " list the epochs.")  # fmt: skip
@click.option("--operator", metavar="UID", help="Show input and output of this operator, by its uid, id or name.")
@click.option("--key", metavar="K", help="Only records of this key: a Python literal, or else a text.")
@click.option("--pdb", "use_pdb", is_flag=True,
              help="Stop in the operator's function at its first record (of the key), and where it fails.")  # fmt: skip
@click.option("-n", "--limit", type=click.IntRange(0), default=_LIMIT, show_default=True,
              help="The number of records of an operator to show; 0: all.")  # fmt: skip
@click.option("--program", "program", metavar="FILE", help="Take the graph from this program, not from the job.")
@click.option("--argument", "arguments", multiple=True, metavar="TEXT", help="An argument of the program; repeatable.")
@click.option("--run-writers", is_flag=True,
              help="Run the writers of all sinks. Nothing is committed, but staged output may remain.")  # fmt: skip
@pass_invocation
def replay(
    invocation: Invocation, job: str, epoch: str | None, operator: str | None, key: str | None, use_pdb: bool,
    limit: int, program: str | None, arguments: Sequence[str], run_writers: bool,
) -> int:  # fmt: skip
    """Run a retained epoch of JOB again, in this process, with the recorded input, state, clock and seed.

    The job is not modified and nothing is committed; the job may be running. The result is compared with the recorded
    one. An epoch that made the job fail can be replayed to find the cause; --pdb stops there.

    DIRECTORY is the folder of a job below execution.checkpointing.dir, with --program for its graph.
    """
    from flott.runtime.replay.recorded_epoch import held, replayable

    directory = directory_of_job(invocation, job)
    if epoch is None:
        return _list(invocation, directory, replayable(directory))
    # The program is loaded first, because a running job keeps its epochs only for a while.
    graph, configuration = graph_of_job(invocation, Path(directory).name, program, arguments)
    with held(_chosen(directory, epoch)) as recorded:
        return _Session(invocation, recorded, graph, configuration, run_writers).run(operator, key, use_pdb, limit)


def _chosen(directory: str, epoch: str) -> RecordedEpoch:
    from flott.runtime.replay.recorded_epoch import read_epoch, replayable

    if epoch.isdecimal():
        return read_epoch(directory, EpochId(int(epoch)))
    if epoch not in ("latest", "failed"):
        raise click.BadParameter(f"found {epoch!r}, expected a number, latest or failed", param_hint="--epoch")
    for number in reversed(replayable(directory)):
        recorded = read_epoch(directory, number)
        if (recorded.after is None) == (epoch == "failed"):
            return recorded
    what = "that is not complete" if epoch == "failed" else "that is complete"
    raise StateError(f"No epoch {what} can be replayed of {directory}: `flott replay JOB` lists those that can.")


def _list(invocation: Invocation, directory: str, epochs: Sequence[EpochId]) -> int:
    from flott.runtime.replay.recorded_epoch import read_epoch

    rows = []
    for number in epochs:
        try:
            found = read_epoch(directory, number)
        except StateError:
            continue  # the running job has deleted it meanwhile
        records = [part.records for plan in found.input.slices.values() for part in plan.slices]
        known = sum(filter(None, records)) if all(count is not None for count in records) else None
        rows.append((number, "complete" if found.after is not None else "not complete", known))
    invocation.terminal.show(
        {
            "directory": directory,
            "epochs": [{"epoch": e, "complete": s == "complete", "records": r} for e, s, r in rows],
        },
        table(("epoch", "", "records"), rows, {"epoch", "records"}) if rows else "No epoch can be replayed.",
    )
    return ExitCode.OK


class _Session:
    """One use of the command."""

    def __init__(
        self,
        invocation: Invocation,
        recorded: RecordedEpoch,
        graph: StreamGraph,
        configuration: Configuration,
        run_writers: bool,
    ):
        self._terminal = invocation.terminal
        self._recorded = recorded
        self._graph = graph
        self._configuration = configuration
        self._run_writers = run_writers

    def run(self, operator: str | None, key: str | None, use_pdb: bool, limit: int) -> int:
        from flott.runtime.replay.debugger import RecordDebugger
        from flott.runtime.replay.replay import replayed

        watch = self._watch(operator, key)
        debugger = RecordDebugger(watch.key) if use_pdb else None
        stops = debugger is not None and (operator is not None or key is not None)
        recorded, graph, configuration = self._recorded, self._graph, self._configuration
        with ExitStack() as stack:
            with redirect_stdout(sys.stderr) if self._terminal.json else nullcontext():
                once = stack.enter_context(
                    replayed(
                        recorded,
                        graph,
                        configuration,
                        watch=watch,
                        run_writers=self._run_writers,
                        approach=debugger.approach if debugger is not None and stops else None,
                    )
                )
            if debugger is not None and debugger.was_left:
                self._terminal.note("The replay was left.")
                return ExitCode.OK
            again = None
            if not use_pdb and once.card is None:
                # Output of functions has been printed already.
                with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
                    again = stack.enter_context(
                        replayed(recorded, graph, configuration, watch=watch, run_writers=self._run_writers)
                    )
            return self._report(once, again, watch, operator is not None or key is not None, limit, debugger)

    def _watch(self, operator: str | None, key: str | None) -> Watch:
        from flott.graph.operator_ids import operator_ids
        from flott.graph.specs import SinkSpec
        from flott.runtime.jobmaster.rescaling import find_operator
        from flott.runtime.replay.observation import ANY_KEY, Watch

        ids = operator_ids(self._graph)
        if operator is not None:
            node = find_operator(self._graph, operator)
            if key is not None and not node.is_keyed:
                raise ProgramError(
                    f"Operator {operator!r} ({node.source_line}) is not keyed: it has no keys to look for."
                )
            chosen = [node]
        elif key is not None:
            chosen = [node for node in self._graph.nodes if node.is_keyed]
            if not chosen:
                raise ProgramError("No operator of the program is keyed: there are no keys to look for.")
        else:
            chosen = [node for node in self._graph.nodes if isinstance(node.spec, SinkSpec)]
        return Watch(frozenset(ids[node.id] for node in chosen), ANY_KEY if key is None else literal(key))

    # --- output ------------------------------------------------------------------------------------------------------

    def _report(
        self, once: Replayed, again: Replayed | None, watch: Watch, asked: bool, limit: int,
        debugger: RecordDebugger | None,
    ) -> int:  # fmt: skip
        from flott.runtime.replay.comparison import differences, two_replays

        found = [*differences(self._recorded, once), *(two_replays(once, again) if again is not None else ())]
        operators = [_Shown(once, ident, asked, limit) for ident in once.graph.operators if ident in watch.operators]
        if self._terminal.json:
            self._terminal.document({
                "job": self._recorded.job_id, "epoch": self._recorded.epoch,
                "complete": self._recorded.after is not None,
                "failure": None if once.card is None else str(once.card),
                "identical": once.card is None and self._recorded.after is not None and not found,
                "differences": [str(difference) for difference in found],
                "operators": [shown.document() for shown in operators],
            })  # fmt: skip
        else:
            for shown in operators:
                for line in shown.lines():
                    self._terminal.line(line)
            for line in self._verdict(once, again, [str(difference) for difference in found]):
                self._terminal.line(line)
        if debugger is not None and once.failure is not None:
            debugger.post_mortem(once.failure)
        return ExitCode.FAILED if found or (once.card is not None and self._recorded.after is not None) else ExitCode.OK

    def _verdict(self, once: Replayed, again: Replayed | None, found: Sequence[str]) -> Iterator[str]:
        epoch, was_complete = self._recorded.epoch, self._recorded.after is not None
        if once.card is not None:
            yield f"Epoch {epoch} fails{', though it completed when it was recorded' if was_complete else ''}:"
            yield ""
            yield str(once.card)
            return
        muted = [once.graph.operators[ident].node.name for ident, runs in once.writing.items() if not runs]
        if muted:
            self._terminal.note(
                f"Not run: the writers of {', '.join(muted)}, which would write outside of the replay (--run-writers)."
            )
        if found:
            yield f"Epoch {epoch} is different:"
            yield from (f"  {line}" for line in found)
            self._terminal.note(
                "An epoch is repeatable if functions keep what they know in state, not in fields of their own, and take"
                " the time and random numbers from their context; and if the input and the program are what they were."
            )
        elif was_complete:
            twice = ", and two replays the same bytes" if again is not None else ""
            yield (
                f"Epoch {epoch} is identical: source positions, watermarks, state and accumulators are as"
                f" recorded{twice}."
            )
        else:
            yield f"Epoch {epoch} is not complete in the job's directory; here it completes."


class _Shown:
    """The input and output of an operator, to be shown."""

    def __init__(self, replay: Replayed, ident: OperatorId, both: bool, limit: int):
        from flott.runtime.replay.observation import SeenTraffic

        self._operator = replay.graph.operators[ident].node
        self._traffic = replay.traffic.get(ident) or SeenTraffic()
        self._both = both and self._operator.kind != "Data Sink"
        self._limit = limit

    def _sides(self) -> Iterator[tuple[str, list[SeenRecord]]]:
        is_source = self._operator.kind == "Data Source"
        if not is_source:
            yield "got", list(self._traffic.received.records())
        if self._both or is_source:
            yield "emitted", list(self._traffic.emitted.records())

    def lines(self) -> Iterator[str]:
        label = self._operator.uid or self._operator.name
        for verb, records in self._sides():
            yield f"{label} {verb} {len(records):,} record{'' if len(records) == 1 else 's'}"
            shown = records[: self._limit] if self._limit else records
            for record in shown:
                time = "" if record.timestamp is None else f" @ {record.timestamp}"
                port = f" [{record.port}]" if record.port not in ("", "0") else ""
                yield f"  {record.subtask + 1}/{self._operator.parallelism}{port}  {record.value!r}{time}"
            if len(shown) < len(records):
                yield f"  … and {len(records) - len(shown):,} more (--limit 0 shows all)"
        if self._traffic.unattributed:
            yield f"  … and {self._traffic.unattributed:,} that timers and windows emitted, of any key"
        yield ""

    def document(self) -> dict[str, Any]:
        return {
            "operator": self._operator.uid or self._operator.name,
            **{
                verb: [
                    {"value": plain(r.value), "timestamp": r.timestamp, "subtask": r.subtask, "port": r.port}
                    for r in (records[: self._limit] if self._limit else records)
                ]
                for verb, records in self._sides()
            },
            "count-in": self._traffic.received.count,
            "count-out": self._traffic.emitted.count,
        }


# ---------------------------------------------------------------------------------------------- the job and its program


def directory_of_job(invocation: Invocation, job: str) -> str:
    """Return the folder of a job: of the cluster, of one that a cluster keeps, or the folder itself."""
    from flott.runtime.checkpoint import paths

    if Path(job, paths.JOB).is_file():
        return str(Path(job).resolve())
    try:
        return directory_of(invocation, job_id(invocation, job))
    except UnreachableError:
        found = _directory_of_kept_job(invocation, job)
        if found is None:
            raise
        return found


def _directory_of_kept_job(invocation: Invocation, job: str) -> str | None:
    """Return the checkpoint directory of a job that a cluster of this machine stores.

    The cluster need not be running.
    """
    from flott.runtime.jobmanager.folders import ClusterFolders
    from flott.runtime.jobmanager.job_store import read_submission
    from flott.runtime.storage import local_path

    folders = ClusterFolders.of(invocation.configuration)
    kept = list(folders.jobs.glob(f"{job.lower()}*"))
    if len(kept) != 1:
        return None
    configured = read_submission(kept[0]).configuration.get("execution.checkpointing.dir")
    directory = (Path(local_path(configured)) if configured else folders.checkpoints) / kept[0].name
    return str(directory) if directory.is_dir() else None


def graph_of_job(
    invocation: Invocation, ident: str, program: str | None, arguments: Sequence[str]
) -> tuple[StreamGraph, Configuration]:
    """Return graph and configuration of a job, from its program or from what a cluster keeps."""
    if program is not None:
        return graph_of_program(invocation, [program, *arguments])
    found = graph_of_kept_job(invocation, ident)
    if found is None:
        raise StateError(
            f"The graph of job {ident} is not kept on this machine: give its program with --program."
        )
    return found


def graph_of_kept_job(invocation: Invocation, ident: str) -> tuple[StreamGraph, Configuration] | None:
    """Return graph and configuration of a job that the cluster stores, running or ended, or None."""
    from flott.common.configuration import Configuration
    from flott.runtime.job_files import place_files
    from flott.runtime.jobmanager.folders import ClusterFolders
    from flott.runtime.jobmanager.job_store import read_submission
    from flott.runtime.jobmanager.processes.graph_pickle import unpickle_graph

    folders = ClusterFolders.of(invocation.configuration)
    folder = folders.jobs / ident
    if not folder.is_dir():
        return None
    submission = read_submission(folder)
    place_files(folder / "files", submission.files)
    return unpickle_graph(submission.graph), Configuration.of(submission.configuration)


class _GraphTaker:
    """Takes the first job that a program submits, and ends the program."""

    def __init__(self) -> None:
        self.taken: tuple[StreamGraph, Configuration] | None = None

    def execute(self, graph: StreamGraph, configuration: Configuration) -> NoReturn:
        self.taken = graph, configuration
        raise SystemExit(0)

    def submit(self, graph: StreamGraph, configuration: Configuration) -> NoReturn:
        self.execute(graph, configuration)


def graph_of_program(invocation: Invocation, words: Sequence[str]) -> tuple[StreamGraph, Configuration]:
    """Run a program's main in this process up to its first job, and return the graph of that job."""
    from flott import execution
    from flott.cli.programs.environment import passed_settings
    from flott.client.program import ended_without_job, program_of, run_program

    taker = _GraphTaker()
    try:
        with ExitStack() as stack:
            stack.enter_context(execution.taken_over(taker))
            stack.enter_context(passed_settings(invocation, invocation.properties))
            stack.enter_context(redirect_stdout(sys.stderr))  # the program's output is not part of the result
            run_program(words[0], words[1:])
    except SystemExit:
        pass
    except FlottError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise ProgramError(f"{program_of(words)} failed before it ran a job: {what}") from error
    if taker.taken is None:
        raise ProgramError(ended_without_job(words))
    return taker.taken

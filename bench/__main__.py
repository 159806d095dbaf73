"""`python -m bench`: each measurement in a process of its own, one after the other; then the report."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from bench import environments, kafka, plan, report, state

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
LATEST = RESULTS / "latest.json"
QUICK = RESULTS / "quick.json"  # a smoke test is no result: it must not replace one
LOGS = RESULTS / "logs"


def main() -> int:
    if _asks_for(sys.argv[1:], "nexmark"):
        from bench.nexmark.__main__ import main as nexmark

        return nexmark([argument for argument in sys.argv[1:] if argument not in ("--only", "nexmark")])
    if _asks_for(sys.argv[1:], "cep"):
        from bench.cep.__main__ import main as cep

        return cep([argument for argument in sys.argv[1:] if argument not in ("--only", "cep")])
    if _asks_for(sys.argv[1:], "latency"):
        from bench.latency.__main__ import main as latency

        place = sys.argv.index("--only")  # the name is also that of a part of it
        return latency(sys.argv[1:place] + sys.argv[place + 2 :])
    arguments = _arguments()
    effort = plan.QUICK if arguments.quick else plan.FULL
    chosen = plan.measurements(arguments.only, arguments.runners)
    LOGS.mkdir(parents=True, exist_ok=True)
    machine = environments.facts()
    last = json.loads(LATEST.read_text())["results"] if LATEST.exists() else []
    minutes = plan.expected_seconds(chosen, last, arguments.quick) / 60
    print(f"{len(chosen)} measurements, about {minutes:.0f} minutes", flush=True)
    kept = [] if arguments.quick else _kept(chosen, last)
    document: dict = {
        "machine": machine,
        "selection": {"workloads": arguments.only, "runners": arguments.runners, "quick": arguments.quick},
    }
    settings: dict[str, str] = {}
    results: list[dict] = []
    for number, (workload, runner) in enumerate(chosen, start=1):
        print(f"[{number}/{len(chosen)}] {workload} on {runner} ...", flush=True)
        load = round(os.getloadavg()[0], 2)
        answer = _measure(workload, runner, effort, settings)
        settings = answer.pop("spark_settings", None) or settings
        date = environments.now()
        results.append({**answer, "runner": runner, "workload": workload, "load_before": load, "date": date})
        print(f"      {report.one_line(results[-1])}", flush=True)
        document["machine"]["flink"] = environments.flink_version()  # its virtualenv may be new
        document |= {"results": [*kept, *results], "ratios": report.ratios([*kept, *results])}
        target = QUICK if arguments.quick else LATEST
        target.write_text(json.dumps(document, indent=2) + "\n")  # each time: half a run is better than none
    report.show(document)
    return 0


def _asks_for(arguments: list[str], benchmark: str) -> bool:
    """Whether only a benchmark with a table of its own is to run: Nexmark, or patterns."""
    return benchmark in arguments and "--only" in arguments


def _kept(chosen: list[tuple[str, str]], last: list[dict]) -> list[dict]:
    """Results of workloads that were not chosen, from the last run: a ratio is only ever made within a workload.

    Of state, ratios are also made between the sizes: none of them is kept if one is measured again.
    """
    rerun = {workload for workload, _ in chosen}
    if rerun.intersection(state.THROUGHPUT):
        rerun.update(state.THROUGHPUT)
    return [result for result in last if result["workload"] not in rerun]


def _measure(workload: str, runner: str, effort: plan.Effort, settings: dict[str, str]) -> dict:
    """The runner's answer; a runner that cannot be started, fails or takes too long is missing, with the reason."""
    spec = plan.CATALOGUE[runner]
    try:
        python = _interpreter(spec.module)
    except environments.Unavailable as reason:
        return {"missing": str(reason)}
    command = [python, "-m", f"bench.runners.{spec.module_for(workload)}", "--workload", workload]
    command += ["--records", str(spec.records.get(workload, 0)), "--variant", spec.variant]
    command += ["--shrink", str(effort.shrink)]
    command += ["--seconds", str(effort.seconds * spec.patience), "--repeats", str(effort.repeats)]
    if runner == "native" and settings:
        command += ["--settings", json.dumps(settings)]
    log = LOGS / f"{workload}-{runner}.log"
    started = time.monotonic()
    code, output = _run(command, log)
    if code is None:
        return {"missing": f"stopped after {time.monotonic() - started:.0f} s (limit {plan.TIMEOUT_SECONDS} s)"}
    return _answer(output) or {"missing": f"exit code {code}: {_last_line(log)}"}


def _interpreter(module: str) -> str:
    if module == "pyflink":
        return environments.pyflink_python()
    if module in ("spark_tws", "spark_sql"):
        return environments.spark_tws_python()
    return sys.executable


def _run(command: list[str], log: Path) -> tuple[int | None, str]:
    """Exit code (None: out of time) and standard output. The runner's whole process group is ended afterwards."""
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    environment[kafka.PYTHON_VARIABLE] = sys.executable
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        try:
            output, _ = process.communicate(timeout=plan.TIMEOUT_SECONDS)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            _end_group(process)


def _end_group(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _answer(output: str) -> dict | None:
    """The last line of JSON; engines print their own lines before it."""
    for line in reversed(output.splitlines()):
        if line.startswith('{"runner"'):
            return json.loads(line)
    return None


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:160] if lines else "no output"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", type=_workloads, default=list(plan.WORKLOADS), metavar="W,W")
    parser.add_argument("--runners", type=_names(plan.RUNNERS), default=list(plan.RUNNERS), metavar="R,R")
    parser.add_argument(
        "--quick", action="store_true", help="short measurements, one repeat: a smoke test, not a result"
    )
    return parser.parse_args()


def _workloads(text: str) -> list[str]:
    return plan.named(_names((*plan.WORKLOADS, *plan.FAMILIES))(text))


def _names(known: tuple[str, ...]):
    def parse(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; choose from {', '.join(known)}")
        return names

    return parse


if __name__ == "__main__":
    sys.exit(main())

"""Why Spark failed, in one sentence, taken from its traces and logs. Pure: it imports nothing from Spark."""

from __future__ import annotations

import re
from pathlib import Path


def described(error: Exception, log_file: Path) -> str:
    """Return the reason of a failed call to Spark, and where Spark's log is."""
    return f"{reason_in(str(error))} (Spark's log: {log_file})"


def reason_in(trace: str) -> str:
    """Return the reason in a trace of Spark, in one line. A worker that did not start has written the reason itself."""
    worker = re.search(r"Error from python worker:\n(.*?)\nPYTHONPATH was:", trace, re.DOTALL)
    if worker is not None and (output := worker[1].strip()):
        return f"a Python worker could not be started: {output.splitlines()[-1].strip()[:400]}"
    reasons = re.findall(r"(?:SparkException|Exception|Error): ([^\n]+)", trace)
    return next((text.strip()[:400] for text in reversed(reasons) if text.strip()), "Spark gave no reason")

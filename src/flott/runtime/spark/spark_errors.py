"""Why Spark failed, in one sentence, taken from its traces and logs. Pure: it imports nothing from Spark."""

from __future__ import annotations

import os
import re
from pathlib import Path


def described(error: Exception, log_file: Path) -> str:
    """Return the reason of a failed call to Spark, and where Spark's log is."""
    if isinstance(error, OSError):
        return f"Spark's JVM does not answer any more: {error} (Spark's log: {log_file})"
    return f"{reason_in(str(error))} (Spark's log: {log_file})"


def reason_in(trace: str) -> str:
    """Return the reason in a trace of Spark, in one line. A worker that did not start has written the reason itself."""
    worker = re.search(r"Error from python worker:\n(.*?)\nPYTHONPATH was:", trace, re.DOTALL)
    if worker is not None and (output := worker[1].strip()):
        return f"a Python worker could not be started: {output.splitlines()[-1].strip()[:400]}"
    reasons = re.findall(r"(?:SparkException|Exception|Error): ([^\n]+)", trace)
    return next((text.strip()[:400] for text in reversed(reasons) if text.strip()), "Spark gave no reason")


# --- why Spark did not start -----------------------------------------------------------------------------------------

#: How many lines of a log are shown if it names no reason.
_TAIL = 3


def why_not_started(error: str, log: str, log_file: Path, master: str) -> str:
    """Return the message for the user."""
    reason = said_in(log) or " / ".join(log.strip().splitlines()[-_TAIL:]) or error
    if re.search(r"JAVA_HOME|java: (not found|No such file)", reason) or "No such file" in error:
        return (
            "Spark needs Java 17 or 21, and none was found. Install a JDK or JRE (Debian: openjdk-17-jre-headless) or"
            f" set JAVA_HOME. (JAVA_HOME is {os.environ.get('JAVA_HOME', 'not set')}.)"
        )
    return f"Spark could not be started with the master {master}: {reason.strip(' .')}. Its log is {log_file}."


def said_in(log: str) -> str | None:
    """Return the reason that a log names: why an application was killed, or the first cause of the last trace."""
    if killed := re.findall(r"Application has been killed\. Reason: (.+)", log):
        return str(killed[-1])
    return _last_trace(log.splitlines())


def _last_trace(lines: list[str]) -> str | None:
    """Return the message of the last trace's first line, or of the first of its causes."""
    message, has_cause = None, False
    for line in lines:
        if cause := re.match(r"Caused by: [\w.$]+: (.+)", line):
            message, has_cause = message if has_cause else cause[1], True
        elif head := re.match(r'(?:Exception in thread "main" )?[\w.$]+(?:Exception|Error)[\w.$]*: (.+)', line):
            message, has_cause = head[1], False
    return message

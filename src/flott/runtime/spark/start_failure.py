"""Why Spark did not start, in a sentence, out of what it wrote to its log. Pure: it imports nothing of Spark's."""

from __future__ import annotations

import os
import re
from pathlib import Path

#: So many lines of a log are shown that says nothing in particular.
_TAIL = 3


def why_not_started(error: str, log: str, log_file: Path, master: str) -> str:
    """The message for the user."""
    reason = said_in(log) or " / ".join(log.strip().splitlines()[-_TAIL:]) or error
    if re.search(r"JAVA_HOME|java: (not found|No such file)", reason) or "No such file" in error:
        return (
            "Spark needs Java 17 or 21, and none was found. Install a JDK or JRE (Debian: openjdk-17-jre-headless) or"
            f" set JAVA_HOME. (JAVA_HOME is {os.environ.get('JAVA_HOME', 'not set')}.)"
        )
    return f"Spark could not be started with the master {master}: {reason.strip(' .')}. Its log is {log_file}."


def said_in(log: str) -> str | None:
    """The reason that a log gives: why an application was killed, or the outermost cause of the last trace."""
    if killed := re.findall(r"Application has been killed\. Reason: (.+)", log):
        return str(killed[-1])
    return _last_trace(log.splitlines())


def _last_trace(lines: list[str]) -> str | None:
    """What its first line says, or the first of its causes."""
    message, has_cause = None, False
    for line in lines:
        if cause := re.match(r"Caused by: [\w.$]+: (.+)", line):
            message, has_cause = message if has_cause else cause[1], True
        elif head := re.match(r'(?:Exception in thread "main" )?[\w.$]+(?:Exception|Error)[\w.$]*: (.+)', line):
            message, has_cause = head[1], False
    return message

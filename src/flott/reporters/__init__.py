"""Reporters: they send metrics and traces of all jobs to monitoring tools. JobManager side.

A reporter asks the JobManager's memory now and then. What goes wrong there is logged and never reaches a job.
"""

from __future__ import annotations

from flott.reporters.making import make_reporters

__all__ = ["make_reporters"]

"""Metrics and traces of all jobs of a JobManager, for the tools that watch them. JobManager side.

A reporter asks the JobManager's memory now and then. What goes wrong there is logged and never reaches a job.
"""

from __future__ import annotations

from flott.reporters.making import make_reporters

__all__ = ["make_reporters"]

"""Flott: Apache Flink's programming model and guarantees in Python, running on Apache Spark.

Only the version lives here; a program imports from ``flott.datastream`` and ``flott.common``, as it would from
``pyflink``.
"""

from flott import _absent

_absent.install()

__version__ = "0.1.0"

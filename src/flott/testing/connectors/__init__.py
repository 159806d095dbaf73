"""The conformance kit: the author of a source or a sink runs one test class over it, against the real system.

    class TestMySource(SourceConformance):
        def source(self, count): ...        # fill a new place with records 0 … count - 1, return a source that reads it

    class TestMySink(SinkConformance):
        def sink(self): ...                 # return a sink into a new, empty place
        def visible(self): ...              # return what a reader of that place sees at this moment

pytest finds the tests that the classes inherit. Each names one promise of the interfaces in
``flott.datastream.connectors.base``: docs/connectors/write-your-own.md explains them.
"""

from flott.testing.connectors.sink_conformance import SinkConformance
from flott.testing.connectors.sink_run import SinkRun
from flott.testing.connectors.source_conformance import SourceConformance
from flott.testing.connectors.source_run import SourceRun, run_source

__all__ = ["SourceConformance", "SinkConformance", "SourceRun", "SinkRun", "run_source"]

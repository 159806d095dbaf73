"""The overview of the cluster, and the configuration that the dashboard requests first. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from flott import __version__
from flott.common import _cluster_options as options
from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.runtime.jobmanager.views.job_view import JobView, TaskManagerView

#: The version of Flink whose REST API this is, which clients check. Flott's own version takes the place of Flink's
#: commit.
FLINK_VERSION = "2.3.0"
REVISION = f"flott-{__version__}"

DashboardFeatures = TypedDict(
    "DashboardFeatures", {"web-submit": bool, "web-cancel": bool, "web-rescale": bool, "web-history": bool}
)
DashboardConfiguration = TypedDict(
    "DashboardConfiguration",
    {
        "refresh-interval": int,
        "timezone-name": str,
        "timezone-offset": int,
        "flink-version": str,
        "flink-revision": str,
        "flott-version": str,
        "features": DashboardFeatures,
    },
)
ClusterOverview = TypedDict(
    "ClusterOverview",
    {
        "taskmanagers": int,
        "slots-total": int,
        "slots-available": int,
        "jobs-running": int,
        "jobs-finished": int,
        "jobs-cancelled": int,
        "jobs-failed": int,
        "flink-version": str,
        "flink-commit": str,
        "flott-version": str,
    },
)


def dashboard_configuration(
    configuration: Configuration, timezone_name: str, timezone_offset_ms: int
) -> DashboardConfiguration:
    """Return the configuration of the dashboard."""
    return {
        "refresh-interval": configuration.get(options.WEB_REFRESH_INTERVAL),
        "timezone-name": timezone_name,
        "timezone-offset": timezone_offset_ms,
        "flink-version": FLINK_VERSION,
        "flink-revision": REVISION,
        "flott-version": __version__,
        "features": {
            "web-submit": configuration.get(options.WEB_SUBMIT),
            "web-cancel": configuration.get(options.WEB_CANCEL),
            "web-rescale": True,
            "web-history": False,
        },
    }


def cluster_overview(jobs: Sequence[JobView], task_managers: Sequence[TaskManagerView]) -> ClusterOverview:
    """Return the numbers of jobs and slots. Every job that has not ended counts as running."""
    statuses = [job.status for job in jobs]
    ended = {status: statuses.count(status) for status in (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED)}
    return {
        "taskmanagers": len(task_managers),
        "slots-total": sum(one.slots for one in task_managers),
        "slots-available": sum(one.free_slots for one in task_managers),
        "jobs-running": len(statuses) - sum(ended.values()),
        "jobs-finished": ended[JobStatus.FINISHED],
        "jobs-cancelled": ended[JobStatus.CANCELED],
        "jobs-failed": ended[JobStatus.FAILED],
        "flink-version": FLINK_VERSION,
        "flink-commit": REVISION,
        "flott-version": __version__,
    }

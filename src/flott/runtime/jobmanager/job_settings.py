"""The configuration of a job on a cluster: the cluster's options as defaults, and over them the job's own. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

from flott.common import _cluster_options as cluster_options
from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError
from flott.runtime.jobmanager.folders import ClusterFolders
from flott.runtime.jobmanager.job_life_cycle import RestartRules
from flott.runtime.jobmanager.submission import JobSubmission, belongs_to_cluster


def job_settings(cluster: Configuration, submission: JobSubmission, folders: ClusterFolders) -> dict[str, str]:
    """Return the options of a job, without those that belong to the JobManager."""
    merged = {key: text for key, text in cluster.to_dict().items() if not belongs_to_cluster(key)}
    for key, text in submission.configuration.items():
        # The JobManager's options have started the Spark application already.
        if not (belongs_to_cluster(key) or key.startswith("spark.")):
            merged[key] = text
    merged.pop(options.TARGET.key, None)
    if not Configuration.of(merged).contains(options.CHECKPOINT_DIR):
        merged[options.CHECKPOINT_DIR.key] = folders.checkpoint_location
    merged[options.LOG_DIR.key] = str(folders.logs)
    return merged


def check_shared_storage(cluster: Configuration, submission: JobSubmission, folders: ClusterFolders) -> None:
    """Refuse a job whose executors on other machines cannot see its checkpoint directory.

    With high availability the folder of the cluster is on shared storage.
    """
    given = (Configuration.of(submission.configuration), cluster)
    if any(configuration.contains(options.CHECKPOINT_DIR) for configuration in given):
        return
    on_spark = options.read(cluster, options.TARGET) != "in-process"
    merged = Configuration.of(job_settings(cluster, submission, folders))
    is_shared = folders.shared != folders.own or folders.objects is not None
    if on_spark and options.needs_shared_storage(merged) and not is_shared:
        raise ConfigurationError(
            f"With spark.master {merged.get_string('spark.master', '')} state must be where all executors can reach"
            " it: set execution.checkpointing.dir to a directory on shared storage."
        )


def restart_rules(rules: RestartRules, cluster: Configuration, settings: dict[str, str]) -> RestartRules:
    """Return the rules of a job: the cluster says how often its process is restarted, the job how it is cancelled."""
    timeout_ms = options.read(Configuration.of(settings), cluster_options.CANCELLATION_TIMEOUT)
    return replace(
        rules,
        restarts=options.read(cluster, cluster_options.JOB_PROCESS_RESTARTS),
        cancellation_seconds=timeout_ms / 1000 if timeout_ms else math.inf,
    )

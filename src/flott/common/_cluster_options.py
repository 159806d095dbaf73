"""The options of a JobManager and of what talks to one. Part of ``_options.ALL_OPTIONS``. Driver side.

Names are Flink's where it has the option with the same meaning; what is Flott's own begins with ``flott.``.
"""

from __future__ import annotations

from flott.common.config_options import ConfigOptions

_key = ConfigOptions.key
_SECOND = 1000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_MEGABYTE = 1024 * 1024

# --------------------------------------------------------------------------------------------------------- JobManager

CLUSTER_DIR = (
    _key("flott.cluster.dir").string_type().no_default_value()
    .with_description(
        "The directory of a JobManager: jobs that were handed to it, results, uploaded programs, logs, and the"
        " checkpoints of jobs that name no directory. Unset: clusters/<cluster id> in $FLOTT_HOME, which is ~/.flott by"
        " default."
    )
)  # fmt: skip
CLUSTER_ID = (
    _key("high-availability.cluster-id").string_type().default_value("default")
    .with_description("The name of the cluster: what `flott --cluster` finds it by, and what standbys share.")
)  # fmt: skip
JOBS_KEPT = (
    _key("jobstore.max-capacity").int_type().default_value(100).at_least(0)
    .with_description("How many ended jobs a JobManager remembers.")
)  # fmt: skip
JOBS_KEPT_FOR = (
    _key("jobstore.expiration-time").duration_type().default_value(24 * _HOUR).at_least(0)
    .with_description("How long a JobManager remembers a job that has ended (Flink: an hour).")
)  # fmt: skip
JOB_PROCESS_RESTARTS = (
    _key("flott.cluster.job-process.restarts").int_type().default_value(10).at_least(0)
    .with_description("How often in an hour the process of a job may die before the job counts as failed.")
)  # fmt: skip
CANCELLATION_TIMEOUT = (
    _key("task.cancellation.timeout").duration_type().default_value(3 * _MINUTE).at_least(0)
    .with_description(
        "How long a job that was cancelled may take to end. Then its process is killed; 0: it may take for ever."
    )
)  # fmt: skip

MAX_SLOTS = (
    _key("slotmanager.number-of-slots.max").int_type().default_value(2147483647).at_least(1)
    .with_description(
        "How many slots the executors have together at most that a JobManager asks Spark for, where the master (YARN,"
        " Kubernetes) can provide more. With spark.dynamicAllocation.enabled Spark asks by itself."
    )
)  # fmt: skip
JOB_OUTPUT = (
    _key("flott.cluster.job-output").enum_type(("log", "terminal")).default_value("log")
    .with_description(
        "Where the process of a job prints to: its log only, or also where the JobManager was started, as flott run"
        " --target sets it."
    )
)  # fmt: skip

# --------------------------------------------------------------------------------------------------------------- REST

REST_ADDRESS = (
    _key("rest.address").string_type().default_value("localhost")
    .with_description("Where clients find the JobManager.")
)  # fmt: skip
REST_PORT = (
    _key("rest.port").int_type().default_value(8081).at_least(0)
    .with_description("The port at which clients find the JobManager; 0: any that is free.")
)  # fmt: skip
REST_BIND_ADDRESS = (
    _key("rest.bind-address").string_type().default_value("localhost")
    .with_description("The address the JobManager listens on. Others than loopback need flott.rest.token or TLS.")
)  # fmt: skip
REST_MAX_CONTENT = (
    _key("rest.server.max-content-length").memory_type().default_value(100 * _MEGABYTE).at_least(1)
    .with_description("The largest request, and so the largest upload, that is taken.")
)  # fmt: skip
REST_ASYNC_STORE_DURATION = (
    _key("rest.async.store-duration").duration_type().default_value(5 * _MINUTE).at_least(0)
    .with_description("For how long the outcome of a savepoint or another asynchronous operation can be asked for.")
)  # fmt: skip
REST_TOKEN = (
    _key("flott.rest.token").string_type().no_default_value()
    .with_description("What every request must carry (Authorization: Bearer …); a secret, better kept in a file.")
)  # fmt: skip
REST_TOKEN_FILE = (
    _key("flott.rest.token-file").string_type().no_default_value()
    .with_description("The file that holds the token.")
)  # fmt: skip
REST_ALLOW_UNAUTHENTICATED = (
    _key("flott.rest.allow-unauthenticated").boolean_type().default_value(False)
    .with_description("Whether the JobManager may listen beyond loopback without a token or mutual TLS.")
)  # fmt: skip
REST_TLS = (
    _key("security.ssl.rest.enabled").boolean_type().default_value(False)
    .with_description("Whether REST is served, and asked, by TLS.")
)  # fmt: skip
REST_TLS_MUTUAL = (
    _key("security.ssl.rest.authentication-enabled").boolean_type().default_value(False)
    .with_description("Whether clients must show a certificate, too, signed by flott.rest.ssl.ca.")
)  # fmt: skip
REST_TLS_CERTIFICATE = (
    _key("flott.rest.ssl.certificate").string_type().no_default_value()
    .with_description("The certificate to show, with its chain: a file in PEM form.")
)  # fmt: skip
REST_TLS_KEY = (
    _key("flott.rest.ssl.key").string_type().no_default_value()
    .with_description("The certificate's private key: a file in PEM form.")
)  # fmt: skip
REST_TLS_CA = (
    _key("flott.rest.ssl.ca").string_type().no_default_value()
    .with_description("The certificates that sign those of the other side: a file in PEM form.")
)  # fmt: skip
WEB_ALLOW_ORIGIN = (
    _key("web.access-control-allow-origin").string_type().default_value("*")
    .with_description(
        "Whose pages may read what REST answers (Access-Control-Allow-Origin). Orders are taken from foreign pages only"
        " if they show the token."
    )
)  # fmt: skip
WEB_SUBMIT = (
    _key("web.submit.enable").boolean_type().default_value(True)
    .with_description("Whether programs may be uploaded and run through REST.")
)  # fmt: skip
WEB_CANCEL = (
    _key("web.cancel.enable").boolean_type().default_value(True)
    .with_description("Whether the dashboard shows a button that cancels jobs.")
)  # fmt: skip
WEB_REFRESH_INTERVAL = (
    _key("web.refresh-interval").duration_type().default_value(3 * _SECOND).at_least(100)
    .with_description("How often the dashboard asks for news.")
)  # fmt: skip
WEB_DASHBOARD = (
    _key("flott.web.dashboard").string_type().no_default_value()
    .with_description(
        "Flink's own dashboard, which Flott does not bring along, to be served at the root: the folder of its files, or"
        " the jar that has them (flink-dist-….jar; in PyFlink it is in pyflink/lib)."
    )
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------------- clients

REST_CONNECTION_TIMEOUT = (
    _key("rest.connection-timeout").duration_type().default_value(15 * _SECOND).at_least(1)
    .with_description("How long a client tries to reach the JobManager's machine.")
)  # fmt: skip
REST_ANSWER_TIMEOUT = (
    _key("flott.rest.answer-timeout").duration_type().default_value(2 * _MINUTE).at_least(1)
    .with_description("How long a client waits for the answer to a request.")
)  # fmt: skip
REST_AWAIT_LEADER = (
    _key("rest.await-leader-timeout").duration_type().default_value(30 * _SECOND).at_least(0)
    .with_description(
        "How long a client waits for a JobManager that does not answer any more, or for the next one to lead."
    )
)  # fmt: skip
ATTACHED = (
    _key("execution.attached").boolean_type().default_value(True)
    .with_description(
        "Whether execute() waits for a job that runs on a cluster; if not, it returns once the job was handed over."
    )
)  # fmt: skip

# -------------------------------------------------------------------------------------------------- high availability

HA_TYPE = (
    _key("high-availability.type").enum_type(("none", "zookeeper", "filesystem")).default_value("none")
    .with_fallback_keys("high-availability")
    .with_description(
        "How several JobManagers agree on who of them leads, so that another takes over when it dies: not at all, by"
        " ZooKeeper (pip install 'flott[zookeeper]'), or by lease files in high-availability.storageDir."
    )
)  # fmt: skip
HA_STORAGE_DIR = (
    _key("high-availability.storageDir").string_type().no_default_value()
    .with_description(
        "A directory that all JobManagers of the cluster share: submitted jobs, results, and the checkpoints of jobs"
        " that name no directory. Each cluster has a folder in it, by its high-availability.cluster-id. Required by"
        " high availability; a file system with atomic renames that all see at once."
    )
)  # fmt: skip
HA_LEASE_TIMEOUT = (
    _key("flott.ha.lease-timeout").duration_type().default_value(15 * _SECOND).at_least(100)
    .with_description(
        "high-availability.type filesystem: a standby takes over when the leader has not renewed its lease for so long."
        " The leader itself gives up after two thirds of it."
    )
)  # fmt: skip
HA_LEASE_RENEWAL = (
    _key("flott.ha.lease-renewal").duration_type().default_value(2 * _SECOND).at_least(10)
    .with_description(
        "high-availability.type filesystem: how often the leader renews its lease, and standbys look at it; at most a"
        " fifth of flott.ha.lease-timeout."
    )
)  # fmt: skip
ZOOKEEPER_QUORUM = (
    _key("high-availability.zookeeper.quorum").string_type().no_default_value()
    .with_description("The ZooKeeper servers: host:port, several separated by commas.")
)  # fmt: skip
ZOOKEEPER_ROOT = (
    _key("high-availability.zookeeper.path.root").string_type().default_value("/flott")
    .with_description("The node below which each cluster has its own, by its high-availability.cluster-id.")
)  # fmt: skip
ZOOKEEPER_SESSION_TIMEOUT = (
    _key("high-availability.zookeeper.client.session-timeout").duration_type().default_value(60 * _SECOND).at_least(100)
    .with_description(
        "After so long without a word of the leader ZooKeeper lets another JobManager lead. ZooKeeper's own bounds"
        " (minSessionTimeout, maxSessionTimeout) apply."
    )
)  # fmt: skip
ZOOKEEPER_CONNECTION_TIMEOUT = (
    _key("high-availability.zookeeper.client.connection-timeout").duration_type().default_value(15 * _SECOND)
    .at_least(100)
    .with_description("How long a JobManager or a client tries to reach ZooKeeper before it says that it cannot.")
)  # fmt: skip
ZOOKEEPER_ACL = (
    _key("high-availability.zookeeper.client.acl").enum_type(("open", "creator")).default_value("open")
    .with_description(
        "Who may read and change the nodes: everybody, or only whoever authenticates as their creator did"
        " (flott.ha.zookeeper.password)."
    )
)  # fmt: skip
ZOOKEEPER_PASSWORD = (
    _key("flott.ha.zookeeper.password").string_type().no_default_value()
    .with_description("user:password for ZooKeeper's digest authentication; a secret.")
)  # fmt: skip

# ------------------------------------------------------------------------------------------------- metrics and logs

LOG_LEVEL = (
    _key("env.log.level").enum_type(("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")).default_value("INFO")
    .with_description(
        "From which level on the JobManager, jobs and their functions log. In a worker it is the level of the root"
        " logger, unless the program sets another."
    )
)  # fmt: skip
LOG_FILES = (
    _key("env.log.max").int_type().default_value(10).at_least(1)
    .with_description("How many files there are of a log, the one that is written to among them.")
)  # fmt: skip
LOG_FILE_SIZE = (
    _key("flott.log.max-file-size").memory_type().default_value(10 * _MEGABYTE).at_least(64 * 1024)
    .with_description("The size at which a file of a log makes room for the next.")
)  # fmt: skip
LOG_TASK_LINES = (
    _key("flott.log.task.max-lines").int_type().default_value(1000).at_least(0)
    .with_description(
        "How many lines that a task prints and logs in an epoch are kept in the job's log; the others are counted. 0:"
        " none."
    )
)  # fmt: skip
LOG_TASK_SIZE = (
    _key("flott.log.task.max-size").memory_type().default_value(256 * 1024).at_least(0)
    .with_description("How long these lines may be together, in characters.")
)  # fmt: skip
METRIC_REPORTERS = (
    _key("metrics.reporters").string_type().no_default_value()
    .with_description(
        "Who is told about metrics: prom (Prometheus), otel (OpenTelemetry), log; several separated by commas. Unset:"
        " all that have settings of their own, metrics.reporter.<name>."
    )
)  # fmt: skip
PROMETHEUS_PORT = (
    _key("metrics.reporter.prom.port").string_type().default_value("9249")
    .with_description(
        "The port at which Prometheus finds metrics, or a range (9250-9260) of which the first free one is taken; 0:"
        " any."
    )
)  # fmt: skip
PROMETHEUS_HOST = (
    _key("metrics.reporter.prom.host").string_type().default_value("localhost")
    .with_description("The address this port is opened on: 0.0.0.0 for all. Whoever reaches it can read all metrics.")
)  # fmt: skip
PROMETHEUS_FILTER_LABELS = (
    _key("metrics.reporter.prom.filterLabelValueCharacters").boolean_type().default_value(True)
    .with_description("Whether all but letters, digits, : and _ are replaced by _ in the values of labels.")
)  # fmt: skip
OTEL_ENDPOINT = (
    _key("metrics.reporter.otel.exporter.endpoint").string_type().no_default_value()
    .with_description("Where the OpenTelemetry collector takes metrics: http://localhost:4318.")
)  # fmt: skip
OTEL_PROTOCOL = (
    _key("metrics.reporter.otel.exporter.protocol").enum_type(("HTTP",)).default_value("HTTP")
    .with_description("How they travel. There is no gRPC in Flott.")
)  # fmt: skip
OTEL_TIMEOUT = (
    _key("metrics.reporter.otel.exporter.timeout").duration_type().default_value(10 * _SECOND).at_least(1)
    .with_description("How long the collector may take.")
)  # fmt: skip
OTEL_SERVICE_NAME = (
    _key("metrics.reporter.otel.service.name").string_type().default_value("flott")
    .with_description("The name under which the collector knows the cluster.")
)  # fmt: skip
OTEL_SERVICE_VERSION = (
    _key("metrics.reporter.otel.service.version").string_type().no_default_value()
    .with_description("The version that the collector is told.")
)  # fmt: skip
OTEL_INTERVAL = (
    _key("metrics.reporter.otel.interval").duration_type().default_value(10 * _SECOND).at_least(10)
    .with_description("How often metrics are sent.")
)  # fmt: skip
LOG_REPORTER_INTERVAL = (
    _key("metrics.reporter.log.interval").duration_type().default_value(10 * _SECOND).at_least(10)
    .with_description("How often the log reporter writes a line for every job.")
)  # fmt: skip
TRACE_REPORTERS = (
    _key("traces.reporters").string_type().no_default_value()
    .with_description(
        "Who is told about epochs, checkpoints and savepoints as traces: otel. Unset: all that have a setting"
        " traces.reporter.<name>."
    )
)  # fmt: skip
TRACE_ENDPOINT = (
    _key("traces.reporter.otel.exporter.endpoint").string_type().no_default_value()
    .with_description("Where the OpenTelemetry collector takes traces: http://localhost:4318.")
)  # fmt: skip

"""The options of a JobManager and its clients. Part of ``_options.ALL_OPTIONS``. Driver side.

An option of Flink with the same meaning has Flink's name. Flott's own options begin with ``flott.``.
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
        "The directory of a JobManager: submitted jobs, results, uploaded programs, logs, and the"
        " checkpoints of jobs without a directory. Unset: clusters/<cluster id> in $FLOTT_HOME, which is ~/.flott by"
        " default."
    )
)  # fmt: skip
CLUSTER_ID = (
    _key("high-availability.cluster-id").string_type().default_value("default")
    .with_description("The id of the cluster, which `flott --cluster` and standbys use.")
)  # fmt: skip
JOBS_KEPT = (
    _key("jobstore.max-capacity").int_type().default_value(100).at_least(0)
    .with_description("The number of ended jobs that a JobManager keeps.")
)  # fmt: skip
JOBS_KEPT_FOR = (
    _key("jobstore.expiration-time").duration_type().default_value(24 * _HOUR).at_least(0)
    .with_description("How long a JobManager keeps a job that has ended (Flink: an hour).")
)  # fmt: skip
JOB_PROCESS_RESTARTS = (
    _key("flott.cluster.job-process.restarts").int_type().default_value(10).at_least(0)
    .with_description("How often the process of a job may die within an hour before the job fails.")
)  # fmt: skip
CANCELLATION_TIMEOUT = (
    _key("task.cancellation.timeout").duration_type().default_value(3 * _MINUTE).at_least(0)
    .with_description(
        "The time that a cancelled job has to end. Then its process is killed; 0: never."
    )
)  # fmt: skip

MAX_SLOTS = (
    _key("slotmanager.number-of-slots.max").int_type().default_value(2147483647).at_least(1)
    .with_description(
        "The maximum number of slots of all executors that a JobManager requests from Spark, if the master (YARN,"
        " Kubernetes) can provide more. With spark.dynamicAllocation.enabled Spark requests them itself."
    )
)  # fmt: skip
JOB_OUTPUT = (
    _key("flott.cluster.job-output").enum_type(("log", "terminal")).default_value("log")
    .with_description(
        "Where the process of a job prints to: only its log, or also the terminal of the JobManager, which flott run"
        " --target uses."
    )
)  # fmt: skip

# --------------------------------------------------------------------------------------------------------------- REST

REST_ADDRESS = (
    _key("rest.address").string_type().default_value("localhost")
    .with_description("The address of the JobManager for clients.")
)  # fmt: skip
REST_PORT = (
    _key("rest.port").int_type().default_value(8081).at_least(0)
    .with_description("The port of the JobManager for clients; 0: a free one.")
)  # fmt: skip
REST_BIND_ADDRESS = (
    _key("rest.bind-address").string_type().default_value("localhost")
    .with_description("The address the JobManager listens on. Other addresses than loopback need a token or TLS.")
)  # fmt: skip
REST_MAX_CONTENT = (
    _key("rest.server.max-content-length").memory_type().default_value(100 * _MEGABYTE).at_least(1)
    .with_description("The maximum size of a request, and thus of an upload.")
)  # fmt: skip
REST_ASYNC_STORE_DURATION = (
    _key("rest.async.store-duration").duration_type().default_value(5 * _MINUTE).at_least(0)
    .with_description("How long the outcome of a savepoint or another asynchronous operation is kept.")
)  # fmt: skip
REST_TOKEN = (
    _key("flott.rest.token").string_type().no_default_value()
    .with_description("The access token of every request (Authorization: Bearer …); a secret, better kept in a file.")
)  # fmt: skip
REST_TOKEN_FILE = (
    _key("flott.rest.token-file").string_type().no_default_value()
    .with_description("The file that contains the access token.")
)  # fmt: skip
REST_ALLOW_UNAUTHENTICATED = (
    _key("flott.rest.allow-unauthenticated").boolean_type().default_value(False)
    .with_description("Whether the JobManager may listen beyond loopback without a token or mutual TLS.")
)  # fmt: skip
REST_TLS = (
    _key("security.ssl.rest.enabled").boolean_type().default_value(False)
    .with_description("Whether REST uses TLS, for server and clients.")
)  # fmt: skip
REST_TLS_MUTUAL = (
    _key("security.ssl.rest.authentication-enabled").boolean_type().default_value(False)
    .with_description("Whether clients must present a certificate signed by flott.rest.ssl.ca.")
)  # fmt: skip
REST_TLS_CERTIFICATE = (
    _key("flott.rest.ssl.certificate").string_type().no_default_value()
    .with_description("The own certificate with its chain: a file in PEM form.")
)  # fmt: skip
REST_TLS_KEY = (
    _key("flott.rest.ssl.key").string_type().no_default_value()
    .with_description("The certificate's private key: a file in PEM form.")
)  # fmt: skip
REST_TLS_CA = (
    _key("flott.rest.ssl.ca").string_type().no_default_value()
    .with_description("The CA certificates for the certificates of the other side: a file in PEM form.")
)  # fmt: skip
WEB_ALLOW_ORIGIN = (
    _key("web.access-control-allow-origin").string_type().default_value("*")
    .with_description(
        "The origins whose pages may read responses (Access-Control-Allow-Origin). Orders from pages of other origins"
        " need the access token."
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
    .with_description("The refresh interval of the dashboard.")
)  # fmt: skip
WEB_DASHBOARD = (
    _key("flott.web.dashboard").string_type().no_default_value()
    .with_description(
        "Flink's own dashboard, which is not part of Flott, to be served at the root: the folder of its files, or"
        " the jar that contains them (flink-dist-….jar; in PyFlink it is in pyflink/lib)."
    )
)  # fmt: skip

# --------------------------------------------------------------------------------------------------------- SQL gateway

GATEWAY_ADDRESS = (
    _key("sql-gateway.endpoint.rest.address").string_type().default_value("localhost")
    .with_description("The address the SQL gateway listens on. Other addresses than loopback need a token or TLS.")
)  # fmt: skip
GATEWAY_PORT = (
    _key("sql-gateway.endpoint.rest.port").int_type().default_value(8083).at_least(0)
    .with_description("The port of the SQL gateway; 0: a free one.")
)  # fmt: skip
GATEWAY_IDLE_TIMEOUT = (
    _key("sql-gateway.session.idle-timeout").duration_type().default_value(10 * _MINUTE).at_least(0)
    .with_description(
        "A session of the SQL gateway is closed when no request has used it for this time; 0: never."
    )
)  # fmt: skip
GATEWAY_CHECK_INTERVAL = (
    _key("sql-gateway.session.check-interval").duration_type().default_value(_MINUTE).at_least(1)
    .with_description("How often the SQL gateway looks for sessions that are not used.")
)  # fmt: skip
GATEWAY_MAX_SESSIONS = (
    _key("sql-gateway.session.max-num").int_type().default_value(1_000_000).at_least(1)
    .with_description("The number of sessions that the SQL gateway may have at a time.")
)  # fmt: skip
GATEWAY_MAX_STATEMENTS = (
    _key("sql-gateway.worker.threads.max").int_type().default_value(500).at_least(1)
    .with_description("The number of statements that the SQL gateway runs at a time.")
)  # fmt: skip

SQL_MAX_SESSIONS = (
    _key("flott.sql.max-sessions").int_type().default_value(16).at_least(0)
    .with_description(
        "The number of SQL sessions that a JobManager has at a time, for its web page and for clients of"
        " /flott/sql; 0: it has none."
    )
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------------- clients

REST_CONNECTION_TIMEOUT = (
    _key("rest.connection-timeout").duration_type().default_value(15 * _SECOND).at_least(1)
    .with_description("The timeout of a client's connection to the JobManager.")
)  # fmt: skip
REST_ANSWER_TIMEOUT = (
    _key("flott.rest.answer-timeout").duration_type().default_value(2 * _MINUTE).at_least(1)
    .with_description("The timeout of a response to a client.")
)  # fmt: skip
REST_AWAIT_LEADER = (
    _key("rest.await-leader-timeout").duration_type().default_value(30 * _SECOND).at_least(0)
    .with_description(
        "How long a client waits for a JobManager that stopped answering, or for a new leader."
    )
)  # fmt: skip
ATTACHED = (
    _key("execution.attached").boolean_type().default_value(True)
    .with_description(
        "Whether execute() waits for a job on a cluster; if not, it returns when the job is submitted."
    )
)  # fmt: skip

# -------------------------------------------------------------------------------------------------- high availability

HA_TYPE = (
    _key("high-availability.type").enum_type(("none", "zookeeper", "filesystem")).default_value("none")
    .with_fallback_keys("high-availability")
    .with_description(
        "How several JobManagers elect a leader, so that another takes over when it dies: not at all, by"
        " ZooKeeper (pip install 'flott[zookeeper]'), or by leases in high-availability.storageDir."
    )
)  # fmt: skip
HA_STORAGE_DIR = (
    _key("high-availability.storageDir").string_type().no_default_value()
    .with_description(
        "A directory, or a folder of an object store (s3://...), that all JobManagers of the cluster share: submitted"
        " jobs, results, and the checkpoints of jobs without a directory. Each cluster has a folder in it, named by its"
        " high-availability.cluster-id. Required by high availability; in a file system, renames must be atomic and"
        " visible on all machines immediately."
    )
)  # fmt: skip
HA_LEASE_TIMEOUT = (
    _key("flott.ha.lease-timeout").duration_type().default_value(15 * _SECOND).at_least(100)
    .with_description(
        "high-availability.type filesystem: a standby takes over if the leader has not renewed its lease for this time."
        " The leader itself steps down after two thirds of it."
    )
)  # fmt: skip
HA_LEASE_RENEWAL = (
    _key("flott.ha.lease-renewal").duration_type().default_value(2 * _SECOND).at_least(10)
    .with_description(
        "high-availability.type filesystem: the interval in which the leader renews its lease; at most a"
        " fifth of flott.ha.lease-timeout."
    )
)  # fmt: skip
ZOOKEEPER_QUORUM = (
    _key("high-availability.zookeeper.quorum").string_type().no_default_value()
    .with_description("The ZooKeeper servers: host:port, several separated by commas.")
)  # fmt: skip
ZOOKEEPER_ROOT = (
    _key("high-availability.zookeeper.path.root").string_type().default_value("/flott")
    .with_description("The parent node of all clusters; a cluster's node is its high-availability.cluster-id.")
)  # fmt: skip
ZOOKEEPER_SESSION_TIMEOUT = (
    _key("high-availability.zookeeper.client.session-timeout").duration_type().default_value(60 * _SECOND).at_least(100)
    .with_description(
        "ZooKeeper elects another JobManager after this time without contact to the leader. ZooKeeper's own limits"
        " (minSessionTimeout, maxSessionTimeout) apply."
    )
)  # fmt: skip
ZOOKEEPER_CONNECTION_TIMEOUT = (
    _key("high-availability.zookeeper.client.connection-timeout").duration_type().default_value(15 * _SECOND)
    .at_least(100)
    .with_description("The timeout of a connection to ZooKeeper.")
)  # fmt: skip
ZOOKEEPER_ACL = (
    _key("high-availability.zookeeper.client.acl").enum_type(("open", "creator")).default_value("open")
    .with_description(
        "Who may read and change the nodes: every client, or only clients that authenticate as their creator"
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
        "The log level of the JobManager, of jobs and of their functions. In a worker it is the level of the root"
        " logger, unless the program sets another."
    )
)  # fmt: skip
LOG_FILES = (
    _key("env.log.max").int_type().default_value(10).at_least(1)
    .with_description("The number of files of a log, including the current one.")
)  # fmt: skip
LOG_FILE_SIZE = (
    _key("flott.log.max-file-size").memory_type().default_value(10 * _MEGABYTE).at_least(64 * 1024)
    .with_description("The size at which a log file is rotated.")
)  # fmt: skip
LOG_TASK_LINES = (
    _key("flott.log.task.max-lines").int_type().default_value(1000).at_least(0)
    .with_description(
        "The maximum number of lines per task and epoch in the job's log; the others are counted. 0:"
        " none."
    )
)  # fmt: skip
LOG_TASK_SIZE = (
    _key("flott.log.task.max-size").memory_type().default_value(256 * 1024).at_least(0)
    .with_description("The maximum size of these lines, in characters.")
)  # fmt: skip
METRIC_REPORTERS = (
    _key("metrics.reporters").string_type().no_default_value()
    .with_description(
        "The metrics reporters: prom (Prometheus), otel (OpenTelemetry), log; several separated by commas. Unset:"
        " all with settings of their own, metrics.reporter.<name>."
    )
)  # fmt: skip
PROMETHEUS_PORT = (
    _key("metrics.reporter.prom.port").string_type().default_value("9249")
    .with_description(
        "The port of the Prometheus endpoint, or a range (9250-9260) whose first free port is used; 0:"
        " any."
    )
)  # fmt: skip
PROMETHEUS_HOST = (
    _key("metrics.reporter.prom.host").string_type().default_value("localhost")
    .with_description("The address of this port: 0.0.0.0 for all. Every client that can reach it can read all metrics.")
)  # fmt: skip
PROMETHEUS_FILTER_LABELS = (
    _key("metrics.reporter.prom.filterLabelValueCharacters").boolean_type().default_value(True)
    .with_description("Whether characters except letters, digits, : and _ are replaced by _ in label values.")
)  # fmt: skip
OTEL_ENDPOINT = (
    _key("metrics.reporter.otel.exporter.endpoint").string_type().no_default_value()
    .with_description("The OpenTelemetry endpoint for metrics: http://localhost:4318.")
)  # fmt: skip
OTEL_PROTOCOL = (
    _key("metrics.reporter.otel.exporter.protocol").enum_type(("HTTP",)).default_value("HTTP")
    .with_description("The protocol. gRPC is not supported.")
)  # fmt: skip
OTEL_TIMEOUT = (
    _key("metrics.reporter.otel.exporter.timeout").duration_type().default_value(10 * _SECOND).at_least(1)
    .with_description("The timeout of the collector.")
)  # fmt: skip
OTEL_SERVICE_NAME = (
    _key("metrics.reporter.otel.service.name").string_type().default_value("flott")
    .with_description("The service name of the cluster in the collector.")
)  # fmt: skip
OTEL_SERVICE_VERSION = (
    _key("metrics.reporter.otel.service.version").string_type().no_default_value()
    .with_description("The service version in the collector.")
)  # fmt: skip
OTEL_INTERVAL = (
    _key("metrics.reporter.otel.interval").duration_type().default_value(10 * _SECOND).at_least(10)
    .with_description("The interval of reports.")
)  # fmt: skip
LOG_REPORTER_INTERVAL = (
    _key("metrics.reporter.log.interval").duration_type().default_value(10 * _SECOND).at_least(10)
    .with_description("The interval of the log reporter.")
)  # fmt: skip
TRACE_REPORTERS = (
    _key("traces.reporters").string_type().no_default_value()
    .with_description(
        "The trace reporters for epochs, checkpoints and savepoints: otel. Unset: all with a setting"
        " traces.reporter.<name>."
    )
)  # fmt: skip
TRACE_ENDPOINT = (
    _key("traces.reporter.otel.exporter.endpoint").string_type().no_default_value()
    .with_description("The OpenTelemetry endpoint for traces: http://localhost:4318.")
)  # fmt: skip

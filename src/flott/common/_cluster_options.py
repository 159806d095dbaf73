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

# -------------------------------------------------------------------------------------------------- high availability

# ------------------------------------------------------------------------------------------------- metrics and logs

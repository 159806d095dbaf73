"""Every option of Flott. The page of options in the documentation is generated from ``ALL_OPTIONS``.

An option of Flink with the same meaning has Flink's name. Flott's own options begin with ``flott.`` or say so. Keys
that begin with ``spark.`` are passed to Spark. Driver side.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
from typing import Any, TypeVar

from flott.common import _cluster_options
from flott.common import _value_types as value_types
from flott.common._object_store_settings import ObjectStoreSettings
from flott.common._value_types import to_text
from flott.common.config_options import ConfigOption, ConfigOptions
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError

T = TypeVar("T")

_key = ConfigOptions.key
_SECOND = 1000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_MEGABYTE = 1024 * 1024

# ------------------------------------------------------------------------------------------------------------ program

PARALLELISM = (
    _key("parallelism.default").int_type().no_default_value().at_least(1)
    .with_description("The number of subtasks of an operator without its own parallelism; unset: the number of cores.")
)  # fmt: skip
MAX_PARALLELISM = (
    _key("pipeline.max-parallelism").int_type().default_value(128).at_least(1)
    .with_description("The number of key groups, and thus the maximum parallelism of the job's state.")
)  # fmt: skip
PIPELINE_NAME = (
    _key("pipeline.name").string_type().no_default_value()
    .with_description("The name of the job.")
)  # fmt: skip
OPERATOR_CHAINING = (
    _key("pipeline.operator-chaining.enabled").boolean_type().default_value(True)
    .with_fallback_keys("pipeline.operator-chaining")
    .with_description("Whether operators joined by forward edges are chained.")
)  # fmt: skip
AUTO_GENERATE_UIDS = (
    _key("pipeline.auto-generate-uids").boolean_type().default_value(True)
    .with_description("Whether operators without a uid get one from the program's structure, or are refused.")
)  # fmt: skip
AUTO_WATERMARK_INTERVAL = (
    _key("pipeline.auto-watermark-interval").duration_type().default_value(200)
    .with_description(
        "How often watermark generators emit periodically in a pipelined job while a round of a source takes long; 0:"
        " at the end of rounds only, where they emit in any case. In epochs they emit at the end of every epoch."
    )
)  # fmt: skip
OBJECT_REUSE = (
    _key("pipeline.object-reuse").boolean_type().default_value(False)
    .with_description(
        "Whether tasks of a pipelined job that share a process hand all records to each other as they are: then no"
        " function may change a record that it has emitted or was given. Otherwise only numbers, texts, tuples of them"
        " and columns are. Chained functions always pass the object itself."
    )
)  # fmt: skip
GLOBAL_JOB_PARAMETERS = (
    _key("pipeline.global-job-parameters").map_type().default_value({})
    .with_description("Parameters that every function of the job can read.")
)  # fmt: skip
PYTHON_FILES = (
    _key("python.files").string_type().no_default_value()
    .with_description(
        "Python modules (.py), folders and archives (.zip, .egg, .whl) that functions of the job import, separated by"
        " commas. They are sent to the workers, where they take precedence over installed modules."
    )
)  # fmt: skip
PYTHON_REQUIREMENTS = (
    _key("python.requirements").string_type().no_default_value()
    .with_description(
        "A requirements.txt of packages that functions of the job import; after # a folder with packages to install"
        " them from, without the network. They are installed once, into a separate folder in $FLOTT_HOME."
    )
)  # fmt: skip
PYTHON_ARCHIVES = (
    _key("python.archives").string_type().no_default_value()
    .with_description(
        "Archives (.zip, .tar, .tar.gz) that are unpacked into the working directory of the workers, separated by"
        " commas; after # the folder for each, by default the name of the archive. In-process functions cannot"
        " access them."
    )
)  # fmt: skip
RUNTIME_MODE = (
    _key("execution.runtime-mode").enum_type(("STREAMING", "BATCH", "AUTOMATIC")).default_value("STREAMING")
    .with_description(
        "STREAMING emits results as input arrives; BATCH reads bounded input in one epoch and emits only final results;"
        " AUTOMATIC is BATCH if all sources are bounded."
    )
)  # fmt: skip
EXECUTION_MODE = (
    _key("execution.mode").enum_type(("epochs", "pipelined", "adaptive")).default_value("epochs")
    .with_description(
        "How a STREAMING job is executed: as a sequence of epochs, each of which is a Spark job (throughput, replay),"
        " or by tasks that run continuously and take checkpoints by barriers (pipelined: milliseconds of latency)."
        " adaptive: in epochs while input waits, pipelined when the job has caught up; it changes at a checkpoint. A"
        " job may continue in the other mode from any checkpoint or savepoint."
    )
)  # fmt: skip
BUFFER_TIMEOUT = (
    _key("execution.buffer-timeout.interval").duration_type().default_value(100).at_least(0)
    .with_fallback_keys("execution.buffer-timeout")
    .with_description(
        "How long a busy task of a pipelined job may collect records before it sends them. 0: it sends them after every"
        " piece of work, a batch that was read or a buffer that was processed. A task that has nothing else to do sends"
        " them at once. Without effect in epochs."
    )
)  # fmt: skip
BUFFER_TIMEOUT_ENABLED = (
    _key("execution.buffer-timeout.enabled").boolean_type().default_value(True)
    .with_description(
        "Whether busy tasks of a pipelined job send buffers that are not full after a time. If not, buffers leave when"
        " they are full, when their task has nothing else to do, and before event time: sources that are followed, and"
        " timers of busy tasks, move it every pipeline.auto-watermark-interval."
    )
)  # fmt: skip
TARGET = (
    _key("execution.target").enum_type(("spark", "in-process", "remote")).default_value("spark")
    .with_description(
        "Where the job runs: in this process with epochs as Spark jobs (spark), completely in this process for tests"
        " and debugging (in-process), or on a session (remote: rest.address, rest.port)."
    )
)  # fmt: skip

# --------------------------------------------------------------------------------------- checkpoints, state, recovery

CHECKPOINT_DIR = (
    _key("execution.checkpointing.dir").string_type().no_default_value().with_fallback_keys("state.checkpoints.dir")
    .with_description("The directory of the job's checkpoints.")
)  # fmt: skip
CHECKPOINT_INTERVAL = (
    _key("execution.checkpointing.interval").duration_type().no_default_value().at_least(1)
    .with_description("The maximum duration of an epoch (an epoch is a checkpoint); see flott.epoch.target-duration.")
)  # fmt: skip
CHECKPOINTING_MODE = (
    _key("execution.checkpointing.mode").enum_type(("EXACTLY_ONCE", "AT_LEAST_ONCE")).default_value("EXACTLY_ONCE")
    .with_description(
        "Whether the tasks of a pipelined job hold input back that is ahead of a barrier (EXACTLY_ONCE), or process it,"
        " so that it may count twice after a failure (AT_LEAST_ONCE). Epochs are exactly-once in either case."
    )
)  # fmt: skip
UNALIGNED_CHECKPOINTS = (
    _key("execution.checkpointing.unaligned.enabled").boolean_type().default_value(False)
    .with_fallback_keys("execution.checkpointing.unaligned")
    .with_description(
        "Whether barriers of a pipelined job overtake buffers, so that back pressure does not delay checkpoints. What"
        " they overtake is saved with the checkpoint. Without effect in epochs and with AT_LEAST_ONCE."
    )
)  # fmt: skip
ALIGNED_CHECKPOINT_TIMEOUT = (
    _key("execution.checkpointing.aligned-checkpoint-timeout").duration_type().default_value(0).at_least(0)
    .with_fallback_keys("execution.checkpointing.alignment-timeout")
    .with_description(
        "With unaligned checkpoints: the time for which barriers keep their place. A checkpoint that takes longer"
        " becomes unaligned; with 0 every checkpoint is."
    )
)  # fmt: skip
CHECKPOINT_MIN_PAUSE = (
    _key("execution.checkpointing.min-pause").duration_type().default_value(0).at_least(0)
    .with_description("The minimum time between the end of an epoch (which is a checkpoint) and the start of the next.")
)  # fmt: skip
CHECKPOINT_TIMEOUT = (
    _key("execution.checkpointing.timeout").duration_type().default_value(10 * _MINUTE).at_least(10)
    .with_description(
        "The timeout of an epoch. A longer epoch is cancelled, counts as a failed checkpoint, and is retried with less"
        " input. Without effect in BATCH mode, which takes no checkpoints."
    )
)  # fmt: skip
TOLERABLE_FAILED_CHECKPOINTS = (
    _key("execution.checkpointing.tolerable-failed-checkpoints").int_type().default_value(0).at_least(0)
    .with_description(
        "How many consecutive checkpoints may fail, because storage fails or an epoch exceeds its timeout, before the"
        " restart strategy is applied. Until then the epoch is retried immediately; a pipelined job runs on and takes"
        " the next checkpoint after its interval."
    )
)  # fmt: skip
CHECKPOINTS_RETAINED = (
    _key("execution.checkpointing.num-retained").int_type().default_value(1).at_least(1)
    .with_fallback_keys("state.checkpoints.num-retained")
    .with_description("The number of completed checkpoints that are kept.")
)  # fmt: skip
CHECKPOINT_RETENTION = (
    _key("execution.checkpointing.externalized-checkpoint-retention")
    .enum_type(("NO_EXTERNALIZED_CHECKPOINTS", "DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION"))
    .default_value("DELETE_ON_CANCELLATION")
    .with_description(
        "Whether the last checkpoints are kept when the job ends. They are deleted when it finishes, and kept when it"
        " fails (unless NO_EXTERNALIZED_CHECKPOINTS); when it is cancelled they are kept with RETAIN_ON_CANCELLATION."
    )
)  # fmt: skip
RECOVERY_PATH = (
    _key("execution.state-recovery.path").string_type().no_default_value()
    .with_fallback_keys("execution.savepoint.path")
    .with_description("The savepoint or checkpoint that the job starts from: the path of its folder.")
)  # fmt: skip
RECOVERY_CLAIM_MODE = (
    _key("execution.state-recovery.claim-mode").enum_type(("NO_CLAIM", "CLAIM", "LEGACY")).default_value("NO_CLAIM")
    .with_fallback_keys("execution.savepoint-restore-mode")
    .with_description(
        "The ownership of the savepoint or checkpoint that the job starts from. NO_CLAIM: its files are copied first,"
        " and it may be deleted as soon as the job runs. CLAIM: the job uses the files in place and deletes them when"
        " it no longer needs them. LEGACY, which Flink has removed, is refused."
    )
)  # fmt: skip
IGNORE_UNCLAIMED_STATE = (
    _key("execution.state-recovery.ignore-unclaimed-state").boolean_type().default_value(False)
    .with_fallback_keys("execution.savepoint.ignore-unclaimed-state")
    .with_description(
        "Whether the job may start from a savepoint or checkpoint with state of operators that the program does not"
        " have. Such state is dropped (in Flink's command line: allowNonRestoredState)."
    )
)  # fmt: skip
RECOVER_FROM_LATEST = (
    _key("execution.state-recovery.from-latest").boolean_type().default_value(False)
    .with_description("Whether the job starts from the latest checkpoint in its own directory (Flott's own option).")
)  # fmt: skip
SAVEPOINT_DIR = (
    _key("execution.checkpointing.savepoint-dir").string_type().no_default_value()
    .with_fallback_keys("state.savepoints.dir")
    .with_description("The directory of savepoints whose request has none.")
)  # fmt: skip
STATE_BACKEND = (
    _key("state.backend.type").enum_type(("hashmap", "rocksdb")).default_value("hashmap")
    .with_fallback_keys("state.backend")
    .with_description(
        "Where tasks keep their state while they run: hashmap, in memory, or rocksdb, in a database on the local disk,"
        " for state larger than memory. Checkpoints and savepoints are the same for both."
    )
)  # fmt: skip
MANAGED_MEMORY = (
    _key("taskmanager.memory.managed.size").memory_type().default_value(512 * _MEGABYTE).at_least(_MEGABYTE)
    .with_description(
        "The memory limit of the state of all tasks of an executor with the rocksdb backend, in the database and as"
        " Python objects. Each concurrent task gets an equal part."
    )
)  # fmt: skip
LOCAL_DIR = (
    _key("state.backend.rocksdb.localdir").string_type().no_default_value().with_fallback_keys("io.tmp.dirs")
    .with_description(
        "The directory on each executor's local disk for databases of the rocksdb backend; the first of several,"
        " separated by commas. Unset: the system's temporary directory."
    )
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------------ restart

RESTART_STRATEGY = (
    _key("restart-strategy.type")
    .enum_type(
        ("none", "fixed-delay", "exponential-delay", "failure-rate"),
        {"off": "none", "disable": "none", "false": "none", "fixeddelay": "fixed-delay",
         "exponentialdelay": "exponential-delay", "failurerate": "failure-rate"},
    )
    .no_default_value().with_fallback_keys("restart-strategy")
    .with_description(
        "The reaction to a failed epoch; unset: as in Flink, exponential-delay if the job takes checkpoints."
    )
)  # fmt: skip
FIXED_DELAY_ATTEMPTS = (
    _key("restart-strategy.fixed-delay.attempts").int_type().default_value(1).at_least(0)
    .with_description("The number of restarts before the job fails.")
)  # fmt: skip
FIXED_DELAY_DELAY = (
    _key("restart-strategy.fixed-delay.delay").duration_type().default_value(_SECOND)
    .with_description("The delay before every restart.")
)  # fmt: skip
EXPONENTIAL_INITIAL_BACKOFF = (
    _key("restart-strategy.exponential-delay.initial-backoff").duration_type().default_value(_SECOND).at_least(1)
    .with_description("The delay before the first restart.")
)  # fmt: skip
EXPONENTIAL_MAX_BACKOFF = (
    _key("restart-strategy.exponential-delay.max-backoff").duration_type().default_value(_MINUTE).at_least(1)
    .with_description("The maximum delay before a restart.")
)  # fmt: skip
EXPONENTIAL_MULTIPLIER = (
    _key("restart-strategy.exponential-delay.backoff-multiplier").double_type().default_value(1.5).at_least(1)
    .with_description("The factor by which each delay is longer than the one before.")
)  # fmt: skip
EXPONENTIAL_RESET_THRESHOLD = (
    _key("restart-strategy.exponential-delay.reset-backoff-threshold").duration_type().default_value(_HOUR).at_least(1)
    .with_description("How long the job must run without a failure until the delay is reset.")
)  # fmt: skip
EXPONENTIAL_JITTER = (
    _key("restart-strategy.exponential-delay.jitter-factor").double_type().default_value(0.1).at_least(0)
    .with_description("The share of a delay that is added or subtracted at random.")
)  # fmt: skip
EXPONENTIAL_ATTEMPTS = (
    _key("restart-strategy.exponential-delay.attempts-before-reset-backoff").int_type().default_value(2**31 - 1)
    .at_least(0)
    .with_description("The number of restarts, before the delay is reset, until the job fails.")
)  # fmt: skip
FAILURE_RATE_MAX_FAILURES = (
    _key("restart-strategy.failure-rate.max-failures-per-interval").int_type().default_value(1).at_least(0)
    .with_description("The number of tolerated failures within the interval.")
)  # fmt: skip
FAILURE_RATE_INTERVAL = (
    _key("restart-strategy.failure-rate.failure-rate-interval").duration_type().default_value(_MINUTE).at_least(1)
    .with_description("The interval in which failures are counted.")
)  # fmt: skip
FAILURE_RATE_DELAY = (
    _key("restart-strategy.failure-rate.delay").duration_type().default_value(_SECOND)
    .with_description("The delay before every restart.")
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------- rescaling

SCHEDULER = (
    _key("jobmanager.scheduler").enum_type(("default", "adaptive")).default_value("default")
    .with_description(
        "Whether the job keeps its parallelism (default), or adapts it to backlog and busy time between two epochs,"
        " without a restart (adaptive)."
    )
)  # fmt: skip
ADAPTIVE_COOLDOWN = (
    _key("jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling").duration_type().default_value(30 * _SECOND)
    .with_fallback_keys("jobmanager.adaptive-scheduler.scaling-interval.min")
    .with_description("The minimum time between two changes by the adaptive scheduler.")
)  # fmt: skip
ADAPTIVE_MIN_PARALLELISM = (
    _key("flott.adaptive.min-parallelism").int_type().default_value(1).at_least(1)
    .with_fallback_keys("job.autoscaler.vertex.min-parallelism")
    .with_description("The minimum parallelism of the adaptive scheduler.")
)  # fmt: skip
ADAPTIVE_MAX_PARALLELISM = (
    _key("flott.adaptive.max-parallelism").int_type().no_default_value().at_least(1)
    .with_fallback_keys("job.autoscaler.vertex.max-parallelism")
    .with_description(
        "The maximum parallelism of the adaptive scheduler; unset: the number of cores Spark has. It never exceeds"
        " those."
    )
)  # fmt: skip
ADAPTIVE_BUSY_HIGH = (
    _key("flott.adaptive.utilization.max").double_type().default_value(0.6)
    .with_fallback_keys("job.autoscaler.utilization.max")
    .with_description(
        "The busy share of time above which a job with a backlog gets a higher parallelism."
    )
)  # fmt: skip
ADAPTIVE_BUSY_LOW = (
    _key("flott.adaptive.utilization.min").double_type().default_value(0.3)
    .with_fallback_keys("job.autoscaler.utilization.min")
    .with_description("The busy share of time below which a job without a backlog gets a lower parallelism.")
)  # fmt: skip
ADAPTIVE_UP_EPOCHS = (
    _key("flott.adaptive.scale-up.epochs").int_type().default_value(3).at_least(1)
    .with_description("The number of consecutive epochs with a backlog before the parallelism is increased.")
)  # fmt: skip
ADAPTIVE_DOWN_INTERVAL = (
    _key("flott.adaptive.scale-down.interval").duration_type().default_value(_MINUTE)
    .with_fallback_keys("job.autoscaler.scale-down.interval")
    .with_description("The time without a backlog before the parallelism is reduced.")
)  # fmt: skip

# -------------------------------------------------------------------------------------------------------- Flott's own

EPOCH_TARGET_DURATION = (
    _key("flott.epoch.target-duration").duration_type().default_value(2 * _SECOND).at_least(1)
    .with_description("The target duration of an epoch, by which its input is sized.")
)  # fmt: skip
EPOCH_MIN_INTERVAL = (
    _key("flott.epoch.min-interval").duration_type().default_value(0)
    .with_description("The minimum time between the starts of two epochs.")
)  # fmt: skip
EPOCH_MAX_RECORDS = (
    _key("flott.epoch.max-records").int_type().default_value(4_000_000).at_least(1)
    .with_description("The maximum number of records that an epoch reads from all sources together.")
)  # fmt: skip
EPOCH_INITIAL_RECORDS = (
    _key("flott.epoch.initial-records").int_type().default_value(20_000).at_least(1)
    .with_description("The number of records that the first epoch reads, before anything was measured.")
)  # fmt: skip
EPOCH_POLL_INTERVAL = (
    _key("flott.epoch.poll-interval").duration_type().default_value(50).at_least(1)
    .with_description("The interval in which an idle job polls its sources for new input.")
)  # fmt: skip
ROUND_DURATION = (
    _key("flott.pipelined.round-duration").duration_type().default_value(20).at_least(1)
    .with_description(
        "How long a round of a pipelined source may take with a backlog. A barrier waits for the round that is being"
        " read, so longer rounds delay checkpoints; shorter ones cost throughput."
    )
)  # fmt: skip
EXCHANGE_BUFFER_RECORDS = (
    _key("flott.exchange.buffer-records").int_type().default_value(1024).at_least(1)
    .with_description("The number of records in one buffer between two stages.")
)  # fmt: skip
EXCHANGE_MEMORY = (
    _key("flott.exchange.memory").memory_type().default_value(256 * _MEGABYTE).at_least(1)
    .with_description(
        "The size of the input buffers of a task. In epochs it holds so much in memory before it spills to disk. In"
        " pipelined jobs it takes so much from its senders before it has processed any of it: 2 to 16 buffers of 128 kb"
        " from each, unless taskmanager.memory.network.max says otherwise; nothing is spilled."
    )
)  # fmt: skip
NETWORK_MEMORY_MAX = (
    _key("taskmanager.memory.network.max").memory_type().no_default_value().at_least(1)
    .with_description(
        "The memory of a slot of a pipelined job for buffers that its tasks receive and send. Each connection of two"
        " tasks takes 2 to 16 buffers of 128 kb at its receiver, and up to 3 at its sender; a job for which that is too"
        " little is refused with the size it needs. Unset: flott.exchange.memory for what each task receives."
    )
)  # fmt: skip
STORAGE_SYNC = (
    _key("flott.storage.sync").boolean_type().default_value(True)
    .with_description("Whether durable files are synced to disk before they count as written.")
)  # fmt: skip
S3_ENDPOINT = (
    _key("s3.endpoint").string_type().no_default_value()
    .with_description(
        "The address of an S3-compatible server, such as https://minio.example:9000; unset: Amazon's of the region."
        " With http:// requests go unencrypted."
    )
)  # fmt: skip
S3_REGION = (
    _key("s3.region").string_type().no_default_value().with_fallback_keys("s3.endpoint.region")
    .with_description("The region of the bucket; unset: what the environment says, or us-east-1.")
)  # fmt: skip
S3_PATH_STYLE = (
    _key("s3.path-style-access").boolean_type().default_value(False).with_fallback_keys("s3.path.style.access")
    .with_description("Whether the bucket is named in the path and not in the host: most servers of one's own need it.")
)  # fmt: skip
S3_ACCESS_KEY = (
    _key("s3.access-key").string_type().no_default_value()
    .with_description(
        "The id of an access key; unset: each process finds credentials by itself (environment, profile, role)."
    )
)  # fmt: skip
S3_SECRET_KEY = (
    _key("s3.secret-key").string_type().no_default_value()
    .with_description("The secret of s3.access-key; it travels to the executors with the job.")
)  # fmt: skip
S3_SESSION_TOKEN = (
    _key("s3.session-token").string_type().no_default_value()
    .with_description("The session token of a temporary s3.access-key; a secret.")
)  # fmt: skip
HEARTBEAT_INTERVAL = (
    _key("heartbeat.interval").duration_type().default_value(10 * _SECOND).at_least(1)
    .with_description("How often a slot of a pipelined job tells the driver that it lives.")
)  # fmt: skip
HEARTBEAT_TIMEOUT = (
    _key("heartbeat.timeout").duration_type().default_value(50 * _SECOND).at_least(1)
    .with_description(
        "A slot of a pipelined job that has told the driver nothing for this time is lost, and the tasks restart from"
        " the last checkpoint. More than heartbeat.interval."
    )
)  # fmt: skip
SLOT_REQUEST_TIMEOUT = (
    _key("slot.request.timeout").duration_type().default_value(5 * _MINUTE).at_least(1)
    .with_description(
        "How long a pipelined job waits until enough cores of Spark are free for all its slots. Then its tasks fail,"
        " and the restart strategy decides."
    )
)  # fmt: skip
INTERNAL_TLS = (
    _key("security.ssl.internal.enabled").boolean_type().default_value(False)
    .with_description(
        "Whether the connections of pipelined jobs between hosts use TLS. Both sides then show a certificate."
    )
)  # fmt: skip
INTERNAL_TLS_CERTIFICATE = (
    _key("flott.internal.ssl.certificate").string_type().no_default_value()
    .with_description("The certificate of all processes of a job, with its chain: a PEM file of the driver.")
)  # fmt: skip
INTERNAL_TLS_KEY = (
    _key("flott.internal.ssl.key").string_type().no_default_value()
    .with_description("The private key of flott.internal.ssl.certificate: a PEM file of the driver, not encrypted.")
)  # fmt: skip
INTERNAL_TLS_CA = (
    _key("flott.internal.ssl.ca").string_type().no_default_value()
    .with_description("The CA certificates for the certificates of the other side: a PEM file of the driver.")
)  # fmt: skip
LATENCY_INTERVAL = (
    _key("metrics.latency.interval").duration_type().default_value(0).at_least(0)
    .with_description(
        "How often every subtask of a source of a pipelined job sends a latency marker, which is passed on behind the"
        " records before it and whose age is measured at every operator; 0: never. Without effect in epochs, which have"
        " no markers."
    )
)  # fmt: skip
LATENCY_GRANULARITY = (
    _key("metrics.latency.granularity").enum_type(("single", "operator", "subtask")).default_value("operator")
    .with_description(
        "Which markers are measured as one at a subtask of an operator: those of all sources (single), of one source"
        " (operator), or of one subtask of a source (subtask). Each gives a histogram of its own."
    )
)  # fmt: skip
LATENCY_HISTORY = (
    _key("metrics.latency.history-size").int_type().default_value(128).at_least(1)
    .with_description("How many latency markers the numbers of a histogram cover: the last ones.")
)  # fmt: skip
OBJECT_STORE_REQUEST_TIMEOUT = (
    _key("flott.object-store.request-timeout").duration_type().default_value(30 * _SECOND).at_least(100)
    .with_description("How long one request to an object store may take before it is sent again.")
)  # fmt: skip
OBJECT_STORE_RETRY_TIMEOUT = (
    _key("flott.object-store.retry-timeout").duration_type().default_value(2 * _MINUTE).at_least(0)
    .with_description(
        "How long requests that an object store answers with an error, or not at all, are sent again, at growing"
        " intervals. Then the operation fails, and with it the checkpoint that it belongs to."
    )
)  # fmt: skip
PROGRESS = (
    _key("flott.progress").enum_type(("auto", "off", "live", "log")).default_value("auto")
    .with_description("How a running job is shown: off, as a live line, as log lines; auto: live in a terminal.")
)  # fmt: skip
LOG_DIR = (
    _key("flott.log.dir").string_type().no_default_value()
    .with_description("The directory for Spark's log; unset: flott-<user>/logs in the system's temporary directory.")
)  # fmt: skip

ALL_OPTIONS: tuple[ConfigOption[Any], ...] = tuple(
    value
    for value in [*globals().values(), *vars(_cluster_options).values()]
    if isinstance(value, ConfigOption)
)

_OPTIONS_BY_KEY = {key: option for option in ALL_OPTIONS for key in option.spellings()}


#: Prefixes of Flink's options that have no effect in Flott and change no result, so that a ported program may set them.
_WITHOUT_EFFECT = (
    "python.", "pipeline.jars", "pipeline.classpaths", "pipeline.closure-cleaner-level", "pipeline.force-avro",
    "pipeline.force-kryo", "pipeline.generic-types", "pipeline.registered-", "pipeline.default-kryo-serializers",
    "pipeline.serialization-config", "pipeline.cached-files", "pipeline.watermark-alignment.", "metrics.", "task.",
    "taskmanager.", "jobmanager.", "resourcemanager.", "cluster.", "slot.", "slotmanager.", "rest.", "web.", "env.",
    "client.", "classloader.", "security.", "high-availability", "heartbeat.", "akka.", "pekko.", "blob.", "fs.",
    "state.backend.rocksdb.", "state.backend.incremental", "state.backend.local-recovery",
    "state.backend.changelog.", "execution.checkpointing.snapshot-compression", "execution.checkpointing.local-backup.",
    "yarn.", "kubernetes.", "execution.checkpointing.unaligned",
    "execution.checkpointing.mode",
    "execution.checkpointing.incremental", "execution.checkpointing.max-concurrent-checkpoints",
)  # fmt: skip

_porting = logging.getLogger("flott.porting")


def validate(configuration: Configuration) -> None:
    """Refuse unknown keys and invalid values, before anything runs."""
    for key, text in configuration.to_dict().items():
        if not check(key, text):
            _porting.warning("The option %s has no effect in Flott, which has no such part.", key)


def check(key: str, text: str) -> bool:
    """Refuse an unknown key or an invalid value, and return whether the key has an effect."""
    if key in _OPTIONS_BY_KEY:
        _OPTIONS_BY_KEY[key].parse(text)
    elif key.startswith(("spark.", "metrics.reporter.", "traces.reporter.", "table.", "sql-client.")):
        return True  # Spark, the reporters and the sessions of tables check theirs
    elif not key.startswith(_WITHOUT_EFFECT) or _is_misspelt(key):
        raise ConfigurationError(f"Unknown option {key!r}{suggestion(key)}")
    return key in _OPTIONS_BY_KEY


def option_of(key: str) -> ConfigOption[Any] | None:
    """Return the option with this key or older spelling."""
    return _OPTIONS_BY_KEY.get(key)


def read(configuration: Configuration, option: ConfigOption[T]) -> T:
    """Return the typed value of an option, or its default: durations in milliseconds, sizes in bytes."""
    return configuration.get(option)


def buffer_timeout_ms(configuration: Configuration) -> int | None:
    """Return how long a busy task of a pipelined job collects records; None: until buffers are full."""
    return read(configuration, BUFFER_TIMEOUT) if read(configuration, BUFFER_TIMEOUT_ENABLED) else None


def object_store_settings(configuration: Configuration) -> ObjectStoreSettings:
    """Return how object stores are reached."""
    access_key, secret_key = read(configuration, S3_ACCESS_KEY), read(configuration, S3_SECRET_KEY)
    if (access_key is None) != (secret_key is None):
        raise ConfigurationError(
            "s3.access-key and s3.secret-key belong together, found only one of them. Set both, or neither to use the"
            " credentials that each machine finds by itself."
        )
    endpoint = read(configuration, S3_ENDPOINT)
    if endpoint is not None and "://" not in endpoint:
        endpoint = f"https://{endpoint}"
    return ObjectStoreSettings(
        endpoint, read(configuration, S3_REGION), read(configuration, S3_PATH_STYLE), access_key, secret_key,
        read(configuration, S3_SESSION_TOKEN), read(configuration, OBJECT_STORE_REQUEST_TIMEOUT),
        read(configuration, OBJECT_STORE_RETRY_TIMEOUT),
    )  # fmt: skip


def default_text(option: ConfigOption[Any]) -> str:
    """Return the text of an option's default, or an empty text."""
    default = option.default
    if default is None:
        return ""
    if option.value_type is value_types.DURATION:
        return f"{default // 1000} s" if default and default % 1000 == 0 else f"{default} ms"
    if option.value_type is value_types.MEMORY:
        return f"{default // _MEGABYTE} mb" if default % _MEGABYTE == 0 else f"{default} b"
    return str(default) if isinstance(default, dict | list) else to_text(default)


def needs_shared_storage(configuration: Configuration) -> bool:
    """Return whether tasks run on other machines, so that state needs shared storage."""
    local = configuration.get_string("spark.master", "local[*]").startswith("local")
    return read(configuration, TARGET) == "spark" and not local


def slots_per_executor(configuration: Configuration) -> int:
    """Return the number of concurrent tasks of one executor."""
    if read(configuration, TARGET) != "spark":
        return 1
    master = configuration.get_string("spark.master", "local[*]")
    if found := re.fullmatch(r"local(?:\[(\d+|\*)(?:,.*)?\])?", master):
        return int(found[1] or 1) if found[1] != "*" else os.cpu_count() or 1
    if found := re.fullmatch(r"local-cluster\[\d+,(\d+),\d+\]", master.replace(" ", "")):
        return int(found[1])
    return int(configuration.get_string("spark.executor.cores", "1"))


def suggestion(key: str) -> str:
    """Return the end of a sentence about an unknown key, with the most similar key."""
    nearest = difflib.get_close_matches(key, _OPTIONS_BY_KEY, n=1)
    if nearest:
        return f": did you mean {_OPTIONS_BY_KEY[nearest[0]].key!r}?"
    return ": remove it; Spark's own options begin with 'spark.'."


def _is_misspelt(key: str) -> bool:
    """Return whether a key differs from one of Flott's by at most two letters."""
    nearest = difflib.get_close_matches(key, _OPTIONS_BY_KEY, n=1, cutoff=0.85)
    return bool(nearest) and _edits(key, nearest[0]) <= 2


def _edits(one: str, other: str) -> int:
    """Return the number of insertions, deletions and substitutions that convert one text to the other."""
    row = list(range(len(other) + 1))
    for above, letter in enumerate(one, 1):
        diagonal, row[0] = row[0], above
        for column, opposite in enumerate(other, 1):
            diagonal, row[column] = row[column], min(
                row[column] + 1, row[column - 1] + 1, diagonal + (letter != opposite)
            )
    return row[-1]

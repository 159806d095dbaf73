"""Every option Flott knows. The page of options in the documentation is made from ``ALL_OPTIONS``.

Names are Flink's where Flink has the option; what is Flott's own begins with ``flott.`` or says so. Keys that begin
with ``spark.`` are Spark's and pass through unread. Driver side.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
from typing import Any, TypeVar

from flott.common import _cluster_options
from flott.common import _value_types as value_types
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
    .with_description("How many subtasks an operator has that does not say so itself; unset: the number of cores.")
)  # fmt: skip
MAX_PARALLELISM = (
    _key("pipeline.max-parallelism").int_type().default_value(128).at_least(1)
    .with_description("The number of key groups, and so the highest parallelism the job's state can ever be used with.")
)  # fmt: skip
PIPELINE_NAME = (
    _key("pipeline.name").string_type().no_default_value()
    .with_description("The name of the job.")
)  # fmt: skip
OPERATOR_CHAINING = (
    _key("pipeline.operator-chaining.enabled").boolean_type().default_value(True)
    .with_fallback_keys("pipeline.operator-chaining")
    .with_description("Whether operators joined by forward edges are fused into one loop.")
)  # fmt: skip
AUTO_GENERATE_UIDS = (
    _key("pipeline.auto-generate-uids").boolean_type().default_value(True)
    .with_description("Whether operators without a uid get one from the program's shape; if not, they are refused.")
)  # fmt: skip
AUTO_WATERMARK_INTERVAL = (
    _key("pipeline.auto-watermark-interval").duration_type().default_value(200)
    .with_description("Accepted for Flink's sake: Flott advances event time at the end of every epoch.")
)  # fmt: skip
OBJECT_REUSE = (
    _key("pipeline.object-reuse").boolean_type().default_value(True)
    .with_description("Accepted for Flink's sake: chained Python functions always hand on the object itself.")
)  # fmt: skip
GLOBAL_JOB_PARAMETERS = (
    _key("pipeline.global-job-parameters").map_type().default_value({})
    .with_description("Parameters that every function of the job can read.")
)  # fmt: skip
PYTHON_FILES = (
    _key("python.files").string_type().no_default_value()
    .with_description(
        "Python modules (.py), folders and archives (.zip, .egg, .whl) that functions of the job import, separated by"
        " commas; they are sent to the workers, which import them before their own."
    )
)  # fmt: skip
PYTHON_REQUIREMENTS = (
    _key("python.requirements").string_type().no_default_value()
    .with_description(
        "A requirements.txt of packages that functions of the job import; behind # a folder with packages to install"
        " them from, without the network. They are installed once, into a folder of their own in $FLOTT_HOME."
    )
)  # fmt: skip
PYTHON_ARCHIVES = (
    _key("python.archives").string_type().no_default_value()
    .with_description(
        "Archives (.zip, .tar, .tar.gz) that are unpacked into the working directory of the workers, separated by"
        " commas; behind # the folder each is unpacked into, which is named like the archive by default. In-process"
        " functions do not see them."
    )
)  # fmt: skip
RUNTIME_MODE = (
    _key("execution.runtime-mode").enum_type(("STREAMING", "BATCH", "AUTOMATIC")).default_value("STREAMING")
    .with_description(
        "STREAMING refines results as input comes; BATCH reads bounded input in one epoch and gives final results only;"
        " AUTOMATIC is BATCH if all sources are bounded."
    )
)  # fmt: skip
TARGET = (
    _key("execution.target").enum_type(("spark", "in-process", "remote")).default_value("spark")
    .with_description(
        "Where the job runs: here with its epochs as Spark jobs, inside this very process for tests and debugging, or"
        " in the JobManager of a session (remote: rest.address, rest.port)."
    )
)  # fmt: skip

# --------------------------------------------------------------------------------------- checkpoints, state, recovery

CHECKPOINT_DIR = (
    _key("execution.checkpointing.dir").string_type().no_default_value().with_fallback_keys("state.checkpoints.dir")
    .with_description("The directory that holds the job's checkpoints.")
)  # fmt: skip
CHECKPOINT_INTERVAL = (
    _key("execution.checkpointing.interval").duration_type().no_default_value().at_least(1)
    .with_description("How long an epoch takes at most (an epoch is a checkpoint); see flott.epoch.target-duration.")
)  # fmt: skip
CHECKPOINT_MIN_PAUSE = (
    _key("execution.checkpointing.min-pause").duration_type().default_value(0).at_least(0)
    .with_description("The shortest time between the end of an epoch (which is a checkpoint) and the start of another.")
)  # fmt: skip
CHECKPOINT_TIMEOUT = (
    _key("execution.checkpointing.timeout").duration_type().default_value(10 * _MINUTE).at_least(10)
    .with_description(
        "How long an epoch may take. One that takes longer is cancelled and counts as a failed checkpoint; it is tried"
        " again with less input. Not in BATCH mode, which takes no checkpoints."
    )
)  # fmt: skip
TOLERABLE_FAILED_CHECKPOINTS = (
    _key("execution.checkpointing.tolerable-failed-checkpoints").int_type().default_value(0).at_least(0)
    .with_description(
        "How many checkpoints may fail in a row, because storage fails or an epoch takes too long, before it counts as"
        " a failure of the job that the restart strategy answers. Until then the epoch is tried again at once."
    )
)  # fmt: skip
CHECKPOINTS_RETAINED = (
    _key("execution.checkpointing.num-retained").int_type().default_value(1).at_least(1)
    .with_fallback_keys("state.checkpoints.num-retained")
    .with_description("How many completed checkpoints are kept.")
)  # fmt: skip
CHECKPOINT_RETENTION = (
    _key("execution.checkpointing.externalized-checkpoint-retention")
    .enum_type(("NO_EXTERNALIZED_CHECKPOINTS", "DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION"))
    .default_value("DELETE_ON_CANCELLATION")
    .with_description(
        "What becomes of the last checkpoints when the job ends. They are deleted when it finishes, and kept when it"
        " fails (unless NO_EXTERNALIZED_CHECKPOINTS); when it is cancelled they are kept with RETAIN_ON_CANCELLATION."
    )
)  # fmt: skip
RECOVERY_PATH = (
    _key("execution.state-recovery.path").string_type().no_default_value()
    .with_fallback_keys("execution.savepoint.path")
    .with_description("The savepoint or checkpoint the job starts from: the path of its folder.")
)  # fmt: skip
RECOVERY_CLAIM_MODE = (
    _key("execution.state-recovery.claim-mode").enum_type(("NO_CLAIM", "CLAIM", "LEGACY")).default_value("NO_CLAIM")
    .with_fallback_keys("execution.savepoint-restore-mode")
    .with_description(
        "Whose the savepoint or checkpoint is that the job starts from. NO_CLAIM: its files are copied first, and it"
        " may be deleted as soon as the job runs. CLAIM: the job uses the files where they are and deletes them when it"
        " does not need them any more. LEGACY, which Flink has given up, is refused."
    )
)  # fmt: skip
IGNORE_UNCLAIMED_STATE = (
    _key("execution.state-recovery.ignore-unclaimed-state").boolean_type().default_value(False)
    .with_fallback_keys("execution.savepoint.ignore-unclaimed-state")
    .with_description(
        "Whether the job may start from a savepoint or checkpoint that holds state of operators the program does not"
        " have: that state is left behind (in Flink's command line: allowNonRestoredState)."
    )
)  # fmt: skip
RECOVER_FROM_LATEST = (
    _key("execution.state-recovery.from-latest").boolean_type().default_value(False)
    .with_description("Whether the job starts from the latest checkpoint in its own directory (Flott's own option).")
)  # fmt: skip
SAVEPOINT_DIR = (
    _key("execution.checkpointing.savepoint-dir").string_type().no_default_value()
    .with_fallback_keys("state.savepoints.dir")
    .with_description("The directory for savepoints whose request names none.")
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
        "The memory that the state of all tasks of an executor may take with the rocksdb backend, in the database and"
        " as Python objects; each task that can run at the same time gets an equal part."
    )
)  # fmt: skip
LOCAL_DIR = (
    _key("state.backend.rocksdb.localdir").string_type().no_default_value().with_fallback_keys("io.tmp.dirs")
    .with_description(
        "The directory on each executor's local disk for databases of the rocksdb backend; of several, separated by"
        " commas, the first. Unset: the system's temporary directory."
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
        "What happens when an epoch fails; unset: as in Flink, exponential-delay if the job takes checkpoints."
    )
)  # fmt: skip
FIXED_DELAY_ATTEMPTS = (
    _key("restart-strategy.fixed-delay.attempts").int_type().default_value(1).at_least(0)
    .with_description("How many restarts there are before the job fails.")
)  # fmt: skip
FIXED_DELAY_DELAY = (
    _key("restart-strategy.fixed-delay.delay").duration_type().default_value(_SECOND)
    .with_description("The pause before every restart.")
)  # fmt: skip
EXPONENTIAL_INITIAL_BACKOFF = (
    _key("restart-strategy.exponential-delay.initial-backoff").duration_type().default_value(_SECOND).at_least(1)
    .with_description("The pause before the first restart.")
)  # fmt: skip
EXPONENTIAL_MAX_BACKOFF = (
    _key("restart-strategy.exponential-delay.max-backoff").duration_type().default_value(_MINUTE).at_least(1)
    .with_description("The longest pause before a restart.")
)  # fmt: skip
EXPONENTIAL_MULTIPLIER = (
    _key("restart-strategy.exponential-delay.backoff-multiplier").double_type().default_value(1.5).at_least(1)
    .with_description("By how much every pause is longer than the one before.")
)  # fmt: skip
EXPONENTIAL_RESET_THRESHOLD = (
    _key("restart-strategy.exponential-delay.reset-backoff-threshold").duration_type().default_value(_HOUR).at_least(1)
    .with_description("How long the job must run without a failure until the pause is the initial one again.")
)  # fmt: skip
EXPONENTIAL_JITTER = (
    _key("restart-strategy.exponential-delay.jitter-factor").double_type().default_value(0.1).at_least(0)
    .with_description("Which part of a pause is added or taken away at random.")
)  # fmt: skip
EXPONENTIAL_ATTEMPTS = (
    _key("restart-strategy.exponential-delay.attempts-before-reset-backoff").int_type().default_value(2**31 - 1)
    .at_least(0)
    .with_description("How many restarts there are, before the pause is reset, until the job fails.")
)  # fmt: skip
FAILURE_RATE_MAX_FAILURES = (
    _key("restart-strategy.failure-rate.max-failures-per-interval").int_type().default_value(1).at_least(0)
    .with_description("How many failures within the interval are forgiven.")
)  # fmt: skip
FAILURE_RATE_INTERVAL = (
    _key("restart-strategy.failure-rate.failure-rate-interval").duration_type().default_value(_MINUTE).at_least(1)
    .with_description("The interval in which failures are counted.")
)  # fmt: skip
FAILURE_RATE_DELAY = (
    _key("restart-strategy.failure-rate.delay").duration_type().default_value(_SECOND)
    .with_description("The pause before every restart.")
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------- rescaling

SCHEDULER = (
    _key("jobmanager.scheduler").enum_type(("default", "adaptive")).default_value("default")
    .with_description(
        "Whether the job keeps its parallelism (default) or follows backlog and busy time, between two epochs and"
        " without a restart (adaptive)."
    )
)  # fmt: skip
ADAPTIVE_COOLDOWN = (
    _key("jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling").duration_type().default_value(30 * _SECOND)
    .with_fallback_keys("jobmanager.adaptive-scheduler.scaling-interval.min")
    .with_description("How long the adaptive scheduler leaves a parallelism alone after it was changed.")
)  # fmt: skip
ADAPTIVE_MIN_PARALLELISM = (
    _key("flott.adaptive.min-parallelism").int_type().default_value(1).at_least(1)
    .with_fallback_keys("job.autoscaler.vertex.min-parallelism")
    .with_description("The lowest parallelism the adaptive scheduler chooses.")
)  # fmt: skip
ADAPTIVE_MAX_PARALLELISM = (
    _key("flott.adaptive.max-parallelism").int_type().no_default_value().at_least(1)
    .with_fallback_keys("job.autoscaler.vertex.max-parallelism")
    .with_description(
        "The highest parallelism the adaptive scheduler chooses; unset: the number of cores Spark has. It never exceeds"
        " those."
    )
)  # fmt: skip
ADAPTIVE_BUSY_HIGH = (
    _key("flott.adaptive.utilization.max").double_type().default_value(0.6)
    .with_fallback_keys("job.autoscaler.utilization.max")
    .with_description(
        "The share of the time that tasks are at work above which a job with a backlog gets more parallelism."
    )
)  # fmt: skip
ADAPTIVE_BUSY_LOW = (
    _key("flott.adaptive.utilization.min").double_type().default_value(0.3)
    .with_fallback_keys("job.autoscaler.utilization.min")
    .with_description("The share below which a job without a backlog gets less.")
)  # fmt: skip
ADAPTIVE_UP_EPOCHS = (
    _key("flott.adaptive.scale-up.epochs").int_type().default_value(3).at_least(1)
    .with_description("How many epochs in a row must ask for more parallelism.")
)  # fmt: skip
ADAPTIVE_DOWN_INTERVAL = (
    _key("flott.adaptive.scale-down.interval").duration_type().default_value(_MINUTE)
    .with_fallback_keys("job.autoscaler.scale-down.interval")
    .with_description("For how long all epochs must ask for less.")
)  # fmt: skip

# -------------------------------------------------------------------------------------------------------- Flott's own

EPOCH_TARGET_DURATION = (
    _key("flott.epoch.target-duration").duration_type().default_value(2 * _SECOND).at_least(1)
    .with_description("How long an epoch should take; the next epoch's input is sized by it.")
)  # fmt: skip
EPOCH_MIN_INTERVAL = (
    _key("flott.epoch.min-interval").duration_type().default_value(0)
    .with_description("The shortest time between the starts of two epochs.")
)  # fmt: skip
EPOCH_MAX_RECORDS = (
    _key("flott.epoch.max-records").int_type().default_value(4_000_000).at_least(1)
    .with_description("The most records an epoch reads from all sources together.")
)  # fmt: skip
EPOCH_INITIAL_RECORDS = (
    _key("flott.epoch.initial-records").int_type().default_value(20_000).at_least(1)
    .with_description("How many records the first epoch reads, before anything was measured.")
)  # fmt: skip
EPOCH_POLL_INTERVAL = (
    _key("flott.epoch.poll-interval").duration_type().default_value(50).at_least(1)
    .with_description("How often an idle job asks its sources for new input.")
)  # fmt: skip
EXCHANGE_BUFFER_RECORDS = (
    _key("flott.exchange.buffer-records").int_type().default_value(1024).at_least(1)
    .with_description("How many records travel together in one buffer between two stages.")
)  # fmt: skip
EXCHANGE_MEMORY = (
    _key("flott.exchange.memory").memory_type().default_value(256 * _MEGABYTE).at_least(1)
    .with_description("How many bytes of input buffers a task holds before it spills to disk.")
)  # fmt: skip
STORAGE_SYNC = (
    _key("flott.storage.sync").boolean_type().default_value(True)
    .with_description("Whether durable files are forced to disk before they count as written.")
)  # fmt: skip
PROGRESS = (
    _key("flott.progress").enum_type(("auto", "off", "live", "log")).default_value("auto")
    .with_description("How a running job is shown: not at all, as a live line, as log lines; auto: live in a terminal.")
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


#: Options of Flink's that a ported program may carry along and that change no result here: beginnings of their keys.
_WITHOUT_EFFECT = (
    "python.", "pipeline.jars", "pipeline.classpaths", "pipeline.closure-cleaner-level", "pipeline.force-avro",
    "pipeline.force-kryo", "pipeline.generic-types", "pipeline.registered-", "pipeline.default-kryo-serializers",
    "pipeline.serialization-config", "pipeline.cached-files", "pipeline.watermark-alignment.", "metrics.", "task.",
    "taskmanager.", "jobmanager.", "resourcemanager.", "cluster.", "slot.", "slotmanager.", "rest.", "web.", "env.",
    "client.", "classloader.", "security.", "high-availability", "heartbeat.", "akka.", "pekko.", "blob.", "fs.",
    "state.backend.rocksdb.", "state.backend.incremental", "state.backend.local-recovery",
    "state.backend.changelog.", "execution.checkpointing.snapshot-compression", "execution.checkpointing.local-backup.",
    "yarn.", "kubernetes.", "execution.buffer-timeout", "execution.checkpointing.unaligned",
    "execution.checkpointing.mode",
    "execution.checkpointing.incremental", "execution.checkpointing.max-concurrent-checkpoints",
)  # fmt: skip

_porting = logging.getLogger("flott.porting")


def validate(configuration: Configuration) -> None:
    """Refuses keys nobody reads and values nobody could read, before anything runs."""
    for key, text in configuration.to_dict().items():
        if not check(key, text):
            _porting.warning("The option %s has no effect in Flott, which has no such part.", key)


def check(key: str, text: str) -> bool:
    """Refuses a key nobody reads and a value nobody could read; whether the key has an effect."""
    if key in _OPTIONS_BY_KEY:
        _OPTIONS_BY_KEY[key].parse(text)
    elif key.startswith(("spark.", "metrics.reporter.", "traces.reporter.")):
        return True  # Spark and the reporters look through theirs
    elif not key.startswith(_WITHOUT_EFFECT) or _is_misspelt(key):
        raise ConfigurationError(f"Unknown option {key!r}{suggestion(key)}")
    return key in _OPTIONS_BY_KEY


def option_of(key: str) -> ConfigOption[Any] | None:
    """The option with this key, or with it as an older spelling."""
    return _OPTIONS_BY_KEY.get(key)


def read(configuration: Configuration, option: ConfigOption[T]) -> T:
    """The typed value of an option, or its default: durations in milliseconds, sizes in bytes."""
    return configuration.get(option)


def default_text(option: ConfigOption[Any]) -> str:
    """The default of an option as somebody would write it; empty if it has none."""
    default = option.default
    if default is None:
        return ""
    if option.value_type is value_types.DURATION:
        return f"{default // 1000} s" if default and default % 1000 == 0 else f"{default} ms"
    if option.value_type is value_types.MEMORY:
        return f"{default // _MEGABYTE} mb" if default % _MEGABYTE == 0 else f"{default} b"
    return str(default) if isinstance(default, dict | list) else to_text(default)


def needs_shared_storage(configuration: Configuration) -> bool:
    """Whether tasks run on other machines, so that state must be where all of them can reach it."""
    local = configuration.get_string("spark.master", "local[*]").startswith("local")
    return read(configuration, TARGET) == "spark" and not local


def slots_per_executor(configuration: Configuration) -> int:
    """How many tasks run at the same time in one executor."""
    if read(configuration, TARGET) != "spark":
        return 1
    master = configuration.get_string("spark.master", "local[*]")
    if found := re.fullmatch(r"local(?:\[(\d+|\*)(?:,.*)?\])?", master):
        return int(found[1] or 1) if found[1] != "*" else os.cpu_count() or 1
    if found := re.fullmatch(r"local-cluster\[\d+,(\d+),\d+\]", master.replace(" ", "")):
        return int(found[1])
    return int(configuration.get_string("spark.executor.cores", "1"))


def suggestion(key: str) -> str:
    """The end of a sentence about an unknown key: the nearest one."""
    nearest = difflib.get_close_matches(key, _OPTIONS_BY_KEY, n=1)
    if nearest:
        return f": did you mean {_OPTIONS_BY_KEY[nearest[0]].key!r}?"
    return ": remove it; Spark's own options begin with 'spark.'."


def _is_misspelt(key: str) -> bool:
    """Whether a key is one of ours but for two letters: then it is no option of Flink's that Flott does without."""
    nearest = difflib.get_close_matches(key, _OPTIONS_BY_KEY, n=1, cutoff=0.85)
    return bool(nearest) and _edits(key, nearest[0]) <= 2


def _edits(one: str, other: str) -> int:
    """How many letters have to be put in, taken out or changed to make one text the other."""
    row = list(range(len(other) + 1))
    for above, letter in enumerate(one, 1):
        diagonal, row[0] = row[0], above
        for column, opposite in enumerate(other, 1):
            diagonal, row[column] = row[column], min(
                row[column] + 1, row[column - 1] + 1, diagonal + (letter != opposite)
            )
    return row[-1]

"""Writes docs/configuration.md from the options themselves: ``make docs``."""

from __future__ import annotations

from pathlib import Path

from flott.common._options import ALL_OPTIONS, default_text
from flott.common.config_options import ConfigOption

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"

HEAD = """# Configuration

An option can be set in four places. Later ones override earlier ones:

1. a file: the one given by `flott --config` or `$FLOTT_CONF_FILE`, else `$FLOTT_CONF_DIR/flott.yaml`, else
   `flott.yaml` in the working directory, else `~/.flott/flott.yaml` (`$FLOTT_HOME`). Keys may be nested or dotted:

   ```yaml
   parallelism.default: 4
   execution:
     checkpointing:
       interval: 10 s
       dir: /data/checkpoints
   ```

2. the environment: `FLOTT_` and the key in upper case, with `_` for dots and dashes and without a leading `flott.`:
   `FLOTT_REST_PORT=8081` for `rest.port`, `FLOTT_EPOCH_TARGET_DURATION` for `flott.epoch.target-duration`;
3. the command line: `flott -D parallelism.default=4 …`;
4. the program: the `Configuration` given to `StreamExecutionEnvironment.get_execution_environment(...)`, then the
   environment's own methods.

An option with the same meaning as in Flink has Flink's name. Flott's own options begin with `flott.`. Keys that begin
with `spark.` are passed to Spark. An unknown key raises an error with the file, the line and the most similar key.
`flott config` prints every option with its value and origin, `flott config check flott.yaml` checks a file.

Options that begin with `table.` are settings of a SQL session; [tuning](table/tuning.md#options) lists them.

`make docs` generates this page.

| option | value | default | meaning |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The whole page."""
    rows = sorted(ALL_OPTIONS, key=lambda option: option.key)
    return HEAD + "".join(f"| {' | '.join(_cells(option))} |\n" for option in rows)


def _cells(option: ConfigOption[object]) -> tuple[str, str, str, str]:
    default = "" if option.default is None else f"`{default_text(option)}`"
    older = f" (also: {', '.join(f'`{key}`' for key in option.fallback_keys)})" if option.fallback_keys else ""
    expected = option.value_type.expected.replace("|", "\\|")
    return f"`{option.key}`{older}", expected, default, option.description


if __name__ == "__main__":
    PAGE.write_text(page())

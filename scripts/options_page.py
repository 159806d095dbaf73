"""Writes docs/configuration.md from the options themselves: ``make docs``."""

from __future__ import annotations

from pathlib import Path

from flott.common._options import ALL_OPTIONS
from flott.common.config_options import ConfigOption

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"

HEAD = """# Configuration

Options are set on a `Configuration` that is given to `StreamExecutionEnvironment.get_execution_environment(...)`, or
through the environment's own methods. Names are Flink's where the meaning is the same; Flott's own begin with `flott.`.
Keys that begin with `spark.` are passed to Spark. An unknown key is an error that suggests the nearest one.

This page is made by `make docs`.

| option | value | default | meaning |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The whole page."""
    rows = sorted(ALL_OPTIONS, key=lambda option: option.key)
    return HEAD + "".join(f"| {' | '.join(_cells(option))} |\n" for option in rows)


def _cells(option: ConfigOption[object]) -> tuple[str, str, str, str]:
    default = "" if option.default is None else f"`{_shown(option)}`"
    older = f" (also: {', '.join(f'`{key}`' for key in option.fallback_keys)})" if option.fallback_keys else ""
    expected = option.value_type.expected.replace("|", "\\|")
    return f"`{option.key}`{older}", expected, default, option.description


def _shown(option: ConfigOption[object]) -> str:
    """The default as somebody would write it."""
    default = option.default
    if "duration" in option.value_type.expected and isinstance(default, int):
        return f"{default // 1000} s" if default and default % 1000 == 0 else f"{default} ms"
    if "memory" in option.value_type.expected or "size" in option.value_type.expected:
        return f"{default // (1 << 20)} mb" if isinstance(default, int) else str(default)
    return str(default).lower() if isinstance(default, bool) else str(default)


if __name__ == "__main__":
    PAGE.write_text(page())

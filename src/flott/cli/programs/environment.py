"""The environment by which a program, or a JobManager that is started, learns what the command line said."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from flott.cli.invocation import Invocation
from flott.common import _settings


def environment_of(invocation: Invocation, properties: Mapping[str, str]) -> dict[str, str]:
    """The variables that hand settings on."""
    before = json.loads(os.environ.get(_settings.PROPERTIES) or "{}")
    made = {_settings.PROPERTIES: json.dumps({**before, **properties})}
    if invocation.config_file is not None:
        made[_settings.CONF_FILE] = str(Path(invocation.config_file).absolute())
    return made


@contextmanager
def handed_on(invocation: Invocation, properties: Mapping[str, str]) -> Iterator[None]:
    """Hand settings on to what runs in this process, and to what it starts."""
    made = environment_of(invocation, properties)
    before = {name: os.environ.get(name) for name in made}
    os.environ |= made
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                del os.environ[name]
            else:
                os.environ[name] = text

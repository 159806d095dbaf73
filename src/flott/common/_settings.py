"""The configuration from outside the program: a file, then the environment, then the command line. Driver side.

Later sources override earlier ones, option by option. Every value has an origin, so that an error message contains the
file and line or the variable, and ``flott config`` can show it.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flott.common import _options as options
from flott.common._value_types import MAP, to_text
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError

if TYPE_CHECKING:
    from yaml import MappingNode, Node

FILE_NAME = "flott.yaml"
#: The folder of flott.yaml, the file itself, the user's folder, and the options that a parent process passes on.
CONF_DIR = "FLOTT_CONF_DIR"
CONF_FILE = "FLOTT_CONF_FILE"
HOME = "FLOTT_HOME"
PROPERTIES = "FLOTT_PROPERTIES"

_PREFIX = "FLOTT_"
#: A variable at least this similar to an option is a misspelling. Others, such as those of Kubernetes, are ignored.
_ALIKE = 0.85
#: Kubernetes sets variables for every service in every container: for flott-rest, FLOTT_REST_PORT=tcp://...
_OF_KUBERNETES = re.compile(r".*_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT_\d+_(TCP|UDP|SCTP)(_.*)?)")


@dataclass(frozen=True)
class Origin:
    """The origin of a value."""

    kind: str  #: "file", "environment" or "command line"
    place: str  #: "flott.yaml:12", "FLOTT_REST_PORT", "-D"

    def __str__(self) -> str:
        return self.place if self.kind == "file" else f"{self.kind} ({self.place})"


@dataclass(frozen=True)
class Settings:
    """A configuration, and the origin of each of its values."""

    configuration: Configuration
    origins: Mapping[str, Origin] = field(default_factory=dict)
    file: Path | None = None  #: the file that was read

    def under(self, explicit: Configuration | None) -> Configuration:
        """Return these settings overridden by those that a program sets in code."""
        return Configuration(self.configuration) if explicit is None else overlay(self.configuration, explicit)


@dataclass(frozen=True)
class Entry:
    """A value that is set."""

    key: str
    text: str
    origin: Origin


@dataclass(frozen=True)
class Finding:
    """A problem with an entry of a configuration file."""

    place: str
    key: str
    message: str
    wrong: bool  #: False: harmless


def load(
    command_line: Mapping[str, str] | None = None, *, file: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:  # fmt: skip
    """Return everything that is set outside the program. ``file`` replaces the file that would be found."""
    variables = os.environ if environment is None else environment
    path = Path(file) if file else find_file(variables)
    entries = [
        *(read_file(path) if path is not None else ()),
        *_variables(variables),
        *_handed_on(variables),
        *(Entry(key, text, Origin("command line", "-D")) for key, text in (command_line or {}).items()),
    ]
    values: dict[str, str] = {}
    origins: dict[str, Origin] = {}
    for entry in entries:
        key = _checked(entry)
        values[key], origins[key] = entry.text, entry.origin
    return Settings(Configuration.of(values), origins, path)


def find_file(environment: Mapping[str, str]) -> Path | None:
    """Return the configuration file, or None. A file that is named explicitly must exist."""
    if named := environment.get(CONF_FILE):
        return _existing(Path(named), CONF_FILE)
    if folder := environment.get(CONF_DIR):
        return _existing(Path(folder) / FILE_NAME, CONF_DIR)
    home = Path(environment.get(HOME) or "~/.flott").expanduser()
    return next((path for path in (Path(FILE_NAME), home / FILE_NAME) if path.is_file()), None)


def read_file(path: Path) -> list[Entry]:
    """Return the entries of a file: YAML with nested or dotted keys, each option at most once."""
    try:
        return parse(path.read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"The configuration file {path} cannot be read: {error}.") from error


def parse(text: str, path: Path) -> list[Entry]:
    """Return the entries of the text of a file."""
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        shown = str(error).replace('in "<unicode string>", line', "in line")
        raise ConfigurationError(f"{path} is no YAML: {shown}") from error
    if root is None:
        return []
    if not isinstance(root, yaml.MappingNode):
        raise ConfigurationError(f"{path} holds no options: expected lines such as rest.port: 8081.")
    try:
        entries = list(_walk(root, (), path))
    except RecursionError:
        raise ConfigurationError(f"{path} has a value that holds itself: write it without & and *.") from None
    first: dict[str, Entry] = {}
    for entry in entries:
        other = first.setdefault(_canonical(entry.key), entry)
        if other is not entry:
            raise ConfigurationError(
                f"{entry.origin}: {entry.key} is set a second time, it was in {other.origin} before: remove one."
            )
    return entries


def findings(path: Path) -> list[Finding]:
    """Return all problems of a file, not only the first. Raise an error if it cannot be read."""
    found = []
    for entry in read_file(path):
        try:
            if not options.check(entry.key, entry.text):
                message = "It has no effect in Flott, which has no such part."
                found.append(Finding(entry.origin.place, entry.key, message, wrong=False))
        except ConfigurationError as error:
            found.append(Finding(entry.origin.place, entry.key, str(error), wrong=True))
    return found


def overlay(lower: Configuration, upper: Configuration) -> Configuration:
    """Return both. If both set an option, under any spelling, return the upper one's value."""
    upper_keys = {_canonical(key) for key in upper.key_set()}
    kept = {key: value for key, value in lower.to_dict().items() if _canonical(key) not in upper_keys}
    return Configuration.of(kept).add_all(upper)


def variable_of(key: str) -> str:
    """Return the environment variable that sets an option: FLOTT_REST_PORT for rest.port."""
    return _PREFIX + re.sub(r"[.-]", "_", key.removeprefix("flott.")).upper()


# ------------------------------------------------------------------------------------------------------------- the file


def _existing(path: Path, variable: str) -> Path:
    if not path.is_file():
        raise ConfigurationError(f"There is no file {path}, which {variable} names: create it, or unset {variable}.")
    return path


def _walk(node: MappingNode, outer: tuple[str, ...], path: Path) -> Iterator[Entry]:
    import yaml

    for key_node, value_node in node.value:
        place = Origin("file", f"{path}:{key_node.start_mark.line + 1}")
        if not isinstance(key_node, yaml.ScalarNode) or not key_node.value:
            raise ConfigurationError(f"{place}: a key is a text such as rest.port, found something else.")
        key = (*outer, key_node.value)
        dotted = ".".join(key)
        option = options.option_of(dotted)
        if isinstance(value_node, yaml.MappingNode) and not (option is not None and option.value_type is MAP):
            yield from _walk(value_node, key, path)
        else:
            yield Entry(dotted, _text(value_node, place, dotted), place)


def _text(node: Node, place: Origin, key: str) -> str:
    """Return the text of a value as written, without YAML's conversion of numbers and dates."""
    import yaml

    if isinstance(node, yaml.ScalarNode):
        if node.tag == "tag:yaml.org,2002:null":
            raise ConfigurationError(f"{place}: {key} has no value: give one, or remove the line.")
        return str(node.value)
    if isinstance(node, yaml.SequenceNode):
        return to_text([_text(item, place, key) for item in node.value])
    return to_text({str(name.value): _text(item, place, key) for name, item in node.value})


# ------------------------------------------------------------------------------------------------------ the environment


def _variables(environment: Mapping[str, str]) -> Iterator[Entry]:
    for name, text in sorted(environment.items()):
        if not name.startswith(_PREFIX) or name in _RESERVED or _is_of_kubernetes(name, text):
            continue
        key = _KEYS_BY_VARIABLE.get(name)
        if key is not None:
            yield Entry(key, text, Origin("environment", name))
        elif nearest := difflib.get_close_matches(name, _KEYS_BY_VARIABLE, n=1, cutoff=_ALIKE):
            raise ConfigurationError(
                f"The environment variable {name} sets no option: did you mean {nearest[0]}, which sets"
                f" {_KEYS_BY_VARIABLE[nearest[0]]}? Rename or unset it."
            )


def _is_of_kubernetes(name: str, text: str) -> bool:
    return re.match(r"(tcp|udp|sctp)://", text) is not None or _OF_KUBERNETES.fullmatch(name) is not None


def _handed_on(environment: Mapping[str, str]) -> Iterator[Entry]:
    text = environment.get(PROPERTIES)
    if not text:
        return
    try:
        found = json.loads(text)
        for key, value in found.items():
            yield Entry(key, to_text(value), Origin("command line", PROPERTIES))
    except (ValueError, AttributeError) as error:
        raise ConfigurationError(
            f"The environment variable {PROPERTIES} is a JSON object of options and their texts, found {text[:80]!r}:"
            f" {error}."
        ) from None


_RESERVED = {CONF_DIR, CONF_FILE, HOME, PROPERTIES}
_KEYS_BY_VARIABLE = {variable_of(key): option.key for option in options.ALL_OPTIONS for key in option.spellings()}


# ----------------------------------------------------------------------------------------------------------- the checks


def _canonical(key: str) -> str:
    option = options.option_of(key)
    return key if option is None else option.key


def _checked(entry: Entry) -> str:
    """Return the canonical key. Refuse an unknown key or an invalid value, with the place where it is written."""
    try:
        options.check(entry.key, entry.text)
    except ConfigurationError as error:
        raise ConfigurationError(f"{entry.origin}: {error}") from None
    return _canonical(entry.key)

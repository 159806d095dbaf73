"""Settings from a file, the environment and the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from flott.common import _options as options
from flott.common import _settings as settings
from flott.common.configuration import Configuration
from flott.datastream.stream_execution_environment import StreamExecutionEnvironment
from flott.errors import ConfigurationError
from flott.testing import in_process


def load(
    tmp_path: Path, text: str = "", command_line: Mapping[str, str] | None = None, **variables: str
) -> settings.Settings:
    (tmp_path / "flott.yaml").write_text(text)
    return settings.load(command_line, environment={"FLOTT_CONF_DIR": str(tmp_path), **variables})


def refusal(tmp_path: Path, text: str = "", **variables: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, text, **variables)
    return str(caught.value).replace(f"{tmp_path}/", "")


# ---- precedence ------------------------------------------------------------------------------------------------------


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = "rest.port: 1\nrest.address: file\nparallelism.default: 2\n"
    found = load(tmp_path, file, {"rest.port": "3"}, FLOTT_REST_PORT="2", FLOTT_REST_ADDRESS="environment")
    assert found.configuration.to_dict() == {
        "rest.port": "3",
        "rest.address": "environment",
        "parallelism.default": "2",
    }
    assert {key: str(origin).replace(f"{tmp_path}/", "") for key, origin in found.origins.items()} == {
        "rest.port": "command line (-D)",
        "rest.address": "environment (FLOTT_REST_ADDRESS)",
        "parallelism.default": "flott.yaml:3",
    }


def test_an_older_spelling_on_the_command_line_wins_over_the_new_one_in_the_file(tmp_path: Path) -> None:
    found = load(tmp_path, "execution.checkpointing.dir: /file", {"state.checkpoints.dir": "/command-line"})
    assert options.read(found.configuration, options.CHECKPOINT_DIR) == "/command-line"


def test_properties_of_a_parent_process_count_as_its_command_line(tmp_path: Path) -> None:
    handed_on = json.dumps({"rest.port": 3, "rest.address": "parent"})
    found = load(tmp_path, command_line={"rest.address": "own"}, FLOTT_REST_PORT="2", FLOTT_PROPERTIES=handed_on)
    assert found.configuration.to_dict() == {"rest.port": "3", "rest.address": "own"}


def test_what_a_program_sets_in_code_wins_over_all(tmp_path: Path) -> None:
    found = load(tmp_path, "rest.port: 1\nstate.checkpoints.dir: /file", {"rest.port": "2"})
    explicit = Configuration.of({"rest.port": 9, "execution.checkpointing.dir": "/code"})
    assert found.under(explicit).to_dict() == explicit.to_dict()
    assert found.under(None) == found.configuration


# ---- the file --------------------------------------------------------------------------------------------------------


def test_keys_may_be_nested_dotted_or_both(tmp_path: Path) -> None:
    text = """
    execution:
      checkpointing.interval: 10 s
      checkpointing:
        dir: /data
    restart-strategy.type: none
    """
    assert load(tmp_path, text).configuration.to_dict() == {
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.dir": "/data",
        "restart-strategy.type": "none",
    }


def test_lists_and_maps_are_read_as_their_options_read_them(tmp_path: Path) -> None:
    found = load(tmp_path, "pipeline.global-job-parameters: {rate: '5', path: 'a:b'}\nspark.jars: [a, b]\n")
    assert options.read(found.configuration, options.GLOBAL_JOB_PARAMETERS) == {"rate": "5", "path": "a:b"}
    assert found.configuration.get_string("spark.jars", "") == "a;b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rest:\n  prt: 1\n", "flott.yaml:2: Unknown option 'rest.prt': did you mean 'rest.port'?"),
        (
            "\nparallelism.defalt: 2",
            "flott.yaml:2: Unknown option 'parallelism.defalt': did you mean 'parallelism.default'?",
        ),
        ("rest.port: many", "flott.yaml:1: Option rest.port: found 'many', expected a whole number."),
        ("rest.port: -1", "flott.yaml:1: Option rest.port: found '-1', expected a whole number of at least 0."),
        ("web.submit.enable: yes", "flott.yaml:1: Option web.submit.enable: found 'yes', expected true or false."),
        ("rest.port:\n", "flott.yaml:1: rest.port has no value: give one, or remove the line."),
        ("- rest.port\n", "flott.yaml holds no options: expected lines such as rest.port: 8081."),
        (
            "rest.port: 1\nrest: {port: 2}",
            "flott.yaml:2: rest.port is set a second time, it was in flott.yaml:1 before: remove one.",
        ),
        (
            "rest.port: 1\nstate.checkpoints.dir: /a\nexecution.checkpointing.dir: /b",
            "flott.yaml:3: execution.checkpointing.dir is set a second time, it was in flott.yaml:2 before:"
            " remove one.",
        ),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    assert refusal(tmp_path, text) == message


def test_what_is_no_yaml_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, "rest: {port: 1").startswith("flott.yaml is no YAML: ")


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    for variable in (settings.CONF_DIR, settings.CONF_FILE):
        with pytest.raises(ConfigurationError, match=f"{variable} names"):
            settings.load(environment={variable: str(tmp_path / "nowhere")})


def test_the_file_is_looked_for_in_the_named_folder_then_here_then_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {name: tmp_path / name for name in ("named", "here", "home")}
    for folder in places.values():
        folder.mkdir()
        (folder / "flott.yaml").write_text("")
    monkeypatch.chdir(places["here"])
    environment = {"FLOTT_CONF_DIR": str(places["named"]), "FLOTT_HOME": str(places["home"])}
    assert settings.find_file(environment) == places["named"] / "flott.yaml"
    del environment["FLOTT_CONF_DIR"]
    assert settings.find_file(environment) == Path("flott.yaml")
    Path("flott.yaml").unlink()
    assert settings.find_file(environment) == places["home"] / "flott.yaml"
    (places["home"] / "flott.yaml").unlink()
    assert settings.find_file(environment) is None


def test_all_findings_of_a_file_are_told_not_only_the_first(tmp_path: Path) -> None:
    path = tmp_path / "flott.yaml"
    path.write_text("rest.prt: 1\nrest.port: x\ntaskmanager.numberOfTaskSlots: 2\nparallelism.default: 1\n")
    assert [(finding.key, finding.wrong) for finding in settings.findings(path)] == [
        ("rest.prt", True),
        ("rest.port", True),
        ("taskmanager.numberOfTaskSlots", False),
    ]


_TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=("Cs", "Cc")), max_size=20)


@given(st.dictionaries(st.sampled_from(["spark.a", "spark.b.c", "spark.b.d", "pipeline.name", "rest.address"]), _TEXTS))
def test_whatever_text_is_written_is_read_again_nested_or_dotted(values: dict[str, str]) -> None:
    nested: dict[str, object] = {}
    for key, value in values.items():
        inner = nested
        *outer, last = key.split(".")
        for part in outer:
            inner = inner.setdefault(part, {})  # type: ignore[assignment]
        inner[last] = value
    for document in (values, nested):
        path = Path("flott.yaml")
        entries = settings.parse(yaml.safe_dump(document, default_style='"'), path)
        assert {entry.key: entry.text for entry in entries} == values


# ---- the environment -------------------------------------------------------------------------------------------------


def test_every_option_has_a_variable_of_its_own() -> None:
    keys = [(settings.variable_of(key), option.key) for option in options.ALL_OPTIONS for key in option.spellings()]
    by_variable: dict[str, set[str]] = {}
    for variable, key in keys:
        by_variable.setdefault(variable, set()).add(key)
    assert [entry for entry in by_variable.items() if len(entry[1]) > 1] == []


def test_a_variable_is_the_key_in_upper_case_without_a_leading_flott(tmp_path: Path) -> None:
    found = load(tmp_path, FLOTT_EPOCH_TARGET_DURATION="3 s", FLOTT_RESTART_STRATEGY_TYPE="none", FLOTT_VERSION="1.0")
    assert found.configuration.to_dict() == {"flott.epoch.target-duration": "3 s", "restart-strategy.type": "none"}


def test_a_variable_that_is_nearly_an_option_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, FLOTT_REST_PROT="1") == (
        "The environment variable FLOTT_REST_PROT sets no option: did you mean FLOTT_REST_PORT, which sets rest.port?"
        " Rename or unset it."
    )
    assert refusal(tmp_path, FLOTT_REST_PORT="x") == (
        "environment (FLOTT_REST_PORT): Option rest.port: found 'x', expected a whole number."
    )


@pytest.mark.parametrize("service", ["FLOTT", "FLOTT_REST", "FLOTT_CLUSTER", "FLOTT_JOBMANAGER"])
def test_variables_that_kubernetes_makes_for_services_are_nobodys_mistake(tmp_path: Path, service: str) -> None:
    variables = {
        f"{service}_SERVICE_HOST": "10.0.0.1",
        f"{service}_SERVICE_PORT": "8081",
        f"{service}_SERVICE_PORT_REST": "8081",
        f"{service}_PORT": "tcp://10.0.0.1:8081",
        f"{service}_PORT_8081_TCP": "tcp://10.0.0.1:8081",
        f"{service}_PORT_8081_TCP_ADDR": "10.0.0.1",
        f"{service}_PORT_8081_TCP_PROTO": "tcp",
    }
    assert load(tmp_path, **variables).configuration.to_dict() == {}


def test_properties_that_are_no_json_are_refused(tmp_path: Path) -> None:
    for text in ("{", "[1]", '"a"'):
        assert "is a JSON object of options and their texts" in refusal(tmp_path, FLOTT_PROPERTIES=text)


# ---- in a program ----------------------------------------------------------------------------------------------------


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flott.yaml").write_text("parallelism.default: 7\nexecution.checkpointing.dir: /file\n")
    monkeypatch.setenv("FLOTT_CONF_DIR", str(tmp_path))


@pytest.mark.usefixtures("configured")
def test_an_environment_begins_with_the_settings_from_outside() -> None:
    assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == 7
    explicit = Configuration.of({"parallelism.default": 3})
    assert StreamExecutionEnvironment.get_execution_environment(explicit).get_parallelism() == 3


@pytest.mark.usefixtures("configured")
def test_an_older_spelling_in_code_wins_over_the_new_one_in_the_file() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.configure(Configuration.of({"state.checkpoints.dir": "/code"}))
    assert options.read(env._configuration, options.CHECKPOINT_DIR) == "/code"


@pytest.mark.usefixtures("configured")
def test_tests_in_process_read_no_file() -> None:
    env = in_process()
    assert env.get_parallelism() == 2
    assert options.read(env._configuration, options.CHECKPOINT_DIR) is None


# ---- misspelt keys among those Flott does without --------------------------------------------------------------------


def test_options_of_flink_without_effect_are_no_mistakes() -> None:
    for key in (
        "rest.bind-port", "web.timeout", "security.ssl.rest.keystore", "state.backend.rocksdb.log.dir",
        "execution.checkpointing.incremental", "taskmanager.memory.managed.fraction", "metrics.scope.jm",
    ):  # fmt: skip
        assert options.check(key, "1") is False, key


@pytest.mark.parametrize("key", ["rest.prt", "security.ssl.rest.enabld", "web.submit.enabled"])
def test_a_misspelt_option_is_refused_even_where_flink_has_options_flott_does_without(key: str) -> None:
    with pytest.raises(ConfigurationError, match="did you mean"):
        options.check(key, "true")


@pytest.mark.parametrize("text", ["a: &x [*x]", "a: &x {b: *x}", "rest: &x\n  port: [1, *x]"])
def test_a_value_that_holds_itself_is_refused(tmp_path: Path, text: str) -> None:
    assert refusal(tmp_path, text) == "flott.yaml has a value that holds itself: write it without & and *."


def test_what_is_no_yaml_is_told_with_its_line(tmp_path: Path) -> None:
    said = refusal(tmp_path, "rest:\n\tport: 1")
    assert said.startswith("flott.yaml is no YAML: ")
    assert "in line 2, column 1" in said

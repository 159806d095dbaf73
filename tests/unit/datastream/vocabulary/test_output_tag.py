"""Tags of side outputs."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest

from flott.common.typeinfo import Types
from flott.datastream.output_tag import OutputTag


def test_tags_of_one_id_are_one_tag() -> None:
    assert OutputTag("late") == OutputTag("late", Types.STRING())
    assert hash(OutputTag("late")) == hash(OutputTag("late", Types.STRING()))
    assert OutputTag("late") != OutputTag("early")
    assert OutputTag("late") != "late"


def test_a_list_of_types_means_a_row() -> None:
    assert OutputTag("t", [Types.STRING(), Types.LONG()]).type_info == Types.ROW([Types.STRING(), Types.LONG()])


def test_a_tag_without_a_type_has_none() -> None:
    assert OutputTag("t").type_info is None


@pytest.mark.parametrize("tag_id", ["", None, 7])
def test_an_id_is_a_text_that_is_not_empty(tag_id: Any) -> None:
    with pytest.raises(ValueError, match="id of an OutputTag"):
        OutputTag(tag_id)


def test_a_type_is_a_type() -> None:
    with pytest.raises(TypeError, match="type of OutputTag 't'"):
        OutputTag("t", "str")  # type: ignore[call-overload]


def test_a_type_may_be_a_type_hint() -> None:
    assert OutputTag("t", tuple[str, float]).type_info == Types.TUPLE([Types.STRING(), Types.DOUBLE()])
    assert OutputTag("t", [str, Types.LONG()]).type_info == Types.ROW([Types.STRING(), Types.LONG()])


def test_a_tag_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        OutputTag("t").tag_id = "u"


def test_a_tag_can_be_pickled_with_its_type() -> None:
    travelled = pickle.loads(pickle.dumps(OutputTag("t", Types.STRING())))
    assert (travelled.tag_id, travelled.type_info) == ("t", Types.STRING())


@pytest.mark.parametrize("way", ["OutputTag('t')", f"pickle.loads({pickle.dumps(OutputTag('t'))!r})"])
def test_the_process_remembers_that_a_tag_came_into_being(way: str) -> None:
    program = (
        "import pickle; from flott.datastream.output_tag import OutputTag\n"
        f"before = OutputTag.any_created; {way}; print(before, OutputTag.any_created)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=_env())
    assert found.stdout.split() == ["False", "True"]


def _env() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(sys.path)}

"""Operator identity."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from flott.errors import ProgramError
from flott.graph.operator_ids import OperatorId, id_of_uid, operator_ids
from flott.graph.specs import FilterSpec
from flott.graph.transformations import Operation, Program, SideOutput
from tests.unit.graph.programs import graph_of, operator, programs, sink, source


def ids(program: Program, parallelism: int = 1) -> list[OperatorId]:
    return list(operator_ids(graph_of(program, parallelism)).values())


def straight(*operators: dict[str, Any]) -> Program:
    program = Program()
    top = source(program)
    for settings in operators:
        top = operator(program, top, **settings)
    sink(program, top)
    return program


def test_the_same_program_has_the_same_ids_and_they_are_32_hex_digits() -> None:
    assert ids(straight({})) == ids(straight({}))
    assert all(len(ident) == 32 and int(ident, 16) >= 0 for ident in ids(straight({})))


def test_ids_of_this_release_are_what_checkpoints_hold() -> None:
    """If this fails, state written before the change is not found any more."""
    assert ids(straight({"uid": "u"}))[1] == id_of_uid("u") == "d192acc54321455d8491029693a8b8d3"


def test_name_parallelism_and_description_leave_an_id_alone() -> None:
    changed = straight({"name": "other", "parallelism": 3, "description": "d"})
    assert ids(changed, parallelism=2) == ids(straight({}))


def test_an_operator_inserted_above_changes_the_ids_below() -> None:
    assert ids(straight({}, {}))[2] not in ids(straight({}))
    assert ids(straight({}, {}))[3] != ids(straight({}))[2]


def test_a_uid_alone_is_the_identity_wherever_the_operator_stands() -> None:
    assert ids(straight({"uid": "u"}))[1] == ids(straight({}, {}, {"uid": "u"}))[3]


def test_a_uid_hash_is_the_identity_itself_and_beats_the_uid() -> None:
    assert ids(straight({"uid": "u", "uid_hash": "AB" * 16}))[1] == "ab" * 16


@pytest.mark.parametrize("uid_hash", ["", "ab", "g" * 32, "0" * 33])
def test_a_uid_hash_that_is_no_hash_is_refused(uid_hash: str) -> None:
    with pytest.raises(ProgramError, match="32 hexadecimal digits"):
        ids(straight({"uid_hash": uid_hash}))


def test_two_operators_with_the_same_uid_hash_are_refused() -> None:
    with pytest.raises(ProgramError, match=r"'one' .* and 'two' .* share their state"):
        ids(straight({"name": "one", "uid_hash": "a" * 32}, {"name": "two", "uid_hash": "A" * 32}))


def test_a_uid_hash_that_is_another_operator_s_generated_id_is_refused() -> None:
    generated = ids(straight({}))[0]
    with pytest.raises(ProgramError, match="share their state"):
        ids(straight({"uid_hash": generated}))


def test_equal_branches_have_different_ids() -> None:
    program = Program()
    top = source(program)
    sink(program, operator(program, top))
    sink(program, operator(program, top))
    assert len(set(ids(program))) == 5


def test_the_kind_of_an_operator_is_part_of_its_identity() -> None:
    program = Program()
    sink(program, program.add("Map", Operation(FilterSpec(bool)), (source(program).id,)))
    assert ids(program)[1] != ids(straight({}))[1]


def test_reading_a_side_output_is_not_reading_the_main_output_even_if_its_tag_is_called_none() -> None:
    program = Program()
    top = source(program)
    sink(program, program.add("get_side_output", SideOutput("None"), (top.id,)))
    assert ids(program)[1] != ids(straight())[1]


@given(programs())
def test_ids_are_unique_in_every_program(program: Program) -> None:
    found = ids(program, parallelism=2)
    assert len(set(found)) == len(found)

"""Where the options of ``flott run`` end and those of the program begin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.cli.programs.program_arguments import Divided, divide, names_program

OPTIONS = {"-p": True, "-d": False, "--detached": False, "-D": True, "-m": True, "-py": True, "-pym": True,
           "--python": True, "-pyfs": True, "--pyfs": True, "--json": False, "-s": True}  # fmt: skip


@pytest.mark.parametrize(
    ("line", "own", "rest"),
    [
        ("prog.py", "", "prog.py"),
        ("prog.py -p 3 --json", "", "prog.py -p 3 --json"),
        ("-p 4 -d prog.py -d", "-p 4 -d", "prog.py -d"),
        ("-p4 -Da=b prog.py", "-p4 -Da=b", "prog.py"),
        ("-D a=b -s /x prog.py", "-D a=b -s /x", "prog.py"),
        ("--pyfs=a,b prog.py", "--pyfs=a,b", "prog.py"),
        ("-d -- -odd.py --flag", "-d", "-odd.py --flag"),
        ("-m shop.orders -p 4 -m x", "-m shop.orders", "-p 4 -m x"),
        ("-m localhost:8081 -p 4 prog.py -m x", "-m localhost:8081 -p 4", "prog.py -m x"),
        ("-py prog.py -pyfs a.py --input x", "-py prog.py -pyfs a.py", "--input x"),
        ("--python=prog.py --input x", "--python=prog.py", "--input x"),
        ("-pym shop -p 4 word -p 5", "-pym shop -p 4", "word -p 5"),
        ("--nonsense prog.py", "--nonsense prog.py", ""),
        ("-p", "-p", ""),
        ("-m", "-m", ""),
        ("", "", ""),
    ],
)
def test_the_line_is_divided_where_pythons_and_flinks_would_be(line: str, own: str, rest: str) -> None:
    assert divide(line.split(), OPTIONS) == Divided(tuple(own.split()), tuple(rest.split()))


@given(st.lists(st.sampled_from(["-p", "3", "-d", "--x", "prog.py", "-m", "mod", "h:1", "--", "-Da=b"]), max_size=8))
def test_nothing_is_lost_and_nothing_changes_places(line: list[str]) -> None:
    found = divide(line, OPTIONS)
    joined = [*found.own, *found.rest]
    assert joined == line or [*found.own, "--", *found.rest] == line


@given(st.lists(st.text(max_size=5), max_size=5))
def test_whatever_stands_behind_the_program_is_the_programs(arguments: list[str]) -> None:
    assert divide(["-d", "prog.py", *arguments], OPTIONS) == Divided(("-d",), ("prog.py", *arguments))


@pytest.mark.parametrize(
    ("line", "named"),
    [("-m shop", True), ("-d -py x.py", True), ("--python=x.py -d", True), ("-pym shop -p 4", True),
     ("-m localhost:1", False), ("-p 4", False), ("-m", False), ("", False)],
)  # fmt: skip
def test_options_may_name_the_program(line: str, named: bool) -> None:
    assert names_program(line.split()) is named

"""What an event costs: it is counted in calls of conditions and in nodes, not in time."""

from __future__ import annotations

from flott.cep import Pattern
from flott.common import Duration
from tests.unit.cep.running import Run, starts_with


def counted(letter: str, calls: list[str]) -> object:
    condition = starts_with(letter)

    def count(word: str) -> bool:
        calls.append(letter)
        return condition(word)

    return count


def test_an_event_that_extends_nothing_costs_the_same_however_many_partial_matches_are_open() -> None:
    calls: list[str] = []
    pattern = (
        Pattern[str].begin("a").where(counted("a", calls))
        .followed_by("b").where(counted("b", calls))
        .within(Duration.of_millis(10_000))
    )  # fmt: skip
    run = Run(pattern)
    run.feed(*((time, "a") for time in range(1000)))
    group = next(iter(run.held.groups.values()))
    assert len(group) == 1000
    calls.clear()
    run.feed((1000, "x"))
    assert sorted(calls) == ["a", "b"]
    assert next(iter(run.held.groups.values())) is group


def test_partial_matches_share_their_beginnings() -> None:
    loop = Pattern[str].begin("a").where(starts_with("a")).followed_by("b").where(starts_with("b")).one_or_more()
    run = Run(loop.allow_combinations())
    run.feed(*enumerate(["a", *(f"b{number}" for number in range(8))]))
    nodes = {id(node) for group in run.held.groups.values() for found in group.values() for node in found}
    reachable = set(nodes)
    for group in run.held.groups.values():
        for found in group.values():
            for node in found:
                while node is not None:
                    reachable.add(id(node))
                    node = node[2]
    assert len(nodes) > 100
    assert len(reachable) == len(nodes) + 1  # the first event, which itself waits for no b any more


def test_a_long_loop_is_saved_and_restored_without_deep_recursion() -> None:
    loop = Pattern[str].begin("s").where(starts_with("s")).followed_by("a").where(starts_with("a")).one_or_more()
    run = Run(loop.greedy().followed_by("b").where(starts_with("b")))
    run.feed((0, "s"), *((time, "a") for time in range(5000)))
    run.save_and_restore()
    run.feed((5000, "b"))
    ((_, node),) = run.found
    assert len(run.matcher.match_of(node)["a"]) == 5000

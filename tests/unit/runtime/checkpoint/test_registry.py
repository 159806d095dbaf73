"""The shared registry: a file goes when its last owner lets go, not before and not later."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from flott.runtime.checkpoint.registry import SharedRegistry


def test_a_file_is_given_up_by_the_last_of_its_owners():
    registry = SharedRegistry()
    registry.register("chk-1", ["a", "b"])
    registry.register("chk-2", ["b"])
    registry.register("compact", ["b", "/elsewhere/c"])
    assert registry.release("chk-1") == ("a",)
    assert registry.release("chk-2") == ()
    assert registry.is_referenced("b")
    assert registry.release("compact") == ("/elsewhere/c", "b")
    assert not registry.is_referenced("b")


def test_an_owner_that_registers_twice_counts_once():
    registry = SharedRegistry()
    registry.register("chk-1", ["a"])
    registry.register("chk-1", ["a", "b", "b"])
    assert registry.release("chk-1") == ("a", "b")
    assert registry.release("chk-1") == ()


def test_what_nobody_refers_to_cannot_be_pinned_any_more():
    registry = SharedRegistry()
    registry.register("chk-1", ["a", "b"])
    assert registry.pin("savepoint", ["a", "b"])
    assert registry.release("chk-1") == ()
    assert not registry.pin("late", ["a", "gone"])
    assert "late" not in registry.owners
    assert registry.release("savepoint") == ("a", "b")
    assert not registry.pin("later", ["a"])


def test_a_file_of_the_job_is_the_same_by_its_absolute_name():
    registry = SharedRegistry("/jobs/1")
    registry.register("chk-1", ["state/a", "/jobs/2/state/b"])
    assert registry.pin("savepoint", ["/jobs/1/state/a"])
    assert registry.release("chk-1") == ("/jobs/2/state/b",)
    assert registry.is_referenced("/jobs/1/state/a")
    assert registry.release("savepoint") == ("state/a",)


owners, names = st.sampled_from("ABCD"), st.sets(st.sampled_from("stuvw"), max_size=4)
moves = st.lists(st.tuples(st.sampled_from(["register", "register", "pin", "release"]), owners, names), max_size=40)


@given(moves)
def test_whatever_happens_it_knows_what_a_dictionary_of_sets_knows(moves):
    registry, model = SharedRegistry(), dict[str, set[str]]()
    for move, owner, wanted in moves:
        known = set().union(*model.values())
        if move == "register":
            registry.register(owner, wanted)
            model.setdefault(owner, set()).update(wanted)
        elif move == "pin":
            assert registry.pin(owner, wanted) == (wanted <= known)
            if wanted <= known:
                model.setdefault(owner, set()).update(wanted)
        else:
            held = model.pop(owner, set())
            assert set(registry.release(owner)) == held - set().union(*model.values())
        assert registry.owners == model.keys()
        for name in "stuvw":
            assert registry.is_referenced(name) == any(name in held for held in model.values())
        assert all(registry.names_of(owner) == held for owner, held in model.items())


def test_of_many_threads_that_pin_and_release_exactly_one_is_told_to_delete():
    """Whoever pins a file between two releases keeps it; each time it is given up, one thread is told."""
    registry = SharedRegistry()
    registry.register("chk", [f"f{n}" for n in range(200)])
    given_up: list[str] = []
    started = threading.Barrier(8)

    def work(index: int) -> None:
        started.wait()
        for n in range(200):
            if registry.pin(f"t{index}-{n}", [f"f{n}"]):
                given_up.extend(registry.release(f"t{index}-{n}"))
            if index == 0 and n == 100:
                given_up.extend(registry.release("chk"))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(given_up) == sorted(f"f{n}" for n in range(200))
    assert not registry.owners

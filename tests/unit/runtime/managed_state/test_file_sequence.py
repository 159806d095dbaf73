"""The version of a copy of keyed state: which sequence it contains, and what it lacks of another."""

from __future__ import annotations

from flott.runtime.managed_state.files.file_sequence import StateFile, missing_files, remembered, version_of


def file(
    name: str, groups: tuple[int, int] | None = None, *, base: bool = False, covers: tuple[str, ...] = ()
) -> StateFile:
    return StateFile(name, 1, base, covers, groups)


def test_the_version_of_a_sequence_of_ones_own_is_its_last_file() -> None:
    assert version_of(()) is None
    assert version_of((file("a", base=True), file("b"))) == "b"
    assert missing_files((file("a"), file("b"), file("c")), "b") == (file("c"),)


def test_parts_of_other_subtasks_files_make_a_version_only_together() -> None:
    """Two subtasks became one, became two of which one went on, and became one again."""
    first = (file("a", (0, 4)), file("b", (4, 8)))
    second = (file("a", (0, 4)), file("c", (0, 4)), file("b", (4, 8)))
    assert version_of(first) != version_of(second)
    assert missing_files(second, version_of(first)) is None
    assert missing_files(first, version_of(first)) == ()
    assert missing_files(first, "b") is None, "somebody's copy of all of it, when there was nothing else"
    assert missing_files((*first, file("d")), version_of(first)) == (file("d"),)


def test_what_is_written_on_top_of_such_parts_is_a_version_by_its_name() -> None:
    sequence = (file("a", (0, 4)), file("b", (4, 8)), file("d"))
    assert version_of(sequence) == "d"
    assert missing_files((*sequence, file("e")), "d") == (file("e"),)


def test_a_file_compacted_from_parts_remembers_what_they_were_together() -> None:
    parts = (file("a", (0, 4), covers=("x",)), file("b", (4, 8)))
    assert remembered(parts) == (version_of(parts),)
    assert missing_files((file("f", base=True, covers=remembered(parts)),), version_of(parts)) == ()
    with_own = (*parts, file("d"))
    assert remembered(with_own) == ("d",)
    assert missing_files((file("f", base=True, covers=remembered(with_own)),), version_of(parts)) is None

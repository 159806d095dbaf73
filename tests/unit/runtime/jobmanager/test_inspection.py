"""Questions about the state of a job: pages of rows, keys, differences; bounded in time, and whatever values are."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flott.state
from flott.common import Row, Types
from flott.errors import ClusterError, ProgramError, StateError, UnreachableError
from flott.runtime.jobmanager.inspection import inspectors as inspectors_module
from flott.runtime.jobmanager.inspection.inspectors import MAX_WAITING, PROCESSES, Inspectors, decoded
from flott.runtime.jobmanager.inspection.questions import (
    CompareStates,
    CountKeys,
    FindKey,
    InspectionSubject,
    ListCheckpoints,
    ListStates,
    PageRows,
    PreviewRecords,
    Question,
    TraceKey,
)
from flott.runtime.jobmanager.inspection.rendering import MAX_TEXT, literal, rendered
from flott.runtime.jobmanager.inspection.state_answers import StateAnswers
from flott.state import broadcast_state, new_savepoint, split_state, value_state
from flott.testing.sources import EndOfEpoch
from tests.unit.snapshots.snapshots import ORDERS, ledger, run

MORE: list[Any] = [*ORDERS, ("dave", "<script>alert(1)</script>", 9), EndOfEpoch()]


class Time:
    """A clock that moves by a step whenever it is read."""

    def __init__(self, step: float = 0.0):
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a job that keeps three checkpoints."""
    place = tmp_path_factory.mktemp("job")
    run(lambda env: ledger(env, MORE), place, epochs=3, **{"execution.checkpointing.num-retained": "5"})
    return place


@pytest.fixture(scope="module")
def paged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint with thirty keys, and with state of subtasks."""
    rows = {("user", n): n * n for n in range(30)}
    place = tmp_path_factory.mktemp("savepoint") / "one"
    (
        new_savepoint()
        .with_operator(
            "totals",
            keyed={"total": value_state(rows.items(), key_type=Types.TUPLE([Types.STRING(), Types.LONG()]))},
            operator_state={"seen": split_state(["a", "b"]), "rules": broadcast_state({"x": 1})},
        )
        .with_operator("names", keyed={"name": value_state({"alice": "A", "7": "seven"}.items())})
        .write(str(place))
    )
    return place


@pytest.fixture
def answers(folder: Path) -> StateAnswers:
    return StateAnswers(str(folder), Time())


# --- state -----------------------------------------------------------------------------------------------------------


def test_checkpoints_and_states_are_listed(answers: StateAnswers, folder: Path) -> None:
    assert [one["checkpoint"] for one in answers.answer(ListCheckpoints())["checkpoints"]] == [1, 2, 3]
    latest, first = answers.answer(ListStates()), answers.answer(ListStates(1))
    assert (latest["checkpoint"], first["checkpoint"]) == (3, 1)
    [operator] = [one for one in latest["operators"] if one["uid"] == "ledger"]
    states = {state["name"]: state for state in operator["states"]}
    assert states["total"]["keyed"]
    assert states["total"]["size"] > 0
    assert (states["amounts"]["kind"], states["amounts"]["map-key-type"]) == ("map", "string")
    assert {name for name in states if not name.startswith("_")} == {"total", "items", "amounts", "last"}


def test_a_key_is_found_by_its_text_or_as_a_literal(answers: StateAnswers) -> None:
    found = answers.answer(FindKey("ledger", "total", "alice"))
    assert (found["checkpoint"], found["found"], found["row"]["value"]["json"]) == (3, True, 9)
    assert answers.answer(FindKey("ledger", "total", "'alice'", 1))["row"]["value"]["json"] == 3
    assert answers.answer(FindKey("ledger", "total", "nobody")) == {"checkpoint": 3, "found": False, "row": None}
    for odd in ("[1, 2]", "{}", "(", "1" * 5000, "\x00", "{1: [2]}"):  # not hashable, not a literal, too long
        assert answers.answer(FindKey("ledger", "total", odd))["found"] is False


def test_the_history_of_a_key_says_when_it_changed(answers: StateAnswers) -> None:
    traced = answers.answer(TraceKey("ledger", "total", "alice"))
    assert [(one["checkpoint"], one["value"]["json"], one["changed"]) for one in traced["history"]] == [
        (1, 3, False),
        (2, 9, True),
        (3, 9, False),
    ]
    carol = answers.answer(TraceKey("ledger", "total", "carol"))["history"]
    assert [(one["found"], one["changed"]) for one in carol] == [(False, False), (True, True), (True, False)]


@pytest.mark.parametrize("limit", [1, 2, 7, 30, 1000])
def test_pages_of_any_size_hold_every_row_once(limit: int, paged: Path) -> None:
    view, answers = flott.state.open(paged).state("totals", "total"), StateAnswers(str(paged), Time())
    rows, after = [], None
    while True:
        page = answers.answer(PageRows("totals", "total", None, limit, after))
        rows += page["rows"]
        assert len(page["rows"]) <= limit
        if (after := page["next"]) is None:
            break
    assert sorted((row["key"]["text"], row["value"]["json"]) for row in rows) == sorted(
        (repr(key), value) for key, value in view.items()
    )


def test_a_page_whose_time_is_over_is_short_and_the_next_one_goes_on(paged: Path) -> None:
    slow = StateAnswers(str(paged), Time(step=1.0), budget_seconds=4.0)
    seen, after, pages = set(), None, 0
    while True:
        page = slow.answer(PageRows("totals", "total", None, 1000, after))
        seen |= {row["key"]["text"] for row in page["rows"]}
        pages += 1
        if (after := page["next"]) is None:
            break
    assert len(seen) == 30
    assert pages > 5


def test_rows_are_chosen_by_the_beginning_of_their_key(paged: Path) -> None:
    answers = StateAnswers(str(paged), Time())
    found = answers.answer(PageRows("names", "name", prefix="al"))["rows"]
    assert [row["key"]["json"] for row in found] == ["alice"]


def test_state_of_subtasks_is_paged_too(paged: Path) -> None:
    answers = StateAnswers(str(paged), Time())
    first = answers.answer(PageRows("totals", "seen", limit=1))
    second = answers.answer(PageRows("totals", "seen", limit=1, after=first["next"]))
    assert [row["value"]["json"] for page in (first, second) for row in page["rows"]] == ["a", "b"]
    rules = answers.answer(PageRows("totals", "rules"))["rows"]
    assert [(row["key"]["json"], row["value"]["json"]) for row in rules] == [("x", 1)]


def test_keys_are_counted_by_group_or_as_far_as_the_time_goes(paged: Path) -> None:
    whole = StateAnswers(str(paged), Time()).answer(CountKeys("totals", "total"))
    assert (whole["keys"], whole["entries"], whole["complete"]) == (30, 30, True)
    assert sum(whole["groups"].values()) == 30
    part = StateAnswers(str(paged), Time(step=1.0), budget_seconds=2.0).answer(CountKeys("totals", "total"))
    assert not part["complete"]
    assert 0 < part["keys"] < 30
    assert StateAnswers(str(paged), Time()).answer(CountKeys("totals", "seen"))["keys"] is None


def test_two_checkpoints_are_compared(answers: StateAnswers) -> None:
    found = answers.answer(CompareStates(1, 2, "ledger", "total", limit=1))
    [state] = found["states"]
    assert (found["before"], found["after"]) == (1, 2)
    assert (state["added"], state["removed"], state["changed"], state["complete"]) == (1, 0, 1, True)
    assert len(state["changes"]) == 1
    assert len(answers.answer(CompareStates(1))["states"]) > 3
    assert all(not state["changes"] for state in answers.answer(CompareStates(2, 2))["states"])


def test_a_comparison_whose_time_is_over_says_so(folder: Path) -> None:
    slow = StateAnswers(str(folder), Time(step=1.0), budget_seconds=0.5)
    [state] = slow.answer(CompareStates(1, 3, "ledger", "total"))["states"]
    assert state["complete"] is False


@pytest.mark.parametrize(
    ("question", "says"),
    [
        (ListStates(99), "keeps 1, 2, 3"),
        (PageRows("nosuch", "total"), "no operator"),
        (PageRows("ledger", "nosuch"), "no state"),
        (PageRows("ledger", "total", after="x"), "is not where a page ended"),
        (TraceKey("ledger", "nosuch", "x"), "No checkpoint"),
        (CompareStates(99), "not kept any more"),
    ],
)
def test_what_is_not_there_is_refused_with_a_reason(answers: StateAnswers, question: Question, says: str) -> None:
    with pytest.raises(StateError, match=says):
        answers.answer(question)
    with pytest.raises(StateError):
        StateAnswers("", Time()).answer(question)


def test_if_the_latest_checkpoint_is_deleted_while_it_is_read_the_next_one_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, tried = StateAnswers(str(folder), Time()), []
    latest = iter([1, 2, 2, 3, 3, 3])  # the job completes two more while it is asked

    def count(question: CountKeys) -> dict[str, Any]:
        tried.append(question)
        if len(tried) < 3:
            raise StateError("gone")
        return {}

    monkeypatch.setattr(answers, "_latest", lambda: next(latest))
    monkeypatch.setattr(answers, "_count", count)
    assert answers.answer(CountKeys("ledger", "total")) == {}
    assert len(tried) == 3
    tried.clear()
    monkeypatch.setattr(answers, "_latest", lambda: 3)
    for question in (CountKeys("ledger", "total"), CountKeys("ledger", "total", 2)):  # nothing newer; a certain one
        with pytest.raises(StateError, match="gone"):
            answers.answer(question)
    assert len(tried) == 2


# --- values ----------------------------------------------------------------------------------------------------------


class Spiteful:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@dataclass
class Point:
    x: int
    y: Any


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.builds(Spiteful),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.builds(Point, st.just(1), inner)
    ),
    max_leaves=40,
)


@given(anything)
def test_whatever_a_value_is_it_becomes_bounded_json(value: Any) -> None:
    shown = json.loads(json.dumps(rendered(value), allow_nan=False))
    assert set(shown) == {"text", "type", "json", "truncated"}
    assert len(shown["text"]) <= MAX_TEXT


def test_values_that_have_a_form_keep_it() -> None:
    assert rendered(Row(a=1, b="x"))["json"] == {"a": 1, "b": "x"}
    assert rendered(Point(1, [2.5, None]))["json"] == {"x": 1, "y": [2.5, None]}
    assert rendered({1: "one"})["json"] == {"1": "one"}
    assert rendered(2**60)["json"] == str(2**60)  # JavaScript would lose digits
    assert rendered(float("nan"))["json"] == "nan"
    assert rendered("<script>")["text"] == "'<script>'"


def test_values_that_are_too_large_or_never_end_are_cut() -> None:
    long = rendered("x" * 1_000_000)
    assert (long["json"], len(long["text"])) == (None, MAX_TEXT)
    endless: list[Any] = []
    endless.append(endless)
    assert rendered(endless)["json"] is None
    assert rendered(list(range(100_000)))["json"] is None
    assert all(rendered(value)["truncated"] for value in ("x" * 3000, endless, list(range(100_000))))
    assert rendered(Spiteful())["text"].startswith("<Spiteful instance")


def test_a_key_of_any_text_is_read_without_running_anything() -> None:
    assert literal("__import__('os').system('x')") == "__import__('os').system('x')"
    assert literal("(" * 4000) == "(" * 4000
    assert literal("7") == 7


# --- inspectors ------------------------------------------------------------------------------------------------------


class Line:
    """An inspector that does as it is told."""

    made: ClassVar[list[Line]] = []

    def __init__(self, subject: InspectionSubject):
        self.subject, self.asked, self.closed = subject, 0, 0
        Line.made.append(self)

    def ask(self, question: Question, timeout_s: float) -> bytes:
        self.asked += 1
        match question:
            case FindKey(key="dies"):
                raise EOFError
            case FindKey(key="slow"):
                raise TimeoutError
            case FindKey(key="ended") if self.asked > 1:
                raise BrokenPipeError
        return json.dumps({"answer": {"by": Line.made.index(self)}}).encode()

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def pool() -> Any:
    Line.made = []
    made = Inspectors(Line)
    yield made
    made.close()


def find(key: str) -> FindKey:
    return FindKey("o", "s", key)


def subject(job: str) -> InspectionSubject:
    return InspectionSubject(job, "/c")


def test_an_inspector_stays_for_further_questions_and_makes_room_for_other_jobs(pool: Inspectors) -> None:
    asked = [pool.ask(subject(job), find("x")).result(60)["by"] for job in "aabab"]
    assert asked == [0, 0, 1, 0, 1]
    for job in "cd":
        pool.ask(subject(job), find("x")).result(60)
    assert [line.closed for line in Line.made] == [1, 1, 0, 0]
    assert len(pool._idle) == PROCESSES


def test_an_inspector_that_has_ended_is_replaced_and_one_that_dies_is_an_error(pool: Inspectors) -> None:
    assert [pool.ask(subject("a"), find("ended")).result(60)["by"] for _ in range(2)] == [0, 1]
    assert Line.made[0].closed
    with pytest.raises(ClusterError, match="has ended"):
        pool.ask(subject("a"), find("dies")).result(60)
    assert all(line.closed for line in Line.made)


def test_an_answer_that_takes_too_long_is_given_up_and_its_process_is_ended(pool: Inspectors) -> None:
    with pytest.raises(UnreachableError, match="longer than"):
        pool.ask(subject("a"), find("slow")).result(60)
    assert [line.closed for line in Line.made] == [1]


def test_a_preview_has_a_process_of_its_own(pool: Inspectors) -> None:
    for _ in range(2):
        pool.ask(subject("a"), PreviewRecords("o")).result(60)
    assert [line.closed for line in Line.made] == [1, 1]


def test_a_job_that_changed_gets_another_inspector(pool: Inspectors) -> None:
    pool.ask(subject("a"), find("x")).result(60)
    pool.ask(InspectionSubject("a", "/elsewhere"), find("x")).result(60)
    assert [line.closed for line in Line.made] == [1, 0]


def test_too_many_questions_are_refused_and_none_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    class Slow(Line):
        def ask(self, question: Question, timeout_s: float) -> bytes:
            gate.wait(120)
            return b'{"answer": {}}'

    Line.made = []
    pool = Inspectors(Slow)
    waiting: list[Future[Any]] = [pool.ask(subject(str(n)), find("x")) for n in range(MAX_WAITING)]
    with pytest.raises(UnreachableError, match="wait already"):
        pool.ask(subject("late"), find("x")).result(60)
    gate.set()
    assert [future.result(120) for future in waiting] == [{}] * MAX_WAITING
    assert pool.ask(subject("late"), find("x")).result(60) == {}
    pool.close()
    with pytest.raises(UnreachableError):
        pool.ask(subject("x"), find("x")).result(60)
    assert all(line.closed for line in Line.made)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ({"error": "StateError", "text": "gone"}, StateError),
        ({"error": "CorruptStateError", "text": "bad"}, StateError),
        ({"error": "ProgramError", "text": "ValueError: x"}, ProgramError),
        ({"error": "annotations", "text": "no error at all"}, ClusterError),
        ({"error": "NoSuchError", "text": "unknown"}, ProgramError),
    ],
)
def test_errors_of_an_inspector_are_those_of_the_question(reply: dict[str, str], kind: type[Exception]) -> None:
    with pytest.raises(kind, match=reply["text"]):
        decoded(json.dumps(reply).encode())


def test_limits_are_such_that_an_answer_comes_before_it_is_given_up() -> None:
    from flott.runtime.jobmanager.inspection.inspector import ALARM_SECONDS
    from flott.runtime.jobmanager.inspection.state_answers import BUDGET_SECONDS

    assert BUDGET_SECONDS < inspectors_module.ANSWER_SECONDS < inspectors_module.PREVIEW_SECONDS < ALARM_SECONDS

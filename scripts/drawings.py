"""Draws docs/images/*.svg, the pictures of time, windows and state, from what jobs really did: ``make docs``.

A picture is a *story*: a script of records, with the ends of epochs marked, and a program over it. ``observation`` runs
it, ``layouts`` and ``file_layout`` draw what happened, ``svg`` is the sheet it is drawn on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from flott.cep import AfterMatchSkipStrategy, Pattern
from flott.common import Time
from flott.datastream.window import (
    CumulativeEventTimeWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from flott.testing import EndOfEpoch, Wait
from scripts.file_layout import Files
from scripts.layouts import Lanes, Pairs, Splits, Staircase
from scripts.observation import LATE, Contents, Record, key_of
from scripts.pattern_layout import Matches

IMAGES = Path(__file__).parent.parent / "docs" / "images"

Story = Lanes | Staircase | Splits | Pairs | Files | Matches
_END = EndOfEpoch()


def _r(key: str, *seconds_and_values: tuple[int, int]) -> list[Record]:
    return [Record(key, second, value) for second, value in seconds_and_values]


#: Two keys in three epochs, a little out of order.
_TWO_KEYS = [
    *_r("ada", (2, 3), (7, 1)), *_r("bob", (4, 5), (11, 2)), _END,
    *_r("ada", (9, 2), (14, 4)), *_r("bob", (22, 1)), _END,
    *_r("ada", (26, 6)), *_r("bob", (19, 3), (33, 2)), _END,
]  # fmt: skip
#: Something comes late in the second epoch, and again in the third.
_TOO_LATE = [
    *_r("ada", (3, 3), (8, 4), (12, 1)), _END,
    *_r("ada", (6, 2), (17, 5), (22, 1)), _END,
    *_r("ada", (4, 9), (25, 3), (31, 2)), _END,
]  # fmt: skip



def _word(letter: str) -> Callable[[str], bool]:
    return lambda word: word.startswith(letter)


_A = Pattern[str].begin("a").where(_word("a"))
_LOOP = _A.followed_by("b").where(_word("b")).one_or_more()


def _then_c(pattern: Pattern[str]) -> Pattern[str]:
    return pattern.followed_by("c").where(_word("c"))


def _runs(strategy: AfterMatchSkipStrategy) -> Pattern[str]:
    b = Pattern[str].begin("b", strategy).where(_word("b")).one_or_more().consecutive()
    return b.next("c").where(_word("c"))


STORIES: dict[str, Story] = {
    "tumbling-windows": Lanes(
        "Tumbling windows",
        "Records of two keys on event time. Windows of ten seconds stand one after the other; each record is in one of"
        " them. A window gives its sum at the end of the epoch in which event time passes its end.",
        "TumblingEventTimeWindows.of(10 s)",
        _TWO_KEYS,
        TumblingEventTimeWindows.of(Time.seconds(10)),
        0, 40, 10, slack_seconds=3,
    ),
    "sliding-windows": Lanes(
        "Sliding windows",
        "Records of two keys on event time. Windows of twenty seconds start every ten seconds and overlap, so that each"
        " record counts in two of them.",
        "SlidingEventTimeWindows.of(20 s, 10 s)",
        _TWO_KEYS,
        SlidingEventTimeWindows.of(Time.seconds(20), Time.seconds(10)),
        -10, 50, 10, slack_seconds=3,
    ),
    "session-windows": Lanes(
        "Session windows",
        "Records of two keys on event time. Records closer than five seconds are in one session. A record of the second"
        " epoch lies between two sessions of ada and makes them one.",
        "EventTimeSessionWindows.with_gap(5 s)",
        [
            *_r("ada", (2, 3), (5, 1), (12, 2)), *_r("bob", (6, 5)), _END,
            *_r("ada", (8, 4)), *_r("bob", (20, 1), (23, 2)), _END,
            *_r("ada", (27, 6)), *_r("bob", (36, 2)), _END,
        ],
        EventTimeSessionWindows.with_gap(Time.seconds(5)),
        0, 45, 5, slack_seconds=8,
    ),
    "cumulative-windows": Lanes(
        "Cumulative windows",
        "Records of one key on event time. Windows share their start and end after ten, twenty and thirty seconds; each"
        " holds what came since the start. After thirty seconds it begins anew.",
        "CumulativeEventTimeWindows.of(30 s, 10 s)",
        [
            *_r("ada", (2, 3), (7, 1), (13, 2)), _END, *_r("ada", (18, 4), (24, 1), (31, 5)), _END,
            *_r("ada", (43, 2)), _END,
        ],
        CumulativeEventTimeWindows.of(Time.seconds(30), Time.seconds(10)),
        0, 60, 10,
    ),
    "allowed-lateness": Staircase(
        "Allowed lateness: a window fires again",
        "Three epochs below one another. In the second a record of the first window comes when event time has passed"
        " the window's end; the window is kept for ten more seconds and gives a new sum. In the third it is gone, and"
        " the record is dropped.",
        "TumblingEventTimeWindows.of(10 s), allowed_lateness(10 s)",
        _TOO_LATE,
        lambda stream: stream.key_by(key_of)
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .allowed_lateness(Time.seconds(10))
        .apply(Contents()),
        10, 0, 40,
    ),
    "late-records": Staircase(
        "Late records go to the side",
        "Three epochs below one another. Records of a window that has ended do not change its sum; they leave by a side"
        " output.",
        "TumblingEventTimeWindows.of(10 s), side_output_late_data(late)",
        _TOO_LATE,
        lambda stream: stream.key_by(key_of)
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .side_output_late_data(LATE)
        .apply(Contents()),
        10, 0, 40,
    ),
    "watermarks-of-splits": Splits(
        "Event time is that of the slowest split",
        "Two splits in five epochs. Event time follows the slower split, west. In the third epoch west is silent and"
        " holds event time back; in the fourth it is declared idle, and event time follows east alone; in the fifth it"
        " is back and waited for again.",
        "with_idleness(10 s)",
        {
            "east": [*_r("east", (5, 0), (12, 0)), Wait(1_000), *_r("east", (24, 0)), Wait(6_000), *_r("east", (35, 0)),
                     Wait(7_000), *_r("east", (46, 0))],
            "west": [*_r("west", (8, 0)), Wait(1_000), *_r("west", (14, 0)), Wait(13_000), *_r("west", (39, 0))],
        },
        10_000, 5, 50,
    ),
    "interval-join": Pairs(
        "Interval join",
        "Two streams of one key. Each left record pairs with the right records from two seconds before it to five"
        " seconds after it.",
        "left.interval_join(right).between(-2 s, 5 s)",
        _r("ada", (4, 1), (13, 2), (16, 3)),
        _r("ada", (1, 5), (3, 6), (9, 7), (15, 8), (20, 9), (26, 4)),
        (-2, 5), 30,
    ),
    "contiguity": Matches(
        "Contiguity between two stages",
        "Events a, x, b1, b2. With next() nothing may come between, so there is no match. With followed_by() the first"
        " b is taken. With followed_by_any() every b is taken, in a match of its own.",
        'Pattern.begin("a") … ("b")',
        "a x b1 b2",
        {
            "next": _A.next("b").where(_word("b")),
            "followed_by": _A.followed_by("b").where(_word("b")),
            "followed_by_any": _A.followed_by_any("b").where(_word("b")),
        },
    ),
    "contiguity-in-loops": Matches(
        "Contiguity inside of a loop",
        "Events a, b1, b2, x, b3, c. Consecutive events of the loop end at x. Relaxed ones skip x. With combinations"
        " any choice of the events of the loop is a match. A greedy loop takes all of them.",
        'a, followed by b {1+}, followed by c',
        "a b1 b2 x b3 c",
        {
            "consecutive": _then_c(_LOOP.consecutive()),
            "relaxed": _then_c(_LOOP),
            "combinations": _then_c(_LOOP.allow_combinations()),
            "greedy": _then_c(_LOOP.greedy()),
        },
    ),
    "skip-strategies": Matches(
        "What a match leaves of the others",
        "Events b1, b2, b3, c. Without skipping there are three matches. Skipping past the last event leaves the first"
        " one, skipping to the last b leaves the first and the last.",
        "b {1+} consecutive, next c",
        "b1 b2 b3 c",
        {
            "no_skip": _runs(AfterMatchSkipStrategy.no_skip()),
            "past_last_event": _runs(AfterMatchSkipStrategy.skip_past_last_event()),
            "to_last b": _runs(AfterMatchSkipStrategy.skip_to_last("b")),
        },
    ),
    "state-files": Files(
        "How state is kept",
        "The state of three keys in five epochs. A task holds all of it; each epoch writes a file with the keys it"
        " changed. Beside the epochs the first three files are compacted into one. A checkpoint names the files that"
        " make up the state: first those of the epochs, then the compacted one and those after it. A savepoint is one"
        " file.",
        'ValueStateDescriptor("sum", Types.LONG())',
        [
            *_r("ada", (1, 3)), *_r("bob", (1, 5)), _END, *_r("ada", (2, 4)), _END, *_r("cleo", (3, 2)), _END,
            *_r("bob", (4, 1)), *_r("cleo", (4, 6)), _END, *_r("ada", (5, 1)), _END,
        ],
    ),
}  # fmt: skip


def pictures() -> dict[str, str]:
    """The content of every picture, by its name."""
    return {name: story.draw().svg() for name, story in STORIES.items()}


if __name__ == "__main__":
    logging.getLogger("flott").setLevel(logging.ERROR)  # that records are dropped is the point of a story
    IMAGES.mkdir(exist_ok=True)
    for name, picture in pictures().items():
        (IMAGES / f"{name}.svg").write_text(picture, "utf-8")

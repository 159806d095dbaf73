"""The pictures of the documentation show what jobs do, and can be read by everybody."""

from __future__ import annotations

import re
from functools import cache
from itertools import combinations
from xml.etree import ElementTree

import pytest

from scripts import drawings
from scripts.layouts import in_rows

SVG = "{http://www.w3.org/2000/svg}"
DOCS = drawings.IMAGES.parent


@cache
def drawn() -> dict[str, str]:
    return drawings.pictures()


@pytest.mark.parametrize("name", drawings.STORIES)
def test_a_picture_shows_what_the_engine_does_today(name: str) -> None:
    assert (drawings.IMAGES / f"{name}.svg").read_text("utf-8") == drawn()[name], "run make docs, and look at it"


def test_there_are_no_other_pictures() -> None:
    assert {path.stem for path in drawings.IMAGES.glob("*.svg")} == set(drawings.STORIES)


@pytest.mark.parametrize("name", drawings.STORIES)
def test_a_picture_is_small_and_describes_itself(name: str) -> None:
    assert len(drawn()[name].encode()) < 15_000
    root = ElementTree.fromstring(drawn()[name])
    labels = {child.get("id"): child.text for child in root if child.tag in (f"{SVG}title", f"{SVG}desc")}
    assert root.get("role") == "img"
    assert all(labels[ident] for ident in (root.get("aria-labelledby") or "").split())
    assert "prefers-color-scheme:dark" in drawn()[name]


@pytest.mark.parametrize("name", drawings.STORIES)
def test_words_stay_on_the_sheet_and_out_of_each_others_way(name: str) -> None:
    root = ElementTree.fromstring(drawn()[name])
    boxes = [box_of(text) for text in root.iter(f"{SVG}text")]
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for words, (left, top, right, bottom) in boxes:
        assert 0 <= left < right <= width, words
        assert 0 <= top < bottom <= height, words
    for (one, a), (other, b) in combinations(boxes, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], f"{one!r} lies over {other!r}"


def box_of(text: ElementTree.Element) -> tuple[str, tuple[float, float, float, float]]:
    """About where words stand: left, top, right, bottom."""
    looks, words = (text.get("class") or "").split(), text.text or ""
    size = 15 if "h" in looks else 11 if "s" in looks else 12
    x, y, width = float(text.get("x", 0)), float(text.get("y", 0)), 0.52 * size * len(words)
    left = x - width / 2 if "m" in looks else x - width if "r" in looks else x
    return words, (left, y - 0.75 * size, left + width, y + 0.2 * size)


@pytest.mark.parametrize("name", drawings.STORIES)
def test_a_picture_is_shown_on_a_page_with_words_for_those_who_do_not_see_it(name: str) -> None:
    pages = [page.read_text("utf-8") for page in DOCS.rglob("*.md")]
    shown = [words for page in pages for words in re.findall(rf"!\[([^\]]*)\]\([./]*images/{name}\.svg\)", page)]
    assert shown, f"no page shows {name}.svg"
    assert all(words.strip() for words in shown)


def test_windows_that_overlap_stand_in_rows_of_their_own() -> None:
    assert in_rows([(0, 10), (5, 15), (10, 20), (12, 13)]) == [0, 1, 0, 2]

"""Rates of an engine without epochs: by what the subtasks of its keyed function note about their own progress."""

from __future__ import annotations

#: How many records a subtask had seen, and when; one note after the other, at equal distances.
Notes = list[tuple[int, float]]


def stretch_rates(subtasks: list[Notes], begin: float, stretches: int) -> list[float]:
    """Records a second of equal stretches of the stream, from a part of it on to its end; those of subtasks add up.

    A subtask does not know which record of the stream is before it, but its keys are about as many as any other's: when
    it has seen half of its own records, the stream is half through.
    """
    edges = [begin + (1 - begin) * n / stretches for n in range(stretches + 1)]
    found = [0.0] * stretches
    for notes in subtasks:
        for n in range(stretches):
            (early, began), (late, ended) = note_at(notes, edges[n]), note_at(notes, edges[n + 1])
            found[n] += (late - early) / (ended - began)
    return [round(rate, 1) for rate in found]


def note_at(notes: Notes, part: float) -> tuple[int, float]:
    """The last note when a subtask had seen no more than so large a part of its records."""
    return notes[max(0, int(len(notes) * part) - 1)]

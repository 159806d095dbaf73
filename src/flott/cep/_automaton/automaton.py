"""The automaton of a pattern, as frozen data, and the compiler that makes it.

A *position* is a place of a match that takes one event: a stage, and for a stage that is counted the number of the
repetition. Behind each position is a *junction*, and one more is at the start. A junction lists the *options* of a
partial match that stands there: the positions that may take its next event, each with the events that it may ignore
before. Options are independent of each other, so a partial match is one path of events and the set of options that it
still has. It need not be forked for each of them.

In Flink's words: an option is a TAKE edge, its contiguity is the IGNORE edge, and PROCEED edges are followed by the
compiler.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import sha256
from typing import Any

from flott.cep._conditions import Test, is_iterative, label_of
from flott.cep._pattern import Absence, Contiguity, Pattern, PatternStage, check_pattern
from flott.cep._skip import AfterMatchSkipStrategy
from flott.errors import ProgramError

#: A pattern that is unrolled to more positions is refused.
MAX_POSITIONS = 10_000


@dataclass(frozen=True)
class Bar:
    """A condition that ends an option: an event that fulfils it may be neither taken nor ignored."""

    test: Test | None
    reason: str  #: why, in words: "must not come after 'a'", "ends the loop", "belongs to the greedy stage"
    first_only: bool = False  #: it concerns only the event directly behind


class Ending(Enum):
    """How a pattern ends that does not end with an event of its own."""

    BEHIND_NEXT = "when the next event is not the one that must not come"
    AT_TIMEOUT = "when time is over and the event has not come"


@dataclass(frozen=True)
class Option:
    """What a partial match may wait for."""

    position: int | None  #: the position that takes the next event; None: the match ends without one
    contiguity: Contiguity
    bars: tuple[Bar, ...] = ()
    window_ms: int | None = None  #: the longest time since the event before
    ending: Ending | None = None


@dataclass(frozen=True)
class Junction:
    """Where a partial match stands."""

    options: tuple[Option, ...]
    accepting: bool = False  #: the events so far are a match


@dataclass(frozen=True)
class Position:
    """A place of a match that takes one event."""

    name: str  #: of the stage
    label: str  #: tells positions of one stage apart
    test: Test | None


@dataclass(frozen=True)
class Automaton:
    """A compiled pattern. ``junctions[0]`` is the start; ``junctions[p + 1]`` is behind position ``p``."""

    positions: tuple[Position, ...]
    junctions: tuple[Junction, ...]
    stage_names: tuple[str, ...]  #: of the stages that take events, in the order of the pattern
    within_ms: int | None
    skip_strategy: AfterMatchSkipStrategy
    #: A digest of the structure, without conditions: partial matches are continued only where it is the same.
    signature: str = field(compare=False, default="")

    def __str__(self) -> str:
        lines = []
        for index, junction in enumerate(self.junctions):
            label = "start" if index == 0 else f"after {self.positions[index - 1].label}"
            lines.append(label + (" (match)" if junction.accepting else "") + ":")
            lines += [f"  {self.option_text(option)}" for option in junction.options]
        if self.within_ms is not None:
            lines.append(f"within {self.within_ms} ms")
        return "\n".join(lines)

    def option_text(self, option: Option) -> str:
        """Return an option in words."""
        if option.position is None:
            text = f"match, {option.ending.value if option.ending else ''}"
        else:
            position = self.positions[option.position]
            text = f"take {position.label} [{label_of(position.test)}], {option.contiguity.value}"
        for bar in option.bars:
            only = " next" if bar.first_only else ""
            text += f"; not{only} [{label_of(bar.test)}]"
        return text + (f"; within {option.window_ms} ms" if option.window_ms is not None else "")


def compile_pattern(pattern: Pattern[Any]) -> Automaton:
    """Return the automaton of a pattern. Refuses a pattern whose matches would never be complete."""
    check_pattern(pattern)
    automaton = _Compiler(pattern).compile()
    for option in (option for junction in automaton.junctions for option in junction.options):
        if option.ending is Ending.AT_TIMEOUT and automaton.within_ms is None and option.window_ms is None:
            raise ProgramError(
                "The pattern can end with a not_followed_by() and has no within(): without a limit of time the match"
                f" would never be complete. Call within() with the time to wait for the event. Found: {pattern}."
            )
    return automaton


#: Where a position is: the index of a stage and the number of its repetition, from the outermost group inwards.
_Path = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Way:
    """What lies between the event before and an option."""

    bars: tuple[Bar, ...] = ()
    absence_window_ms: int | None = None

    def barred(self, bar: Bar) -> _Way:
        return replace(self, bars=(*self.bars, bar)) if bar not in self.bars else self


class _Compiler:
    """Follows a pattern from each position to the positions that may come next."""

    def __init__(self, pattern: Pattern[Any]):
        self._pattern = pattern
        self._numbers: dict[_Path, int] = {}
        self._paths: list[_Path] = []

    def compile(self) -> Automaton:
        junctions = [self._junction(self._entries(0, (), None, _Way()))]
        done = 0
        while done < len(self._paths):
            if len(self._paths) > MAX_POSITIONS:
                raise ProgramError(
                    f"The pattern takes more than {MAX_POSITIONS} events one by one. Use times_or_more() or"
                    " one_or_more(), which loop, instead of large numbers of times()."
                )
            junctions.append(self._junction(self._following(self._paths[done], _Way())))
            done += 1
        positions = tuple(map(self._position, self._paths))
        pattern = self._pattern
        names = tuple(pattern.names())
        made = Automaton(positions, tuple(junctions), names, pattern.within_ms, pattern.skip_strategy)
        return replace(made, signature=_signature(made))

    def _junction(self, options: list[Option]) -> Junction:
        unique = tuple(dict.fromkeys(options))
        accepting = any(option.position is None and option.ending is None for option in unique)
        if accepting:  # what is a match already need not wait for an event that must not come
            unique = tuple(option for option in unique if option.position is not None)
        return Junction(unique, accepting)

    def _position(self, path: _Path) -> Position:
        stage, label = self._stage(path), ""
        for depth, (_, count) in enumerate(path):
            stage = self._stage(path[: depth + 1])
            counted = stage.quantified and (stage.maximum or stage.minimum) > 1
            if stage.group is None:
                label += stage.name + (f" {count}" if counted else "")
            elif counted:
                label += f"{stage.name}.{count} / "
        return Position(stage.name, label, stage.test)

    def _level(self, prefix: _Path) -> tuple[PatternStage, ...]:
        stages = self._pattern.stages
        for index, _ in prefix:
            group = stages[index].group
            assert group is not None
            stages = group
        return stages

    def _stage(self, path: _Path) -> PatternStage:
        return self._level(path[:-1])[path[-1][0]]

    # --- the ways from one position to the next -----------------------------------------------------------------------

    def _entries(self, index: int, prefix: _Path, contiguity: Contiguity | None, way: _Way) -> list[Option]:
        """Return the options in front of a stage. ``contiguity`` replaces that of the stage, which starts a group."""
        stages = self._level(prefix)
        if index == len(stages):
            return self._following(prefix, way) if prefix else [_end(way)]
        stage = stages[index]
        if stage.absence is not None:
            reason = f"must not come ({stage.name})"
            way = way.barred(Bar(stage.test, reason, first_only=stage.absence is Absence.NEXT))
            if stage.absence is Absence.FOLLOWED_BY:
                way = replace(way, absence_window_ms=stage.window_ms)
            return self._entries(index + 1, prefix, contiguity, way)
        options = self._into((*prefix, (index, 1)), contiguity or stage.contiguity, way)
        if stage.optional:
            options += self._entries(index + 1, prefix, None, _left(stage, way))
        return options

    def _into(self, path: _Path, contiguity: Contiguity, way: _Way) -> list[Option]:
        stage = self._stage(path)
        if stage.group is not None:
            return self._entries(0, path, contiguity, way)
        if stage.until is not None:
            way = way.barred(Bar(stage.until, f"ends the loop {stage.name}"))
        if path not in self._numbers:
            self._numbers[path] = len(self._paths)
            self._paths.append(path)
        return [Option(self._numbers[path], contiguity, way.bars, stage.window_ms)]

    def _following(self, path: _Path, way: _Way) -> list[Option]:
        """Return the options behind a repetition of a stage."""
        stage = self._stage(path)
        index, count = path[-1]
        options: list[Option] = []
        if stage.maximum is None or count < stage.maximum:
            again = count + 1 if stage.maximum is not None else min(count + 1, stage.minimum)
            options += self._into((*path[:-1], (index, again)), stage.inner or Contiguity.RELAXED, way)
        if count >= stage.minimum:
            if count != stage.maximum:  # a greedy stage that is full takes no more
                way = _left(stage, way)
            options += self._entries(index + 1, path[:-1], None, way)
        return options


def _left(stage: PatternStage, way: _Way) -> _Way:
    """Return the way with a stage left behind: what a greedy stage would take must not come any more."""
    return way.barred(Bar(stage.test, f"{_GREEDY}{stage.name}")) if stage.greedy else way


_GREEDY = "belongs to the greedy stage "


def _end(way: _Way) -> Option:
    bars = tuple(bar for bar in way.bars if not bar.reason.startswith(_GREEDY))  # nothing comes that could be taken
    if not bars:
        return Option(None, Contiguity.RELAXED)
    lasting = any(not bar.first_only for bar in bars)
    ending = Ending.AT_TIMEOUT if lasting else Ending.BEHIND_NEXT
    return Option(None, Contiguity.RELAXED, bars, way.absence_window_ms if lasting else None, ending)


def _signature(automaton: Automaton) -> str:
    parts: list[str] = []
    for position in automaton.positions:
        parts.append(f"{position.label}:{is_iterative(position.test)}")
    for junction in automaton.junctions:
        parts.append(f"|{junction.accepting}")
        parts += [
            f"{option.position},{option.contiguity.name},{option.window_ms},{option.ending},"
            + ",".join(f"{bar.reason}{bar.first_only}" for bar in option.bars)
            for option in junction.options
        ]
    return sha256("\n".join(parts).encode()).hexdigest()[:12]

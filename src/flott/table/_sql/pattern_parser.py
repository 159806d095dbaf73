"""Reads MATCH_RECOGNIZE and its row patterns."""

from __future__ import annotations

from flott.table._sql.lexer import NUMBER
from flott.table._sql.nodes.queries import (
    SqlMatchRecognize,
    SqlMeasure,
    SqlPattern,
    SqlPatternAlternation,
    SqlPatternAnchor,
    SqlPatternDefinition,
    SqlPatternExclusion,
    SqlPatternPermutation,
    SqlPatternRepetition,
    SqlPatternSequence,
    SqlPatternSubset,
    SqlPatternVariable,
    SqlRelation,
)
from flott.table._sql.query_parser import QueryParser


class PatternParser(QueryParser):
    """Reads row patterns."""

    def match_recognize(self, relation: SqlRelation) -> SqlRelation:
        """Read a row pattern over a relation."""
        position = self.position
        self.need("MATCH_RECOGNIZE", "(")
        partition_by = self.several(self.expression) if self.take("PARTITION", "BY") else ()
        order_by = self.several(self.order_item) if self.take("ORDER", "BY") else ()
        measures = self.several(self._measure) if self.take("MEASURES") else ()
        rows = ""
        if self.take("ONE", "ROW", "PER", "MATCH"):
            rows = "ONE ROW"
        elif self.take("ALL", "ROWS", "PER", "MATCH"):
            rows = "ALL ROWS"
        skip, skip_to = self._skip() if self.take("AFTER", "MATCH", "SKIP") else ("", None)
        self.need("PATTERN", "(")
        pattern = self._alternation()
        self.need(")")
        within = self.expression() if self.take("WITHIN") else None
        subsets = self.several(self._subset) if self.take("SUBSET") else ()
        self.need("DEFINE")
        definitions = self.several(self._definition)
        self.need(")")
        return SqlMatchRecognize(
            relation,
            pattern,
            definitions,
            partition_by,
            order_by,
            measures,
            rows,
            skip,
            skip_to,
            within,
            subsets,
            position=position,
        )

    def _skip(self) -> tuple[str, str | None]:
        if self.take("TO", "NEXT", "ROW"):
            return "NEXT ROW", None
        if self.take("PAST", "LAST", "ROW"):
            return "PAST LAST ROW", None
        if not self.take("TO"):
            self.fail("TO NEXT ROW, PAST LAST ROW, TO FIRST or TO LAST")
        return self.take_one("FIRST", "LAST") or "LAST", self.name_part()

    def _measure(self) -> SqlMeasure:
        position = self.position
        expression = self.expression()
        self.need("AS")
        return SqlMeasure(expression, self.name_part(), position=position)

    def _definition(self) -> SqlPatternDefinition:
        position = self.position
        variable = self.name_part()
        self.need("AS")
        return SqlPatternDefinition(variable, self.expression(), position=position)

    def _subset(self) -> SqlPatternSubset:
        position = self.position
        name = self.name_part()
        self.need("=")
        return SqlPatternSubset(name, self.enclosed(self.name_part), position=position)

    # --- patterns -------------------------------------------------------------------------------------------------

    def _alternation(self) -> SqlPattern:
        position = self.position
        parts = [self._sequence()]
        while self.take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else SqlPatternAlternation(tuple(parts), position=position)

    def _sequence(self) -> SqlPattern:
        position = self.position
        parts = []
        while True:
            part = self._pattern_operand()
            if part is None:
                break
            parts.append(self._repeated(part))
        if not parts:
            self.fail("a variable of the pattern")
        return parts[0] if len(parts) == 1 else SqlPatternSequence(tuple(parts), position=position)

    def _pattern_operand(self) -> SqlPattern | None:
        position = self.position
        if self.take("("):
            part = self._alternation()
            self.need(")")
            return part
        if self.take("{-"):
            part = SqlPatternExclusion(self._alternation(), position=position)
            self.need("-}")
            return part
        if self.take("PERMUTE"):
            return SqlPatternPermutation(self.enclosed(self._alternation), position=position)
        if self.at("^", "$"):
            return SqlPatternAnchor(self.advance().word, position=position)
        return SqlPatternVariable(self.name_part(), position=position) if self.at_name() else None

    def _repeated(self, part: SqlPattern) -> SqlPattern:
        position = self.position
        bounds: tuple[int, int | None]
        match self.current.word:
            case "*":
                bounds = (0, None)
            case "+":
                bounds = (1, None)
            case "?":
                bounds = (0, 1)
            case "{":
                bounds = self._braces()
            case _:
                return part
        self.index += 1
        return SqlPatternRepetition(part, *bounds, greedy=not self.take("?"), position=position)

    def _braces(self) -> tuple[int, int | None]:
        """Read ``{n}``, ``{n,}``, ``{,m}`` or ``{n,m}`` up to the closing brace, which stays."""
        self.need("{")
        least = self.integer() if self.current.kind == NUMBER else None
        most = least
        if self.take(","):
            most = self.integer() if self.current.kind == NUMBER else None
        elif least is None:
            self.fail("a whole number")
        if not self.at("}"):
            self.fail("}")
        return least or 0, most

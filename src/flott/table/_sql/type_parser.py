"""Reads data types."""

from __future__ import annotations

from dataclasses import replace

from flott.table._sql.cursor import TokenCursor
from flott.table._sql.keywords import PLURAL_UNITS, TIME_UNITS, TYPE_SYNONYMS, TYPE_WORDS
from flott.table._sql.lexer import QUOTED, TEXT
from flott.table._sql.nodes.base import Position, SqlTypeField, SqlTypeName
from flott.table._sql.nodes.expressions import SqlIntervalQualifier

_WITH_LENGTH = {"CHAR", "VARCHAR", "BINARY", "VARBINARY", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"}


class TypeParser(TokenCursor):
    """Reads ``DECIMAL(10, 2) NOT NULL``, ``ARRAY<INT>``, ``ROW<a INT, b STRING 'comment'>`` and all the others."""

    def type_name(self) -> SqlTypeName:
        """Read a type with what follows it: NOT NULL, NULL, or ARRAY and MULTISET, which make a collection of it."""
        found = self._plain_type()
        while True:
            if self.take("NOT", "NULL"):
                found = replace(found, nullable=False)
            elif self.at("NULL") and self.ahead().word != "ON":  # RETURNING INT NULL ON EMPTY
                self.index += 1
                found = replace(found, nullable=True)
            elif self.at("ARRAY", "MULTISET"):
                token = self.advance()
                found = SqlTypeName(token.word, elements=(found,), position=token.position)
            else:
                return found

    def _plain_type(self) -> SqlTypeName:
        token = self.current
        name = TYPE_SYNONYMS.get(token.word, token.word)
        if token.kind == QUOTED or name not in TYPE_WORDS:
            if not self.at_name():
                self.fail("a data type")
            return SqlTypeName(".".join(self.name()), position=token.position)
        self.index += 1
        match name:
            case "ROW":
                return SqlTypeName("ROW", fields=self._row_fields(), position=token.position)
            case "ARRAY" | "MULTISET":
                return SqlTypeName(name, elements=self._elements(1), position=token.position)
            case "MAP":
                return SqlTypeName(name, elements=self._elements(2), position=token.position)
            case "RAW":
                return SqlTypeName(name, texts=self.enclosed(self.string), position=token.position)
            case "STRUCTURED":
                return self._structured(token.position)
            case "INTERVAL":
                qualifier = self.interval_qualifier()
                units = (qualifier.start,) if qualifier.end is None else (qualifier.start, qualifier.end)
                digits = tuple(n for n in (qualifier.precision, qualifier.fraction) if n is not None)
                return SqlTypeName(name, parameters=digits, interval=units, position=token.position)
        return self._simple_type(name, token.position)

    def _simple_type(self, name: str, position: Position) -> SqlTypeName:
        if name in ("CHAR", "BINARY") and self.take("VARYING"):
            name = f"VAR{name}"
        if name == "DOUBLE":
            self.take("PRECISION")
        parameters: tuple[int, ...] = ()
        if self.at("(") and (name in _WITH_LENGTH or name == "DECIMAL"):
            parameters = self.enclosed(self.integer)
            if len(parameters) > (2 if name == "DECIMAL" else 1):
                self.fail(f"fewer numbers after {name}")
        if name in ("TIME", "TIMESTAMP"):
            name = self._time_zone(name)
        return SqlTypeName(name, parameters, position=position)

    def _time_zone(self, name: str) -> str:
        if self.take("WITHOUT", "TIME", "ZONE"):
            return name
        if self.take("WITH", "LOCAL", "TIME", "ZONE"):
            return "TIMESTAMP_LTZ" if name == "TIMESTAMP" else self.fail("TIME without a time zone")
        if self.sees("WITH", "TIME", "ZONE"):
            self.fail("a type without a time zone, or WITH LOCAL TIME ZONE")
        return name

    def _elements(self, count: int) -> tuple[SqlTypeName, ...]:
        self.need("<")
        found = [self.type_name()]
        for _ in range(count - 1):
            self.need(",")
            found.append(self.type_name())
        self.need(">")
        return tuple(found)

    def _row_fields(self) -> tuple[SqlTypeField, ...]:
        if self.take("<>"):
            return ()
        closing = ")" if self.at("(") else ">"
        if not self.take("("):
            self.need("<")
        if self.take(closing):
            return ()
        fields = self.several(self._field)
        self.need(closing)
        return fields

    def _field(self) -> SqlTypeField:
        position = self.position
        name = self.name_part(reserved=True)
        type_name = self.type_name()
        description = self.string() if self.current.kind == TEXT else None
        return SqlTypeField(name, type_name, description, position=position)

    def _structured(self, position: Position) -> SqlTypeName:
        self.need("<")
        class_name = self.string()
        fields = []
        while self.take(","):
            fields.append(self._field())
        self.need(">")
        return SqlTypeName("STRUCTURED", fields=tuple(fields), texts=(class_name,), position=position)

    def interval_qualifier(self) -> SqlIntervalQualifier:
        """Read the units of an interval, such as ``DAY(3) TO SECOND(6)``."""
        position = self.position
        start, numbers = self._interval_unit()
        precision, fraction = (*numbers, None, None)[:2]
        end = None
        if self.take("TO"):
            end, numbers = self._interval_unit()
            fraction = numbers[0] if numbers else fraction
        return SqlIntervalQualifier(start, end, precision, fraction, position=position)

    def _interval_unit(self) -> tuple[str, tuple[int, ...]]:
        unit = self.time_unit()
        return unit, self.enclosed(self.integer) if self.at("(") else ()

    def time_unit(self) -> str:
        """Read a unit of time, which may be plural, and return it in the singular."""
        word = self.current.word
        unit = PLURAL_UNITS.get(word, word)
        if unit not in TIME_UNITS:
            self.fail("a unit of time, such as DAY or SECOND")
        self.index += 1
        return unit

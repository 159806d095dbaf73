"""Reads the JSON functions of the SQL standard with their clauses, such as ``NULL ON EMPTY``."""

from __future__ import annotations

from flott.table._sql.call_parser import CallParser
from flott.table._sql.lexer import Token
from flott.table._sql.nodes.expressions import SqlCallOption, SqlExpression, SqlFunctionCall, SqlOrderItem


class JsonParser(CallParser):
    """Reads ``JSON_VALUE(j, '$.a' RETURNING INT DEFAULT 0 ON EMPTY)`` and its kin."""

    def json_call(self, token: Token) -> SqlExpression:
        """Read a JSON function with its clauses."""
        self.index += 2
        options: list[SqlCallOption] = []
        order_by: tuple[SqlOrderItem, ...] = ()
        match token.word:
            case "JSON_EXISTS" | "JSON_VALUE" | "JSON_QUERY":
                arguments = [self.expression()]
                self._format_json()
                self.need(",")
                arguments.append(self.expression())
                self._path_clauses(options)
            case "JSON_OBJECT" | "JSON_OBJECTAGG":
                arguments = self._entries(options, several=token.word == "JSON_OBJECT")
            case _:
                arguments = self._items(options, several=token.word == "JSON_ARRAY")
                if token.word == "JSON_ARRAYAGG" and self.take("ORDER", "BY"):
                    order_by = self.several(self.order_item)
                    self._null_clause(options)
        self.need(")")
        call = SqlFunctionCall(
            (token.word,), tuple(arguments), order_by=order_by, options=tuple(options), position=token.position
        )
        return self._suffixes(call)

    def _format_json(self) -> None:
        self.take("FORMAT", "JSON")  # the only format there is

    def _path_clauses(self, options: list[SqlCallOption]) -> None:
        while not self.at(")"):
            position = self.position
            if self.take("RETURNING"):
                options.append(SqlCallOption("RETURNING", value=self.type_name(), position=position))
            elif self.at("WITH", "WITHOUT"):
                keyword = self.advance().word
                kind = self.take_one("CONDITIONAL", "UNCONDITIONAL") if keyword == "WITH" else None
                self.take("ARRAY")
                self.need("WRAPPER")
                words = [keyword, *([kind or "UNCONDITIONAL"] if keyword == "WITH" else []), "ARRAY"]
                options.append(SqlCallOption("WRAPPER", " ".join(words), position=position))
            else:
                options.append(self._behaviour())

    def _behaviour(self) -> SqlCallOption:
        position = self.position
        value = None
        keyword = self.need_one("NULL", "ERROR", "DEFAULT", "EMPTY", "TRUE", "FALSE", "UNKNOWN")
        if keyword == "DEFAULT":
            value = self.expression()
        elif keyword == "EMPTY":
            keyword = f"EMPTY {self.take_one('ARRAY', 'OBJECT') or 'ARRAY'}"
        self.need("ON")
        return SqlCallOption(f"ON {self.need_one('EMPTY', 'ERROR')}", keyword, value, position=position)

    def _null_clause(self, options: list[SqlCallOption]) -> None:
        for keyword in ("NULL", "ABSENT"):
            if self.sees(keyword, "ON", "NULL"):
                options.append(SqlCallOption("ON NULL", keyword, position=self.position))
                self.index += 3

    def _entries(self, options: list[SqlCallOption], *, several: bool) -> list[SqlExpression]:
        arguments: list[SqlExpression] = []
        self._null_clause(options)
        while not self.at(")") and not options:
            if self.at("KEY") and self.ahead().word not in (",", ":", "VALUE", "(", "."):
                self.index += 1
            arguments.append(self.expression())
            if not (self.take("VALUE") or self.take(":")):
                self.need(",")
            arguments.append(self.expression())
            self._format_json()
            self._null_clause(options)
            if not several or not self.take(","):
                break
        return arguments

    def _items(self, options: list[SqlCallOption], *, several: bool) -> list[SqlExpression]:
        arguments: list[SqlExpression] = []
        self._null_clause(options)
        while not self.at(")") and not options:
            arguments.append(self.expression())
            self._format_json()
            self._null_clause(options)
            if not several or not self.take(","):
                break
        return arguments

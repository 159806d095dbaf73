"""Reads columns, calls of functions with FILTER and OVER, and the functions with a syntax of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flott.table._sql.expression_parser import ExpressionParser
from flott.table._sql.keywords import PLURAL_UNITS, TIME_UNITS
from flott.table._sql.lexer import QUOTED, WORD, Token
from flott.table._sql.nodes.expressions import (
    SqlColumnReference,
    SqlDefaultArgument,
    SqlDescriptor,
    SqlDescriptorColumn,
    SqlExpression,
    SqlFrame,
    SqlFrameBound,
    SqlFunctionCall,
    SqlModelArgument,
    SqlNamedArgument,
    SqlOrderItem,
    SqlScalarQuery,
    SqlStar,
    SqlStringLiteral,
    SqlSymbol,
    SqlTableArgument,
    SqlUnaryOperation,
    SqlWindowName,
    SqlWindowSpecification,
)
from flott.table._sql.nodes.queries import (
    SqlAliased,
    SqlFunctionRelation,
    SqlHint,
    SqlQueryRelation,
    SqlRelation,
    SqlTableReference,
)

_UNIT_FIRST = ("TIMESTAMPADD", "TIMESTAMPDIFF", "TIMESTAMP_DIFF", "TIMESTAMP_TRUNC")
_PATTERN_FUNCTIONS = ("FIRST", "LAST", "SUM", "COUNT", "AVG", "MIN", "MAX", "PREV", "NEXT")


class CallParser(ExpressionParser):
    """Reads columns and calls."""

    def hints(self) -> tuple[SqlHint, ...]:
        """Read ``/*+ ... */`` if it stands here."""
        raise NotImplementedError

    def call(self) -> SqlExpression:
        """Read a column, ``t.*`` or the call of a function."""
        token = self.current
        if token.word in ("RUNNING", "FINAL") and self.ahead().word in _PATTERN_FUNCTIONS:
            self.index += 1
            return SqlUnaryOperation(token.word, self.call(), position=token.position)
        parts = [self.name_part(reserved=True)]
        while self.at(".") and (self.ahead().kind in (WORD, QUOTED) or self.ahead().word == "*"):
            self.index += 1
            if self.take("*"):
                return SqlStar(tuple(parts), position=token.position)
            parts.append(self.name_part(reserved=True))
        if not self.at("("):
            return SqlColumnReference(tuple(parts), position=token.position)
        return self.function_call(tuple(parts), token)

    def function_call(self, name: tuple[str, ...], token: Token) -> SqlFunctionCall:
        """Read the arguments of a function and what follows them."""
        self.need("(")
        arguments: tuple[SqlExpression, ...] = ()
        order_by: tuple[SqlOrderItem, ...] = ()
        distinct = False
        nulls = None
        if not self.take(")"):
            distinct = self.take_one("DISTINCT", "ALL") == "DISTINCT"
            arguments = self.several(self.argument)
            if self.take("ORDER", "BY"):
                order_by = self.several(self.order_item)
            nulls = self._null_treatment()
            self.need(")")
        call = SqlFunctionCall(name, arguments, distinct, order_by, nulls=nulls, position=token.position)
        return self._suffixes(call)

    def _null_treatment(self) -> str | None:
        for word in ("RESPECT", "IGNORE"):
            if self.take(word, "NULLS"):
                return word
        return None

    def _suffixes(self, call: SqlFunctionCall) -> SqlFunctionCall:
        nulls = self._null_treatment()
        if nulls is not None:
            call = replace(call, nulls=nulls)
        if self.take("WITHIN", "GROUP"):
            self.need("(")
            self.need("ORDER", "BY")
            call = replace(call, within_group=self.several(self.order_item))
            self.need(")")
        if self.sees("FILTER", "("):
            self.index += 2
            self.need("WHERE")
            call = replace(call, filter=self.expression())
            self.need(")")
        if self.take("OVER"):
            if self.at("("):
                call = replace(call, over=self.window_specification())
            else:
                position = self.position
                call = replace(call, over=SqlWindowName(self.name_part(), position=position))
        return call

    # --- arguments ------------------------------------------------------------------------------------------------

    def argument(self) -> SqlExpression:
        """Read an argument, which may have a name."""
        if self.current.kind in (WORD, QUOTED) and self.ahead().word == "=>":
            position = self.position
            name = self.name_part(reserved=True)
            self.index += 1
            return SqlNamedArgument(name, self._argument_value(), position=position)
        return self._argument_value()

    def _argument_value(self) -> SqlExpression:
        token = self.current
        if token.word == "TABLE":
            return self._table_argument()
        if token.word == "MODEL" and self.at_name(1):
            self.index += 1
            return SqlModelArgument(self.name(), position=token.position)
        if token.word == "DESCRIPTOR" and self.ahead().word == "(":
            self.index += 1
            return SqlDescriptor(self.enclosed(self._descriptor_column, empty=True), position=token.position)
        if token.word == "DEFAULT" and self.ahead().word in (",", ")"):
            self.index += 1
            return SqlDefaultArgument(position=token.position)
        if self.at_query():
            return SqlScalarQuery(self.query(), position=token.position)
        return self.expression()

    def _descriptor_column(self) -> SqlDescriptorColumn:
        position = self.position
        name = self.name_part(reserved=True)
        type_name = None if self.at(",", ")") else self.type_name()
        return SqlDescriptorColumn(name, type_name, position=position)

    def _table_argument(self) -> SqlExpression:
        position = self.advance().position
        relation = self._argument_relation()
        partition_by: tuple[SqlExpression, ...] = ()
        order_by: tuple[SqlOrderItem, ...] = ()
        if self.take("PARTITION", "BY"):
            # several columns stand in parentheses: a comma here begins the next argument
            partition_by = self.enclosed(self.expression) if self.at("(") else (self.expression(),)
        if self.take("ORDER", "BY"):
            order_by = self.enclosed(self.order_item) if self.at("(") else (self.order_item(),)
        return SqlTableArgument(relation, partition_by, order_by, position=position)

    def _argument_relation(self) -> SqlRelation:
        token = self.current
        relation: SqlRelation
        if self.take("("):
            relation = SqlQueryRelation(self.query(), position=token.position)
            self.need(")")
        else:
            name = self.name()
            if self.at("("):
                relation = SqlFunctionRelation(self.function_call(name, token), position=token.position)
            else:
                relation = SqlTableReference(name, self.hints(), position=token.position)
        if self.take("AS") or self.at_name():
            alias = self.name_part()
            columns = self.enclosed(self.name_part) if self.at("(") else ()
            relation = SqlAliased(relation, alias, columns, position=token.position)
        return relation

    # --- order and windows ----------------------------------------------------------------------------------------

    def order_item(self) -> SqlOrderItem:
        """Read ``x [ASC|DESC] [NULLS FIRST|LAST]``."""
        position = self.position
        expression = self.expression()
        descending = self.take_one("ASC", "DESC") == "DESC"
        nulls_first = None
        if self.take("NULLS"):
            nulls_first = self.need_one("FIRST", "LAST") == "FIRST"
        return SqlOrderItem(expression, descending, nulls_first, position=position)

    def window_specification(self) -> SqlWindowSpecification:
        """Read what stands in the parentheses of OVER, with them."""
        position = self.position
        self.need("(")
        base = self.name_part() if self.at_name() else None
        partition_by = self.several(self.expression) if self.take("PARTITION", "BY") else ()
        order_by = self.several(self.order_item) if self.take("ORDER", "BY") else ()
        frame = self._frame() if self.at("ROWS", "RANGE") else None
        self.need(")")
        return SqlWindowSpecification(base, partition_by, order_by, frame, position=position)

    def _frame(self) -> SqlFrame:
        token = self.advance()
        if not self.take("BETWEEN"):
            return SqlFrame(token.word, self._frame_bound(), position=token.position)
        start = self._frame_bound()
        self.need("AND")
        return SqlFrame(token.word, start, self._frame_bound(), position=token.position)

    def _frame_bound(self) -> SqlFrameBound:
        position = self.position
        if self.take("CURRENT", "ROW"):
            return SqlFrameBound("CURRENT ROW", position=position)
        if self.take("UNBOUNDED"):
            return SqlFrameBound(f"UNBOUNDED {self.need_one('PRECEDING', 'FOLLOWING')}", position=position)
        offset = self.expression()
        return SqlFrameBound(self.need_one("PRECEDING", "FOLLOWING"), offset, position=position)

    # --- functions with a syntax of their own -----------------------------------------------------------------------

    def special_call(self, token: Token) -> SqlExpression | None:
        """Read the call of a function with a syntax of its own; return None if the token begins none."""
        read = _SPECIAL.get(token.word)
        return read(self, token) if read is not None else None

    def _symbol(self) -> SqlSymbol:
        token = self.current
        if token.kind != WORD:
            self.fail("a unit of time, such as DAY or SECOND")
        self.index += 1
        return SqlSymbol(PLURAL_UNITS.get(token.word, token.word), position=token.position)

    def _extract(self, token: Token) -> SqlExpression:
        self.index += 2
        unit = self._symbol()
        self.need("FROM")
        operand = self.expression()
        self.need(")")
        return SqlFunctionCall(("EXTRACT",), (unit, operand), position=token.position)

    def _round_to_unit(self, token: Token) -> SqlExpression:
        self.index += 2
        arguments = [self.expression()]
        if self.take("TO"):
            arguments.append(self._symbol())
        else:
            while self.take(","):
                arguments.append(self.expression())
        self.need(")")
        name = "CEIL" if token.word == "CEILING" else token.word
        return self._suffixes(SqlFunctionCall((name,), tuple(arguments), position=token.position))

    def _unit_first(self, token: Token) -> SqlExpression | None:
        unit = self.ahead(2).word.removeprefix("SQL_TSI_")
        if unit not in TIME_UNITS and unit not in PLURAL_UNITS:
            return None
        position = self.ahead(2).position
        self.index += 3
        self.need(",")
        arguments = self.several(self.expression)
        self.need(")")
        symbol = SqlSymbol(PLURAL_UNITS.get(unit, unit), position=position)
        return SqlFunctionCall((token.word,), (symbol, *arguments), position=token.position)

    def _position_of(self, token: Token) -> SqlExpression:
        self.index += 2
        arguments = [self.expression(33)]  # stronger than IN
        self.need("IN")
        arguments.append(self.expression())
        if self.take("FROM"):
            arguments.append(self.expression())
        self.need(")")
        return SqlFunctionCall(("POSITION",), tuple(arguments), position=token.position)

    def _trim(self, token: Token) -> SqlExpression:
        self.index += 2
        side = SqlSymbol(self.take_one("BOTH", "LEADING", "TRAILING") or "BOTH", position=token.position)
        blank: SqlExpression = SqlStringLiteral(" ")
        first = None if self.at("FROM") else self.expression()
        if self.take("FROM"):
            arguments = (side, blank if first is None else first, self.expression())
        elif first is not None and self.take(","):
            arguments = (side, self.expression(), first)
        elif first is not None:
            arguments = (side, blank, first)
        else:
            self.fail("FROM")
        self.need(")")
        return SqlFunctionCall(("TRIM",), arguments, position=token.position)

    def _substring(self, token: Token) -> SqlExpression:
        self.index += 2
        arguments = [self.expression()]
        if self.take("FROM"):
            arguments.append(self.expression())
            if self.take("FOR"):
                arguments.append(self.expression())
        else:
            while self.take(","):
                arguments.append(self.expression())
        self.need(")")
        return SqlFunctionCall((token.word,), tuple(arguments), position=token.position)

    def _overlay(self, token: Token) -> SqlExpression:
        self.index += 2
        arguments = [self.expression()]
        if self.take("PLACING"):
            arguments.append(self.expression())
            self.need("FROM")
            arguments.append(self.expression())
            if self.take("FOR"):
                arguments.append(self.expression())
        else:
            while self.take(","):
                arguments.append(self.expression())
        self.need(")")
        return SqlFunctionCall(("OVERLAY",), tuple(arguments), position=token.position)

    def json_call(self, token: Token) -> SqlExpression:
        """Read a JSON function with its clauses."""
        raise NotImplementedError

    def _json(self, token: Token) -> SqlExpression:
        return self.json_call(token)


_SPECIAL: dict[str, Callable[[CallParser, Token], SqlExpression | None]] = {
    "EXTRACT": CallParser._extract,
    **dict.fromkeys(("CEIL", "CEILING", "FLOOR"), CallParser._round_to_unit),
    **dict.fromkeys(_UNIT_FIRST, CallParser._unit_first),
    "POSITION": CallParser._position_of,
    "TRIM": CallParser._trim,
    "SUBSTRING": CallParser._substring,
    "OVERLAY": CallParser._overlay,
    **dict.fromkeys(
        ("JSON_EXISTS", "JSON_VALUE", "JSON_QUERY", "JSON_OBJECT", "JSON_ARRAY", "JSON_OBJECTAGG", "JSON_ARRAYAGG"),
        CallParser._json,
    ),
}

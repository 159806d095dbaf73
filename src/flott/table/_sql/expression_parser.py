"""Reads expressions by operator precedence (Pratt's method). Calls and special functions are in ``call_parser.py``.

Precedence from weak to strong, as Calcite's: OR, AND, NOT, IS, comparison, BETWEEN/IN/LIKE, + and -, * / % ||, signs,
element and field access.
"""

from __future__ import annotations

from collections.abc import Callable

from flott.table._sql.keywords import NILADIC, RESERVED
from flott.table._sql.lexer import BYTES, NUMBER, QUOTED, TEXT, WORD, Token
from flott.table._sql.nodes.expressions import (
    SqlArrayConstructor,
    SqlBetween,
    SqlBinaryLiteral,
    SqlBinaryOperation,
    SqlBooleanLiteral,
    SqlCase,
    SqlCast,
    SqlCollectionQuery,
    SqlExists,
    SqlExpression,
    SqlFieldAccess,
    SqlFlatten,
    SqlFunctionCall,
    SqlInList,
    SqlInQuery,
    SqlIntervalLiteral,
    SqlIntervalValue,
    SqlItemAccess,
    SqlLike,
    SqlMapConstructor,
    SqlMultisetConstructor,
    SqlNullLiteral,
    SqlNumberLiteral,
    SqlQuantified,
    SqlRowConstructor,
    SqlScalarQuery,
    SqlStar,
    SqlStringLiteral,
    SqlTemporalLiteral,
    SqlUnaryOperation,
    SqlWhen,
)
from flott.table._sql.nodes.queries import SqlQuery
from flott.table._sql.type_parser import TypeParser

_OR, _AND, _NOT, _IS, _COMPARE, _RANGE, _ADD, _MULTIPLY, _SIGN, _ACCESS = 22, 24, 26, 28, 30, 32, 40, 60, 80, 100

_COMPARISONS = {"=", "<>", "!=", "<", ">", "<=", ">="}
_BINARY = {
    **dict.fromkeys(_COMPARISONS, _COMPARE),
    **dict.fromkeys(("+", "-"), _ADD),
    **dict.fromkeys(("*", "/", "%", "||"), _MULTIPLY),
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(("OVERLAPS", "CONTAINS", "EQUALS", "PRECEDES", "SUCCEEDS"), _RANGE),
}
_NEGATABLE = {"BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "SIMILAR", "MEMBER", "SUBMULTISET"}
_LONG_CHAIN = 50
_AFTER_QUERY = {"UNION", "INTERSECT", "EXCEPT", "MINUS", "ORDER", "LIMIT", "OFFSET", "FETCH"}


class ExpressionParser(TypeParser):
    """Reads expressions. The query parser, which is built on it, reads the queries in them."""

    def query(self) -> SqlQuery:
        """Read a query."""
        raise NotImplementedError

    def query_rest(self, first: SqlQuery) -> SqlQuery:
        """Read what follows the first operand of a query, which stood in parentheses."""
        raise NotImplementedError

    def call(self) -> SqlExpression:
        """Read a column or the call of a function."""
        raise NotImplementedError

    def special_call(self, token: Token) -> SqlExpression | None:
        """Read the call of a function with a syntax of its own; return None if the token begins none."""
        raise NotImplementedError

    def expression(self, least: int = 0) -> SqlExpression:
        """Read an expression whose operators bind at least as strongly as ``least``."""
        left = self._operand()
        while True:
            found = self._continued(left, least)
            if found is None:
                return left
            left = found

    # --- operators ------------------------------------------------------------------------------------------------

    def _continued(self, left: SqlExpression, least: int) -> SqlExpression | None:
        """Read one operator after an operand, with its right side; return None if none follows that binds enough."""
        token = self.current
        word = token.word
        strength = _BINARY.get(word)
        if strength is not None:
            return self._binary(left, word, strength) if least <= strength else None
        if word == "[" and least <= _ACCESS:
            return self._item(left)
        if word == "." and least <= _ACCESS:
            return self._field_access(left)
        if word == "IS" and least <= _IS:
            return self._is(left)
        negated = word == "NOT" and self.ahead().word in _NEGATABLE
        if least <= _RANGE and (negated or word in _NEGATABLE):
            if negated:
                self.index += 1
            return self._range(left, negated)
        if word == "MULTISET" and least <= _ADD and self.ahead().word in ("UNION", "EXCEPT", "INTERSECT"):
            return self._multiset_operation(left)
        return None

    def _binary(self, left: SqlExpression, word: str, strength: int) -> SqlExpression:
        position = self.advance().position
        operator = "<>" if word == "!=" else word
        if word in _COMPARISONS and self.at("ANY", "SOME", "ALL") and self.ahead().word == "(":
            quantifier = "ALL" if self.advance().word == "ALL" else "ANY"
            query = self.parenthesized()
            if not isinstance(query, SqlScalarQuery):
                self.fail(f"a query in the parentheses before, because of {quantifier}")
            return SqlQuantified(operator, quantifier, left, query.query, position=position)
        right = self.expression(strength + 1)
        if word in ("AND", "OR") and self.current.word == word:
            return self._chain(word, [left, right], strength)
        return SqlBinaryOperation(operator, left, right, position=position)

    def _chain(self, word: str, operands: list[SqlExpression], strength: int) -> SqlExpression:
        """Read the rest of ``a OR b OR c ...``. A long one becomes a balanced tree, which programs can walk."""
        position = self.position
        while self.take(word):
            operands.append(self.expression(strength + 1))
        if len(operands) <= _LONG_CHAIN:
            found = operands[0]
            for operand in operands[1:]:
                found = SqlBinaryOperation(word, found, operand, position=position)
            return found
        while len(operands) > 1:
            pairs = zip(operands[::2], operands[1::2], strict=False)
            joined: list[SqlExpression] = [SqlBinaryOperation(word, a, b, position=position) for a, b in pairs]
            operands = joined + operands[len(joined) * 2 :]
        return operands[0]

    def _item(self, left: SqlExpression) -> SqlExpression:
        position = self.advance().position
        index = self.expression()
        self.need("]")
        return SqlItemAccess(left, index, position=position)

    def _field_access(self, left: SqlExpression) -> SqlExpression | None:
        if self.ahead().word == "*":
            position = self.advance().position
            self.index += 1
            return SqlFlatten(left, position=position)
        if self.ahead().kind not in (WORD, QUOTED):
            return None
        position = self.advance().position
        return SqlFieldAccess(left, self.name_part(reserved=True), position=position)

    def _is(self, left: SqlExpression) -> SqlExpression:
        position = self.advance().position
        negation = "NOT " if self.take("NOT") else ""
        if self.take("DISTINCT", "FROM"):
            return SqlBinaryOperation(f"IS {negation}DISTINCT FROM", left, self.expression(_RANGE), position=position)
        if self.take("A", "SET"):
            return SqlUnaryOperation(f"IS {negation}A SET", left, position=position)
        word = self.need_one("NULL", "TRUE", "FALSE", "UNKNOWN", "JSON", "EMPTY", "NORMALIZED")
        if word == "JSON":
            word = f"JSON {self.take_one('VALUE', 'OBJECT', 'ARRAY', 'SCALAR') or 'VALUE'}"
        return SqlUnaryOperation(f"IS {negation}{word}", left, position=position)

    def _range(self, left: SqlExpression, negated: bool) -> SqlExpression:
        token = self.advance()
        match token.word:
            case "BETWEEN":
                symmetric = self.take_one("ASYMMETRIC", "SYMMETRIC") == "SYMMETRIC"
                low = self.expression(_RANGE + 1)
                self.need("AND")
                high = self.expression(_RANGE + 1)
                return SqlBetween(left, low, high, negated, symmetric, position=token.position)
            case "IN":
                return self._in(left, negated, token)
            case "LIKE" | "ILIKE" | "RLIKE" | "SIMILAR":
                if token.word == "SIMILAR":
                    self.need("TO")
                operator = "SIMILAR TO" if token.word == "SIMILAR" else token.word
                pattern = self.expression(_RANGE + 1)
                escape = self.expression(_RANGE + 1) if self.take("ESCAPE") else None
                return SqlLike(operator, left, pattern, escape, negated, position=token.position)
        self.take("OF")  # MEMBER OF, SUBMULTISET OF
        right = self.expression(_RANGE + 1)
        found = SqlBinaryOperation(f"{token.word} OF", left, right, position=token.position)
        return SqlUnaryOperation("NOT", found, position=token.position) if negated else found

    def _in(self, left: SqlExpression, negated: bool, token: Token) -> SqlExpression:
        values = self.parenthesized()
        if isinstance(values, SqlScalarQuery):
            return SqlInQuery(left, values.query, negated, position=token.position)
        items = values.items if isinstance(values, SqlRowConstructor) and not values.explicit else (values,)
        return SqlInList(left, items, negated, position=token.position)

    def _multiset_operation(self, left: SqlExpression) -> SqlExpression:
        position = self.advance().position
        operator = self.advance().word
        quantity = self.take_one("ALL", "DISTINCT") or "ALL"
        right = self.expression(_MULTIPLY + 1)
        return SqlBinaryOperation(f"MULTISET {operator} {quantity}", left, right, position=position)

    # --- operands -------------------------------------------------------------------------------------------------

    def _operand(self) -> SqlExpression:
        token = self.current
        match token.kind:
            case "number":
                self.index += 1
                return SqlNumberLiteral(token.text, position=token.position)
            case "text":
                return SqlStringLiteral(self.string(), position=token.position)
            case "bytes":
                return self._bytes()
            case "quoted":
                return self.call()
            case "word":
                return self._word(token)
        return self._sign(token)

    def _bytes(self) -> SqlExpression:
        position = self.position
        digits = ""
        while self.current.kind == BYTES:
            digits += self.advance().value
        return SqlBinaryLiteral(bytes.fromhex(digits), position=position)

    def _sign(self, token: Token) -> SqlExpression:
        match token.word:
            case "(":
                return self.parenthesized()
            case "+" | "-":
                self.index += 1
                return SqlUnaryOperation(token.word, self.expression(_SIGN), position=token.position)
            case "*":
                self.index += 1
                return SqlStar(position=token.position)
        self.fail("an expression")

    def parenthesized(self) -> SqlExpression:
        """Read what stands in parentheses: a query, one expression, or several as a row."""
        position = self.position
        self.need("(")
        if self.at_query():
            found: SqlExpression = SqlScalarQuery(self.query(), position=position)
            self.need(")")
            return found
        items = self.several(self.expression)
        if len(items) == 1 and isinstance(items[0], SqlScalarQuery) and self.current.word in _AFTER_QUERY:
            items = (SqlScalarQuery(self.query_rest(items[0].query), position=position),)
        self.need(")")
        return items[0] if len(items) == 1 else SqlRowConstructor(items, explicit=False, position=position)

    def at_query(self) -> bool:
        """Return whether a query begins here, without parentheses before it."""
        word = self.current.word
        return word in ("SELECT", "WITH", "VALUES") or (word == "TABLE" and self.at_name(1))

    def _word(self, token: Token) -> SqlExpression:
        word = token.word
        called = self.ahead().word == "("
        read = _WORDS.get(word)
        if read is not None:
            found = read(self, token)
            if found is not None:
                return found
        if word in NILADIC:
            return self._without_parentheses(token)
        special = self.special_call(token) if called else None
        if special is not None:
            return special
        if word in RESERVED and not called:
            self.fail(f"an expression; {token.text} is a reserved word and is a name only in backquotes")
        return self.call()

    def _without_parentheses(self, token: Token) -> SqlExpression:
        self.index += 1
        arguments: tuple[SqlExpression, ...] = ()
        if self.take("("):
            if self.current.kind == NUMBER:
                arguments = (SqlNumberLiteral(str(self.integer())),)
            self.need(")")
        return SqlFunctionCall((token.word,), arguments, position=token.position)

    def _not(self, token: Token) -> SqlExpression:
        self.index += 1
        return SqlUnaryOperation("NOT", self.expression(_NOT), position=token.position)

    def _truth(self, token: Token) -> SqlExpression:
        self.index += 1
        if token.word == "NULL":
            return SqlNullLiteral(position=token.position)
        value = {"TRUE": True, "FALSE": False, "UNKNOWN": None}[token.word]
        return SqlBooleanLiteral(value, position=token.position)

    def _case(self, token: Token) -> SqlExpression:
        self.index += 1
        operand = None if self.at("WHEN") else self.expression()
        branches = []
        while self.at("WHEN"):
            position = self.advance().position
            conditions = self.several(self.expression)
            self.need("THEN")
            result = self.expression()
            branches += [SqlWhen(condition, result, position=position) for condition in conditions]
        if not branches:
            self.fail("WHEN")
        otherwise = self.expression() if self.take("ELSE") else None
        self.need("END")
        return SqlCase(operand, tuple(branches), otherwise, position=token.position)

    def _cast(self, token: Token) -> SqlExpression | None:
        if self.ahead().word != "(":
            return None
        self.index += 2
        operand = self.expression()
        self.need("AS")
        type_name = self.type_name()
        self.need(")")
        return SqlCast(operand, type_name, token.word == "TRY_CAST", position=token.position)

    def _interval(self, token: Token) -> SqlExpression:
        self.index += 1
        negative = self.take_one("-", "+") == "-"
        if self.current.kind == TEXT:
            text = self.string()
            return SqlIntervalLiteral(text, self.interval_qualifier(), negative, position=token.position)
        operand = self.expression(_ACCESS)
        value = SqlIntervalValue(operand, self.interval_qualifier(), position=token.position)
        return SqlUnaryOperation("-", value, position=token.position) if negative else value

    def _temporal(self, token: Token) -> SqlExpression | None:
        if self.ahead().kind != TEXT:
            return None
        self.index += 1
        return SqlTemporalLiteral(token.word, self.string(), position=token.position)

    def _exists(self, token: Token) -> SqlExpression:
        self.index += 1
        found = self.parenthesized()
        if not isinstance(found, SqlScalarQuery):
            self.fail("a query in the parentheses after EXISTS")
        return SqlExists(found.query, position=token.position)

    def _collection(self, token: Token) -> SqlExpression | None:
        if self.ahead().word == "(":
            self.index += 1
            found = self.parenthesized()
            if not isinstance(found, SqlScalarQuery):
                self.fail(f"a query in the parentheses after {token.word}, or values in square brackets")
            return SqlCollectionQuery(token.word, found.query, position=token.position)
        if self.ahead().word != "[":
            return None
        self.index += 2
        items: tuple[SqlExpression, ...] = ()
        if not self.take("]"):
            items = self.several(self.expression)
            self.need("]")
        if token.word == "MAP" and len(items) % 2:
            self.fail("a value for each key of the MAP before")
        constructor = {
            "ARRAY": SqlArrayConstructor,
            "MAP": SqlMapConstructor,
            "MULTISET": SqlMultisetConstructor,
        }[token.word]
        return constructor(items, position=token.position)

    def _row(self, token: Token) -> SqlExpression | None:
        if self.ahead().word != "(":
            return None
        self.index += 1
        items = self.enclosed(self.expression, empty=True)
        return SqlRowConstructor(items, position=token.position)


#: What reads an operand that begins with a keyword. None means that the word is a name or a function here.
_WORDS: dict[str, Callable[[ExpressionParser, Token], SqlExpression | None]] = {
    "NOT": ExpressionParser._not,
    **dict.fromkeys(("TRUE", "FALSE", "UNKNOWN", "NULL"), ExpressionParser._truth),
    "CASE": ExpressionParser._case,
    **dict.fromkeys(("CAST", "TRY_CAST"), ExpressionParser._cast),
    "INTERVAL": ExpressionParser._interval,
    **dict.fromkeys(("DATE", "TIME", "TIMESTAMP"), ExpressionParser._temporal),
    "EXISTS": ExpressionParser._exists,
    **dict.fromkeys(("ARRAY", "MAP", "MULTISET"), ExpressionParser._collection),
    "ROW": ExpressionParser._row,
}

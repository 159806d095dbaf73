"""Reads queries: SELECT, VALUES, set operations, WITH, ORDER BY, and what stands in FROM."""

from __future__ import annotations

from flott.table._sql.json_parser import JsonParser
from flott.table._sql.lexer import NUMBER, QUOTED, TEXT, WORD
from flott.table._sql.nodes.expressions import SqlExpression, SqlNumberLiteral, SqlOrderItem
from flott.table._sql.nodes.queries import (
    GroupingItem,
    SqlAliased,
    SqlCommonTable,
    SqlCube,
    SqlEmptyGroup,
    SqlFunctionRelation,
    SqlGroupBy,
    SqlGroupingSets,
    SqlHint,
    SqlHintOption,
    SqlJoin,
    SqlLateral,
    SqlNamedWindow,
    SqlQuery,
    SqlQueryRelation,
    SqlRelation,
    SqlRollup,
    SqlSample,
    SqlSelect,
    SqlSelectItem,
    SqlSetOperation,
    SqlSnapshot,
    SqlSortedQuery,
    SqlTableQuery,
    SqlTableReference,
    SqlUnnest,
    SqlValues,
    SqlWithQuery,
)

_UNION, _INTERSECT = 10, 20
_SET_OPERATIONS = {"UNION": _UNION, "EXCEPT": _UNION, "MINUS": _UNION, "INTERSECT": _INTERSECT}
_AFTER_QUERY = {*_SET_OPERATIONS, "ORDER", "LIMIT", "OFFSET", "FETCH"}


class QueryParser(JsonParser):
    """Reads queries."""

    def query(self) -> SqlQuery:
        """Read a query with its WITH, ORDER BY, OFFSET and LIMIT."""
        position = self.position
        if not self.take("WITH"):
            return self._sorted(self._set_operand(0))
        recursive = self.take("RECURSIVE")
        tables = self.several(self._common_table)
        return SqlWithQuery(tables, self._sorted(self._set_operand(0)), recursive, position=position)

    def query_rest(self, first: SqlQuery) -> SqlQuery:
        """Read what follows the first operand of a query, which stood in parentheses."""
        return self._sorted(self._set_operations(first, 0))

    def _common_table(self) -> SqlCommonTable:
        position = self.position
        name = self.name_part()
        columns = self.enclosed(self.name_part) if self.at("(") else ()
        self.need("AS", "(")
        query = self.query()
        self.need(")")
        return SqlCommonTable(name, columns, query, position=position)

    def _sorted(self, query: SqlQuery) -> SqlQuery:
        position = self.position
        order_by: tuple[SqlOrderItem, ...] = ()
        offset: SqlExpression | None = None
        limit: SqlExpression | None = None
        if self.take("ORDER", "BY"):
            order_by = self.several(self.order_item)
        everything = False
        while True:
            if limit is None and self.take("LIMIT"):
                everything = self.take("ALL")
                limit = None if everything else self.expression()
                if limit is not None and self.take(","):  # LIMIT start, count
                    offset, limit = limit, self.expression()
            elif offset is None and self.take("OFFSET"):
                offset = self.expression()
                self.take_one("ROW", "ROWS")
            elif limit is None and self.take("FETCH"):
                limit = self._fetch()
            else:
                break
            if everything and limit is None and not self.at("OFFSET"):
                break
        if not order_by and offset is None and limit is None:
            return query
        return SqlSortedQuery(query, order_by, offset, limit, position=position)

    def _fetch(self) -> SqlExpression:
        self.need_one("FIRST", "NEXT")
        limit = SqlNumberLiteral("1") if self.at("ROW", "ROWS") else self.expression()
        self.need_one("ROW", "ROWS")
        self.need("ONLY")
        return limit

    def _set_operand(self, least: int) -> SqlQuery:
        if self.take("("):
            first = self.query()
            self.need(")")
        else:
            first = self._simple_query()
        return self._set_operations(first, least)

    def _set_operations(self, left: SqlQuery, least: int) -> SqlQuery:
        while self.at(*_SET_OPERATIONS) and least <= _SET_OPERATIONS[self.current.word]:
            token = self.advance()
            strength = _SET_OPERATIONS[token.word]
            every = self.take_one("ALL", "DISTINCT") == "ALL"
            operator = "EXCEPT" if token.word == "MINUS" else token.word
            left = SqlSetOperation(operator, every, left, self._set_operand(strength + 1), position=token.position)
        return left

    def _simple_query(self) -> SqlQuery:
        position = self.position
        if self.take("VALUES"):
            return SqlValues(self.several(self.expression), position=position)
        if self.take("TABLE"):
            return SqlTableQuery(self.name(), position=position)
        if not self.at("SELECT"):
            self.fail("a query, which begins with SELECT, VALUES or WITH")
        return self._select()

    # --- SELECT ---------------------------------------------------------------------------------------------------

    def _select(self) -> SqlQuery:
        position = self.advance().position
        hints = self.hints()
        distinct = self.take_one("DISTINCT", "ALL") == "DISTINCT"
        items = self.several(self._select_item)
        source = self._from() if self.take("FROM") else None
        where = self.expression() if self.take("WHERE") else None
        group_by = self._group_by() if self.at("GROUP") else None
        having = self.expression() if self.take("HAVING") else None
        windows = self.several(self._named_window) if self.take("WINDOW") else ()
        qualify = self.expression() if self.take("QUALIFY") else None
        return SqlSelect(items, source, where, group_by, having, windows, qualify, distinct, hints, position=position)

    def _select_item(self) -> SqlSelectItem:
        position = self.position
        expression = self.expression()
        alias = None
        if self.take("AS"):
            alias = self.string() if self.current.kind == TEXT else self.name_part()
        elif self.at_name():
            alias = self.name_part()
        return SqlSelectItem(expression, alias, position=position)

    def _group_by(self) -> SqlGroupBy:
        position = self.position
        self.need("GROUP", "BY")
        distinct = self.take_one("DISTINCT", "ALL") == "DISTINCT"
        return SqlGroupBy(self.several(self._grouping_item), distinct, position=position)

    def _grouping_item(self) -> GroupingItem:
        position = self.position
        if self.take("(", ")"):
            return SqlEmptyGroup(position=position)
        if self.take("GROUPING", "SETS"):
            return SqlGroupingSets(self.enclosed(self._grouping_item), position=position)
        if self.take("ROLLUP"):
            return SqlRollup(self.enclosed(self.expression), position=position)
        if self.take("CUBE"):
            return SqlCube(self.enclosed(self.expression), position=position)
        return self.expression()

    def _named_window(self) -> SqlNamedWindow:
        position = self.position
        name = self.name_part()
        self.need("AS")
        return SqlNamedWindow(name, self.window_specification(), position=position)

    # --- hints ----------------------------------------------------------------------------------------------------

    def hints(self) -> tuple[SqlHint, ...]:
        """Read ``/*+ ... */`` if it stands here."""
        if not self.take("/*+"):
            return ()
        hints = [self._hint()]
        while not self.take("*/"):
            self.take(",")
            hints.append(self._hint())
        return tuple(hints)

    def _hint(self) -> SqlHint:
        position = self.position
        name = self.name_part(reserved=True).upper()
        options = self.enclosed(self._hint_option, empty=True) if self.at("(") else ()
        return SqlHint(name, options, position=position)

    def _hint_option(self) -> SqlHintOption:
        position = self.position
        key = self._hint_text()
        value = self._hint_text() if self.take("=") else None
        return SqlHintOption(key, value, position=position)

    def _hint_text(self) -> str:
        if self.current.kind not in (TEXT, WORD, QUOTED, NUMBER):
            self.fail("a name or a text in single quotes")
        text = self.advance().value
        while self.at(".") and self.ahead().kind in (WORD, QUOTED):
            self.index += 1
            text = f"{text}.{self.advance().value}"
        return text

    # --- FROM -----------------------------------------------------------------------------------------------------

    def _from(self) -> SqlRelation:
        left = self._joined()
        while self.at(","):
            position = self.advance().position
            left = SqlJoin("CROSS", left, self._joined(), position=position)
        return left

    def _joined(self) -> SqlRelation:
        left = self._relation()
        while True:
            position = self.position
            if self.take("CROSS", "JOIN"):
                left = SqlJoin("CROSS", left, self._relation(), position=position)
                continue
            natural = self.take("NATURAL")
            kind = self._join_kind()
            if kind is None:
                if natural:
                    self.fail("JOIN")
                return left
            right = self._relation()
            if natural:
                left = SqlJoin(kind, left, right, natural=True, position=position)
            elif self.take("ON"):
                left = SqlJoin(kind, left, right, self.expression(), position=position)
            elif self.take("USING"):
                left = SqlJoin(kind, left, right, using=self.enclosed(self.name_part), position=position)
            else:
                self.fail("ON or USING with the condition of the join")

    def _join_kind(self) -> str | None:
        if self.at("LEFT", "RIGHT", "FULL"):
            kind = self.advance().word
            self.take("OUTER")
            self.need("JOIN")
            return kind
        if self.take("INNER", "JOIN") or self.take("JOIN"):
            return "INNER"
        return None

    def _relation(self) -> SqlRelation:
        """Read a table or what stands for one, with its alias."""
        position = self.position
        lateral = self.take("LATERAL")
        relation = self._plain_relation()
        if lateral:
            relation = SqlLateral(relation, position=position)
        if self.take("FOR", "SYSTEM_TIME"):
            self.need("AS", "OF")
            relation = SqlSnapshot(relation, self.expression(), position=position)
        if self.take("TABLESAMPLE"):
            relation = self._sample(relation)
        return self._aliased(relation)

    def _plain_relation(self) -> SqlRelation:
        token = self.current
        if self.at("("):
            return self._parenthesized_relation()
        if self.sees("TABLE", "("):
            self.index += 2
            if self.at_query():
                relation: SqlRelation = SqlQueryRelation(self.query(), position=token.position)
            else:
                name_token = self.current
                call = self.function_call(self.name(), name_token)
                relation = SqlFunctionRelation(call, position=token.position)
            self.need(")")
            return relation
        if self.sees("UNNEST", "("):
            self.index += 1
            operands = self.enclosed(self.expression)
            return SqlUnnest(operands, self.take("WITH", "ORDINALITY"), position=token.position)
        if self.at("VALUES"):
            return SqlQueryRelation(self._simple_query(), position=token.position)
        if not self.at_name() and not self.at("TABLE"):
            self.fail("a table")
        self.take("TABLE")
        name = self.name()
        if self.at("("):
            return SqlFunctionRelation(self.function_call(name, token), position=token.position)
        return SqlTableReference(name, self.hints(), position=token.position)

    def _parenthesized_relation(self) -> SqlRelation:
        """Read a query or a join in parentheses. Both may begin with another parenthesis."""
        position = self.position
        self.need("(")
        if self.at_query():
            relation: SqlRelation = SqlQueryRelation(self.query(), position=position)
        else:
            relation = self._from()
            if isinstance(relation, SqlQueryRelation) and self.current.word in _AFTER_QUERY:
                relation = SqlQueryRelation(self.query_rest(relation.query), position=position)
        self.need(")")
        return relation

    def _sample(self, relation: SqlRelation) -> SqlRelation:
        position = self.position
        method = self.need_one("BERNOULLI", "SYSTEM")
        self.need("(")
        percentage = self.expression()
        self.need(")")
        seed = None
        if self.take("REPEATABLE"):
            self.need("(")
            seed = self.integer()
            self.need(")")
        return SqlSample(relation, method, percentage, seed, position=position)

    def _aliased(self, relation: SqlRelation) -> SqlRelation:
        position = self.position
        if self.at("MATCH_RECOGNIZE"):
            return self._aliased(self.match_recognize(relation))
        if self.take("AS") or self.at_name():
            alias = self.name_part()
            columns = self.enclosed(self.name_part) if self.at("(") else ()
            relation = SqlAliased(relation, alias, columns, position=position)
            if self.at("MATCH_RECOGNIZE"):
                return self._aliased(self.match_recognize(relation))
        return relation

    def match_recognize(self, relation: SqlRelation) -> SqlRelation:
        """Read a row pattern over a relation."""
        raise NotImplementedError

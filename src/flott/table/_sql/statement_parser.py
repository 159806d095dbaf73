"""Reads statements other than definitions: queries, INSERT, statement sets, EXPLAIN, SET, USE, SHOW, DESCRIBE, ..."""

from __future__ import annotations

from collections.abc import Callable

from flott.table._sql.lexer import END, TEXT, Token
from flott.table._sql.nodes.expressions import SqlExpression
from flott.table._sql.nodes.statements import (
    PartitionSpec,
    SqlAddJar,
    SqlAssignment,
    SqlBeginStatementSet,
    SqlCallProcedure,
    SqlCompilePlan,
    SqlDelete,
    SqlDescribe,
    SqlDescribeJob,
    SqlEndStatementSet,
    SqlExecute,
    SqlExecutePlan,
    SqlExplain,
    SqlInsert,
    SqlLoadModule,
    SqlPartitionValue,
    SqlQueryStatement,
    SqlRemoveJar,
    SqlReset,
    SqlSet,
    SqlShow,
    SqlShowCreate,
    SqlShowCurrent,
    SqlStatement,
    SqlStatementSet,
    SqlStopJob,
    SqlTruncate,
    SqlUnloadModule,
    SqlUpdate,
    SqlUseCatalog,
    SqlUseDatabase,
    SqlUseModules,
)
from flott.table._sql.pattern_parser import PatternParser

_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")
_SHOWN = (
    *("CATALOGS", "DATABASES", "TABLES", "VIEWS", "FUNCTIONS", "PROCEDURES", "MODELS", "COLUMNS", "PARTITIONS"),
    *("MODULES", "JARS", "JOBS"),
)


class StatementParser(PatternParser):
    """Reads statements. The parser of definitions, which is built on it, reads CREATE, ALTER and DROP."""

    def definition(self) -> SqlStatement:
        """Read CREATE, REPLACE, ALTER, DROP or ANALYZE."""
        raise NotImplementedError

    def statements(self) -> list[SqlStatement]:
        """Read all statements of the text. Semicolons stand between them."""
        found = []
        while not self.at_end():
            if self.take(";"):
                continue
            found.append(self.statement())
            if not self.at_end() and not self.at(";"):
                self.fail(f"the end of the statement or {self._alternatives()}")
        return found

    def _alternatives(self) -> str:
        words = [word for word in dict.fromkeys(self._tried) if word[0].isalpha()]
        return ", ".join(words[:10]) if words else "an operator"

    def statement(self) -> SqlStatement:
        """Read one statement."""
        token = self.current
        read = _STATEMENTS.get(token.word)
        if read is not None:
            return read(self, token)
        if token.word in ("CREATE", "REPLACE", "ALTER", "DROP", "ANALYZE"):
            return self.definition()
        if not self.at_query() and token.word != "(":
            self.fail("a statement, such as SELECT, INSERT or CREATE")
        return SqlQueryStatement(self.query(), position=token.position)

    # --- data -----------------------------------------------------------------------------------------------------

    def _insert(self, token: Token) -> SqlStatement:
        self.index += 1
        overwrite = self.need_one("INTO", "OVERWRITE") == "OVERWRITE"
        self.take("TABLE")
        table = self.name()
        hints = self.hints()
        partition = self.partition_spec() if self.take("PARTITION") else ()
        columns = self.enclosed(self.name) if self._columns_ahead() else ()
        query = self.query()
        on_conflict = None
        if self.take("ON", "CONFLICT"):
            self.need("DO")
            on_conflict = self.need_one("ERROR", "NOTHING", "DEDUPLICATE")
        return SqlInsert(
            table,
            query,
            overwrite,
            columns,
            partition,
            hints,
            on_conflict,
            upsert=token.word == "UPSERT",
            position=token.position,
        )

    def _columns_ahead(self) -> bool:
        return self.at("(") and self.at_name(1)

    def partition_spec(self) -> PartitionSpec:
        """Read ``(column = literal, ...)``; the values may be missing."""
        return self.enclosed(self._partition_value)

    def _partition_value(self) -> SqlPartitionValue:
        position = self.position
        column = self.name_part()
        value: SqlExpression | None = self.expression() if self.take("=") else None
        return SqlPartitionValue(column, value, position=position)

    def _update(self, token: Token) -> SqlStatement:
        self.index += 1
        table = self.name()
        alias = self.name_part() if self.take("AS") or self.at_name() else None
        self.need("SET")
        assignments = self.several(self._assignment)
        where = self.expression() if self.take("WHERE") else None
        return SqlUpdate(table, assignments, where, alias, position=token.position)

    def _assignment(self) -> SqlAssignment:
        position = self.position
        column = self.name()
        self.need("=")
        return SqlAssignment(column, self.expression(), position=position)

    def _delete(self, token: Token) -> SqlStatement:
        self.index += 1
        self.need("FROM")
        table = self.name()
        alias = self.name_part() if self.take("AS") or self.at_name() else None
        where = self.expression() if self.take("WHERE") else None
        return SqlDelete(table, where, alias, position=token.position)

    def _truncate(self, token: Token) -> SqlStatement:
        self.index += 1
        self.need("TABLE")
        return SqlTruncate(self.name(), position=token.position)

    def _call(self, token: Token) -> SqlStatement:
        self.index += 1
        name = self.name()
        return SqlCallProcedure(name, self.enclosed(self.argument, empty=True), position=token.position)

    # --- plans and statement sets ---------------------------------------------------------------------------------

    def _explain(self, token: Token) -> SqlStatement:
        self.index += 1
        details = []
        if not self.take("PLAN", "FOR"):
            while self.at(*_DETAILS):
                details.append(self.advance().word)
                if not self.take(","):
                    break
        return SqlExplain(self.statement(), tuple(details), position=token.position)

    def _execute(self, token: Token) -> SqlStatement:
        self.index += 1
        if self.take("PLAN"):
            return SqlExecutePlan(self.string(), position=token.position)
        if self.at("STATEMENT"):
            return self._statement_set(token)
        return SqlExecute(self.statement(), position=token.position)

    def _statement_set(self, token: Token) -> SqlStatement:
        self.need("STATEMENT", "SET")
        self.need("BEGIN")
        found = []
        while not self.take("END"):
            if not self.at("INSERT", "UPSERT"):
                self.fail("INSERT or END")
            found.append(self.statement())
            self.need(";")
        if not found:
            self.fail("an INSERT in the statement set before")
        return SqlStatementSet(tuple(found), position=token.position)

    def _begin(self, token: Token) -> SqlStatement:
        self.index += 1
        self.need("STATEMENT", "SET")
        return SqlBeginStatementSet(position=token.position)

    def _end(self, token: Token) -> SqlStatement:
        self.index += 1
        return SqlEndStatementSet(position=token.position)

    def _compile(self, token: Token) -> SqlStatement:
        self.index += 1
        execute = self.take("AND", "EXECUTE")
        self.need("PLAN")
        path = self.string()
        if_not_exists = self.take("IF", "NOT", "EXISTS")
        self.need("FOR")
        return SqlCompilePlan(path, self.statement(), if_not_exists, execute, position=token.position)

    # --- session --------------------------------------------------------------------------------------------------

    def _set(self, token: Token) -> SqlStatement:
        self.index += 1
        if self.current.kind == END or self.at(";"):
            return SqlSet(position=token.position)
        key = self.string()
        self.need("=")
        return SqlSet(key, self.string(), position=token.position)

    def _reset(self, token: Token) -> SqlStatement:
        self.index += 1
        key = self.string() if self.current.kind == TEXT else None
        return SqlReset(key, position=token.position)

    def _use(self, token: Token) -> SqlStatement:
        self.index += 1
        if self.take("CATALOG"):
            return SqlUseCatalog(self.name_part(), position=token.position)
        if self.take("MODULES"):
            return SqlUseModules(self.several(self.name_part), position=token.position)
        return SqlUseDatabase(self.name(), position=token.position)

    def _load(self, token: Token) -> SqlStatement:
        self.index += 1
        self.need("MODULE")
        name = self.name_part()
        return SqlLoadModule(name, self.options() if self.take("WITH") else (), position=token.position)

    def _unload(self, token: Token) -> SqlStatement:
        self.index += 1
        self.need("MODULE")
        return SqlUnloadModule(self.name_part(), position=token.position)

    def _jar(self, token: Token) -> SqlStatement:
        self.index += 1
        self.need("JAR")
        if token.word == "ADD":
            return SqlAddJar(self.string(), position=token.position)
        return SqlRemoveJar(self.string(), position=token.position)

    def _stop(self, token: Token) -> SqlStatement:
        self.index += 1
        self.need("JOB")
        job_id = self.string()
        with_savepoint = self.take("WITH", "SAVEPOINT")
        return SqlStopJob(job_id, with_savepoint, self.take("WITH", "DRAIN"), position=token.position)

    # --- show and describe ----------------------------------------------------------------------------------------

    def _show(self, token: Token) -> SqlStatement:
        self.index += 1
        if self.take("CREATE"):
            kind = self._materialized() or self.need_one("TABLE", "VIEW", "CATALOG", "MODEL", "MATERIALIZED")
            return SqlShowCreate(kind, self.name(), position=token.position)
        if self.take("CURRENT"):
            return SqlShowCurrent(self.need_one("CATALOG", "DATABASE"), position=token.position)
        kind = self._shown_kind()
        scope = self.name() if kind == "PARTITIONS" or self.take_one("FROM", "IN") else ()
        if kind == "COLUMNS" and not scope:
            self.fail("FROM or IN with the name of a table")
        partition = self.partition_spec() if kind == "PARTITIONS" and self.take("PARTITION") else ()
        negated = self.take("NOT")
        like = None
        if negated and not self.at("LIKE", "ILIKE"):
            self.fail("LIKE or ILIKE")
        ignore_case = self.at("ILIKE")
        if self.take_one("LIKE", "ILIKE"):
            like = self.string()
        return SqlShow(kind, scope, like, negated, ignore_case, partition, position=token.position)

    def _shown_kind(self) -> str:
        if self.take("MATERIALIZED", "TABLES"):
            return "MATERIALIZED TABLES"
        if self.take("USER", "FUNCTIONS"):
            return "USER FUNCTIONS"
        if self.take("FULL", "MODULES"):
            return "FULL MODULES"
        return self.need_one(*_SHOWN)

    def _materialized(self) -> str | None:
        return "MATERIALIZED TABLE" if self.take("MATERIALIZED", "TABLE") else None

    def _describe(self, token: Token) -> SqlStatement:
        self.index += 1
        if self.take("JOB"):
            return SqlDescribeJob(self.string(), position=token.position)
        kind = "TABLE"
        if self.at("CATALOG", "DATABASE", "FUNCTION", "MODEL") and self.ahead().kind not in (END,):
            kind = self.advance().word if self.ahead().word != ";" else "TABLE"
        extended = self.take("EXTENDED")
        return SqlDescribe(kind, self.name(), extended, position=token.position)


_STATEMENTS: dict[str, Callable[[StatementParser, Token], SqlStatement]] = {
    **dict.fromkeys(("INSERT", "UPSERT"), StatementParser._insert),
    "UPDATE": StatementParser._update,
    "DELETE": StatementParser._delete,
    "TRUNCATE": StatementParser._truncate,
    "CALL": StatementParser._call,
    "EXPLAIN": StatementParser._explain,
    "EXECUTE": StatementParser._execute,
    "STATEMENT": StatementParser._statement_set,
    "BEGIN": StatementParser._begin,
    "END": StatementParser._end,
    "COMPILE": StatementParser._compile,
    "SET": StatementParser._set,
    "RESET": StatementParser._reset,
    "USE": StatementParser._use,
    "LOAD": StatementParser._load,
    "UNLOAD": StatementParser._unload,
    **dict.fromkeys(("ADD", "REMOVE"), StatementParser._jar),
    "STOP": StatementParser._stop,
    "SHOW": StatementParser._show,
    **dict.fromkeys(("DESCRIBE", "DESC"), StatementParser._describe),
}

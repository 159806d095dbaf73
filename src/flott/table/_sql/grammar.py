"""The grammar of SQL as data: what each statement looks like, with examples that the parser reads.

The reference page is printed from it. Tests check that every example parses to a node that its rule names, and that
every kind of statement is described.
"""

from __future__ import annotations

from dataclasses import dataclass

from flott.table._sql import nodes as ast


@dataclass(frozen=True)
class Rule:
    """A statement or a clause. In ``syntax`` brackets enclose what may be missing, and ``|`` stands between choices."""

    title: str
    syntax: str
    nodes: tuple[type[ast.SqlNode], ...]
    examples: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class Chapter:
    """Rules that belong together."""

    title: str
    rules: tuple[Rule, ...]


QUERIES = Chapter(
    "Queries",
    (
        Rule(
            "SELECT",
            """
            [WITH name [(column, ...)] AS (query), ...]
            SELECT [/*+ hint(...) */] [DISTINCT] expression [AS name], ...
            FROM relation, ...
            [WHERE condition]
            [GROUP BY expression, ... | GROUPING SETS (...) | ROLLUP (...) | CUBE (...)]
            [HAVING condition]
            [WINDOW name AS (window), ...]
            [QUALIFY condition]
            [ORDER BY expression [ASC|DESC] [NULLS FIRST|LAST], ...]
            [LIMIT count] [OFFSET count]
            """,
            (ast.SqlQueryStatement,),
            (
                "SELECT name, SUM(amount) AS total FROM orders WHERE amount > 1 GROUP BY name HAVING COUNT(*) > 1",
                "WITH big AS (SELECT * FROM orders) SELECT DISTINCT name FROM big ORDER BY name LIMIT 10",
            ),
        ),
        Rule(
            "Set operations",
            "query UNION|INTERSECT|EXCEPT [ALL] query",
            (ast.SqlQueryStatement,),
            ("SELECT a FROM t UNION ALL SELECT a FROM u", "(SELECT a FROM t) INTERSECT SELECT a FROM u"),
        ),
        Rule("VALUES", "VALUES (expression, ...), ...", (ast.SqlQueryStatement,), ("VALUES (1, 'a'), (2, 'b')",)),
        Rule(
            "Joins",
            """
            relation [INNER|LEFT|RIGHT|FULL] JOIN relation ON condition | USING (column, ...)
            relation CROSS JOIN relation
            relation JOIN table FOR SYSTEM_TIME AS OF time ON condition
            relation [LEFT] JOIN LATERAL TABLE(function(...)) AS name (column, ...) ON TRUE
            relation CROSS JOIN UNNEST(array) [WITH ORDINALITY] AS name (column, ...)
            """,
            (ast.SqlQueryStatement,),
            (
                "SELECT * FROM orders JOIN rates FOR SYSTEM_TIME AS OF orders.ts AS r ON orders.currency = r.currency",
                "SELECT * FROM orders CROSS JOIN UNNEST(items) AS i (item)",
                "SELECT * FROM t LEFT JOIN LATERAL TABLE(split(line)) AS w (word) ON TRUE",
            ),
        ),
        Rule(
            "Window functions",
            """
            TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), size [, offset]))
            TABLE(HOP(TABLE t, DESCRIPTOR(time), slide, size [, offset]))
            TABLE(CUMULATE(TABLE t, DESCRIPTOR(time), step, size [, offset]))
            TABLE(SESSION(TABLE t [PARTITION BY column], DESCRIPTOR(time), gap))
            """,
            (ast.SqlQueryStatement,),
            (
                "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) "
                "GROUP BY window_start, window_end",
                "SELECT * FROM SESSION(TABLE bids PARTITION BY item, DESCRIPTOR(ts), INTERVAL '5' MINUTES)",
            ),
            "They add the columns window_start, window_end and window_time. Arguments may be named: SIZE => ...",
        ),
        Rule(
            "OVER",
            """
            function(...) OVER ([PARTITION BY ...] [ORDER BY ...] [ROWS|RANGE BETWEEN bound AND bound])
            function(...) OVER window_name
            """,
            (ast.SqlQueryStatement,),
            (
                "SELECT SUM(a) OVER (PARTITION BY b ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT "
                "ROW) FROM t",
            ),
        ),
    ),
)

CHANGES = Chapter(
    "Writing",
    (
        Rule(
            "INSERT",
            "INSERT INTO|OVERWRITE table [PARTITION (column = value, ...)] [(column, ...)] query",
            (ast.SqlInsert,),
            (
                "INSERT INTO sink SELECT * FROM orders",
                "INSERT OVERWRITE sink PARTITION (p = '2024-01-01') VALUES (1)",
            ),
            "INSERT OVERWRITE is for files (connector filesystem) in batch mode. It replaces the whole table. Of a"
            " table with partitions it replaces those that get rows, or the one that PARTITION names, also if it gets"
            " no row. Other connectors and streaming mode refuse it.",
        ),
        Rule(
            "Statement sets",
            "EXECUTE STATEMENT SET BEGIN insert; ... END",
            (ast.SqlStatementSet, ast.SqlBeginStatementSet, ast.SqlEndStatementSet),
            (
                "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END",
                "BEGIN STATEMENT SET",
                "END",
            ),
            "All INSERTs run as one job. In the shell BEGIN STATEMENT SET and END may be statements of their own.",
        ),
        Rule(
            "UPDATE, DELETE, TRUNCATE, CALL",
            """
            UPDATE table SET column = expression, ... [WHERE condition]
            DELETE FROM table [WHERE condition]
            TRUNCATE TABLE table
            CALL procedure(...)
            """,
            (ast.SqlUpdate, ast.SqlDelete, ast.SqlTruncate, ast.SqlCallProcedure),
            ("UPDATE t SET a = 1 WHERE b = 2", "DELETE FROM t WHERE a = 1", "TRUNCATE TABLE t", "CALL p(1)"),
            "They are parsed and refused: connectors are written by INSERT.",
        ),
        Rule(
            "EXPLAIN and EXECUTE",
            """
            EXPLAIN [PLAN FOR | ESTIMATED_COST, CHANGELOG_MODE, JSON_EXECUTION_PLAN, PLAN_ADVICE] statement
            EXECUTE statement
            """,
            (ast.SqlExplain, ast.SqlExecute),
            ("EXPLAIN CHANGELOG_MODE SELECT 1", "EXPLAIN PLAN FOR INSERT INTO t SELECT 1", "EXECUTE SELECT 1"),
        ),
        Rule(
            "Compiled plans",
            """
            COMPILE PLAN 'file' [IF NOT EXISTS] FOR insert | statement set
            COMPILE AND EXECUTE PLAN 'file' FOR insert | statement set
            EXECUTE PLAN 'file'
            """,
            (ast.SqlCompilePlan, ast.SqlExecutePlan),
            ("COMPILE PLAN '/tmp/plan.json' FOR INSERT INTO t SELECT 1", "EXECUTE PLAN '/tmp/plan.json'"),
        ),
    ),
)

DEFINITIONS = Chapter(
    "Definitions",
    (
        Rule(
            "CREATE TABLE",
            """
            CREATE [OR REPLACE] [TEMPORARY] TABLE [IF NOT EXISTS] name (
              column type [PRIMARY KEY NOT ENFORCED] [COMMENT 'text'],
              column type METADATA [FROM 'key'] [VIRTUAL],
              column AS expression,
              WATERMARK FOR column AS expression,
              [CONSTRAINT name] PRIMARY KEY (column, ...) NOT ENFORCED
            ) [COMMENT 'text'] [DISTRIBUTED BY HASH|RANGE (column, ...) INTO n BUCKETS] [PARTITIONED BY (column, ...)]
            WITH ('key' = 'value', ...)
            [LIKE table (INCLUDING|EXCLUDING|OVERWRITING feature ...) | AS query]
            """,
            (ast.SqlCreateTable, ast.SqlCreateMaterializedTable),
            (
                "CREATE TABLE orders (id BIGINT, ts TIMESTAMP(3), d AS CAST(ts AS DATE), WATERMARK FOR ts AS ts - "
                "INTERVAL '5' SECOND, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'datagen')",
                "CREATE TABLE copy WITH ('connector' = 'print') AS SELECT * FROM orders",
                "CREATE TABLE other WITH ('path' = '/x') LIKE orders (EXCLUDING OPTIONS)",
                "CREATE MATERIALIZED TABLE m FRESHNESS = INTERVAL '1' MINUTE AS SELECT * FROM orders",
            ),
            "Materialized tables are parsed and refused.",
        ),
        Rule(
            "ALTER TABLE",
            """
            ALTER TABLE [IF EXISTS] name RENAME TO name | RENAME column TO column
            ALTER TABLE [IF EXISTS] name SET ('key' = 'value', ...) | RESET ('key', ...)
            ALTER TABLE [IF EXISTS] name ADD|MODIFY (column type [FIRST|AFTER column], watermark, constraint, ...)
            ALTER TABLE [IF EXISTS] name DROP column | (column, ...) | PRIMARY KEY | CONSTRAINT name | WATERMARK
            """,
            (
                *(ast.SqlRenameTable, ast.SqlRenameColumn, ast.SqlSetTableOptions, ast.SqlResetTableOptions),
                *(ast.SqlAddTableParts, ast.SqlModifyTableParts, ast.SqlDropColumns, ast.SqlDropPrimaryKey),
                *(ast.SqlDropConstraint, ast.SqlDropWatermark, ast.SqlDropDistribution, ast.SqlAddPartitions),
                *(ast.SqlDropPartitions, ast.SqlSuspendTable, ast.SqlResumeTable, ast.SqlRefreshTable),
                *(ast.SqlAlterTableQuery, ast.SqlCompactTable),
            ),
            (
                "ALTER TABLE t RENAME TO u",
                "ALTER TABLE t RENAME a TO b",
                "ALTER TABLE t SET ('k' = 'v')",
                "ALTER TABLE t RESET ('k')",
                "ALTER TABLE t ADD (c INT FIRST, d STRING AFTER c)",
                "ALTER TABLE t MODIFY c BIGINT",
                "ALTER TABLE t DROP (a, b)",
                "ALTER TABLE t DROP PRIMARY KEY",
                "ALTER TABLE t DROP CONSTRAINT k",
                "ALTER TABLE t DROP WATERMARK",
                "ALTER TABLE t DROP DISTRIBUTION",
                "ALTER TABLE t ADD PARTITION (p = 1)",
                "ALTER TABLE t DROP PARTITION (p = 1)",
                "ALTER MATERIALIZED TABLE t SUSPEND",
                "ALTER MATERIALIZED TABLE t RESUME",
                "ALTER MATERIALIZED TABLE t REFRESH",
                "ALTER MATERIALIZED TABLE t AS SELECT 1",
                "ALTER TABLE t COMPACT",
            ),
        ),
        Rule(
            "Views",
            """
            CREATE [TEMPORARY] VIEW [IF NOT EXISTS] name [(column [COMMENT 'text'], ...)] [COMMENT 'text'] AS query
            ALTER VIEW name RENAME TO name | AS query
            DROP [TEMPORARY] VIEW [IF EXISTS] name
            """,
            (ast.SqlCreateView, ast.SqlRenameView, ast.SqlAlterViewQuery, ast.SqlDropView),
            ("CREATE VIEW v AS SELECT 1", "ALTER VIEW v RENAME TO w", "ALTER VIEW v AS SELECT 2", "DROP VIEW v"),
        ),
        Rule(
            "Functions",
            """
            CREATE [TEMPORARY] [SYSTEM] FUNCTION [IF NOT EXISTS] name AS 'module.function' [LANGUAGE PYTHON]
            ALTER [TEMPORARY] [SYSTEM] FUNCTION [IF EXISTS] name AS 'module.function' [LANGUAGE PYTHON]
            DROP [TEMPORARY] [SYSTEM] FUNCTION [IF EXISTS] name
            """,
            (ast.SqlCreateFunction, ast.SqlAlterFunction, ast.SqlDropFunction),
            (
                "CREATE TEMPORARY FUNCTION f AS 'package.f' LANGUAGE PYTHON",
                "ALTER FUNCTION f AS 'package.g' LANGUAGE PYTHON",
                "DROP TEMPORARY SYSTEM FUNCTION IF EXISTS f",
            ),
        ),
        Rule(
            "Databases, catalogs and models",
            """
            CREATE DATABASE|CATALOG [IF NOT EXISTS] name [COMMENT 'text'] [WITH ('key' = 'value', ...)]
            ALTER DATABASE|CATALOG name SET ('key' = 'value', ...) | RESET ('key', ...)
            DROP DATABASE [IF EXISTS] name [CASCADE|RESTRICT]
            DROP CATALOG|TABLE [IF EXISTS] name
            """,
            (
                *(ast.SqlCreateDatabase, ast.SqlAlterDatabase, ast.SqlDropDatabase, ast.SqlCreateCatalog),
                *(ast.SqlAlterCatalog, ast.SqlDropCatalog, ast.SqlDropTable, ast.SqlCreateModel, ast.SqlAlterModel),
                *(ast.SqlDropModel, ast.SqlAnalyze),
            ),
            (
                "CREATE DATABASE d",
                "ALTER DATABASE d SET ('k' = 'v')",
                "DROP DATABASE d CASCADE",
                "CREATE CATALOG c WITH ('type' = 'generic_in_memory')",
                "ALTER CATALOG c COMMENT 'text'",
                "DROP CATALOG c",
                "DROP TEMPORARY TABLE IF EXISTS t",
                "CREATE MODEL m INPUT (a INT) OUTPUT (b INT) WITH ('provider' = 'x')",
                "ALTER MODEL m RENAME TO n",
                "DROP MODEL m",
                "ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS",
            ),
            "Models and ANALYZE are parsed and refused.",
        ),
    ),
)

SESSION = Chapter(
    "Session",
    (
        Rule(
            "SHOW and DESCRIBE",
            """
            SHOW CATALOGS|DATABASES|TABLES|VIEWS|[USER] FUNCTIONS|JOBS|... [FROM name] [[NOT] LIKE 'pattern']
            SHOW COLUMNS FROM table
            SHOW CREATE TABLE|VIEW|CATALOG name
            SHOW CURRENT CATALOG|DATABASE
            DESCRIBE [CATALOG|DATABASE|FUNCTION|JOB] [EXTENDED] name
            """,
            (ast.SqlShow, ast.SqlShowCreate, ast.SqlShowCurrent, ast.SqlDescribe, ast.SqlDescribeJob),
            (
                "SHOW TABLES LIKE 'o%'",
                "SHOW CREATE TABLE orders",
                "SHOW CURRENT DATABASE",
                "DESCRIBE orders",
                "DESCRIBE JOB 'a1b2'",
            ),
        ),
        Rule(
            "SET, RESET and USE",
            """
            SET ['key' = 'value']
            RESET ['key']
            USE [catalog.]database
            USE CATALOG name
            USE MODULES name, ...
            """,
            (ast.SqlSet, ast.SqlReset, ast.SqlUseDatabase, ast.SqlUseCatalog, ast.SqlUseModules),
            (
                "SET 'table.exec.mini-batch.enabled' = 'true'",
                "RESET 'table.exec.mini-batch.enabled'",
                "USE d",
                "USE CATALOG c",
                "USE MODULES core",
            ),
        ),
        Rule(
            "Jobs, modules and jars",
            """
            STOP JOB 'id' [WITH SAVEPOINT] [WITH DRAIN]
            LOAD MODULE name [WITH (...)]
            UNLOAD MODULE name
            ADD|REMOVE JAR 'path'
            """,
            (ast.SqlStopJob, ast.SqlLoadModule, ast.SqlUnloadModule, ast.SqlAddJar, ast.SqlRemoveJar),
            (
                "STOP JOB 'a1b2' WITH SAVEPOINT",
                "LOAD MODULE core",
                "UNLOAD MODULE core",
                "ADD JAR '/x.jar'",
                "REMOVE JAR '/x.jar'",
            ),
            "There is one module, core, and there are no jars: functions and connectors are written in Python.",
        ),
    ),
)

GRAMMAR = (QUERIES, CHANGES, DEFINITIONS, SESSION)

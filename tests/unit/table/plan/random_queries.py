"""Random queries over the tables t (a INT, b BIGINT, c VARCHAR) and u (a INT, d DOUBLE), in common SQL."""

from __future__ import annotations

import random

#: A column with its kind: i for whole numbers, f for other numbers, s for text, b for truth.
Column = tuple[str, str]

BASE: tuple[tuple[str, list[Column]], ...] = (
    ("t", [("a", "i"), ("b", "i"), ("c", "s")]),
    ("u", [("a", "i"), ("d", "f")]),
)


class RandomQueries:
    """Makes a query for each seed: joins, groups, set operations and subqueries, nested."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)
        self._aliases = 0

    def query(self, depth: int) -> tuple[str, list[Column]]:
        """Return a query and its columns."""
        if depth > 0 and self._chance(0.1):
            found = self._set_operation()
            if found is not None:
                return found
        source, columns = self._source(depth)
        where = f" WHERE {self._condition(columns, 1)}" if self._chance(0.6) else ""
        return self._grouped(source, columns, where) if self._chance(0.45) else self._listed(source, columns, where)

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _alias(self) -> str:
        self._aliases += 1
        return f"q{self._aliases}"

    def _set_operation(self) -> tuple[str, list[Column]] | None:
        branches = []
        for _ in range(2):
            query, columns = self.query(0)
            whole = [name for name, kind in columns if kind == "i"]
            if not whole:
                return None
            branches.append(f"SELECT {whole[0]} AS x FROM ({query}) AS {self._alias()}")
        operator = self._random.choice(["UNION ALL", "UNION", "INTERSECT", "EXCEPT"])
        return f" {operator} ".join(branches), [("x", "i")]

    def _relation(self, depth: int) -> tuple[str, list[Column]]:
        if depth <= 0 or self._chance(0.5):
            return self._random.choice(BASE)
        query, columns = self.query(depth - 1)
        return f"({query})", columns

    def _source(self, depth: int) -> tuple[str, list[Column]]:
        text, columns = self._aliased(depth)
        while depth > 0 and self._chance(0.4):
            right, others = self._aliased(depth - 1)
            ours, theirs = ([n for n, kind in side if kind == "i"] for side in (columns, others))
            if not ours or not theirs:
                break
            condition = f"{self._random.choice(ours)} = {self._random.choice(theirs)}"
            columns = columns + others
            if self._chance(0.3):
                condition += f" AND {self._number(columns)} > {self._number(columns)}"
            kind = self._random.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            text += f" {kind} {right} ON {condition}"
        return text, columns

    def _aliased(self, depth: int) -> tuple[str, list[Column]]:
        relation, columns = self._relation(depth)
        alias = self._alias()
        return f"{relation} AS {alias}", [(f"{alias}.{name}", kind) for name, kind in columns]

    def _grouped(self, source: str, columns: list[Column], where: str) -> tuple[str, list[Column]]:
        keys = self._random.sample(columns, min(len(columns), self._random.randint(1, 2)))
        items = [f"{name} AS k{i}" for i, (name, _) in enumerate(keys)]
        result = [(f"k{i}", kind) for i, (_, kind) in enumerate(keys)]
        numbers = [column for column in columns if column[1] in "if"] or [("1", "i")]
        for i in range(self._random.randint(1, 3)):
            name, kind = self._random.choice(numbers)
            function = self._random.choice(
                ["COUNT(*)", "COUNT({})", "COUNT(DISTINCT {})", "SUM({})", "MIN({})", "MAX({})"]
            )
            filtered = f" FILTER (WHERE {self._condition(columns, 0)})" if self._chance(0.2) else ""
            items.append(f"{function.format(name)}{filtered} AS g{i}")
            result.append((f"g{i}", "i" if function.startswith("COUNT") else kind))
        having = f" HAVING COUNT(*) > {self._random.randint(0, 2)}" if self._chance(0.3) else ""
        by = ", ".join(name for name, _ in keys)
        return f"SELECT {', '.join(items)} FROM {source}{where} GROUP BY {by}{having}", result

    def _listed(self, source: str, columns: list[Column], where: str) -> tuple[str, list[Column]]:
        items, result = [], []
        for i in range(self._random.randint(1, 4)):
            name, kind = self._random.choice(columns)
            if self._chance(0.2):
                name, kind = self._number(columns), "f"
            elif self._chance(0.1):
                name, kind = self._condition(columns, 1), "b"
            items.append(f"{name} AS c{i}")
            result.append((f"c{i}", kind))
        distinct = "DISTINCT " if self._chance(0.1) else ""
        return f"SELECT {distinct}{', '.join(items)} FROM {source}{where}", result

    def _number(self, columns: list[Column]) -> str:
        numbers = [name for name, kind in columns if kind in "if"]
        if not numbers or self._chance(0.15):
            return str(self._random.randint(0, 30))
        name = self._random.choice(numbers)
        match self._random.randrange(10):
            case 0:
                return f"({name} {self._random.choice('+-*')} {self._number(columns)})"
            case 1:
                return f"COALESCE({name}, {self._random.randint(0, 5)})"
            case 2:
                return f"CASE WHEN {self._condition(columns, 0)} THEN {name} ELSE {self._random.choice(numbers)} END"
        return name

    def _condition(self, columns: list[Column], depth: int) -> str:
        texts = [name for name, kind in columns if kind == "s"]
        match self._random.randrange(10):
            case 0 | 1 | 2:
                comparison = self._random.choice(["=", "<>", "<", ">", "<=", ">="])
                return f"{self._number(columns)} {comparison} {self._number(columns)}"
            case 3:
                return f"{self._random.choice(columns)[0]} IS {self._random.choice(['', 'NOT '])}NULL"
            case 4 if texts:
                return f"{self._random.choice(texts)} {self._random.choice(['=', '<>', '>'])} 'y'"
            case 5:
                operator = self._random.choice(["AND", "OR"])
                return f"({self._condition(columns, depth)} {operator} {self._condition(columns, 0)})"
            case 6:
                return f"NOT ({self._condition(columns, 0)})"
        numbers = [name for name, kind in columns if kind in "if"]
        if depth > 0 and numbers:
            return self._subquery(self._random.choice(numbers), columns)
        return f"{self._number(columns)} IN ({self._random.randint(1, 3)}, {self._random.randint(1, 40)})"

    def _subquery(self, outer: str, columns: list[Column]) -> str:
        alias, (table, own) = self._alias(), self._random.choice(BASE)
        names = [f"{alias}.{name}" for name, kind in own if kind in "if"]
        one, other = self._random.choice(names), self._random.choice(names)
        more = f" AND {other} > {self._random.randint(0, 20)}" if self._chance(0.5) else ""
        negated, source = "NOT " if self._chance(0.4) else "", f"{table} AS {alias}"
        aggregate = self._random.choice(["MAX", "MIN", "SUM", "COUNT"])
        match self._random.randrange(4):
            case 0:
                return f"{negated}EXISTS (SELECT 1 FROM {source} WHERE {one} = {outer}{more})"
            case 1:
                return f"{outer} {negated}IN (SELECT {one} FROM {source} WHERE {other} IS NOT NULL{more})"
            case 2:
                return f"{self._number(columns)} > (SELECT {aggregate}({one}) FROM {source} WHERE {other} = {outer})"
        return f"{outer} < (SELECT {aggregate}({one}) FROM {source})"

"""Expressions of the Table API. Each one holds a node of the syntax tree, as if it had been written in SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flott.errors import ProgramError
from flott.table._literals import interval, interval_of_millis, literal, type_node
from flott.table._sql import nodes as ast
from flott.table._sql.print_expressions import print_expression
from flott.table.types import DataType, DataTypes, logical_type_of

if TYPE_CHECKING:
    pass

__all__ = [
    "Expression",
    "JsonExistsOnError",
    "JsonOnNull",
    "JsonQueryOnEmptyOrError",
    "JsonQueryWrapper",
    "JsonType",
    "JsonValueOnEmptyOrError",
    "TimeIntervalUnit",
    "TimePointUnit",
]

T = TypeVar("T")


class TimeIntervalUnit(Enum):
    """Units of EXTRACT, FLOOR and CEIL."""

    YEAR = 0
    YEAR_TO_MONTH = 1
    QUARTER = 2
    MONTH = 3
    WEEK = 4
    DAY = 5
    DAY_TO_HOUR = 6
    DAY_TO_MINUTE = 7
    DAY_TO_SECOND = 8
    HOUR = 9
    SECOND = 10
    HOUR_TO_MINUTE = 11
    HOUR_TO_SECOND = 12
    MINUTE = 13
    MINUTE_TO_SECOND = 14


class TimePointUnit(Enum):
    """Units of ``timestamp_diff``."""

    YEAR = 0
    MONTH = 1
    DAY = 2
    HOUR = 3
    MINUTE = 4
    SECOND = 5
    QUARTER = 6
    WEEK = 7
    MILLISECOND = 8
    MICROSECOND = 9


class JsonType(Enum):
    """What ``is_json`` checks for."""

    VALUE = 0
    SCALAR = 1
    ARRAY = 2
    OBJECT = 3


class JsonExistsOnError(Enum):
    """What ``json_exists`` answers if the path fails."""

    TRUE = 0
    FALSE = 1
    UNKNOWN = 2
    ERROR = 3


class JsonValueOnEmptyOrError(Enum):
    """What ``json_value`` answers if there is no value, or an error."""

    NULL = 0
    ERROR = 1
    DEFAULT = 2


class JsonQueryWrapper(Enum):
    """Whether ``json_query`` puts its result into an array."""

    WITHOUT_ARRAY = 0
    CONDITIONAL_ARRAY = 1
    UNCONDITIONAL_ARRAY = 2


class JsonQueryOnEmptyOrError(Enum):
    """What ``json_query`` answers if there is nothing, or an error."""

    NULL = 0
    EMPTY_ARRAY = 1
    EMPTY_OBJECT = 2
    ERROR = 3


class JsonOnNull(Enum):
    """What JSON constructors do with NULL."""

    NULL = 0
    ABSENT = 1


def node_of(value: Any) -> ast.SqlExpression:
    """Return the node of an expression or of a plain value."""
    return value.node if isinstance(value, Expression) else literal(value)


def call_node(name: str, *arguments: Any) -> ast.SqlFunctionCall:
    """Return the node of a call of a built-in function."""
    return ast.SqlFunctionCall((name,), tuple(node_of(argument) for argument in arguments))


def call(name: str, *arguments: Any) -> Expression[Any]:
    """Return the call of a built-in function."""
    return Expression(call_node(name, *arguments))


def _property(name: str, doc: str) -> Any:
    """Make a property that calls a function with the expression as its only argument."""
    return property(lambda self: call(name, self), doc=doc)


def _unit(unit: str, factor: int = 1) -> Any:
    """Make a property that turns a number into an interval."""
    return property(
        lambda self: Expression(interval(self.node, unit, factor)), doc=f"Return an interval of so many {unit}s."
    )


def _suffix(operator: str) -> Any:
    """Make a property of an operator that SQL writes after its operand."""
    return property(
        lambda self: Expression(ast.SqlUnaryOperation(operator, self.node)), doc=f"Return ``x {operator}``."
    )


def _window_property(name: str, doc: str) -> Any:
    return property(lambda self: Expression(ast.SqlFunctionCall((name,), (self.node,))), doc=doc)


def _without_arguments(name: str, doc: str) -> Callable[[Expression[Any]], Expression[Any]]:
    def method(self: Expression[Any]) -> Expression[Any]:
        return call(name, self)

    method.__doc__ = doc
    return method


def _with_one(name: str, doc: str) -> Callable[[Expression[Any], Any], Expression[Any]]:
    def method(self: Expression[Any], argument: Any) -> Expression[Any]:
        return call(name, self, argument)

    method.__doc__ = doc
    return method


def _binary(operator: str) -> Callable[[Any, Any], Any]:
    def method(self: Expression[Any], other: Any) -> Expression[Any]:
        return Expression(ast.SqlBinaryOperation(operator, self.node, node_of(other)))

    method.__doc__ = f"Return ``x {operator} y``."
    return method


def _reflected(operator: str) -> Callable[[Any, Any], Any]:
    def method(self: Expression[Any], other: Any) -> Expression[Any]:
        return Expression(ast.SqlBinaryOperation(operator, node_of(other), self.node))

    method.__doc__ = f"Return ``y {operator} x``."
    return method


class Expression(Generic[T]):
    """A column, a literal, or a call over them.

    >>> str(Expression(ast.SqlColumnReference(("a",))) + 1)
    'a + 1'
    """

    def __init__(
        self, node: ast.SqlExpression, aliases: tuple[str, ...] = (), order: ast.SqlOrderItem | None = None
    ) -> None:
        self.node = node
        self.aliases = aliases
        self.order = order

    def __str__(self) -> str:
        return print_expression(self.node)

    def __repr__(self) -> str:
        return f"Expression({self})"

    def __bool__(self) -> bool:
        raise ProgramError("An expression has no truth value; combine conditions with & and |, not with and, or")

    __hash__ = object.__hash__

    # --- operators ------------------------------------------------------------------------------------------------

    __eq__ = _binary("=")
    __ne__ = _binary("<>")
    __lt__ = _binary("<")
    __gt__ = _binary(">")
    __le__ = _binary("<=")
    __ge__ = _binary(">=")
    __and__ = _binary("AND")
    __or__ = _binary("OR")
    __rand__ = _reflected("AND")
    __ror__ = _reflected("OR")
    __add__ = _binary("+")
    __sub__ = _binary("-")
    __mul__ = _binary("*")
    __truediv__ = _binary("/")
    __mod__ = _binary("%")
    __radd__ = _reflected("+")
    __rsub__ = _reflected("-")
    __rmul__ = _reflected("*")
    __rtruediv__ = _reflected("/")
    __rmod__ = _reflected("%")

    def __invert__(self) -> Expression[bool]:
        return Expression(ast.SqlUnaryOperation("NOT", self.node))

    def __neg__(self) -> Expression[T]:
        return Expression(ast.SqlUnaryOperation("-", self.node))

    def __abs__(self) -> Expression[T]:
        return call("ABS", self)

    def __pow__(self, other: Any) -> Expression[float]:
        return call("POWER", self, other)

    def __rpow__(self, other: Any) -> Expression[float]:
        return call("POWER", other, self)

    def __getitem__(self, index: Any) -> Expression[Any]:
        return self.at(index)

    # --- numbers --------------------------------------------------------------------------------------------------

    exp = _property("EXP", "Return e to the power of the number.")
    log10 = _property("LOG10", "Return the logarithm to base 10.")
    log2 = _property("LOG2", "Return the logarithm to base 2.")
    ln = _property("LN", "Return the natural logarithm.")
    sin = _property("SIN", "Return the sine.")
    cos = _property("COS", "Return the cosine.")
    tan = _property("TAN", "Return the tangent.")
    cot = _property("COT", "Return the cotangent.")
    asin = _property("ASIN", "Return the arc sine.")
    acos = _property("ACOS", "Return the arc cosine.")
    atan = _property("ATAN", "Return the arc tangent.")
    sinh = _property("SINH", "Return the hyperbolic sine.")
    cosh = _property("COSH", "Return the hyperbolic cosine.")
    tanh = _property("TANH", "Return the hyperbolic tangent.")
    degrees = _property("DEGREES", "Return radians as degrees.")
    radians = _property("RADIANS", "Return degrees as radians.")
    sqrt = _property("SQRT", "Return the square root.")
    abs = _property("ABS", "Return the absolute value.")
    sign = _property("SIGN", "Return -1, 0 or 1.")
    bin = _property("BIN", "Return an integer in binary digits.")
    hex = _property("HEX", "Return an integer or a text in hexadecimal digits.")
    unhex = _property("UNHEX", "Return the bytes of hexadecimal digits.")
    round = _with_one("ROUND", "Return the number rounded to so many places.")

    def log(self, base: Any = None) -> Expression[float]:
        """Return the logarithm, natural or to a base."""
        return call("LN", self) if base is None else call("LOG", base, self)

    def truncate(self, n: Any = 0) -> Expression[T]:
        """Return the number cut after so many places."""
        return call("TRUNCATE", self, n)

    # --- conditions -----------------------------------------------------------------------------------------------

    is_null = _suffix("IS NULL")
    is_not_null = _suffix("IS NOT NULL")
    is_true = _suffix("IS TRUE")
    is_false = _suffix("IS FALSE")
    is_not_true = _suffix("IS NOT TRUE")
    is_not_false = _suffix("IS NOT FALSE")
    if_null = _with_one("IFNULL", "Return a replacement if the value is NULL.")

    def between(self, lower_bound: Any, upper_bound: Any) -> Expression[bool]:
        """Return whether the value is between two others, which belong to the range."""
        return Expression(ast.SqlBetween(self.node, node_of(lower_bound), node_of(upper_bound)))

    def not_between(self, lower_bound: Any, upper_bound: Any) -> Expression[bool]:
        """Return whether the value is outside of a range."""
        return Expression(ast.SqlBetween(self.node, node_of(lower_bound), node_of(upper_bound), negated=True))

    def then(self, if_true: Any, if_false: Any) -> Expression[Any]:
        """Return one of two values, by this condition."""
        branch = ast.SqlWhen(self.node, node_of(if_true))
        return Expression(ast.SqlCase(None, (branch,), node_of(if_false)))

    def in_(self, first_element_or_table: Any, *remaining_elements: Any) -> Expression[bool]:
        """Return whether the value is one of these, or in the only column of a table."""
        query = getattr(first_element_or_table, "query", None)
        if isinstance(query, ast.SqlQuery):
            return Expression(ast.SqlInQuery(self.node, query))
        elements = (first_element_or_table, *remaining_elements)
        return Expression(ast.SqlInList(self.node, tuple(node_of(element) for element in elements)))

    # --- aggregates -----------------------------------------------------------------------------------------------

    sum = _property("SUM", "Return the sum; NULL if there is no row.")
    min = _property("MIN", "Return the least value.")
    max = _property("MAX", "Return the greatest value.")
    count = _property("COUNT", "Return how many rows have a value.")
    avg = _property("AVG", "Return the average.")
    first_value = _property("FIRST_VALUE", "Return the first value.")
    last_value = _property("LAST_VALUE", "Return the last value.")
    stddev_pop = _property("STDDEV_POP", "Return the standard deviation of the population.")
    stddev_samp = _property("STDDEV_SAMP", "Return the standard deviation of the sample.")
    var_pop = _property("VAR_POP", "Return the variance of the population.")
    var_samp = _property("VAR_SAMP", "Return the variance of the sample.")
    collect = _property("COLLECT", "Return the values as a multiset.")
    array_agg = _property("ARRAY_AGG", "Return the values as an array.")

    @property
    def sum0(self) -> Expression[T]:
        """Return the sum; 0 if there is no row."""
        return call("COALESCE", call("SUM", self), 0)

    @property
    def distinct(self) -> Expression[T]:
        """Return the aggregate over distinct values."""
        if not isinstance(self.node, ast.SqlFunctionCall):
            raise ProgramError(f"distinct follows {self}, expected an aggregate such as col('a').count.distinct")
        return Expression(replace(self.node, distinct=True))

    def list_agg(self, separator: Any = None) -> Expression[str]:
        """Return the texts joined by a separator, by default a comma."""
        return call("LISTAGG", self) if separator is None else call("LISTAGG", self, separator)

    def percentile(self, percentage: Any, frequency: Any = None) -> Expression[Any]:
        """Return the percentile of the values, each counted ``frequency`` times."""
        more = () if frequency is None else (frequency,)
        return call("PERCENTILE", self, percentage, *more)

    def over(self, alias: Any) -> Expression[T]:
        """Return the aggregate over an over window, by its alias."""
        if not isinstance(self.node, ast.SqlFunctionCall) or not isinstance(node_of(alias), ast.SqlColumnReference):
            raise ProgramError(
                f"over() follows {self}, expected an aggregate, with the alias of a window: over(col('w'))"
            )
        name = node_of(alias)
        assert isinstance(name, ast.SqlColumnReference)
        return Expression(replace(self.node, over=ast.SqlWindowName(name.parts[-1])))

    # --- names, types, order --------------------------------------------------------------------------------------

    def alias(self, name: str, *extra_names: str) -> Expression[T]:
        """Return the expression under a name; a function with several columns takes several names."""
        return Expression(self.node, (name, *extra_names), self.order)

    def as_argument(self, name: str) -> Expression[T]:
        """Return the expression as the argument of a name."""
        return Expression(ast.SqlNamedArgument(name, self.node))

    def cast(self, data_type: DataType) -> Expression[Any]:
        """Return the value converted to a type; what cannot be converted fails."""
        return Expression(ast.SqlCast(self.node, type_node(logical_type_of(data_type))))

    def try_cast(self, data_type: DataType) -> Expression[Any]:
        """Return the value converted to a type; what cannot be converted is NULL."""
        return Expression(ast.SqlCast(self.node, type_node(logical_type_of(data_type)), safe=True))

    @property
    def asc(self) -> Expression[T]:
        """Return the expression as an ascending key of ``order_by``."""
        return Expression(self.node, self.aliases, ast.SqlOrderItem(self.node))

    @property
    def desc(self) -> Expression[T]:
        """Return the expression as a descending key of ``order_by``."""
        return Expression(self.node, self.aliases, ast.SqlOrderItem(self.node, descending=True))

    # --- windows --------------------------------------------------------------------------------------------------

    start = _window_property("$START", "Return the start of a group window, by its alias.")
    end = _window_property("$END", "Return the end of a group window, by its alias.")
    rowtime = _window_property("$ROWTIME", "Return the event time of a group window, or declare a column's.")
    proctime = _window_property("$PROCTIME", "Return the processing time of a group window, or declare a column.")

    # --- text -----------------------------------------------------------------------------------------------------

    char_length = _property("CHAR_LENGTH", "Return the number of characters.")
    upper_case = _property("UPPER", "Return the text in upper case.")
    lower_case = _property("LOWER", "Return the text in lower case.")
    init_cap = _property("INITCAP", "Return the text with every word capitalised.")
    from_base64 = _property("FROM_BASE64", "Return the text that base 64 stands for.")
    to_base64 = _property("TO_BASE64", "Return the text in base 64.")
    ascii = _property("ASCII", "Return the code of the first character.")
    chr = _property("CHR", "Return the character of a code.")
    reverse = _property("REVERSE", "Return the text backwards.")
    md5 = _property("MD5", "Return the MD5 hash in hexadecimal digits.")
    sha1 = _property("SHA1", "Return the SHA-1 hash in hexadecimal digits.")
    sha224 = _property("SHA224", "Return the SHA-224 hash in hexadecimal digits.")
    sha256 = _property("SHA256", "Return the SHA-256 hash in hexadecimal digits.")
    sha384 = _property("SHA384", "Return the SHA-384 hash in hexadecimal digits.")
    sha512 = _property("SHA512", "Return the SHA-512 hash in hexadecimal digits.")
    sha2 = _with_one("SHA2", "Return the hash of the SHA-2 family of so many bits.")
    concat = _with_one("CONCAT", "Return the text followed by another.")
    starts_with = _with_one("STARTSWITH", "Return whether the text begins with another.")
    ends_with = _with_one("ENDSWITH", "Return whether the text ends with another.")
    regexp = _with_one("REGEXP", "Return whether a part of the text matches a regular expression.")
    regexp_count = _with_one("REGEXP_COUNT", "Return how often a regular expression matches.")
    regexp_instr = _with_one("REGEXP_INSTR", "Return where a regular expression first matches.")
    regexp_substr = _with_one("REGEXP_SUBSTR", "Return what a regular expression first matches.")
    decode = _with_one("DECODE", "Return the text of bytes in a character set.")
    encode = _with_one("ENCODE", "Return the bytes of the text in a character set.")
    left = _with_one("LEFT", "Return the first characters.")
    right = _with_one("RIGHT", "Return the last characters.")
    instr = _with_one("INSTR", "Return where another text first stands.")
    repeat = _with_one("REPEAT", "Return the text so many times.")
    split = _with_one("SPLIT", "Return the parts of the text between delimiters as an array.")
    url_decode = _without_arguments("URL_DECODE", "Return the text that the URL encoding stands for.")
    url_encode = _without_arguments("URL_ENCODE", "Return the text in URL encoding.")
    inet_aton = _without_arguments("INET_ATON", "Return the number of an IPv4 address.")
    inet_ntoa = _without_arguments("INET_NTOA", "Return the IPv4 address of a number.")

    def substring(self, begin_index: Any, length: Any = None) -> Expression[str]:
        """Return a part of the text, from a position that counts from 1."""
        return call("SUBSTRING", self, begin_index, *(() if length is None else (length,)))

    def substr(self, begin_index: Any, length: Any = None) -> Expression[str]:
        """Return a part of the text, from a position that counts from 1."""
        return call("SUBSTR", self, begin_index, *(() if length is None else (length,)))

    def _trimmed(self, side: str, character: Any) -> Expression[str]:
        blank = node_of(" " if character is None else character)
        return Expression(ast.SqlFunctionCall(("TRIM",), (ast.SqlSymbol(side), blank, self.node)))

    def trim(self, character: Any = None) -> Expression[str]:
        """Return the text without the character at both ends."""
        return self._trimmed("BOTH", character)

    def trim_leading(self, character: Any = None) -> Expression[str]:
        """Return the text without the character at its start."""
        return self._trimmed("LEADING", character)

    def trim_trailing(self, character: Any = None) -> Expression[str]:
        """Return the text without the character at its end."""
        return self._trimmed("TRAILING", character)

    def ltrim(self, trim_str: Any = None) -> Expression[str]:
        """Return the text without these characters at its start."""
        return call("LTRIM", self, *(() if trim_str is None else (trim_str,)))

    def rtrim(self, trim_str: Any = None) -> Expression[str]:
        """Return the text without these characters at its end."""
        return call("RTRIM", self, *(() if trim_str is None else (trim_str,)))

    def btrim(self, trim_str: Any = None) -> Expression[str]:
        """Return the text without these characters at both ends."""
        return call("BTRIM", self, *(() if trim_str is None else (trim_str,)))

    def replace(self, search: Any = None, replacement: Any = None) -> Expression[str]:
        """Return the text with one part replaced by another."""
        return call("REPLACE", self, search, replacement)

    def translate(self, from_str: Any, to_str: Any) -> Expression[str]:
        """Return the text with characters replaced one by one."""
        return call("TRANSLATE", self, from_str, to_str)

    def like(self, pattern: Any = None, escape: Any = None) -> Expression[bool]:
        """Return whether the text matches a pattern of LIKE."""
        return Expression(ast.SqlLike("LIKE", self.node, node_of(pattern), None if escape is None else node_of(escape)))

    def similar(self, pattern: Any = None) -> Expression[bool]:
        """Return whether the text matches a pattern of SIMILAR TO."""
        return Expression(ast.SqlLike("SIMILAR TO", self.node, node_of(pattern)))

    def position(self, haystack: Any = None) -> Expression[int]:
        """Return where the text first stands in another, from 1; 0 if it does not."""
        return call("POSITION", self, haystack)

    def lpad(self, length: Any, pad: Any) -> Expression[str]:
        """Return the text filled up on its left."""
        return call("LPAD", self, length, pad)

    def rpad(self, length: Any, pad: Any) -> Expression[str]:
        """Return the text filled up on its right."""
        return call("RPAD", self, length, pad)

    def overlay(self, new_string: Any, starting: Any, length: Any = None) -> Expression[str]:
        """Return the text with a part replaced, from a position that counts from 1."""
        return call("OVERLAY", self, new_string, starting, *(() if length is None else (length,)))

    def regexp_replace(self, regex: Any, replacement: Any) -> Expression[str]:
        """Return the text with all that a regular expression matches replaced."""
        return call("REGEXP_REPLACE", self, regex, replacement)

    def regexp_extract(self, regex: Any, extract_index: Any = None) -> Expression[str]:
        """Return a group of the first match of a regular expression."""
        return call("REGEXP_EXTRACT", self, regex, *(() if extract_index is None else (extract_index,)))

    def regexp_extract_all(self, regex: Any, extract_index: Any = None) -> Expression[Any]:
        """Return a group of all matches of a regular expression."""
        return call("REGEXP_EXTRACT_ALL", self, regex, *(() if extract_index is None else (extract_index,)))

    def locate(self, s: Any, pos: Any = None) -> Expression[int]:
        """Return where the text first stands in another, from a position on."""
        return call("LOCATE", self, s, *(() if pos is None else (pos,)))

    def parse_url(self, part_to_extract: Any, key: Any = None) -> Expression[str]:
        """Return a part of a URL: HOST, PATH, QUERY and so on."""
        return call("PARSE_URL", self, part_to_extract, *(() if key is None else (key,)))

    def printf(self, *obj: Any) -> Expression[str]:
        """Return the values in the format that this text is."""
        return call("PRINTF", self, *obj)

    def split_index(self, separator: Any, index: Any) -> Expression[str]:
        """Return one of the parts between separators, from 0."""
        return call("SPLIT_INDEX", self, separator, index)

    def str_to_map(self, list_delimiter: Any = None, key_value_delimiter: Any = None) -> Expression[Any]:
        """Return the map that a text such as ``a=1,b=2`` stands for."""
        if list_delimiter is None or key_value_delimiter is None:
            return call("STR_TO_MAP", self)
        return call("STR_TO_MAP", self, list_delimiter, key_value_delimiter)

    def elt(self, expr: Any, *exprs: Any) -> Expression[Any]:
        """Return the argument of this number, from 1."""
        return call("ELT", self, expr, *exprs)

    # --- time -----------------------------------------------------------------------------------------------------

    year, years = _unit("YEAR"), _unit("YEAR")
    quarter, quarters = _unit("MONTH", 3), _unit("MONTH", 3)
    month, months = _unit("MONTH"), _unit("MONTH")
    week, weeks = _unit("DAY", 7), _unit("DAY", 7)
    day, days = _unit("DAY"), _unit("DAY")
    hour, hours = _unit("HOUR"), _unit("HOUR")
    minute, minutes = _unit("MINUTE"), _unit("MINUTE")
    second, seconds = _unit("SECOND"), _unit("SECOND")

    @property
    def millis(self) -> Expression[Any]:
        """Return an interval of so many milliseconds."""
        if not isinstance(self.node, ast.SqlNumberLiteral) or not self.node.text.isdigit():
            raise ProgramError(f"millis follows {self}, expected a number: lit(10).millis")
        return Expression(interval_of_millis(int(self.node.text)))

    milli = millis

    @property
    def to_date(self) -> Expression[Any]:
        """Return the date of a text such as 2020-01-31."""
        return self.cast(DataTypes.DATE())

    @property
    def to_time(self) -> Expression[Any]:
        """Return the time of a text such as 10:30:00."""
        return self.cast(DataTypes.TIME())

    @property
    def to_timestamp(self) -> Expression[Any]:
        """Return the timestamp of a text such as 2020-01-31 10:30:00."""
        return self.cast(DataTypes.TIMESTAMP(3))

    def extract(self, time_interval_unit: TimeIntervalUnit) -> Expression[int]:
        """Return a part of a date or time."""
        return Expression(ast.SqlFunctionCall(("EXTRACT",), (ast.SqlSymbol(time_interval_unit.name), self.node)))

    def floor(self, time_interval_unit: TimeIntervalUnit | None = None) -> Expression[Any]:
        """Return the value rounded down, a time to a unit."""
        return self._rounded("FLOOR", time_interval_unit)

    def ceil(self, time_interval_unit: TimeIntervalUnit | None = None) -> Expression[Any]:
        """Return the value rounded up, a time to a unit."""
        return self._rounded("CEIL", time_interval_unit)

    def _rounded(self, name: str, unit: TimeIntervalUnit | None) -> Expression[Any]:
        more = () if unit is None else (ast.SqlSymbol(unit.name),)
        return Expression(ast.SqlFunctionCall((name,), (self.node, *more)))

    # --- rows, arrays, maps ---------------------------------------------------------------------------------------

    cardinality = _property("CARDINALITY", "Return the number of elements.")
    element = _property("ELEMENT", "Return the only element; NULL if there is none.")
    map_keys = _property("MAP_KEYS", "Return the keys of a map.")
    map_values = _property("MAP_VALUES", "Return the values of a map.")
    map_entries = _property("MAP_ENTRIES", "Return the entries of a map as rows.")
    array_append = _with_one("ARRAY_APPEND", "Return the array with an element at its end.")
    array_prepend = _with_one("ARRAY_PREPEND", "Return the array with an element at its start.")
    array_contains = _with_one("ARRAY_CONTAINS", "Return whether the array has an element.")
    array_position = _with_one("ARRAY_POSITION", "Return where an element first stands, from 1; 0 if it does not.")
    array_remove = _with_one("ARRAY_REMOVE", "Return the array without an element.")
    array_union = _with_one("ARRAY_UNION", "Return the elements of both arrays, without duplicates.")
    array_except = _with_one("ARRAY_EXCEPT", "Return the elements that the other array does not have.")
    array_intersect = _with_one("ARRAY_INTERSECT", "Return the elements that both arrays have.")
    array_distinct = _without_arguments("ARRAY_DISTINCT", "Return the array without duplicates.")
    array_reverse = _without_arguments("ARRAY_REVERSE", "Return the array backwards.")
    array_max = _without_arguments("ARRAY_MAX", "Return the greatest element.")
    array_min = _without_arguments("ARRAY_MIN", "Return the least element.")

    def get(self, name_or_index: str | int) -> Expression[Any]:
        """Return a field of a row, by name or by position from 0."""
        return Expression(ast.SqlFieldAccess(self.node, name_or_index))

    @property
    def flatten(self) -> Expression[Any]:
        """Return all fields of a row as columns of their own."""
        return Expression(ast.SqlFlatten(self.node))

    def at(self, index: Any) -> Expression[Any]:
        """Return an element of an array, from 1, or the value of a map's key."""
        return Expression(ast.SqlItemAccess(self.node, node_of(index)))

    def array_slice(self, start_offset: Any, end_offset: Any = None) -> Expression[Any]:
        """Return a part of the array, with both ends."""
        return call("ARRAY_SLICE", self, start_offset, *(() if end_offset is None else (end_offset,)))

    def array_sort(self, ascending_order: Any = None, null_first: Any = None) -> Expression[Any]:
        """Return the array sorted."""
        more = [] if ascending_order is None else [ascending_order]
        return call("ARRAY_SORT", self, *more, *([] if null_first is None else [null_first]))

    def array_concat(self, *arrays: Any) -> Expression[Any]:
        """Return the array followed by others."""
        return call("ARRAY_CONCAT", self, *arrays)

    def array_join(self, delimiter: Any, null_replacement: Any = None) -> Expression[str]:
        """Return the elements as one text."""
        return call("ARRAY_JOIN", self, delimiter, *(() if null_replacement is None else (null_replacement,)))

    def map_union(self, *maps: Any) -> Expression[Any]:
        """Return the entries of all maps; the last one of a key counts."""
        return call("MAP_UNION", self, *maps)

    def object_update(self, *kv: Any) -> Expression[Any]:
        """Return the object with fields changed, given as names and values by turns."""
        return call("OBJECT_UPDATE", self, *kv)

    # --- JSON -----------------------------------------------------------------------------------------------------

    json_quote = _without_arguments("JSON_QUOTE", "Return the text as a JSON string.")
    json_unquote = _without_arguments("JSON_UNQUOTE", "Return the text that a JSON string stands for.")

    def is_json(self, json_type: JsonType | None = None) -> Expression[bool]:
        """Return whether the text is JSON, of a kind."""
        kind = JsonType.VALUE if json_type is None else json_type
        return Expression(ast.SqlUnaryOperation(f"IS JSON {kind.name}", self.node))

    def json_exists(self, path: str, on_error: JsonExistsOnError | None = None) -> Expression[bool]:
        """Return whether a path finds something."""
        options = () if on_error is None else (ast.SqlCallOption("ON ERROR", on_error.name),)
        return Expression(replace(call_node("JSON_EXISTS", self, path), options=options))

    def json_value(
        self,
        path: str,
        returning_type: DataType = DataTypes.STRING(),  # noqa: B008 - a frozen value
        on_empty: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_empty: Any = None,
        on_error: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_error: Any = None,
    ) -> Expression[Any]:
        """Return the scalar that a path finds."""
        returning = type_node(logical_type_of(returning_type))
        assert isinstance(returning, ast.SqlTypeName)
        options = (
            ast.SqlCallOption("RETURNING", value=returning),
            _behaviour("ON EMPTY", on_empty, default_on_empty),
            _behaviour("ON ERROR", on_error, default_on_error),
        )
        return Expression(replace(call_node("JSON_VALUE", self, path), options=options))

    def json_query(
        self,
        path: str,
        wrapping_behavior: JsonQueryWrapper = JsonQueryWrapper.WITHOUT_ARRAY,
        on_empty: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
        on_error: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
    ) -> Expression[str]:
        """Return the JSON that a path finds."""
        prefix = "" if wrapping_behavior is JsonQueryWrapper.WITHOUT_ARRAY else "WITH "
        options = (
            ast.SqlCallOption("WRAPPER", prefix + wrapping_behavior.name.replace("_", " ")),
            ast.SqlCallOption("ON EMPTY", on_empty.name.replace("_", " ")),
            ast.SqlCallOption("ON ERROR", on_error.name.replace("_", " ")),
        )
        return Expression(replace(call_node("JSON_QUERY", self, path), options=options))

    # --- bitmaps ----------------------------------------------------------------------------------------------------

    bitmap_and = _with_one("BITMAP_AND", "Return a function of bitmaps.")
    bitmap_andnot = _with_one("BITMAP_ANDNOT", "Return a function of bitmaps.")
    bitmap_and_agg = _without_arguments("BITMAP_AND_AGG", "Return a function of bitmaps.")
    bitmap_and_cardinality_agg = _without_arguments(
        "BITMAP_AND_CARDINALITY_AGG", "Return ``BITMAP_AND_CARDINALITY_AGG``."
    )
    bitmap_build = _without_arguments("BITMAP_BUILD", "Return a function of bitmaps.")
    bitmap_build_agg = _without_arguments("BITMAP_BUILD_AGG", "Return a function of bitmaps.")
    bitmap_build_cardinality_agg = _without_arguments(
        "BITMAP_BUILD_CARDINALITY_AGG", "Return ``BITMAP_BUILD_CARDINALITY_AGG``."
    )
    bitmap_cardinality = _without_arguments("BITMAP_CARDINALITY", "Return a function of bitmaps.")
    bitmap_from_bytes = _without_arguments("BITMAP_FROM_BYTES", "Return a function of bitmaps.")
    bitmap_or = _with_one("BITMAP_OR", "Return a function of bitmaps.")
    bitmap_or_agg = _without_arguments("BITMAP_OR_AGG", "Return a function of bitmaps.")
    bitmap_or_cardinality_agg = _without_arguments("BITMAP_OR_CARDINALITY_AGG", "Return a function of bitmaps.")
    bitmap_to_array = _without_arguments("BITMAP_TO_ARRAY", "Return a function of bitmaps.")
    bitmap_to_bytes = _without_arguments("BITMAP_TO_BYTES", "Return a function of bitmaps.")
    bitmap_to_string = _without_arguments("BITMAP_TO_STRING", "Return a function of bitmaps.")
    bitmap_xor = _with_one("BITMAP_XOR", "Return a function of bitmaps.")
    bitmap_xor_agg = _without_arguments("BITMAP_XOR_AGG", "Return a function of bitmaps.")
    bitmap_xor_cardinality_agg = _without_arguments(
        "BITMAP_XOR_CARDINALITY_AGG", "Return ``BITMAP_XOR_CARDINALITY_AGG``."
    )


def _behaviour(clause: str, behaviour: JsonValueOnEmptyOrError, default: Any) -> ast.SqlCallOption:
    value = node_of(default) if behaviour is JsonValueOnEmptyOrError.DEFAULT else None
    return ast.SqlCallOption(clause, behaviour.name, value)

"""All aggregate functions by name. An entry says which arguments it takes, what it returns, and how it accumulates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from flott.errors import ProgramError
from flott.table._functions.aggregates.accumulation import Accumulation
from flott.table._functions.aggregates.bitmap_aggregates import Chooses, CountedMembers, in_all, in_any, in_odd
from flott.table._functions.aggregates.extremes import Extreme, FirstOrLast
from flott.table._functions.aggregates.numeric import Averaged, Counted, Spread, Summed, SummedFromZero
from flott.table._functions.aggregates.objects import (
    CountedValues,
    ObjectFunction,
    Objects,
    OrderedValues,
    Percentiles,
    SingleValue,
    SortedValues,
    joined_texts,
    json_array,
    json_object,
)
from flott.table._functions.function import CallArguments
from flott.table._types.logical import (
    ArrayType,
    BigIntType,
    BitmapType,
    CharType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LogicalType,
    MapType,
    MultisetType,
    RowType,
    VarCharType,
    YearMonthIntervalType,
)

if TYPE_CHECKING:
    from flott.table._plan.logical import AggregateCall

_STRING = VarCharType(2147483647)


@dataclass(frozen=True)
class MadeFor:
    """What accumulators are made for."""

    types: tuple[LogicalType, ...]  #: of the arguments
    result: LogicalType
    retracts: bool  #: rows may be taken away
    literals: tuple[Any, ...] = ()


@dataclass(frozen=True)
class LibraryAggregate:
    """An aggregate function: signature, accumulators, and what the reference says about it.

    ``infer`` returns the type of the result; it is nullable unless the function has a value for no rows.
    """

    name: str
    infer: Callable[[CallArguments], LogicalType]
    make: Callable[[MadeFor], Accumulation]
    #: How many of the first arguments are columns; those behind must be literals. None: all.
    columns: int | None = None
    aliases: tuple[str, ...] = ()
    syntax: str = ""
    description: str = ""
    #: Spark's function with the same results; None: the streaming operators run it.
    spark: str | None = None


def aggregate_named(name: str) -> LibraryAggregate | None:
    """Return an aggregate function by its name, in any case."""
    return aggregates().get(name.upper())


@cache
def aggregates() -> dict[str, LibraryAggregate]:
    """Return every aggregate function by its name and aliases, in upper case."""
    return {name.upper(): entry for entry in AGGREGATES for name in (entry.name, *entry.aliases)}


def make_accumulation(call: AggregateCall, types: tuple[LogicalType, ...], *, retracts: bool) -> Accumulation:
    """Return the accumulators of a call over columns of these types."""
    if call.user is not None:
        from flott.table._functions.aggregates.user_aggregates import UserAccumulation

        return UserAccumulation(call.user, types, call.type, call.literals)
    entry = aggregate_named(call.function)
    if entry is None:
        raise ProgramError(f"There is no aggregate function {call.function}.")
    return entry.make(MadeFor(types, call.type, retracts, call.literals))


# --- types of results ------------------------------------------------------------------------------------------------


def _numeric(arguments: CallArguments, count: int = 1) -> LogicalType:
    if len(arguments.types) != count or not isinstance(
        arguments.types[0],
        IntegerType | FloatType | DoubleType | DecimalType | DayTimeIntervalType | YearMonthIntervalType,
    ):
        raise arguments.refuse(f"{arguments.name}(<NUMERIC>)")
    return arguments.types[0]


def _of_count(arguments: CallArguments) -> LogicalType:
    return BigIntType(nullable=False)


def _of_sum(arguments: CallArguments) -> LogicalType:
    of = _numeric(arguments)
    return DecimalType(38, of.scale) if isinstance(of, DecimalType) else of.as_nullable()


def _of_sum0(arguments: CallArguments) -> LogicalType:
    return _of_sum(arguments).as_nullable(False)


def _of_average(arguments: CallArguments) -> LogicalType:
    of = _numeric(arguments)
    return DecimalType(38, max(6, of.scale)) if isinstance(of, DecimalType) else of.as_nullable()


def _same(arguments: CallArguments) -> LogicalType:
    if len(arguments.types) != 1:
        raise arguments.refuse(f"{arguments.name}(<ANY>)")
    return arguments.types[0].as_nullable()


def _comparable(arguments: CallArguments) -> LogicalType:
    if len(arguments.types) != 1 or isinstance(arguments.types[0], ArrayType | MapType | MultisetType | RowType):
        raise arguments.refuse(f"{arguments.name}(<COMPARABLE>)")
    return arguments.types[0].as_nullable()


def _of_list(arguments: CallArguments) -> LogicalType:
    if not 1 <= len(arguments.types) <= 2 or not isinstance(arguments.types[0], VarCharType | CharType):
        raise arguments.refuse("LISTAGG(<CHARACTER_STRING>) or LISTAGG(<CHARACTER_STRING>, <CHARACTER_STRING>)")
    return _STRING


def _of_collect(arguments: CallArguments) -> LogicalType:
    return MultisetType(_same(arguments).as_nullable(arguments.types[0].nullable), nullable=False)


def _of_array(arguments: CallArguments) -> LogicalType:
    _same(arguments)
    return ArrayType(arguments.types[0])


def _of_json(arguments: CallArguments) -> LogicalType:
    return _STRING.as_nullable(False)


def _of_percentile(arguments: CallArguments) -> LogicalType:
    if not 2 <= len(arguments.types) <= 3:
        raise arguments.refuse("PERCENTILE(<NUMERIC>, <NUMERIC> or <ARRAY>[, <INTEGER>])")
    return ArrayType(DoubleType()) if isinstance(arguments.types[1], ArrayType) else DoubleType()


# --- accumulators ----------------------------------------------------------------------------------------------------


def _objects(function: Callable[[MadeFor], ObjectFunction]) -> Callable[[MadeFor], Accumulation]:
    return lambda made: Objects(function(made), made.result)


def _extreme(*, largest: bool) -> Callable[[MadeFor], Accumulation]:
    def make(made: MadeFor) -> Accumulation:
        if made.retracts:
            return Objects(SortedValues(largest=largest), made.result)
        return Extreme(made.types[0], largest=largest)

    return make


def _first_value(held: list[Any]) -> Any:
    return held[0] if held else None


def _last_value(held: list[Any]) -> Any:
    return held[-1] if held else None


def _edge(*, last: bool) -> Callable[[MadeFor], Accumulation]:
    def make(made: MadeFor) -> Accumulation:
        if made.retracts:
            return Objects(OrderedValues(_last_value if last else _first_value), made.result)
        return FirstOrLast(made.types[0], last=last)

    return make


def _spread(*, sample: bool, root: bool) -> Callable[[MadeFor], Accumulation]:
    return lambda made: Spread(made.types[0], made.result, sample=sample, root=root)


def _listed(held: list[Any]) -> Any:
    return list(held) if held else None


def _json_object_of_some(held: list[Any]) -> str:
    return json_object([(name, value) for name, value in held if value is not None])


def _of_members(arguments: CallArguments) -> LogicalType:
    if len(arguments.types) != 1 or not isinstance(arguments.types[0], IntegerType):
        raise arguments.refuse(f"{arguments.name}(<INT>)")
    return BigIntType() if "CARDINALITY" in arguments.name.upper() else BitmapType()


def _of_bitmaps(arguments: CallArguments) -> LogicalType:
    if len(arguments.types) != 1 or not isinstance(arguments.types[0], BitmapType):
        raise arguments.refuse(f"{arguments.name}(<BITMAP>)")
    return BigIntType() if "CARDINALITY" in arguments.name.upper() else BitmapType()


def _bitmaps(verb: str, chooses: Chooses, what: str, *, sets: bool = True) -> Iterator[LibraryAggregate]:
    """Yield the aggregate that gives a bitmap, and the one that gives how many members it has."""
    argument = "bitmap" if sets else "value"
    for cardinality in (False, True):
        name = f"BITMAP_{verb}_CARDINALITY_AGG" if cardinality else f"BITMAP_{verb}_AGG"
        yield LibraryAggregate(
            name, _of_bitmaps if sets else _of_members,
            _objects(lambda made, c=cardinality: CountedMembers(chooses, sets=sets, cardinality=c)),  # type: ignore[misc]
            syntax=f"{name}({argument})",
            description=f"Returns {'how many members the bitmap has' if cardinality else 'the bitmap'} of {what}.",
        )  # fmt: skip


class _DifferentValues(CountedValues):
    """How many different values there are."""

    def value(self, held: Any) -> int:
        return len(super().value(held))


def _separator(made: MadeFor) -> str:
    return str(made.literals[0]) if made.literals else ","


AGGREGATES: tuple[LibraryAggregate, ...] = (
    LibraryAggregate(
        "COUNT", _of_count, lambda made: Counted(), syntax="COUNT([ALL | DISTINCT] expression, ...) or COUNT(*)",
        description="Returns the number of rows for which no expression is NULL; of all rows with *.", spark="count",
    ),
    LibraryAggregate(
        "SUM", _of_sum, lambda made: Summed(made.types[0], made.result), syntax="SUM([ALL | DISTINCT] expression)",
        description="Returns the sum of expression. Sums of integers have its type and wrap around.",
    ),
    LibraryAggregate(
        "SUM0", _of_sum0, lambda made: SummedFromZero(made.types[0], made.result), aliases=("$SUM0",),
        syntax="SUM0(expression)", description="Returns the sum of expression, 0 if there are no rows.",
    ),
    LibraryAggregate(
        "AVG", _of_average, lambda made: Averaged(made.types[0], made.result),
        syntax="AVG([ALL | DISTINCT] expression)",
        description="Returns the average of expression, in the type of expression; decimals get at least 6 digits.",
    ),
    LibraryAggregate(
        "MIN", _comparable, _extreme(largest=False), syntax="MIN([ALL | DISTINCT] expression)",
        description="Returns the least value of expression.", spark="min",
    ),
    LibraryAggregate(
        "MAX", _comparable, _extreme(largest=True), syntax="MAX([ALL | DISTINCT] expression)",
        description="Returns the greatest value of expression.", spark="max",
    ),
    LibraryAggregate(
        "FIRST_VALUE", _same, _edge(last=False), syntax="FIRST_VALUE(expression)",
        description="Returns the first value of expression that is not NULL.",
    ),
    LibraryAggregate(
        "LAST_VALUE", _same, _edge(last=True), syntax="LAST_VALUE(expression)",
        description="Returns the last value of expression that is not NULL.",
    ),
    LibraryAggregate(
        "SINGLE_VALUE", _same, _objects(lambda made: SingleValue()), syntax="SINGLE_VALUE(expression)",
        description="Returns the value of a subquery that has one row.",
    ),
    LibraryAggregate(
        "STDDEV_POP", _of_average, _spread(sample=False, root=True), syntax="STDDEV_POP([ALL | DISTINCT] expression)",
        description="Returns the population standard deviation of expression.",
    ),
    LibraryAggregate(
        "STDDEV_SAMP", _of_average, _spread(sample=True, root=True), aliases=("STDDEV",),
        syntax="STDDEV_SAMP([ALL | DISTINCT] expression)",
        description="Returns the sample standard deviation of expression.",
    ),
    LibraryAggregate(
        "VAR_POP", _of_average, _spread(sample=False, root=False), syntax="VAR_POP([ALL | DISTINCT] expression)",
        description="Returns the population variance of expression.",
    ),
    LibraryAggregate(
        "VAR_SAMP", _of_average, _spread(sample=True, root=False), aliases=("VARIANCE",),
        syntax="VAR_SAMP([ALL | DISTINCT] expression)", description="Returns the sample variance of expression.",
    ),
    LibraryAggregate(
        "LISTAGG", _of_list, _objects(lambda made: OrderedValues(joined_texts(_separator(made)))), columns=1,
        syntax="LISTAGG(expression [, separator])", description="Joins texts, with a separator (',') between them.",
    ),
    LibraryAggregate(
        "COLLECT", _of_collect, _objects(lambda made: CountedValues()), syntax="COLLECT([ALL | DISTINCT] expression)",
        description="Returns a multiset of the values of expression that are not NULL.",
    ),
    LibraryAggregate(
        "ARRAY_AGG", _of_array, _objects(lambda made: OrderedValues(_listed, nulls=True)),
        syntax="ARRAY_AGG([ALL | DISTINCT] expression)",
        description="Returns the values of expression as an array, NULLs included; NULL if there are no rows.",
    ),
    LibraryAggregate(
        "ARRAY_AGG_IGNORE_NULLS", _of_array, _objects(lambda made: OrderedValues(_listed)),
        syntax="ARRAY_AGG([ALL | DISTINCT] expression IGNORE NULLS)",
        description="Returns ARRAY_AGG without NULLs.",
    ),
    LibraryAggregate(
        "JSON_ARRAYAGG", _of_json, _objects(lambda made: OrderedValues(json_array)),
        aliases=("JSON_ARRAYAGG_ABSENT_ON_NULL",), syntax="JSON_ARRAYAGG(expression [{NULL | ABSENT} ON NULL])",
        description="Returns the values of expression as the text of a JSON array.",
    ),
    LibraryAggregate(
        "JSON_ARRAYAGG_NULL_ON_NULL", _of_json, _objects(lambda made: OrderedValues(json_array, nulls=True)),
        syntax="JSON_ARRAYAGG(expression NULL ON NULL)", description="Returns JSON_ARRAYAGG with nulls for NULLs.",
    ),
    LibraryAggregate(
        "JSON_OBJECTAGG", _of_json, _objects(lambda made: OrderedValues(json_object)),
        aliases=("JSON_OBJECTAGG_NULL_ON_NULL",),
        syntax="JSON_OBJECTAGG([KEY] name VALUE expression [{NULL | ABSENT} ON NULL])",
        description="Returns pairs of a name and a value as the text of a JSON object.",
    ),
    LibraryAggregate(
        "JSON_OBJECTAGG_ABSENT_ON_NULL", _of_json, _objects(lambda made: OrderedValues(_json_object_of_some)),
        syntax="JSON_OBJECTAGG([KEY] name VALUE expression ABSENT ON NULL)",
        description="Returns JSON_OBJECTAGG without names whose value is NULL.",
    ),
    LibraryAggregate(
        "PERCENTILE", _of_percentile, _objects(lambda made: Percentiles(made.literals[0])), columns=None,
        syntax="PERCENTILE(expression, percentage [, frequency])",
        description="Returns the exact percentile of expression, or an array of them, interpolated linearly.",
    ),
    LibraryAggregate(
        "APPROX_COUNT_DISTINCT", _of_count, lambda made: Objects(_DifferentValues(), made.result),
        syntax="APPROX_COUNT_DISTINCT(expression)",
        description="Returns the number of different values of expression that are not NULL; here it is exact.",
    ),
    *_bitmaps("BUILD", in_any, "all values; negative ones are read as unsigned", sets=False),
    *_bitmaps("AND", in_all, "the members that all bitmaps have"),
    *_bitmaps("OR", in_any, "the members that any bitmap has"),
    *_bitmaps("XOR", in_odd, "the members that an odd number of bitmaps have"),
)  # fmt: skip

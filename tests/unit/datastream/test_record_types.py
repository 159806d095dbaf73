"""A stream's type is what was declared, or what the annotations of its function say. Only a declaration is enforced."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Generic, TypeVar

import pytest

from flott.common import Types, WatermarkStrategy
from flott.common.time import Time
from flott.common.typeinfo import TypeInformation
from flott.datastream import (
    AsyncFunction,
    CoFlatMapFunction,
    CoMapFunction,
    DataStream,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from flott.datastream.async_data_stream import AsyncDataStream
from flott.datastream.functions import (
    CoGroupFunction,
    CoProcessFunction,
    FlatJoinFunction,
    JoinFunction,
    ProcessWindowFunction,
    RuntimeContext,
    WindowFunction,
)
from flott.datastream.functions._basic import AggregateFunction
from flott.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flott.datastream.window import TimeWindow, TumblingEventTimeWindows
from flott.errors import JobFailedError, ProgramError
from flott.testing.harness import collect, in_process

PICKLED = Types.PICKLED_BYTE_ARRAY()
T = TypeVar("T")


@dataclasses.dataclass
class Word:
    text: str
    count: int = 1


def to_word(value: Any) -> Word:
    return Word(value)


def lying(value: Any) -> str:
    return value  # type: ignore[no-any-return]


def unresolvable(value: Any) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
    return value


def half_resolvable(value: Nowhere) -> int:  # type: ignore[name-defined]  # noqa: F821
    return 1


def unannotated(value):  # type: ignore[no-untyped-def]
    return value


def pairs(value: Any) -> Iterator[tuple[str, int]]:
    yield value, 1


def maybe(value: Any) -> list[Word] | None:
    return None


@functools.wraps(to_word)
def decorated(*args: Any) -> Any:
    return to_word(*args)


class Callable_:
    def __call__(self, value: Any) -> float:
        return 1.0

    def method(self, value: Any) -> bytes:
        return b""


class ToWord(MapFunction[Any, Any]):
    def map(self, value: Any) -> Word:
        return Word(value)


class ToWordByClass(MapFunction[str, Word]):
    def map(self, value):  # type: ignore[no-untyped-def]
        return Word(value)


class Via(MapFunction[str, list[T]], Generic[T]):
    def map(self, value: str) -> list[T]:
        return []


class ViaInt(Via[int]):
    pass


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (to_word, Types.of(Word)),
        (lambda value: value, PICKLED),
        (unannotated, PICKLED),
        (unresolvable, PICKLED),
        (half_resolvable, Types.BIG_INT()),
        (str, Types.STRING()),
        (Word, Types.of(Word)),
        (len, PICKLED),
        (functools.partial(to_word), Types.of(Word)),
        (decorated, Types.of(Word)),
        (Callable_(), Types.DOUBLE()),
        (Callable_().method, Types.PRIMITIVE_ARRAY(Types.BYTE())),
        (ToWord(), Types.of(Word)),
        (ToWordByClass(), Types.of(Word)),
        (ViaInt(), Types.LIST(Types.BIG_INT())),
        (Via(), Types.LIST(PICKLED)),
    ],
)
def test_map_gives_what_its_function_returns(
    env: StreamExecutionEnvironment, func: Any, expected: TypeInformation
) -> None:
    assert env.from_collection(["a"]).map(func).get_type() == expected


def test_a_class_of_a_function_s_surroundings_is_found_if_the_function_uses_it(env: StreamExecutionEnvironment) -> None:
    @dataclasses.dataclass
    class Local:
        number: int

    def make(value: int) -> list[Local]:
        return [Local(value)]

    assert env.from_collection([1]).flat_map(make).get_type() == Types.of(Local)


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (Iterable[int], Types.BIG_INT()),
        (Iterator[int], Types.BIG_INT()),
        (Generator[str, None, None], Types.STRING()),
        (list[tuple[str, int]], Types.of(tuple[str, int])),
        (tuple[int, ...], Types.BIG_INT()),
        (tuple[int, int], Types.BIG_INT()),
        (tuple[int, str], PICKLED),
        (dict[str, int], Types.STRING()),
        (list[Word] | None, Types.of(Word)),
        (str, Types.STRING()),
        (list, PICKLED),
        (list[int] | list[str], PICKLED),
        (None, PICKLED),
        (Any, PICKLED),
        (int, PICKLED),
        ("Iterable[Word]", Types.of(Word)),
    ],
    ids=str,
)
def test_flat_map_gives_the_elements_of_what_its_function_returns(
    env: StreamExecutionEnvironment, hint: Any, expected: TypeInformation
) -> None:
    def func(value: Any) -> Any:
        return ()

    func.__annotations__["return"] = hint
    assert env.from_collection([1]).flat_map(func).get_type() == expected


class Split(ProcessFunction[Any, Any]):
    def process_element(
        self, value: Any, ctx: ProcessFunction.Context
    ) -> Iterable[int | tuple[OutputTag, str] | tuple[OutputTag[Any], int]]:
        return [1]


class OnTimerOnly(KeyedProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> None: ...

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        yield ""


class TimerUnsaid(KeyedProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
        yield ""

    def on_timer(self, timestamp, ctx):  # type: ignore[no-untyped-def]
        yield 1


class Disagree(CoMapFunction[Any, Any, Any]):
    def map1(self, value: Any) -> int:
        return 1

    def map2(self, value: Any) -> str:
        return ""


class AgreeFlat(CoFlatMapFunction[Any, Any, Any]):
    def flat_map1(self, value: Any) -> list[int]:
        return []

    def flat_map2(self, value: Any) -> None: ...


class ByClass(CoProcessFunction[int, str, tuple[int, str]]):
    def process_element1(self, value, ctx): ...  # type: ignore[no-untyped-def]

    def process_element2(self, value, ctx): ...  # type: ignore[no-untyped-def]


class Flat(FlatMapFunction[str, Word]):
    def flat_map(self, value):  # type: ignore[no-untyped-def]
        return [Word(value)]


class Ask(AsyncFunction[str, float]):
    async def async_invoke(self, value: str) -> list[float]:
        return [1.0]


async def ask(value: str) -> list[Word]:
    return [Word(value)]


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda s: s.process(Split()), Types.BIG_INT()),
        (lambda s: s.key_by(str).process(OnTimerOnly()), Types.STRING()),
        (lambda s: s.key_by(str).process(TimerUnsaid()), PICKLED),
        (lambda s: s.connect(s).map(Disagree()), PICKLED),
        (lambda s: s.connect(s).flat_map(AgreeFlat()), Types.BIG_INT()),
        (lambda s: s.connect(s).process(ByClass()), Types.of(tuple[int, str])),
        (lambda s: s.flat_map(Flat()), Types.of(Word)),
        (lambda s: AsyncDataStream.ordered_wait(s, Ask(), Time.seconds(1)), Types.DOUBLE()),
        (lambda s: AsyncDataStream.ordered_wait(s, ask, Time.seconds(1)), Types.of(Word)),
    ],
)
def test_functions_of_every_kind_say_what_they_emit(
    env: StreamExecutionEnvironment, build: Callable[[DataStream[Any]], DataStream[Any]], expected: TypeInformation
) -> None:
    assert build(env.from_collection(["a"])).get_type() == expected


def test_what_changes_no_record_keeps_the_type(env: StreamExecutionEnvironment) -> None:
    words = env.from_collection(["a"]).map(to_word)
    no_watermarks = WatermarkStrategy.no_watermarks()
    kept = words.filter(bool).rebalance().union(words).assign_timestamps_and_watermarks(no_watermarks)
    assert kept.get_type() == Types.of(Word)
    keyed = kept.key_by(lambda word: word.text)
    for stream in (keyed, keyed.reduce(lambda a, b: a), keyed.sum("count")):
        assert stream.get_type() == Types.of(Word)


def test_a_type_is_found_through_any_number_of_steps(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection(["a"]).map(to_word)
    for _ in range(2000):
        stream = stream.filter(bool)
    assert stream.get_type() == Types.of(Word)


def test_a_projection_of_inferred_tuples_has_their_types_and_never_fails(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection(["a"]).flat_map(pairs)
    assert stream.project(1, 0).get_type() == Types.of(tuple[int, str])
    assert stream.project(5).get_type() == PICKLED
    assert env.from_collection(["a"]).map(lying).project(0).get_type() == PICKLED


class Count(AggregateFunction[Any, int, tuple[str, int]]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> tuple[str, int]:
        return "", accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Shown(WindowFunction[Any, Any, Any, TimeWindow]):
    def apply(self, key: Any, window: TimeWindow, inputs: Iterable[Any]) -> list[str]:
        return []


class Ratio(ProcessWindowFunction[Any, float, Any, TimeWindow]):
    def process(self, key, context, elements): ...  # type: ignore[no-untyped-def]


class Priced(JoinFunction[Any, Any, float]):
    def join(self, first: Any, second: Any) -> float:
        return 1.0


class Larger(FlatJoinFunction[Any, Any, Any]):
    def join(self, first: Any, second: Any) -> Iterator[int]:
        yield 1


class Both(CoGroupFunction[Any, Any, Any]):
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> list[Word]:
        return []


def test_a_window_gives_what_its_function_or_its_aggregation_returns(env: StreamExecutionEnvironment) -> None:
    words = env.from_collection(["a"]).map(to_word)
    windows = words.key_by(lambda word: word.text).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    assert windows.get_input_type() == Types.of(Word)
    assert windows.reduce(lambda a, b: a).get_type() == windows.sum("count").get_type() == Types.of(Word)
    assert windows.reduce(lambda a, b: a, Shown()).get_type() == Types.STRING()
    assert windows.aggregate(Count()).get_type() == Types.of(tuple[str, int])
    assert windows.aggregate(Count(), Ratio()).get_type() == Types.DOUBLE()
    assert windows.apply(Shown()).get_type() == Types.STRING()
    assert windows.process(Ratio()).get_type() == Types.DOUBLE()
    assert windows.process(Ratio(), output_type=list[float]).get_type() == Types.LIST(float)


def test_a_join_gives_what_its_function_returns(env: StreamExecutionEnvironment) -> None:
    words = env.from_collection(["a"]).map(to_word)
    windows = TumblingEventTimeWindows.of(Time.seconds(1))
    joined = words.join(words).where("text").equal_to("text").window(windows)
    assert joined.apply(Priced()).get_type() == Types.DOUBLE()
    assert joined.apply(Larger()).get_type() == Types.BIG_INT()
    assert joined.apply(lambda a, b: a).get_type() == PICKLED
    grouped = words.co_group(words).where("text").equal_to("text").window(windows)
    assert grouped.apply(Both()).get_type() == Types.of(Word)


# ---- declared --------------------------------------------------------------------------------------------------------


def test_a_hint_declares_like_a_type(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([("a", 1)], type_info=tuple[str, float])
    declared = stream.map(lambda pair: Word(*pair), output_type=Word).key_by(lambda word: word.text, key_type=str)
    declared.print()
    (source, map_, _) = env.get_stream_graph().nodes
    assert (source.output_type, map_.output_type) == (Types.of(tuple[str, float]), Types.of(Word))
    assert (stream.get_type(), declared.get_type()) == (source.output_type, map_.output_type)
    assert declared._key.key_type == Types.STRING()


def test_a_declared_hint_is_enforced() -> None:
    words = in_process().from_collection([{"text": "a"}, Word("b")], type_info=Word)
    assert sorted(collect(words), key=repr) == [Word("a"), Word("b")]
    with pytest.raises(JobFailedError, match=r"found 1 of type int, declared String"):
        collect(in_process().from_collection([1]).map(lambda n: n, output_type=str))
    with pytest.raises(JobFailedError, match=r"expected String|declared String"):
        collect(in_process().from_collection([1]).key_by(lambda n: n, key_type=str).sum())


def test_an_inferred_type_is_not_enforced() -> None:
    stream = in_process().from_collection([1]).map(lying)
    assert stream.get_type() == Types.STRING()
    assert collect(stream) == [1]
    assert collect(stream.key_by(lambda n: n).reduce(lambda a, b: a)) == [1]


# ---- side outputs ----------------------------------------------------------------------------------------------------


class Aside(ProcessFunction[Any, Any]):
    """Sends everything to the side output; its own tag declares nothing."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield OutputTag("aside"), value


@pytest.mark.parametrize("chained", [True, False])
def test_records_of_a_side_output_are_brought_to_the_declared_type_of_its_tag(chained: bool) -> None:
    env = in_process()
    main = env.from_collection([1, 2.5]).process(Aside())
    aside = main.get_side_output(OutputTag("aside", float))
    assert aside.get_type() == Types.DOUBLE()
    found = collect(aside if chained else aside.rebalance())
    assert sorted(map(repr, found)) == ["1.0", "2.5"]


@pytest.mark.parametrize("chained", [True, False])
def test_a_record_that_is_not_of_the_type_of_its_tag_fails_the_job_with_its_operator(chained: bool) -> None:
    aside = in_process().from_collection(["a"]).process(Aside()).name("splits").get_side_output(OutputTag("aside", int))
    with pytest.raises(JobFailedError, match=r"found 'a' of type str, declared BigInteger(.|\n)*operator +splits"):
        collect(aside if chained else aside.rebalance())


def test_a_tag_without_a_type_lets_everything_pass() -> None:
    assert collect(in_process().from_collection(["a"]).process(Aside()).get_side_output(OutputTag("aside"))) == ["a"]


def test_a_tag_has_one_type(env: StreamExecutionEnvironment) -> None:
    main = env.from_collection(["a"]).process(Aside())
    main.get_side_output(OutputTag("aside", int)).print()
    main.get_side_output(OutputTag("aside")).print()
    main.get_side_output(OutputTag("aside", int)).print()
    env.get_stream_graph()
    main.get_side_output(OutputTag("aside", str)).print()
    with pytest.raises(ProgramError, match=r"'aside' was asked for with the type BigInteger and, at .*, with String"):
        env.get_stream_graph()


# ---- state -----------------------------------------------------------------------------------------------------------


def test_descriptors_take_hints() -> None:
    assert ValueStateDescriptor("n", int).type_info == Types.BIG_INT()
    assert ListStateDescriptor("n", Word).type_info == Types.LIST(Word)
    assert ListStateDescriptor("n", Word).elem_type_info == Types.of(Word)
    described = MapStateDescriptor("n", str, int | None)
    assert (described.key_type_info, described.value_type_info) == (Types.STRING(), Types.BIG_INT())
    assert ValueStateDescriptor("n", int) == ValueStateDescriptor("n", Types.BIG_INT())
    with pytest.raises(TypeError, match="The type of the state 'n' is not one"):
        ValueStateDescriptor("n", "int")  # type: ignore[call-overload]


class Remember(KeyedProcessFunction[Any, Any, Any]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Word))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.last.update(value)
        yield value


def test_the_type_of_a_state_is_enforced() -> None:
    assert collect(in_process().from_collection([Word("a")]).key_by(lambda w: 1).process(Remember())) == [Word("a")]
    with pytest.raises(JobFailedError, match="declared DataclassTypeInfo<Word>"):
        collect(in_process().from_collection(["a"]).key_by(lambda w: 1).process(Remember()))

"""The language of conditions in rules: parsed to a tree, checked, and turned into closures. Nothing is ever eval'd.

    amount > 500 and currency in ["EUR", "USD"]
    temperature > 1.1 * avg(warm.temperature) and not maintenance
    starts_with(city, "San ") or country = null

A name is a field of the event: a key of a dict, or an attribute. ``stage.field`` belongs in ``first``, ``last``,
``count``, ``sum``, ``avg``, ``min`` and ``max``, which look at the events that the partial match has under the name of
a stage. ``null`` is neither less nor greater than anything. Names that begin with an underscore, methods, and
everything that is not in the grammar are refused.

    expression = or
    or         = and { "or" and }
    and        = not { "and" not }
    not        = "not" not | comparison
    comparison = sum [ ("=" | "==" | "!=" | "<" | "<=" | ">" | ">=") sum | ["not"] "in" list ]
    sum        = product { ("+" | "-") product }
    product    = sign { ("*" | "/" | "%") sign }
    sign       = "-" sign | operand
    operand    = number | text | "true" | "false" | "null" | name { "." name } | name "(" arguments ")"
               | "(" expression ")"
    list       = "[" [ sum { "," sum } ] "]"
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from flott.errors import ProgramError

#: A longer expression, or one with deeper brackets, is refused.
MAX_LENGTH, MAX_DEPTH = 10_000, 100

#: A part of an expression, of the event and the partial match.
Call: TypeAlias = Callable[[Any, Any], Any]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.\d+(?:[eE][+-]?\d+)?|\d+)|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign><=|>=|!=|==|[=<>+\-*/%().,\[\]]))"
)
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "%": operator.mod,
}  # fmt: skip
_FUNCTIONS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "abs": (1, abs),
    "length": (1, len),
    "lower": (1, str.lower),
    "upper": (1, str.upper),
    "starts_with": (2, str.startswith),
    "ends_with": (2, str.endswith),
    "contains": (2, operator.contains),
}
_AGGREGATES: Mapping[str, Callable[[list[Any]], Any]] = {
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
    "sum": sum,
    "avg": lambda values: sum(values) / len(values) if values else None,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
}
_CONSTANTS: Mapping[str, Any] = {"true": True, "false": False, "null": None}
_KEYWORDS = {"and", "or", "not", "in", *_CONSTANTS}


@dataclass(frozen=True)
class Expression:
    """A condition of a rule. It is called with an event, and with the partial match if it asks for it."""

    text: str
    call: Call
    stages: frozenset[str]  #: whose events it asks for

    @property
    def label(self) -> str:
        """Return what an explanation calls it."""
        return self.text

    def condition(self) -> Callable[..., Any]:
        """Return it as a condition of a pattern."""
        call = self.call
        if self.stages:

            def iterative(value: Any, ctx: Any) -> bool:
                return bool(call(value, ctx))

            return _labelled(iterative, self.text)

        def simple(value: Any) -> bool:
            return bool(call(value, None))

        return _labelled(simple, self.text)


def _labelled(condition: Callable[..., Any], text: str) -> Callable[..., Any]:
    condition.label = text  # type: ignore[attr-defined]
    return condition


def parse_expression(text: object) -> Expression:
    """Return the expression of a text, or refuse it with the place of the mistake.

    >>> parse_expression("amount > 500 and country = 'NL'").condition()({"amount": 600, "country": "NL"})
    True
    """
    if not isinstance(text, str) or not text.strip():
        raise ProgramError(f"A condition is an expression such as 'amount > 500', found {text!r}.")
    if len(text) > MAX_LENGTH:
        raise ProgramError(f"A condition has at most {MAX_LENGTH} characters, found {len(text)}.")
    parser = _Parser(text)
    return Expression(text, parser.whole(), frozenset(parser.stages))


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    place: int


def _tokens(text: str) -> list[_Token]:
    found, place = [], 0
    stripped = text.rstrip()
    while place < len(stripped):
        match = _TOKEN.match(stripped, place)
        if match is None or match.lastgroup is None:
            place += len(stripped[place:]) - len(stripped[place:].lstrip()) + 1
            raise ProgramError(f"The condition {text!r} has a character that it cannot have, at {place}.")
        found.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup) + 1))
        place = match.end()
    return [*found, _Token("end", "the end", len(text) + 1)]


class _Parser:
    """A parser by recursive descent. Each method returns a closure of its part."""

    def __init__(self, text: str):
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0
        self.stages: set[str] = set()

    def whole(self) -> Call:
        found = self._or()
        if self._token.kind != "end":
            raise self._unexpected("an operator or the end")
        return found

    # --- the grammar --------------------------------------------------------------------------------------------------

    def _or(self) -> Call:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ProgramError(f"The condition {self._text!r} has more than {MAX_DEPTH} brackets inside each other.")
        left = self._and()
        while self._take_word("or"):
            left = _or(left, self._and())
        self._depth -= 1
        return left

    def _and(self) -> Call:
        left = self._not()
        while self._take_word("and"):
            left = _and(left, self._not())
        return left

    def _not(self) -> Call:
        negations = 0
        while self._take_word("not"):
            negations += 1
        part = self._comparison()
        return _not(part) if negations % 2 else part

    def _comparison(self) -> Call:
        left = self._sum()
        token = self._token
        if token.kind == "sign" and token.text in _COMPARISONS:
            self._next += 1
            return _compared(token.text, left, self._sum())
        negated = self._take_word("not")
        if self._take_word("in"):
            values = self._list()
            return _not(_member(left, values)) if negated else _member(left, values)
        if negated:
            raise self._unexpected("'in'")
        return left

    def _list(self) -> list[Call]:
        self._expect("[")
        values: list[Call] = []
        while not self._take_sign("]"):
            if values:
                self._expect(",")
            values.append(self._sum())
        return values

    def _sum(self) -> Call:
        left = self._product()
        while self._token.kind == "sign" and self._token.text in "+-":
            symbol = self._advance().text
            left = _calculated(symbol, left, self._product())
        return left

    def _product(self) -> Call:
        left = self._sign()
        while self._token.kind == "sign" and self._token.text in "*/%":
            symbol = self._advance().text
            left = _calculated(symbol, left, self._sign())
        return left

    def _sign(self) -> Call:
        negative = False
        while self._take_sign("-"):
            negative = not negative
        part = self._operand()
        return _calculated("-", lambda value, ctx: 0, part) if negative else part

    def _operand(self) -> Call:
        token = self._advance()
        match token.kind:
            case "number":
                number: Any = float(token.text) if any(sign in token.text for sign in ".eE") else int(token.text)
                return lambda value, ctx: number
            case "text":
                text = re.sub(r"\\(.)", r"\1", token.text[1:-1])
                return lambda value, ctx: text
            case "name" if token.text in _CONSTANTS:
                constant = _CONSTANTS[token.text]
                return lambda value, ctx: constant
            case "name" if token.text not in _KEYWORDS:
                return self._function(token) if self._take_sign("(") else self._field(token)
            case "sign" if token.text == "(":
                part = self._or()
                self._expect(")")
                return part
        self._next -= token.kind != "end"
        raise self._unexpected("a value")

    def _field(self, token: _Token) -> Call:
        names = [self._name(token)]
        while self._take_sign("."):
            names.append(self._name(self._advance()))
        return _field(names)

    def _function(self, token: _Token) -> Call:
        if token.text in _AGGREGATES or token.text == "count":
            return self._aggregate(token.text)
        if token.text == "timestamp":
            self._expect(")")
            self.stages.add("")
            return lambda value, ctx: ctx.timestamp()
        if token.text not in _FUNCTIONS:
            known = ", ".join(sorted([*_FUNCTIONS, *_AGGREGATES, "count", "timestamp"]))
            raise ProgramError(f"The condition {self._text!r} calls {token.text}(), which is none of {known}.")
        arguments: list[Call] = []
        while not self._take_sign(")"):
            if arguments:
                self._expect(",")
            arguments.append(self._or())
        count, function = _FUNCTIONS[token.text]
        if len(arguments) != count:
            raise ProgramError(
                f"The condition {self._text!r} calls {token.text}() with {len(arguments)} arguments, expected {count}."
            )
        return lambda value, ctx: function(*[argument(value, ctx) for argument in arguments])

    def _aggregate(self, function: str) -> Call:
        """Parse what is in the brackets of a function over the events of a stage."""
        stage = self._name(self._advance())
        names = []
        while self._take_sign("."):
            names.append(self._name(self._advance()))
        self._expect(")")
        self.stages.add(stage)
        if function == "count":
            return lambda value, ctx: len(ctx.get_events_for_pattern(stage))
        get, combine = _field(names), _AGGREGATES[function]
        if function in ("first", "last") and not names:
            trail = []
            while self._take_sign("."):
                trail.append(self._name(self._advance()))
            get = _field(trail)
        return lambda value, ctx: combine([get(event, None) for event in ctx.get_events_for_pattern(stage)])

    # --- tokens -------------------------------------------------------------------------------------------------------

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _advance(self) -> _Token:
        token = self._token
        if token.kind != "end":
            self._next += 1
        return token

    def _take_word(self, word: str) -> bool:
        found = self._token.kind == "name" and self._token.text == word
        self._next += found
        return found

    def _take_sign(self, sign: str) -> bool:
        found = self._token.kind == "sign" and self._token.text == sign
        self._next += found
        return found

    def _expect(self, sign: str) -> None:
        if not self._take_sign(sign):
            raise self._unexpected(f"{sign!r}")

    def _name(self, token: _Token) -> str:
        if token.kind != "name" or token.text in _KEYWORDS:
            raise ProgramError(f"The condition {self._text!r} has {token.text} at {token.place}, expected a name.")
        if token.text.startswith("_"):
            raise ProgramError(f"The condition {self._text!r} asks for {token.text!r}, but such names are private.")
        return token.text

    def _unexpected(self, wanted: str) -> ProgramError:
        token = self._token
        return ProgramError(f"The condition {self._text!r} has {token.text} at {token.place}, expected {wanted}.")


# --- closures: one for each kind of part -----------------------------------------------------------------------------


def _or(left: Call, right: Call) -> Call:
    return lambda value, ctx: left(value, ctx) or right(value, ctx)


def _and(left: Call, right: Call) -> Call:
    return lambda value, ctx: left(value, ctx) and right(value, ctx)


def _not(part: Call) -> Call:
    return lambda value, ctx: not part(value, ctx)


def _compared(symbol: str, left: Call, right: Call) -> Call:
    compare = _COMPARISONS[symbol]
    if symbol in ("=", "==", "!="):
        return lambda value, ctx: compare(left(value, ctx), right(value, ctx))

    def compared(value: Any, ctx: Any) -> Any:
        first, second = left(value, ctx), right(value, ctx)
        return first is not None and second is not None and compare(first, second)  # null is neither less nor greater

    return compared


def _member(left: Call, values: list[Call]) -> Call:
    return lambda value, ctx: left(value, ctx) in [part(value, ctx) for part in values]


def _calculated(symbol: str, left: Call, right: Call) -> Call:
    calculate = _ARITHMETIC[symbol]

    def calculated(value: Any, ctx: Any) -> Any:
        first, second = left(value, ctx), right(value, ctx)
        for number in (first, second):
            if isinstance(number, str | bytes | list | tuple | dict):
                raise TypeError(f"{symbol} calculates with numbers, found {number!r}")
        return calculate(first, second)

    return calculated


def _field(names: list[str]) -> Call:
    if not names:
        return lambda value, ctx: value
    if len(names) == 1:
        (name,) = names

        def get_one(value: Any, ctx: Any) -> Any:
            return value[name] if isinstance(value, dict) else _attribute(value, name)

        return get_one

    def get(value: Any, ctx: Any) -> Any:
        for name in names:
            value = value[name] if isinstance(value, dict) else _attribute(value, name)
        return value

    return get


def _attribute(value: Any, name: str) -> Any:
    found = getattr(value, name)
    if callable(found):
        raise TypeError(f"{name!r} of a {type(value).__name__} is a method, not a field")
    return found

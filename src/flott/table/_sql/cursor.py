"""A cursor over tokens: what all parsers need to look at the next token, take it, or say that it does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from flott.table._sql.errors import syntax_error
from flott.table._sql.keywords import RESERVED
from flott.table._sql.lexer import END, NUMBER, QUOTED, TEXT, WORD, Token, tokenize
from flott.table._sql.nodes.base import Position
from flott.table._sql.nodes.statements import Name, SqlOption

T = TypeVar("T")

_SHOWN_KEYWORDS = 10


class TokenCursor:
    """The tokens of a text and the index of the next one. ``tried`` are the keywords that would have fit there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.index = 0
        self._tried: list[str] = []
        self._tried_at = 0

    # --- looking --------------------------------------------------------------------------------------------------

    @property
    def current(self) -> Token:
        return self.tokens[self.index]

    @property
    def position(self) -> Position:
        return self.tokens[self.index].position

    def ahead(self, distance: int = 1) -> Token:
        """Return a later token; after the last one that of the end."""
        return self.tokens[min(self.index + distance, len(self.tokens) - 1)]

    def at(self, *words: str) -> bool:
        """Return whether the next token is one of these keywords or signs."""
        self._note(*words)
        return self.current.word in words and bool(self.current.word)

    def sees(self, *words: str) -> bool:
        """Return whether these keywords or signs come next, one after the other."""
        self._note(words[0])
        return all(self.ahead(distance).word == word for distance, word in enumerate(words))

    def at_name(self, distance: int = 0) -> bool:
        """Return whether a token can be a name: it is quoted, or a word that is not reserved."""
        token = self.ahead(distance)
        return token.kind == QUOTED or (token.kind == WORD and token.word not in RESERVED)

    def at_end(self) -> bool:
        return self.current.kind == END

    # --- taking ---------------------------------------------------------------------------------------------------

    def advance(self) -> Token:
        """Take the next token, whatever it is."""
        token = self.tokens[self.index]
        if token.kind != END:
            self.index += 1
        return token

    def take(self, *words: str) -> bool:
        """Take these keywords or signs if all of them come next."""
        if not self.sees(*words):
            return False
        self.index += len(words)
        return True

    def take_one(self, *words: str) -> str | None:
        """Take the next token and return its keyword if it is one of these."""
        return self.advance().word if self.at(*words) else None

    def need(self, *words: str) -> None:
        """Take these keywords or signs."""
        for word in words:
            if not self.take(word):
                self.fail(" ".join(words))

    def need_one(self, *words: str) -> str:
        """Take one of these keywords and return it."""
        return self.take_one(*words) or self.fail(_either(words))

    def name_part(self, *, reserved: bool = False) -> str:
        """Take one name. With ``reserved`` it may be any word."""
        token = self.current
        if token.kind == QUOTED or (token.kind == WORD and (reserved or token.word not in RESERVED)):
            self.index += 1
            return token.value
        if token.kind == WORD:
            self.fail(f"a name; {token.text} is a reserved word and is a name only in backquotes")
        self.fail("a name")

    def name(self) -> Name:
        """Take a name of several parts."""
        parts = [self.name_part()]
        while self.at(".") and self.ahead().kind in (WORD, QUOTED):
            self.index += 1
            parts.append(self.name_part(reserved=True))
        return tuple(parts)

    def string(self) -> str:
        """Take a quoted text."""
        if self.current.kind != TEXT:
            self.fail("a text in single quotes")
        value = self.advance().value
        while self.current.kind == TEXT:  # a text may be continued: 'ab' 'cd' is 'abcd'
            value += self.advance().value
        return value

    def integer(self) -> int:
        """Take a whole number without a sign."""
        if self.current.kind != NUMBER or not self.current.text.isdigit():
            self.fail("a whole number")
        return int(self.advance().text)

    def several(self, read: Callable[[], T]) -> tuple[T, ...]:
        """Read one or more things with commas between them."""
        found = [read()]
        while self.take(","):
            found.append(read())
        return tuple(found)

    def enclosed(self, read: Callable[[], T], *, empty: bool = False) -> tuple[T, ...]:
        """Read things with commas between them, in parentheses. With ``empty`` there may be none."""
        self.need("(")
        if empty and self.take(")"):
            return ()
        found = self.several(read)
        self.need(")")
        return found

    def options(self) -> tuple[SqlOption, ...]:
        """Read ``('key' = 'value', ...)``."""
        return self.enclosed(self._option, empty=True)

    def _option(self) -> SqlOption:
        position = self.position
        key = self.string()
        self.need("=")
        return SqlOption(key, self.string(), position=position)

    # --- failing --------------------------------------------------------------------------------------------------

    def fail(self, expected: str = "") -> NoReturn:
        """Raise the error of the next token. Without ``expected`` it names the keywords that were looked for."""
        if not expected:
            tried = list(dict.fromkeys(self._tried)) if self._tried_at == self.index else []
            words = [word for word in tried if word[0].isalpha()]
            expected = _either(words[:_SHOWN_KEYWORDS]) if words else "something else"
        token = self.current
        raise syntax_error(token.text, expected, token.position, self.text)

    def _note(self, *words: str) -> None:
        if self._tried_at != self.index:
            self._tried_at = self.index
            self._tried = []
        self._tried += words


def _either(words: tuple[str, ...] | list[str]) -> str:
    if len(words) < 2:
        return words[0] if words else ""
    return f"{', '.join(words[:-1])} or {words[-1]}"

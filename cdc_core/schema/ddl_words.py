"""The words of a DDL statement, and a reader that goes through them.

sqlglot's MySQL tokenizer finds the words; which of them are keywords is the reader's question, as MySQL allows most of
them as names. Source: MySQL manual, "Comments", "Schema Object Names", "String Literals".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from cdc_core.schema.sql_text import Dialect, what_ran


class NotUnderstood(Exception):
    """The statement is not of a form that the reader knows."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word, number, name, string or sign of a statement at `start` to `end`. `text` is without quotes and escapes."""

    text: str
    start: int
    end: int
    quoted: bool = False
    string: bool = False

    @property
    def keyword(self) -> str:
        """In capitals; empty for what is quoted."""
        return "" if self.quoted or self.string else self.text.upper()


class _Tokenizer(MySQL.Tokenizer):
    """Without keywords. Names are in backticks alone, as `sql_text` leaves them."""

    KEYWORDS: ClassVar[dict[str, TokenType]] = {}
    COMMANDS: ClassVar[set[TokenType]] = set()


_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_STRINGS = (TokenType.STRING, TokenType.NATIONAL_STRING)


def words_of(sql: str) -> list[Word]:
    """The words of a text of `what_ran`. Raises NotUnderstood for a string or name that is never closed."""
    try:
        tokens = _Tokenizer(dialect="mysql").tokenize(sql)
    except TokenError as error:
        raise NotUnderstood("a string, a name or a comment is never closed") from error
    return [_word(sql, token.text, token.token_type, token.start, token.end + 1) for token in tokens]


def _word(sql: str, text: str, kind: TokenType, start: int, end: int) -> Word:
    written = sql[start:end]
    if kind in _STRINGS:
        return Word(_unescaped(written), start, end, string=True)
    quoted = kind == TokenType.IDENTIFIER and written[0] == "`"
    return Word(text if quoted else written, start, end, quoted=quoted)


def _unescaped(written: str) -> str:
    """What a string in quotes means (MySQL manual, "String Literals"); N before it says nothing more."""
    quote = written[-1]
    pattern = re.compile(rf"{quote}{quote}|\\(.)", re.DOTALL)

    def meant(found: re.Match[str]) -> str:
        escaped = found[1]
        if escaped is None:
            return quote
        return found[0] if escaped in "%_" else _ESCAPES.get(escaped, escaped)

    return pattern.sub(meant, written[written.index(quote) + 1 : -1])


class Reader:
    """Goes through the words of one statement. The mutable state is `at`, the number of the next word."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.sql = what_ran(text, dialect)
        self.words = words_of(self.sql)
        while self.words and self.words[-1].keyword == ";":
            self.words.pop()
        self.at = 0
        self._lower_case = dialect.lower_case

    def __repr__(self) -> str:
        return f"<Reader {self.rest()[:40]!r}>"

    @property
    def done(self) -> bool:
        return self.at >= len(self.words)

    def rest(self) -> str:
        return "" if self.done else self.sql[self.words[self.at].start :]

    def sees(self, *keywords: str) -> bool:
        """Whether these are the next words."""
        ahead = self.words[self.at : self.at + len(keywords)]
        return len(ahead) == len(keywords) and all(w.keyword == k for w, k in zip(ahead, keywords, strict=True))

    def sees_any(self, *keywords: str) -> bool:
        return not self.done and self.words[self.at].keyword in keywords

    def take(self, *keywords: str) -> bool:
        """Goes over these words, if they are the next ones."""
        seen = self.sees(*keywords)
        self.at += len(keywords) if seen else 0
        return seen

    def take_any(self, *keywords: str) -> str:
        """Goes over one word, if it is one of these, and returns it; else the empty string."""
        seen = self.sees_any(*keywords)
        self.at += 1 if seen else 0
        return self.words[self.at - 1].keyword if seen else ""

    def expect(self, *keywords: str) -> None:
        if not self.take(*keywords):
            raise NotUnderstood(f"{' '.join(keywords)} is missing before {self.rest()[:40]!r}")

    def word(self) -> Word:
        """The next word, whatever it is."""
        if self.done:
            raise NotUnderstood("the statement ends too early")
        self.at += 1
        return self.words[self.at - 1]

    def name(self) -> str:
        word = self.word()
        if word.string or not (word.quoted or word.text[:1].isalnum() or word.text[:1] in "_$" or word.text > "\x7f"):
            raise NotUnderstood(f"{word.text[:40]!r} is not a name")
        return word.text

    def table(self, database: str) -> tuple[str, str]:
        """Database and table; `database` where the statement names none."""
        first = "" if self.take(".") else self.name()  # `.t` is a table of the default database
        owner, table = (first or database, self.name()) if not first or self.take(".") else (database, first)
        return (owner.lower(), table.lower()) if self._lower_case else (owner, table)

    def folded(self, database: str) -> str:
        return database.lower() if self._lower_case else database

    def skip(self) -> None:
        """Goes over the next word, or over all that stands in its parentheses."""
        depth = 0
        while True:
            depth += {"(": 1, ")": -1}.get(self.word().keyword, 0)
            if depth <= 0:
                return

    def skip_until(self, *stops: str) -> str:
        """Goes up to the next of these words outside of parentheses, to a closing one, or to the end. The text."""
        first = self.at
        while not self.done and not self.sees_any(")", *stops):
            self.skip()
        return self.text(first, self.at)

    def text(self, first: int, last: int) -> str:
        """The statement's text from word `first` up to word `last`."""
        return self.sql[self.words[first].start : self.words[last - 1].end] if last > first else ""

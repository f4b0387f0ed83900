"""Request bodies: JSON in, and what is wrong with it in the words of Go's decoder, which clients know.

msgspec reads what is good. Only when it refuses does a scanner look for the place and the words, and for
what Go lets pass: anything after the first value, bytes that are not UTF-8, halves of surrogate pairs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from adsum.catalog.definitions import BadDefinition
from adsum.http.router import HttpRefusal

SPACE = re.compile(r"[ \t\r\n]*")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
STRING_RUN = re.compile(r'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*')
LONE_SURROGATE = re.compile(
    r"(\\\\)|\\u[dD][89abAB][0-9a-fA-F]{2}(\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
QUOTED = {"'": r"\'", "\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"}
LITERALS = {"t": "true", "f": "false", "n": "null"}
DEPTH_MAX = 500  # Go stops at ten thousand; nothing that anyone registers is nested deeper than ten


class BadJson(ValueError):
    """The caller's text is not JSON; the message says it as Go would."""


def decode_json(body: bytes) -> object:
    """The first JSON value in a body; raises the refusal to send."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        try:
            return _decode_leniently(body)
        except BadJson as bad:
            raise HttpRefusal(400, f"Request decode failed: {bad}") from None


@contextmanager
def refusing_definitions() -> Iterator[None]:
    """Around what reads a definition."""
    try:
        yield
    except BadDefinition as bad:
        raise HttpRefusal(400, str(bad)) from None


def _decode_leniently(body: bytes) -> object:
    text = body.decode(errors="replace")
    scanner = _Scanner(text)
    scanner.scan_value()
    value = LONE_SURROGATE.sub(lambda m: m[0] if m[1] or m[2] else "\\ufffd", text[: scanner.at])
    try:
        return msgspec.json.decode(value)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadJson(str(error)) from None


class _Scanner:
    """Walks one value, without recursion: the stack holds the closing bracket of each open one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def scan_value(self) -> None:
        self._skip_space()
        if self.at == len(self._text):
            raise BadJson("EOF")
        closers: list[str] = []
        self._begin_value(closers)
        while closers:
            self._skip_space()
            closer, what = closers[-1], "object key:value pair" if closers[-1] == "}" else "array element"
            if self._peek() == closer:
                self.at += 1
                closers.pop()
                continue
            if self._peek() != ",":
                raise self._unexpected(f"after {what}")
            self.at += 1
            self._skip_space()
            if closer == "}":
                self._key()
            self._begin_value(closers)

    def _begin_value(self, closers: list[str]) -> None:
        """A scalar is passed; an opened bracket is passed down to its first scalar or its own end."""
        while True:
            self._skip_space()
            first = self._peek()
            if first not in "{[":
                self._scalar(first)
                return
            if len(closers) == DEPTH_MAX:
                raise BadJson("exceeded max depth")
            self.at += 1
            closers.append("}" if first == "{" else "]")
            self._skip_space()
            if self._peek() == closers[-1]:
                return
            if first == "{":
                self._key()

    def _key(self) -> None:
        if self._peek() != '"':
            raise self._unexpected("looking for beginning of object key string")
        self._string()
        self._skip_space()
        if self._peek() != ":":
            raise self._unexpected("after object key")
        self.at += 1

    def _scalar(self, first: str) -> None:
        if first == '"':
            self._string()
        elif first in LITERALS:
            word = LITERALS[first]
            for letter in word:
                if self._peek() != letter:
                    raise self._unexpected(f"in literal {word} (expecting {_quoted(letter)})")
                self.at += 1
        elif number := NUMBER.match(self._text, self.at):
            self.at = number.end()
        elif first == "-":
            self.at += 1
            self._peek()
            raise self._unexpected("in numeric literal")
        else:
            raise self._unexpected("looking for beginning of value")

    def _string(self) -> None:
        run = STRING_RUN.match(self._text, self.at + 1)
        assert run is not None  # it may be empty, but it is there
        self.at = run.end()
        if self._peek() == '"':
            self.at += 1
        elif self._peek() == "\\":
            self.at += 1
            self._peek()
            raise self._unexpected("in string escape code")
        else:
            raise self._unexpected("in string literal")

    def _skip_space(self) -> None:
        space = SPACE.match(self._text, self.at)
        assert space is not None  # it may be empty, but it is there
        self.at = space.end()

    def _peek(self) -> str:
        if self.at == len(self._text):
            raise BadJson("unexpected EOF")
        return self._text[self.at]

    def _unexpected(self, where: str) -> BadJson:
        return BadJson(f"invalid character {_quoted(self._text[self.at])} {where}")


def _quoted(character: str) -> str:
    """As Go quotes a character that it did not expect; the double quote stands plain between single ones."""
    if character in QUOTED:
        return f"'{QUOTED[character]}'"
    return f"'{character}'" if character >= " " else f"'\\x{ord(character):02x}'"

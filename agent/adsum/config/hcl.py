"""HCL as Consul's files write it, which is version 1 of the language.

Libraries read version 2, which is another language just where these files use the first: a block may
quote its keys (`service_ttl { "*" = "5s" }`), and its items may share a line without commas. Version 1 is
small, so it is read here: keys with values, blocks, lists, strings, heredocs, comments. Blocks of one
name become a list of objects; "${…}" within a string stays as it is, as in Consul.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn

from adsum.config.errors import UnreadableFile
from adsum.frozen import dataclass

TOKEN = re.compile(
    r"""
      (?P<space>   \s+ | \#[^\n]* | //[^\n]* | /\*.*?\*/ )
    | (?P<heredoc> <<-?(?P<mark>[A-Za-z_]\w*)\r?\n (?P<lines>.*?) ^[ \t]*(?P=mark)(?=\r?$|\Z) )
    | (?P<string>  "(?: \\. | \$\{[^}\n]*\} | [^"\\\n] )*" )
    | (?P<number>  -?(?: 0x[0-9A-Fa-f]+ | \d+(?:\.\d+)?(?:[eE][+-]?\d+)? )(?![\w.]) )
    | (?P<word>    [A-Za-z_][\w.-]* )
    | (?P<sign>    [={}\[\],] )
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2})|([0-7]{3})|(.))", re.DOTALL)
ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"'}
NUMBER_LENGTH_MAX = 40  # more digits than any value here; Python itself balks at thousands


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    at: int


def read(text: str) -> dict[str, object]:
    """Raises `UnreadableFile` with the line."""
    return _Parser(text).items(until="end")


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._scan()
        self._next = next(self._tokens)

    def items(self, *, until: str) -> dict[str, object]:
        """Keys with values up to a closing brace or the end; commas between them may stand or not."""
        items: dict[str, object] = {}
        while self._next.text != until or self._next.kind == "string":
            self._item(items)
            if self._next.text == "," and until == "}":
                self._take()
        self._take()
        return items

    def _item(self, items: dict[str, object]) -> None:
        key, *labels = self._keys()
        is_block = self._next.text == "{"
        if not is_block:
            self._expect("=")
        value = self._value()
        for label in reversed(labels):  # service "web" { … }
            value = {label: value}
        items[key] = _joined(items.get(key), value)

    def _keys(self) -> list[str]:
        keys = []
        while self._next.kind in {"word", "string"}:
            token = self._take()
            keys.append(self._unquoted(token) if token.kind == "string" else token.text)
        if not keys:
            self._refuse(self._next)
        return keys

    def _value(self) -> object:
        token = self._take()
        match token.kind, token.text:
            case "string", _:
                return self._unquoted(token)
            case "heredoc", text:
                return text
            case "number", _:
                return self._number(token)
            case "word", ("true" | "false") as text:
                return text == "true"
            case "sign", "{":
                return self.items(until="}")
            case "sign", "[":
                return self._list()
        return self._refuse(token)

    def _list(self) -> list[object]:
        values = []
        while self._next.text != "]" or self._next.kind == "string":
            values.append(self._value())
            if self._next.text != "]":
                self._expect(",")
        self._take()
        return values

    def _number(self, token: Token) -> int | float:
        if len(token.text) > NUMBER_LENGTH_MAX:
            self._refuse(token)
        if re.fullmatch(r"-?\d+", token.text):
            return int(token.text)
        return int(token.text, 16) if "x" in token.text else float(token.text)

    def _unquoted(self, token: Token) -> str:
        return ESCAPE.sub(lambda match: self._character(match, token), token.text[1:-1])

    def _character(self, match: re.Match[str], token: Token) -> str:
        short, long, byte, octal, letter = match.groups()
        if letter is not None:
            return ESCAPED.get(letter) or self._refuse(token)
        point = int(octal, 8) if octal else int(short or long or byte, 16)
        return chr(point) if point <= 0x10FFFF else self._refuse(token)

    def _take(self) -> Token:
        token = self._next
        if token.kind != "end":
            self._next = next(self._tokens)
        return token

    def _expect(self, sign: str) -> None:
        token = self._take()
        if (token.kind, token.text) != ("sign", sign):
            self._refuse(token)

    def _scan(self) -> Iterator[Token]:
        at = 0
        while at < len(self._text):
            match = TOKEN.match(self._text, at)
            if match is None:
                self._refuse(Token("", self._text[at], at))
            kind = match.lastgroup or ""
            if kind != "space":
                yield Token(kind, match["lines"] if kind == "heredoc" else match.group(), at)
            at = match.end()
        yield Token("end", "end", at)

    def _refuse(self, token: Token) -> NoReturn:
        line = self._text.count("\n", 0, token.at) + 1
        column = token.at - self._text.rfind("\n", 0, token.at)
        found = "the end of the file" if token.kind == "end" else f"{token.text[:20]!r}"
        raise UnreadableFile(f"is not HCL at line {line} column {column}: {found} cannot stand there")


def _joined(earlier: object, value: object) -> object:
    """Blocks gather, other values replace."""
    if not isinstance(value, dict):
        return value
    if isinstance(earlier, dict):
        return [earlier, value]
    is_blocks = isinstance(earlier, list) and all(isinstance(each, dict) for each in earlier)
    return [*earlier, value] if is_blocks and isinstance(earlier, list) else value

"""Go's spelling of values, which filter expressions inherit: strings, integers, truth."""

from __future__ import annotations

import re

from adsum.quoting import quote

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
UNICODE_MAX = 0x10FFFF
SURROGATES = range(0xD800, 0xE000)
REPLACEMENT = "\ufffd"

PIECE = re.compile(
    r'\\(?P<letter>[abfnrtv\\"])|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<octal>[0-3][0-7]{2})'
    r"|\\u(?P<short>[0-9a-fA-F]{4})|\\U(?P<long>[0-9a-fA-F]{8})"
    r"|(?P<plain>[^\\\n]+)"
)
LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"'}

# An underscore may stand before any digit but a leading decimal one; 0x, 0o, 0b and a bare 0 choose the base.
INTEGER = re.compile(
    r"(?P<sign>[+-]?)(?:0[xX](?P<hex>(?:_?[0-9a-fA-F])+)|0[bB](?P<binary>(?:_?[01])+)"
    r"|0[oO]?(?P<octal>(?:_?[0-7])+)|(?P<decimal>0|[1-9](?:_?[0-9])*))"
)
BASES = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
TRUTH = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True)
TRUTH |= dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False)


class BadLiteral(ValueError):
    """The caller's text is not such a value; the message is the one of Go's strconv."""


def parse_int(text: str) -> int:
    match = INTEGER.fullmatch(text)
    if match is None:
        raise BadLiteral(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    kind = match.lastgroup
    assert kind is not None
    value = int(match[kind].replace("_", ""), BASES[kind])
    if match["sign"] == "-":
        value = -value
    if not INT64_MIN <= value <= INT64_MAX:
        raise BadLiteral(f"strconv.ParseInt: parsing {quote(text)}: value out of range")
    return value


def parse_bool(text: str) -> bool:
    if text not in TRUTH:
        raise BadLiteral(f"strconv.ParseBool: parsing {quote(text)}: invalid syntax")
    return TRUTH[text]


def unescape(content: str) -> str:
    """What stands between double quotes; escapes may spell single bytes, so it is put together from bytes."""
    pieces: list[bytes] = []
    at = 0
    while at < len(content):
        match = PIECE.match(content, at)
        if match is None:
            raise BadLiteral("invalid syntax")
        pieces.append(_piece(match))
        at = match.end()
    return b"".join(pieces).decode(errors="surrogateescape")


def _piece(match: re.Match[str]) -> bytes:
    kind, text = match.lastgroup, match[match.lastgroup or 0]
    if kind == "plain":
        return text.encode(errors="surrogatepass")
    if kind == "letter":
        return LETTERS[text].encode()
    if kind in ("hex", "octal"):
        return bytes((int(text, BASES[kind]),))
    code = int(text, 16)
    if code > UNICODE_MAX:
        raise BadLiteral("invalid syntax")
    return (REPLACEMENT if code in SURROGATES else chr(code)).encode()

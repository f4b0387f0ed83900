"""Text in quotes as Go writes it (`%q`), which stands in many of Consul's sentences."""

from __future__ import annotations

NAMED = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
ESCAPED_BYTES = range(0xDC80, 0xDD00)  # as Python keeps bytes that are no UTF-8


def quote(text: str) -> str:
    return '"' + "".join(map(_quoted, text)) + '"'


def quote_bytes(text: bytes) -> str:
    return quote(text.decode(errors="surrogateescape"))


def _quoted(character: str) -> str:
    if character in NAMED:
        return NAMED[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code in ESCAPED_BYTES:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

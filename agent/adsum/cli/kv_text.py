"""Keys and values as the command line takes and shows them: data from a word, a file or the standard input;
records in the bytes of Consul's command line; names as a tree for people.

To a pipe a value goes as it is. To a terminal it goes without what would steer it.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, NamedTuple

from adsum.cli.command import CommandFailed
from adsum.cli.table import Row, printable

DATA_BYTES_MAX = 256 * 1024 * 1024  # of an import; one value may have much less
LABEL_WIDTH = 17
INDENT = "  "
FIELDS = ("key", "flags", "value")
EXAMPLE = '{"key": "a/b", "flags": 0, "value": "in base64"}'
# In strings of JSON, as Go writes them.
GO_ESCAPES = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}


class KeyPair(NamedTuple):
    key: str
    flags: int
    value: bytes


# What is given.


def given_data(word: str) -> bytes:
    """The word itself, or the content of `@file`, or of the standard input for `-`."""
    if word == "-":
        return _whole(sys.stdin.buffer, "the standard input")
    if not word.startswith("@"):
        return os.fsencode(word)
    path = word.removeprefix("@")
    try:
        with open(path, "rb") as file:
            return _whole(file, path)
    except OSError as problem:
        raise CommandFailed(f"{path} cannot be read: {problem.strerror}") from None


def _whole(file: IO[bytes], name: str) -> bytes:
    data = file.read(DATA_BYTES_MAX + 1)
    if len(data) > DATA_BYTES_MAX:
        raise CommandFailed(f"{name} holds more than {DATA_BYTES_MAX} bytes")
    return data


def from_base64(data: bytes, what: str) -> bytes:
    try:
        return base64.b64decode(data.translate(None, b"\r\n"), validate=True)
    except binascii.Error as problem:
        raise CommandFailed(f"{what} is no base64: {problem}") from None


def pairs_of(data: bytes) -> list[KeyPair]:
    """As `kv export` writes them, their names in any case."""
    try:
        rows = json.loads(data)
    except ValueError as problem:
        raise CommandFailed(f"the data is no JSON, as `adsum kv export` writes it: {problem}") from None
    if not isinstance(rows, list):
        raise CommandFailed("the data is no list of keys, as `adsum kv export` writes it")
    return [_pair(number, row) for number, row in enumerate(rows, 1)]


def _pair(number: int, row: object) -> KeyPair:
    folded = {str(name).lower(): value for name, value in row.items()} if isinstance(row, dict) else {}
    key, flags, value = (folded.get(name) for name in FIELDS)
    if not isinstance(key, str) or not key or type(flags or 0) is not int or not isinstance(value or "", str):
        raise CommandFailed(f"entry {number} is not like {EXAMPLE}; nothing was imported")
    return KeyPair(key, flags or 0, from_base64((value or "").encode(), f"the value of {key}"))


# What is shown.


def say(lines: Iterable[bytes]) -> None:
    sys.stdout.flush()
    if not sys.stdout.isatty():
        sys.stdout.buffer.writelines(lines)
        return
    for line in lines:
        told = line.decode(errors="replace").split("\n")
        print("\n".join(map(printable, told)), end="")


def names(found: Sequence[str]) -> Iterator[bytes]:
    return (_bytes(name) + b"\n" for name in found)


def values(found: Sequence[Row], *, in_base64: bool) -> Iterator[bytes]:
    """Of one key without its name, of several with it."""
    return (_bytes(row["Key"]) + b":" + _value(row, in_base64=in_base64) + b"\n" for row in found)


def bare(row: Row, *, in_base64: bool) -> Iterator[bytes]:
    yield _value(row, in_base64=in_base64) + b"\n"


def details(found: Sequence[Row], *, in_base64: bool) -> Iterator[bytes]:
    for number, row in enumerate(found):
        shown = {
            "CreateIndex": row["CreateIndex"],
            "Flags": row["Flags"],
            "Key": row["Key"],
            "LockIndex": row["LockIndex"],
            "ModifyIndex": row["ModifyIndex"],
            "Session": row.get("Session") or "-",
        }
        text = "".join(f"{label:<{LABEL_WIDTH}}{value}\n" for label, value in shown.items())
        value = _value(row, in_base64=in_base64)
        gap = " " * (LABEL_WIDTH - len("Value")) if value else ""
        yield b"\n" * (number > 0) + _bytes(f"{text}Value{gap}") + value + b"\n"


def exported(found: Sequence[Row]) -> str:
    rows = [{"key": row["Key"], "flags": row["Flags"], "value": row["Value"] or ""} for row in found]
    return json.dumps(rows, indent="\t", ensure_ascii=False).translate(GO_ESCAPES)


def tree(found: Sequence[str]) -> Iterator[str]:
    """Each folder once, above what lies in it; names come in order. A key that ends in a slash is a folder
    that is a key itself."""
    above: list[str] = []
    for name in found:
        *folders, last = name.split("/")
        same = 0
        while same < min(len(above), len(folders)) and above[same] == folders[same]:
            same += 1
        for depth in range(same, len(folders)):
            is_key = not last and depth == len(folders) - 1
            yield f"{INDENT * depth}{printable(folders[depth])}/{'  (a key itself)' if is_key else ''}"
        if last:
            yield f"{INDENT * len(folders)}{printable(last)}"
        above = folders


def _value(row: Row, *, in_base64: bool) -> bytes:
    shown = (row["Value"] or "").encode()
    return shown if in_base64 else base64.b64decode(shown)


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")

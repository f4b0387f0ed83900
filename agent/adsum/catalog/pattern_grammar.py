"""The syntax of regular expressions as RE2 and Go know it, read to a small tree.

Only the question "does it occur?" is ever asked, so groups are not remembered, and lazy and greedy
repetition mean the same. What needs backtracking does not exist: no back-references, no look-around.
Unicode classes (`\\pL`) are refused. Errors are Go's.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, replace

PATTERN_CHARACTERS_MAX = 1000
DEPTH_MAX = 50
REPEAT_MAX = 1000  # Go's

REPEAT = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")
GROUP_NAME = re.compile(r"\?P<([A-Za-z0-9_]+)>")
POSIX_CLASS = re.compile(r"\[:(\^?)([a-z]+):\]")
BAD_HEX = re.compile(r"\\x(?:\{[0-9a-fA-F]{6}|\{[0-9a-fA-F]*.?|[0-9a-fA-F]?.?)", re.DOTALL)
HEX = re.compile(r"x(?:([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,6})\})")
OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
CONTROLS = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
CHARACTER_MAX = 0x10FFFF

Range = tuple[int, int]
DIGITS: tuple[Range, ...] = ((0x30, 0x39),)
UPPER: tuple[Range, ...] = ((0x41, 0x5A),)
LOWER: tuple[Range, ...] = ((0x61, 0x7A),)
WORD = (*DIGITS, *UPPER, (0x5F, 0x5F), *LOWER)
SPACES: tuple[Range, ...] = ((9, 10), (12, 13), (32, 32))
PERL = {"d": DIGITS, "s": SPACES, "w": WORD}
POSIX: dict[str, tuple[Range, ...]] = {
    "alnum": (*DIGITS, *UPPER, *LOWER),
    "alpha": (*UPPER, *LOWER),
    "ascii": ((0, 0x7F),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "digit": DIGITS,
    "graph": ((0x21, 0x7E),),
    "lower": LOWER,
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((9, 13), (32, 32)),
    "upper": UPPER,
    "word": WORD,
    "xdigit": (*DIGITS, (0x41, 0x46), (0x61, 0x66)),
}


class BadPattern(ValueError):
    """The caller's regular expression cannot be used."""


class Assertion(enum.Enum):
    TEXT_START = "\\A"
    TEXT_END = "\\z"
    LINE_START = "^"
    LINE_END = "$"
    WORD_EDGE = "\\b"
    NO_WORD_EDGE = "\\B"


@dataclass(frozen=True, slots=True)
class Characters:
    ranges: tuple[Range, ...]
    is_negated: bool = False
    ignores_case: bool = False

    def has(self, character: str) -> bool:
        return self._covers(character) != self.is_negated

    def _covers(self, character: str) -> bool:
        if not self.ignores_case:
            return _is_within(self.ranges, character)
        return any(_is_within(self.ranges, c) for c in (character, character.lower(), character.upper()))


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    part: Node
    least: int
    most: int | None  # None: without end


Node = Characters | Assertion | Sequence | Choice | Repeat


@dataclass(frozen=True, slots=True)
class Flags:
    ignores_case: bool = False  # i
    is_multiline: bool = False  # m
    dot_is_all: bool = False  # s


def parse_pattern(pattern: str) -> Node:
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise BadPattern(f"a regular expression is longer than {PATTERN_CHARACTERS_MAX} characters")
    return _Parser(pattern).parse()


def _is_within(ranges: tuple[Range, ...], character: str) -> bool:
    # Upper-casing may give two characters (ß); such a one is in no range.
    return len(character) == 1 and any(low <= ord(character) <= high for low, high in ranges)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._flags = Flags()

    def parse(self) -> Node:
        node = self._choice()
        if self._at < len(self._text):
            raise self._wrong("unexpected )", self._text)
        return node

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, word: str) -> bool:
        if not self._text.startswith(word, self._at):
            return False
        self._at += len(word)
        return True

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def _wrong(self, what: str, where: str) -> BadPattern:
        return BadPattern(f"error parsing regexp: {what}: `{where}`")

    # Structure.

    def _choice(self) -> Node:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            if self._take("\\Q"):
                parts.extend(self._quoted())
                continue
            part = self._atom()
            if part is not None:
                parts.append(part)
            self._repeat_last(parts)
        return Sequence(tuple(parts))

    def _quoted(self) -> list[Node]:
        end = self._text.find("\\E", self._at)
        end = len(self._text) if end < 0 else end
        literal, self._at = self._text[self._at : end], min(end + 2, len(self._text))
        return [self._literal(ord(character)) for character in literal]

    def _repeat_last(self, parts: list[Node]) -> None:
        start = self._at
        bounds = self._bounds()
        if bounds is None:
            return
        if not parts:
            raise self._wrong("missing argument to repetition operator", self._text[start : self._at])
        parts[-1] = Repeat(parts[-1], *bounds)
        self._take("?")
        if self._bounds() is not None:
            raise self._wrong("invalid nested repetition operator", self._text[start : self._at])

    def _bounds(self) -> tuple[int, int | None] | None:
        start = self._at
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        match = self._match(REPEAT)
        if match is None:
            return None  # `{` alone is an ordinary character
        least = int(match[1])
        most = least if match[2] is None else int(match[3]) if match[3] else None
        if least > REPEAT_MAX or (most is not None and not least <= most <= REPEAT_MAX):
            raise self._wrong("invalid repeat count", self._text[start : self._at])
        return least, most

    # Atoms. None is an atom that matches nothing of its own, such as `(?i)`.

    def _atom(self) -> Node | None:
        character = self._peek()
        if character == "(":
            return self._group()
        if character == "[":
            return self._bracket()
        if character == "\\":
            return self._escape()
        if character in ("*", "+", "?") or REPEAT.match(self._text, self._at):
            return None  # nothing to repeat, which the caller reports
        self._at += 1
        return self._plain(character)

    def _plain(self, character: str) -> Node:
        if character == ".":
            newline = () if self._flags.dot_is_all else ((10, 10),)
            return Characters(newline, is_negated=True)
        if character == "^":
            return Assertion.LINE_START if self._flags.is_multiline else Assertion.TEXT_START
        if character == "$":
            return Assertion.LINE_END if self._flags.is_multiline else Assertion.TEXT_END
        return self._literal(ord(character))

    def _literal(self, code: int) -> Characters:
        return Characters(((code, code),), ignores_case=self._flags.ignores_case)

    def _group(self) -> Node | None:
        self._at += 1
        outside = self._flags
        if self._peek() == "?" and self._match(GROUP_NAME) is None and not self._read_flags():
            return None
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise BadPattern(f"a regular expression is nested deeper than {DEPTH_MAX} levels")
        inside = self._choice()
        self._depth -= 1
        self._flags = outside
        if not self._take(")"):
            raise self._wrong("missing closing )", self._text)
        return inside

    def _read_flags(self) -> bool:
        """True if a group of its own follows; otherwise they hold for the rest of this group."""
        start = self._at - 1
        self._at += 1
        value = True
        if self._text.startswith("P<", self._at):
            end = self._text.find(">", self._at) + 1 or len(self._text)
            raise self._wrong("invalid named capture", self._text[start:end])
        while (character := self._peek()) not in (")", ":"):
            self._at += 1
            if character == "-" and value and self._peek() not in (")", ":"):
                value = False
            elif not self._set_flag(character, value=value):
                end = self._at + (character == "-")
                raise self._wrong("invalid or unsupported Perl syntax", self._text[start:end])
        self._at += 1
        return character == ":"

    def _set_flag(self, character: str, *, value: bool) -> bool:
        match character:
            case "i":
                self._flags = replace(self._flags, ignores_case=value)
            case "m":
                self._flags = replace(self._flags, is_multiline=value)
            case "s":
                self._flags = replace(self._flags, dot_is_all=value)
            case "U":
                pass  # swaps greedy and lazy, which we need not tell apart
            case _:
                return False
        return True

    # Escapes and classes.

    def _escape(self) -> Node:
        for assertion in (
            Assertion.TEXT_START,
            Assertion.TEXT_END,
            Assertion.WORD_EDGE,
            Assertion.NO_WORD_EDGE,
        ):
            if self._take(assertion.value):
                return assertion
        named = self._perl_class()
        return named if named is not None else self._literal(self._escaped_code())

    def _perl_class(self) -> Characters | None:
        letter = self._text[self._at + 1 : self._at + 2]
        if self._peek() != "\\" or letter.lower() not in PERL:
            return None
        self._at += 2
        return Characters(PERL[letter.lower()], is_negated=letter.isupper())

    def _escaped_code(self) -> int:
        start = self._at
        self._at += 1
        character = self._peek()
        if not character:
            raise self._wrong("trailing backslash at end of expression", "")
        if (octal := self._match(OCTAL)) is not None:
            return int(octal[0], 8)
        if character == "x":
            return self._hex_code(start)
        self._at += 1
        if character in CONTROLS:
            return CONTROLS[character]
        if character.isascii() and not character.isalnum():
            return ord(character)
        raise self._wrong("invalid escape sequence", self._text[start : self._at])

    def _hex_code(self, start: int) -> int:
        digits = self._match(HEX)
        code = int(digits[1] or digits[2], 16) if digits is not None else CHARACTER_MAX + 1
        if code <= CHARACTER_MAX:
            return code
        wrong = BAD_HEX.match(self._text, start)
        assert wrong is not None
        raise self._wrong("invalid escape sequence", wrong[0])

    def _bracket(self) -> Characters:
        start = self._at
        self._at += 1
        is_negated = self._take("^")
        ranges: list[Range] = []
        first = self._at
        while self._at == first or self._peek() != "]":
            if not self._peek():
                raise self._wrong("missing closing ]", self._text[start:])
            ranges.extend(self._class_name() or self._range(start))
        self._at += 1
        return Characters(tuple(ranges), is_negated=is_negated, ignores_case=self._flags.ignores_case)

    def _class_name(self) -> tuple[Range, ...]:
        perl = self._perl_class()
        if perl is not None:
            return _complement(perl.ranges) if perl.is_negated else perl.ranges
        start = self._at
        match = self._match(POSIX_CLASS)
        if match is None:
            return ()
        if match[2] not in POSIX:
            raise self._wrong("invalid character class range", self._text[start : self._at])
        return _complement(POSIX[match[2]]) if match[1] else POSIX[match[2]]

    def _range(self, class_start: int) -> tuple[Range, ...]:
        start = self._at
        low = high = self._class_character(class_start)
        if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
            self._at += 1
            high = self._class_character(class_start)
        if high < low:
            raise self._wrong("invalid character class range", self._text[start : self._at])
        return ((low, high),)

    def _class_character(self, class_start: int) -> int:
        character = self._peek()
        if not character:
            raise self._wrong("missing closing ]", self._text[class_start:])
        if character == "\\":
            return self._escaped_code()
        self._at += 1
        return ord(character)


def _complement(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    gaps: list[Range] = []
    start = 0
    for low, high in sorted(ranges):
        if low > start:
            gaps.append((start, low - 1))
        start = high + 1
    return (*gaps, (start, CHARACTER_MAX))

"""Regular expressions of others: RE2's, as in Consul, with what they may cost bounded beforehand.

RE2 takes time in proportion to the text, whatever the pattern, but not the same time. It remembers sets of
places in the pattern as states, if it is given memory for them, and a pattern with more states than fit (such
as `(a|b)*a(a|b){20}c`) then takes up to 250 ns a byte for making and forgetting them. Given too little memory
to begin with, it goes through the text place by place: for patterns as people write them that is as fast, and
for no pattern it was slower than 3.9 ns a byte for each instruction of its program (tried: some 80 patterns
made to be slow, with 25 to 60,000 bytes of text). So a pattern gets the least memory that its program fits
in, and a search is paid for in advance.

The library is loaded with the first pattern that is more than plain text: most agents never see one.
"""

from __future__ import annotations

import re
from typing import Any

from adsum.catalog.work import TooMuchWork, Work

PATTERN_CHARACTERS_MAX = 1000
WORK_NS_MAX = 10_000_000  # for one pattern that belongs to nothing larger, over its life

# The smaller one holds programs of about 300 instructions; `\pL` alone needs the larger one. With more,
# there would be room for states, and for programs that take a millisecond to make.
PROGRAM_BYTES_MAX = (6 * 1024, 64 * 1024)

# To read a pattern took 8 to 20 µs, 0.25 µs more a character, 0.1 µs for each repetition that is written as a
# number, and up to 110 µs for each class of Unicode's; to make a program took at most 0.5 ms.
READ_NS = 20_000
CHARACTER_NS = 250
REPETITION_NS = 100
UNICODE_CLASS_NS = 110_000
LARGE_PROGRAM_NS = 500_000

SEARCH_NS = 1_200  # one call, whatever the text
INSTRUCTION_BYTE_NS = 4
LITERAL_CHARACTER_NS = 12  # `in`, where the text is nearly the literal everywhere; mostly below 1

SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
ESCAPES = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)
UNICODE_CLASSES = (r"\p", r"\P")
REPETITIONS = re.compile(r"\{(?:[0-9]{1,9},)?([0-9]{1,9})")
ANY_BYTE = r"\C"  # RE2 knows it, Go does not
TOO_LARGE = "pattern too large"

# What Go, and so Consul, calls what RE2 found.
GO_ERRORS = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}
LOOK_BEHIND = "(?<"  # Go stops reading here


class BadPattern(ValueError):
    """The caller's regular expression cannot be used."""


class CostlyPattern(BadPattern):
    """It may cost more than there is work left; found when it is made, or by a search."""


class Pattern:
    """Raises `BadPattern`; a search raises `CostlyPattern`."""

    def __init__(self, text: str, work: Work | None = None) -> None:
        if len(text) > PATTERN_CHARACTERS_MAX:
            raise BadPattern(f"a regular expression is longer than {PATTERN_CHARACTERS_MAX} characters")
        if ANY_BYTE in ESCAPES.findall(text):
            raise BadPattern(f"error parsing regexp: invalid escape sequence: `{ANY_BYTE}`")
        self._text = text
        self._work = Work(WORK_NS_MAX) if work is None else work
        self._is_literal = SPECIAL.search(text) is None
        if not self._is_literal:
            self._program = self._compiled()
            self._byte_ns = INSTRUCTION_BYTE_NS * self._program.programsize

    def occurs_in(self, subject: str) -> bool:
        if self._is_literal:
            self._spend(LITERAL_CHARACTER_NS * len(subject))
            return self._text in subject
        encoded = subject.encode(errors="surrogatepass")
        self._spend(SEARCH_NS + self._byte_ns * len(encoded))
        return self._program.search(encoded) is not None

    def _compiled(self) -> Any:
        for program_bytes_max in PROGRAM_BYTES_MAX:
            self._spend(_reading_ns(self._text, program_bytes_max))
            program = _compile(self._text, program_bytes_max)
            if program is not None:
                return program
        raise CostlyPattern(f"the regular expression {self._text} is too large; repeat less in it")

    def _spend(self, cost_ns: int) -> None:
        try:
            self._work.spend(cost_ns)
        except TooMuchWork:
            sentence = f"the regular expression {self._text} needs too much work"
            raise CostlyPattern(f"{sentence}; make it simpler, or ask about less") from None


def _reading_ns(text: str, program_bytes_max: int) -> int:
    making_ns = 0 if program_bytes_max == PROGRAM_BYTES_MAX[0] else LARGE_PROGRAM_NS
    classes = sum(escape in UNICODE_CLASSES for escape in ESCAPES.findall(text))
    repetitions = sum(map(int, REPETITIONS.findall(text)))
    reading_ns = READ_NS + CHARACTER_NS * len(text) + REPETITION_NS * repetitions
    return reading_ns + UNICODE_CLASS_NS * classes + making_ns


def _compile(text: str, program_bytes_max: int) -> Any | None:
    """None when its program is larger."""
    import re2

    options = re2.Options()
    options.max_mem = program_bytes_max
    options.log_errors = False
    options.never_capture = True  # only whether it occurs is ever asked
    try:
        program = re2.compile(text, options)
    except re2.error as error:
        said = error.args[0].decode(errors="replace")
        if said.startswith(TOO_LARGE):
            return None
        raise BadPattern(_in_words_of_go(said)) from None
    except UnicodeEncodeError:
        raise BadPattern(_in_words_of_go("invalid UTF-8")) from None
    re2.purge()  # it would keep the last 128, which nothing counts
    return program


def _in_words_of_go(error: str) -> str:
    what, _, where = error.partition(": ")
    where = LOOK_BEHIND if where.startswith(LOOK_BEHIND) else where
    return f"error parsing regexp: {GO_ERRORS.get(what, what)}: `{where}`"

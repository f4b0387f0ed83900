"""The grammar of `filter=` expressions: text to a small tree.

    expr   = and { "or" and }                   and   = not { "and" not }
    not    = "not" not | atom                   atom  = "(" expr ")" | match
    match  = sel ("==" | "!=") val | sel ["not"] ("contains" | "matches") val
           | sel "is" ["not"] "empty"         | val ["not"] "in" sel
    sel    = name { "." name | "[" string "]" } val   = sel | number | string

Consul parses this with ordered choice and backtracking, and its errors name the farthest place that was
reached with everything that could have stood there. We try the same things in the same order and so give the
same sentences, but read each text once: Consul's parser multiplies its work with every open parenthesis
(eight of them took 1.8.7 half a second). Words such as `not`, `in` and `and` are only words where the grammar
expects them: `not in Tags` asks for the tag "not".
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable

from adsum.catalog.bad_filter import BadFilter
from adsum.catalog.go_literals import BadLiteral, unescape
from adsum.frozen import dataclass

EXPRESSION_CHARACTERS_MAX = 8192  # a URL of many proxies ends there
DEPTH_MAX = 32  # of parentheses and `not`
MATCHES_MAX = 256

SPACES = re.compile(r"[ \t\r\n]+")
LETTER = re.compile(r"[a-zA-Z]")
NAME_REST = re.compile(r"[a-zA-Z0-9_]*")
DIGITS = re.compile(r"[0-9]*")
DIGIT_BUT_ZERO = re.compile(r"[1-9]")
SPACE_EXPECTED = r"[ \t\r\n]"


class FilterVerb(enum.Enum):
    EQUAL = "Equal"
    IN = "In"
    MATCHES = "Matches"
    FILLED = "Is Not Empty"


@dataclass(frozen=True, slots=True)
class FilterMatch:
    selector: tuple[str, ...]
    verb: FilterVerb
    is_negated: bool
    value: str

    @property
    def operator(self) -> str:
        """As Consul's errors name it."""
        if self.verb is FilterVerb.FILLED:
            return "Is Empty" if self.is_negated else "Is Not Empty"
        return f"Not {self.verb.value}" if self.is_negated else str(self.verb.value)


@dataclass(frozen=True, slots=True)
class Not:
    part: Tree


@dataclass(frozen=True, slots=True)
class Chain:
    word: str  # `and`, `or`
    parts: tuple[Tree, ...]


Tree = FilterMatch | Not | Chain


def parse_filter(expression: str) -> Tree:
    if len(expression) > EXPRESSION_CHARACTERS_MAX:
        raise BadFilter(f"the expression is longer than {EXPRESSION_CHARACTERS_MAX} characters")
    return _Parser(expression).parse()


class _Parser:
    """Each method reads one rule at `_at`: on success it moves on, otherwise `_at` is where it was."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._matches = 0
        self._farthest = 0
        self._expected: dict[str, None] = {}
        self._errors: dict[str, None] = {}

    def parse(self) -> Tree:
        self._spaces()
        tree = self._either()
        if tree is not None:
            self._spaces()
            if not self._is_at_end():
                tree = None
        if tree is not None and not self._errors:
            return tree
        words = sorted(self._expected, key=lambda word: (word == "EOF", word))
        expected = " or ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)
        no_match = f"{self._place(self._farthest)}: no match found, expected: {expected}"
        raise BadFilter("\n".join(self._errors) or no_match)

    # Combinations.

    def _either(self) -> Tree | None:
        return self._chain("or", lambda: self._chain("and", self._not))

    def _chain(self, word: str, rule: Callable[[], Tree | None]) -> Tree | None:
        parts: list[Tree] = []
        while (part := rule()) is not None:
            parts.append(part)
            end = self._at
            if not (self._word(word) and self._spaces()):
                break
        if not parts:
            return None
        self._at = end
        return parts[0] if len(parts) == 1 else Chain(word, tuple(parts))

    def _not(self) -> Tree | None:
        start = self._at
        if self._literal("not") and self._spaces():
            self._descend()
            part = self._not()
            self._depth -= 1
            if part is not None:
                return Not(part)
        self._at = start
        return self._atom()

    def _atom(self) -> Tree | None:
        start = self._at
        tree = None
        if self._literal("("):
            self._descend()
            self._spaces()
            tree = self._either()
            self._depth -= 1
            self._spaces()
            if tree is not None and self._literal(")"):
                return tree
        end, self._at = self._at, start
        if tree is not None:
            self._error(end, "grouping", "Unmatched parentheses")
            return None
        return self._match()

    def _descend(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise BadFilter(f"the expression is nested deeper than {DEPTH_MAX} levels")

    # One comparison.

    def _match(self) -> FilterMatch | None:
        start = self._at
        found = self._selector_first() or self._value_first(start)
        if found is None:
            self._at = start
            return None
        self._matches += 1
        if self._matches > MATCHES_MAX:
            raise BadFilter(f"the expression has more than {MATCHES_MAX} comparisons")
        return found

    def _selector_first(self) -> FilterMatch | None:
        selector = self._selector()
        if selector is None:
            return None
        end = self._at
        operator = self._operator()
        if operator is not None and (value := self._value()) is not None:
            return FilterMatch(selector, *operator, value)
        self._at = end
        if not self._word("is"):
            return None
        is_negated = not self._word("not")
        if self._word("empty"):
            return FilterMatch(selector, FilterVerb.FILLED, is_negated, "")
        return None

    def _operator(self) -> tuple[FilterVerb, bool] | None:
        for sign, is_negated in (("==", False), ("!=", True)):
            if self._sign(sign):
                return FilterVerb.EQUAL, is_negated
        start = self._at
        is_negated = self._word("not")
        after_not = self._at
        for word, verb in (("contains", FilterVerb.IN), ("matches", FilterVerb.MATCHES)):
            if self._word(word) and self._spaces():
                return verb, is_negated
            self._at = after_not
        self._at = start
        return None

    def _value_first(self, start: int) -> FilterMatch | None:
        self._at = start
        value = self._value()
        if value is None:
            return None
        is_negated = self._word("not")
        if not (self._word("in") and self._spaces()):
            return None
        selector = self._selector()
        if selector is None:
            self._error(self._at, "match", "Invalid selector")
            return None
        return FilterMatch(selector, FilterVerb.IN, is_negated, value)

    # Selectors and values.

    def _selector(self) -> tuple[str, ...] | None:
        name = self._name()
        if name is None:
            return None
        names = [name]
        while (name := self._member()) is not None:
            names.append(name)
        return tuple(names)

    def _name(self) -> str | None:
        start = self._at
        if LETTER.match(self._text, start) is None:
            self._miss("[a-zA-Z]")
            return None
        rest = NAME_REST.match(self._text, start + 1)
        assert rest is not None
        self._at = rest.end()
        self._miss("[a-zA-Z0-9_]")
        return self._text[start : self._at]

    def _member(self) -> str | None:
        start = self._at
        name = self._name() if self._literal(".") else None
        if name is None:
            self._at = start
            name = self._index() if self._literal("[") else None
        if name is None:
            self._at = start
        return name

    def _index(self) -> str | None:
        self._spaces()
        inside = self._at
        name = self._string()
        if name is None:
            self._error(inside, "index", "Invalid index")
            return None
        self._spaces()
        if self._literal("]"):
            return name
        self._error(self._at, "index", "Unclosed index expression")
        return None

    def _value(self) -> str | None:
        selector = self._selector()
        if selector is not None:
            return ".".join(selector)  # an unquoted word; `a["b"]` means a.b here
        number = self._number()
        return number if number is not None else self._string()

    def _number(self) -> str | None:
        start = self._at
        self._literal("-")
        if not self._literal("0"):
            if DIGIT_BUT_ZERO.match(self._text, self._at) is None:
                self._miss("[1-9]")
                self._at = start
                return None
            self._digits()
        whole = self._at
        if not (self._literal(".") and self._digits()):
            self._at = whole
        end = self._at
        is_over = self._spaces() or self._is_at_end() or self._literal(")")
        self._at = end
        if is_over:
            return self._text[start:end]
        self._error(self._at, "number", "Invalid number literal")
        self._at = start
        return None

    def _digits(self) -> bool:
        digits = DIGITS.match(self._text, self._at)
        assert digits is not None
        self._at = digits.end()
        self._miss("[0-9]")
        return digits.end() > digits.start()

    def _string(self) -> str | None:
        start = self._at
        for quote in ("`", '"'):
            if not self._literal(quote):
                continue
            end = self._text.find(quote, self._at)
            if end < 0:
                self._error(len(self._text), "string", "Unterminated string literal")
                self._at = start
                return None
            content = self._text[self._at : end]
            self._at = end + 1
            if quote == "`":
                return content.replace("\r", "")
            try:
                return unescape(content)
            except BadLiteral:
                self._error(start, "string", "invalid syntax")
                return ""
        return None

    # Terminals; each miss is remembered for the error's list of what was expected.

    def _literal(self, word: str) -> bool:
        if self._text.startswith(word, self._at):
            self._at += len(word)
            return True
        quoted = word.replace('"', '\\"')
        self._miss(f'"{quoted}"')
        return False

    def _spaces(self) -> bool:
        spaces = SPACES.match(self._text, self._at)
        if spaces is not None:
            self._at = spaces.end()
        self._miss(SPACE_EXPECTED)
        return spaces is not None

    def _word(self, word: str) -> bool:
        """Space, then the word; what has to follow it is the caller's to ask for."""
        start = self._at
        if self._spaces() and self._literal(word):
            return True
        self._at = start
        return False

    def _sign(self, sign: str) -> bool:
        start = self._at
        self._spaces()
        if self._literal(sign):
            self._spaces()
            return True
        self._at = start
        return False

    def _is_at_end(self) -> bool:
        if self._at == len(self._text):
            return True
        self._miss("EOF")
        return False

    # Errors.

    def _miss(self, expected: str) -> None:
        if self._at > self._farthest:
            self._farthest = self._at
            self._expected.clear()
        if self._at == self._farthest:
            self._expected[expected] = None

    def _error(self, at: int, rule: str, sentence: str) -> None:
        self._errors[f'{self._place(at)}: rule "{rule}": {sentence}'] = None

    def _place(self, at: int) -> str:
        """Line and column as people count, and the offset in bytes."""
        before = self._text[:at]
        column = at - (before.rfind("\n") + 1) + 1
        return f"{before.count(chr(10)) + 1}:{column} ({len(before.encode(errors='surrogatepass'))})"

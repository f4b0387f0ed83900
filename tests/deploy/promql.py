"""As much of PromQL as it takes to see which series an expression asks for, by which labels.

promtool says whether an expression is one; what it cannot know is whether our series exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*")
      | (?P<duration>\[[^\]]*\])
      | (?P<number>\d+(?:\.\d+)?)
      | (?P<name>[a-zA-Z_:][\w:]*)
      | (?P<sign>=~|!~|!=|==|<=|>=|[-+*/%^<>=(){},@])
      | (?P<space>\s+)""",
    re.VERBOSE,
)
WORDS = {"and", "or", "unless", "bool", "offset"}
LISTS_LABELS = {"by", "without", "on", "ignoring", "group_left", "group_right"}


@dataclass(frozen=True, slots=True)
class Matcher:
    label: str
    sign: str
    value: str

    def fits(self, value: str) -> bool:
        if self.sign in ("=", "!="):
            return (value == self.value) == (self.sign == "=")
        return (re.fullmatch(self.value, value) is not None) == (self.sign == "=~")


@dataclass(frozen=True, slots=True)
class Selector:
    name: str
    matchers: tuple[Matcher, ...]

    def __str__(self) -> str:
        inner = ", ".join(f'{each.label}{each.sign}"{each.value}"' for each in self.matchers)
        return f"{self.name}{{{inner}}}"


@dataclass(frozen=True, slots=True)
class Expression:
    selectors: tuple[Selector, ...]
    grouped_by: frozenset[str]  # every label named after by, on and the like


class Unreadable(ValueError):
    """Not what this reader knows of PromQL."""


def read(expr: str) -> Expression:
    tokens = list(_tokens(expr))
    selectors, labels = [], set[str]()
    place = 0
    while place < len(tokens):
        kind, text = tokens[place]
        following = tokens[place + 1][1] if place + 1 < len(tokens) else ""
        place += 1
        if kind != "name" or text in WORDS:
            continue
        if text in LISTS_LABELS:
            end = next(index for index in range(place, len(tokens)) if tokens[index][1] == ")")
            labels |= {name for what, name in tokens[place:end] if what == "name"}
            place = end + 1
        elif following == "{":
            end = next(index for index in range(place, len(tokens)) if tokens[index][1] == "}")
            selectors.append(Selector(text, tuple(_matchers(tokens[place + 1 : end]))))
            place = end + 1
        elif not (following == "(" or following in LISTS_LABELS):
            selectors.append(Selector(text, ()))
    return Expression(tuple(selectors), frozenset(labels))


def _tokens(expr: str) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(expr):
        match = TOKEN.match(expr, place)
        if match is None:
            raise Unreadable(f"{expr!r} at {expr[place : place + 20]!r}")
        place = match.end()
        if match.lastgroup != "space":
            yield str(match.lastgroup), match.group()


def _matchers(tokens: list[tuple[str, str]]) -> Iterator[Matcher]:
    for start in range(0, len(tokens), 4):
        label, sign, value = (text for _, text in tokens[start : start + 3])
        yield Matcher(label, sign, value[1:-1])


# Rules are YAML, which nothing here reads: ours keep to keys with one line, or a block that is folded.


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    is_alert: bool
    expr: str
    fields: dict[str, str]  # all others, with their groups' names left out


RULE = re.compile(r"^      - (record|alert): (.+)$")
FIELD = re.compile(r"^ +(\w+): ?(.*)$")


def rules(path: Path) -> list[Rule]:
    found: list[Rule] = []
    lines = iter(path.read_text().splitlines())
    key = ""
    for line in lines:
        if head := RULE.match(line):
            found.append(Rule(head[2], head[1] == "alert", "", {}))
        elif not found or line.startswith("  - name:") or not line.strip():
            key = ""
        elif (field := FIELD.match(line)) and not (key and _is_deeper(line)):
            key = field[1] if field[2] == ">-" else ""
            found[-1].fields[field[1]] = "" if key else field[2].strip('"')
        elif key:
            found[-1].fields[key] += " " + line.strip()
    return [Rule(each.name, each.is_alert, each.fields["expr"].strip(), each.fields) for each in found]


def _is_deeper(line: str) -> bool:
    """Lines of a folded block stand two places right of its key."""
    return re.match(r"^ +(expr|for|labels|annotations|severity|summary|action|runbook):", line) is None

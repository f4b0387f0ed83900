"""`filter=` expressions: compiled once per request to a plain function of one item.

What an endpoint's items can be asked about is a table of fields (`filter_fields`), each with its kind and a
function that reads it. An expression is checked against the table before any item is looked at, so that a
wrong one is refused even where there is nothing to filter. The contract, section 1.9, has the rules; two are
easy to miss: a selector that leads through a list of objects holds if it holds for *any* of them, negated
or not (`Checks.Status != passing`: some check is not passing); a missing map key answers no, or yes when
negated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from adsum.catalog.filter_grammar import BadFilter, Either, Every, Match, Not, Tree, Verb, parse_filter
from adsum.catalog.go_literals import BadLiteral, parse_bool, parse_int, quote
from adsum.catalog.pattern import Pattern
from adsum.catalog.pattern_grammar import BadPattern
from adsum.frozen import dataclass

# Items differ from table to table, and a table is only ever used with its own: hence Any.
Test = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Text:
    read: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Number:
    read: Callable[[Any], int]


@dataclass(frozen=True, slots=True)
class Flag:
    read: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Texts:
    read: Callable[[Any], Sequence[str]]


@dataclass(frozen=True, slots=True)
class TextMap:
    read: Callable[[Any], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Group:
    """An object with fields of its own."""

    read: Callable[[Any], object]
    fields: Fields


@dataclass(frozen=True, slots=True)
class Groups:
    read: Callable[[Any], Sequence[object]]
    fields: Fields


@dataclass(frozen=True, slots=True)
class GroupMap:
    read: Callable[[Any], Mapping[str, object]]
    fields: Fields


Field = Text | Number | Flag | Texts | TextMap | Group | Groups | GroupMap
Fields = Mapping[str, Field]


def compile_filter(expression: str, fields: Fields) -> Test:
    """Raises `BadFilter`; so may the function returned, when a regular expression turns out too costly."""
    return _compile(parse_filter(expression), fields)


def _compile(tree: Tree, fields: Fields) -> Test:
    match tree:
        case Match():
            return _bind(tree, tree.selector, fields)
        case Not(part):
            inner = _compile(part, fields)
            return lambda item: not inner(item)
        case Every(parts):
            return _every([_compile(part, fields) for part in parts])
        case Either(parts):
            return _either([_compile(part, fields) for part in parts])


def _every(tests: list[Test]) -> Test:
    def holds(item: Any) -> bool:
        for test in tests:  # noqa: SIM110 (a generator for each item would cost more than the tests)
            if not test(item):
                return False
        return True

    return holds


def _either(tests: list[Test]) -> Test:
    def holds(item: Any) -> bool:
        for test in tests:  # noqa: SIM110 (as above)
            if test(item):
                return True
        return False

    return holds


def _bind(match: Match, names: tuple[str, ...], fields: Fields) -> Test:
    """Follows the selector's names through the table; what is read at their end goes to the comparison."""
    field, rest = fields.get(names[0]), names[1:]
    if field is None:
        raise _no_such_selector(match, unread=len(rest))
    if not rest:
        test, read = _comparison(match, field), field.read
        return lambda item: test(read(item))
    if isinstance(field, Group):
        return _through_group(field, _bind(match, rest, field.fields))
    if isinstance(field, Groups):
        return _through_groups(field, _bind(match, rest, field.fields))
    if isinstance(field, TextMap) and len(rest) == 1:
        return _through_map(field, rest[0], _text_comparison(match), if_missing=match.is_negated)
    if isinstance(field, GroupMap):
        return _through_group_map(match, rest, field)
    inside = 2 if isinstance(field, TextMap) else 1  # names that lead into what has nothing inside
    raise _no_such_selector(match, unread=len(rest) - inside)


def _no_such_selector(match: Match, unread: int) -> BadFilter:
    names = match.selector[: len(match.selector) - unread]
    return BadFilter(f"Selector {quote('.'.join(names))} is not valid")


def _through_group(field: Group, inner: Test) -> Test:
    read = field.read
    return lambda item: inner(read(item))


def _through_groups(field: Groups, inner: Test) -> Test:
    read = field.read
    return lambda item: any(map(inner, read(item)))


def _through_map(field: TextMap | GroupMap, key: str, inner: Test, *, if_missing: bool) -> Test:
    read = field.read

    def holds(item: Any) -> bool:
        values = read(item)
        return inner(values[key]) if key in values else if_missing

    return holds


def _through_group_map(match: Match, rest: tuple[str, ...], field: GroupMap) -> Test:
    if len(rest) == 1:  # an object as a whole compares with nothing
        raise _no_such_operator(match)
    inner = _bind(match, rest[1:], field.fields)
    return _through_map(field, rest[0], inner, if_missing=match.is_negated)


# Comparisons: what each kind of field can be asked.


def _comparison(match: Match, field: Field) -> Test:
    test: Test | None = None
    match field, match.verb:
        case Text(), _:
            return _text_comparison(match)
        case Number(), Verb.EQUAL:
            test = _equal(_coerced(match, parse_int))
        case Flag(), Verb.EQUAL:
            test = _equal(_coerced(match, parse_bool))
        case ((Texts() | TextMap() | GroupMap()), Verb.IN):
            test = _contains(match.value)
        case ((Texts() | TextMap() | GroupMap() | Groups()), Verb.FILLED):
            test = bool
    if test is None:
        raise _no_such_operator(match)
    return _negated_if_asked(match, test)


def _text_comparison(match: Match) -> Test:
    match match.verb:
        case Verb.EQUAL:
            test = _equal(match.value)
        case Verb.IN:
            test = _contains(match.value)
        case Verb.MATCHES:
            test = _matches(match.value)
        case Verb.FILLED:
            test = bool  # newer than 1.8.7, which refuses it for texts
    return _negated_if_asked(match, test)


def _negated_if_asked(match: Match, test: Test) -> Test:
    return (lambda value: not test(value)) if match.is_negated else test


def _no_such_operator(match: Match) -> BadFilter:
    selector = quote(".".join(match.selector))
    return BadFilter(f'Invalid match operator "{match.operator}" for selector {selector}')


def _equal(wanted: object) -> Test:
    return lambda value: bool(value == wanted)


def _contains(wanted: str) -> Test:
    return lambda value: wanted in value


def _matches(text: str) -> Test:
    try:
        pattern = Pattern(text)
    except BadPattern as error:
        raise BadFilter(f"Failed to compile regular expression {quote(text)}: {error}") from error

    def holds(value: str) -> bool:
        try:
            return pattern.occurs_in(value)
        except BadPattern as error:
            raise BadFilter(str(error)) from error

    return holds


def _coerced(match: Match, parse: Callable[[str], object]) -> object:
    try:
        return parse(match.value)
    except BadLiteral as error:
        selector = quote(".".join(match.selector))
        sentence = f"Failed to coerce value {quote(match.value)} for selector {selector}: {error}"
        raise BadFilter(sentence) from error

"""`filter=` expressions: compiled once per request to a plain function of one item.

What an endpoint's items can be asked about is a table of fields (`filter_fields`), each with its kind and a
function that reads it. An expression is checked against the table before any item is looked at, so that a
wrong one is refused even where there is nothing to filter. The contract, section 1.9, has the rules; two are
easy to miss: a selector that leads through a list of objects holds if it holds for *any* of them, negated
or not (`Checks.Status != passing`: some check is not passing); a missing map key answers no, or yes when
negated.

All of an expression draws on one account of work: reading it, making its regular expressions, each comparison
with each item. Every item that is looked at adds what three comparisons and a simple regular expression on a
name may need; an expression that needs more, over many items, is refused. So the worst of them holds the loop
for 20 ms over a thousand items, and for 95 ms over 20,000.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal

from adsum.catalog.bad_filter import BadFilter, TooCostly
from adsum.catalog.filter_grammar import Chain, FilterMatch, FilterVerb, Not, Tree, parse_filter
from adsum.catalog.go_literals import BadLiteral, parse_bool, parse_int
from adsum.catalog.pattern import LITERAL_CHARACTER_NS, BadPattern, CostlyPattern, Pattern
from adsum.catalog.work import TooMuchWork, Work
from adsum.frozen import dataclass
from adsum.quoting import quote

WORK_NS_MAX = 15_000_000
WORK_NS_PER_ITEM = 4_000

# Prices; `work` says what they mean.
CHARACTER_READ_NS = 700
COMPARISON_NS = 200
NAME_NS = 100  # each that a selector leads through
ELEMENT_NS = 50  # of a list of texts
OBJECTS_NS = 1_500  # a list of objects, which is made for each comparison
OBJECT_NS = 700
TOO_COSTLY = "the expression needs too much work here; compare less, or ask about one service or node"

# Items differ from table to table, and a table is only ever used with its own: hence Any.
Test = Callable[[Any], bool]


FieldKind = Literal["text", "number", "flag", "texts", "text map", "group", "groups", "group map"]


@dataclass(frozen=True, slots=True)
class FilterField:
    """A group is an object with fields of its own; there are lists and maps of them."""

    kind: FieldKind
    read: Callable[[Any], Any]
    fields: Fields = field(default_factory=dict)


Fields = Mapping[str, FilterField]


def compile_filter(expression: str, fields: Fields) -> Test:
    """Raises `BadFilter`; so may the function returned, when it gets too costly. It is for one pass over the
    items: what they may cost is counted from here on."""
    work = Work(WORK_NS_MAX - CHARACTER_READ_NS * len(expression))
    holds = _compile(parse_filter(expression), fields, work)

    def test(item: Any) -> bool:
        work.grant(WORK_NS_PER_ITEM)
        try:
            return holds(item)
        except TooMuchWork:
            raise TooCostly(TOO_COSTLY) from None
        except CostlyPattern as error:
            raise TooCostly(str(error)) from None

    return test


def _compile(tree: Tree, fields: Fields, work: Work) -> Test:
    match tree:
        case FilterMatch():
            cost_ns = COMPARISON_NS + NAME_NS * len(tree.selector)
            test = _bind(tree, tree.selector, fields, work)

            def paid(item: Any) -> bool:
                work.spend(cost_ns)
                return test(item)

            return paid
        case Not(part):
            inner = _compile(part, fields, work)
            return lambda item: not inner(item)
        case Chain(word, parts):
            return _chained([_compile(part, fields, work) for part in parts], is_either=word == "or")


def _chained(tests: list[Test], *, is_either: bool) -> Test:
    def holds(item: Any) -> bool:
        for test in tests:  # a generator for each item would cost more than the tests
            if test(item) == is_either:
                return is_either
        return not is_either

    return holds


def _bind(match: FilterMatch, names: tuple[str, ...], fields: Fields, work: Work) -> Test:
    """Follows the selector's names through the table; what is read at their end goes to the comparison."""
    found, rest = fields.get(names[0]), names[1:]
    if found is None:
        raise _no_such_selector(match, unread=len(rest))
    read = found.read
    if not rest:
        test = _comparison(match, found.kind, work)
        return lambda item: test(read(item))
    if found.kind == "group":
        inner = _bind(match, rest, found.fields, work)
        return lambda item: inner(read(item))
    if found.kind == "groups":
        return _through_groups(read, _bind(match, rest, found.fields, work), work)
    if found.kind == "text map" and len(rest) == 1:
        return _through_map(read, rest[0], _text_comparison(match, work), if_missing=match.is_negated)
    if found.kind == "group map":
        if len(rest) == 1:  # an object as a whole compares with nothing
            raise _no_such_operator(match)
        inner = _bind(match, rest[1:], found.fields, work)
        return _through_map(read, rest[0], inner, if_missing=match.is_negated)
    inside = 2 if found.kind == "text map" else 1  # names that lead into what has nothing inside
    raise _no_such_selector(match, unread=len(rest) - inside)


def _no_such_selector(match: FilterMatch, unread: int) -> BadFilter:
    names = match.selector[: len(match.selector) - unread]
    return BadFilter(f"Selector {quote('.'.join(names))} is not valid")


def _through_groups(read: Callable[[Any], Any], inner: Test, work: Work) -> Test:
    def holds(item: Any) -> bool:
        objects = read(item)
        work.spend(OBJECTS_NS + OBJECT_NS * len(objects))
        return any(map(inner, objects))

    return holds


def _through_map(read: Callable[[Any], Any], key: str, inner: Test, *, if_missing: bool) -> Test:
    def holds(item: Any) -> bool:
        values = read(item)
        return inner(values[key]) if key in values else if_missing

    return holds


# Comparisons: what each kind of field can be asked.


def _comparison(match: FilterMatch, kind: FieldKind, work: Work) -> Test:
    test: Test
    match kind, match.verb:
        case "text", _:
            return _text_comparison(match, work)
        case "number", FilterVerb.EQUAL:
            test = _equal(_coerced(match, parse_int))
        case "flag", FilterVerb.EQUAL:
            test = _equal(_coerced(match, parse_bool))
        case "texts", FilterVerb.IN:
            test = _contains(match.value, ELEMENT_NS, work)
        case (("text map" | "group map"), FilterVerb.IN):
            test = _contains(match.value, 0, work)
        case "groups", FilterVerb.FILLED:
            test = _through_groups(lambda objects: objects, lambda _object: True, work)
        case (("texts" | "text map" | "group map"), FilterVerb.FILLED):
            test = bool
        case _:
            raise _no_such_operator(match)
    return _negated_if_asked(match, test)


def _text_comparison(match: FilterMatch, work: Work) -> Test:
    match match.verb:
        case FilterVerb.EQUAL:
            test = _equal(match.value)
        case FilterVerb.IN:
            test = _contains(match.value, LITERAL_CHARACTER_NS, work)
        case FilterVerb.MATCHES:
            test = _matches(match.value, work)
        case FilterVerb.FILLED:
            test = bool  # newer than 1.8.7, which refuses it for texts
    return _negated_if_asked(match, test)


def _negated_if_asked(match: FilterMatch, test: Test) -> Test:
    return (lambda value: not test(value)) if match.is_negated else test


def _no_such_operator(match: FilterMatch) -> BadFilter:
    selector = quote(".".join(match.selector))
    return BadFilter(f'Invalid match operator "{match.operator}" for selector {selector}')


def _equal(wanted: object) -> Test:
    return lambda value: bool(value == wanted)


def _contains(wanted: str, part_ns: int, work: Work) -> Test:
    """The parts are the characters of a text, or the elements of a list."""

    def holds(value: Any) -> bool:
        work.spend(part_ns * len(value))
        return wanted in value

    return holds


def _matches(text: str, work: Work) -> Test:
    try:
        return Pattern(text, work).occurs_in
    except CostlyPattern as error:
        raise TooCostly(str(error)) from None
    except BadPattern as error:
        raise BadFilter(f"Failed to compile regular expression {quote(text)}: {error}") from error


def _coerced(match: FilterMatch, parse: Callable[[str], object]) -> object:
    try:
        return parse(match.value)
    except BadLiteral as error:
        selector = quote(".".join(match.selector))
        sentence = f"Failed to coerce value {quote(match.value)} for selector {selector}: {error}"
        raise BadFilter(sentence) from error

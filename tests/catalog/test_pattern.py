"""Python's `re` is the oracle, for patterns that mean the same to it and to RE2."""

from __future__ import annotations

import contextlib
import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.catalog.pattern import Pattern
from adsum.catalog.pattern_grammar import BadPattern

ATOMS: Final = [
    "a",
    "b",
    ".",
    "[ab]",
    "[^a]",
    r"\d",
    r"\w",
    r"\s",
    r"\b",
    "^",
    "$",
    r"\A",
    "(?i:A)",
    "[a-b1-9_]",
]
REPEATS: Final = ["*", "+", "?", "{2}", "{1,3}", "{0,2}?", "*?", "{1,}"]


def _wider(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(REPEATS)).map(lambda pair: f"({pair[0]}){pair[1]}"),
    )


PATTERNS = st.recursive(st.sampled_from(ATOMS), _wider, max_leaves=8)


@given(PATTERNS, st.lists(st.text("abA1 \n", max_size=8), min_size=1, max_size=6))
def test_finds_what_re_finds(pattern: str, subjects: list[str]) -> None:
    ours = Pattern(pattern)  # one for all, so that remembered states are used again
    theirs = re.compile(pattern.replace("$", r"\Z"), re.ASCII)  # RE2's $ does not step over a last newline
    for subject in subjects:
        assert ours.occurs_in(subject) == bool(theirs.search(subject))


@given(st.text(r"ab\()[]{}*+?|^$.-:1,PQEx<>", max_size=12))
def test_any_text_is_a_pattern_or_a_bad_one(text: str) -> None:
    with contextlib.suppress(BadPattern):
        Pattern(text).occurs_in("ab1")


@pytest.mark.parametrize(
    ("pattern", "subject", "is_found"),
    [
        (r"\Qa.b\E+$", "xa.bb", True),
        (r"\Qa.b\E", "axb", False),
        (r"\B", "", True),  # Python says no until 3.14
        (r"(?m)^two$", "one\ntwo\nthree", True),
        (r"^two$", "one\ntwo\nthree", False),
        (r"(?s)one.two", "one\ntwo", True),
        (r"(?i)É", "é", True),
        (r"(?i)[^é]", "É", False),
        (r"[[:alpha:]]+[[:^digit:]]", "a1", False),
        (r"[^\d]", "12", False),
        (r"[\]a-]+x", "-]x", True),
        (r"\x{1F600}|\x41", "😀", True),
        (r"a{,2}", "a{,2}", True),
        ("", "", True),
    ],
)
def test_syntax_of_re2(pattern: str, subject: str, is_found: bool) -> None:
    assert Pattern(pattern).occurs_in(subject) is is_found


@pytest.mark.parametrize("pattern", ["(a+)+$", "a*a*a*a*a*b", "(a|a)*b", "(.*)*x"])
def test_patterns_that_hang_a_backtracking_engine_take_a_step_a_character(pattern: str) -> None:
    subject = "a" * 100_000
    assert Pattern(pattern + "c").occurs_in(subject) is False


@pytest.mark.parametrize("pattern", [r"\pL", r"[\p{Greek}]", r"(a)\1", "(?=a)", r"\C"])
def test_what_is_not_known_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern, match="error parsing regexp"):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a{100}){100}", "((((){1000}){1000}){1000}){1000}", "a" * 501])
def test_a_program_has_a_limit(pattern: str) -> None:
    with pytest.raises(BadPattern, match="more than 500 steps"):
        Pattern(pattern)


def test_length_and_nesting_have_limits() -> None:
    with pytest.raises(BadPattern, match="longer than"):
        Pattern("a" * 1_001)
    with pytest.raises(BadPattern, match="nested deeper"):
        Pattern("(" * 400 + ")" * 400)

"""Python's `re` is the oracle, for patterns that mean the same to it and to RE2."""

from __future__ import annotations

import contextlib
import gc
import re
import subprocess
import sys
from functools import partial
from typing import Final

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from adsum.catalog.pattern import BadPattern, CostlyPattern, Pattern
from adsum.catalog.work import Work

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
        (r"\pL+\p{Greek}", "aβ", True),
        (r"(?<name>b)", "abc", True),
        (r"\\C", r"a\C", True),
        (r"\Q\C\E", r"a\C", True),
        ("a.b", "a\0b", True),
        ("", "", True),
    ],
)
def test_syntax_of_re2(pattern: str, subject: str, is_found: bool) -> None:
    assert Pattern(pattern).occurs_in(subject) is is_found


@pytest.mark.parametrize("pattern", ["(a+)+$", "a*a*a*a*a*b", "(a|a)*b", "(.*)*x"])
def test_patterns_that_hang_a_backtracking_engine_take_a_step_a_character(pattern: str) -> None:
    subject = "a" * 100_000
    assert Pattern(pattern + "c").occurs_in(subject) is False


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("(?P<n-x>a)", "invalid named capture: `(?P<n-x>`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(a{100}){100}", "invalid repeat count: `{100}`"),
        ("(a", "missing closing ): `(a`"),
        ("[a", "missing closing ]: `[a`"),
        ("[pattern too large", "missing closing ]: `[pattern too large`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("(\ud800)", "invalid UTF-8: ``"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_go(pattern: str, sentence: str) -> None:
    with pytest.raises(BadPattern) as refused:
        Pattern(pattern)
    assert str(refused.value) == f"error parsing regexp: {sentence}"


@pytest.mark.parametrize("pattern", ["a.b", "ab"])
def test_half_a_character_is_found_by_nothing_but_itself(pattern: str) -> None:
    assert not Pattern(pattern).occurs_in("a\ud800")
    assert Pattern("\ud800").occurs_in("a\ud800")


def test_length_has_a_limit() -> None:
    with pytest.raises(BadPattern, match="longer than 1000 characters"):
        Pattern("a" * 1_001)


@pytest.mark.parametrize("pattern", [".{0,1000}.{0,1000}", "(?:[^a]{30}){33}"])
def test_a_program_has_a_limit(pattern: str) -> None:
    with pytest.raises(CostlyPattern, match="is too large; repeat less in it"):
        Pattern(pattern)


def test_a_search_is_paid_for_by_the_size_of_the_program() -> None:
    text = "a" * 100
    assert _searches("a.b", text) > 10 * _searches("a[bc]{500}d", text) > 0


def _searches(pattern: str, text: str) -> int:
    """How many are granted."""
    program = Pattern(pattern)
    for done in range(10_000):
        try:
            program.occurs_in(text)
        except CostlyPattern:
            return done
    raise AssertionError("there is no end to it")


def test_patterns_of_one_account_share_it() -> None:
    work = Work(1_000_000)
    with pytest.raises(CostlyPattern, match="too much work"):
        list(map(partial(Pattern, work=work), ["a.b"] * 1_000))


@pytest.mark.parametrize(
    "pattern",
    ["a{1000}" * 140, "(?:a{0,1000}){1}" * 60, r"\pL" * 333, r"(?i)[\PL\PL]" * 70, r"(\pL|\pN){1000}" * 66],
)
def test_what_takes_milliseconds_to_read_is_not_read(pattern: str) -> None:
    """The library would find that its program is too large, twice, and take 4 to 15 ms each time."""
    with pytest.raises(CostlyPattern, match="too much work"):
        Pattern(pattern, Work(5_000_000))


def test_text_without_anything_special_is_searched_without_a_program() -> None:
    assert Pattern("web-1").occurs_in("a web-10")
    with pytest.raises(CostlyPattern, match="too much work"):
        Pattern("b").occurs_in("a" * 1_000_000)


def test_no_program_outlives_its_pattern() -> None:
    kind = type(Pattern("a.b")._program)
    re2.purge()  # of what others left
    before = _count(kind)
    for n in range(200):
        Pattern(f"a.{n}")
    assert _count(kind) == before


def _count(kind: type) -> int:
    gc.collect()
    return sum(type(each) is kind for each in gc.get_objects())


def test_the_library_is_loaded_for_the_first_pattern_that_needs_it() -> None:
    program = (
        "import sys; from adsum.catalog.pattern import Pattern; Pattern('web-1').occurs_in('web');"
        "before = 're2' in sys.modules; Pattern('web.'); print(before, 're2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"

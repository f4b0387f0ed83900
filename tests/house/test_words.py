"""Words that no longer appear in what people read, each with the word for it (docs/glossary.md).

Pages that still hold some are listed with how many; the numbers only go down.
"""

from __future__ import annotations

import re

from tests.house.rooms import ROOT

RETIRED = {
    r"\b(?:the|a|on|this) roll\b(?!-| )|\bon the roll\b": "membership, members",
    r"\bfarewells?\b": "leave message",
    r"\bhearsay\b": "claims",
    r"\bcolleagues?\b": "other agents",
    r"\bnought\b": "0",
    r"\b(?:count|counter) of (?:its|their|the target's|\w+'s) life\b|\bcount of life\b": "heartbeat counter",
    r"\b(?:each|which|new|former|last|this|very|that) li(?:fe|ves)\b": "generation, start",
}
READ = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/**/*.md",
    "deploy/**/*.md",
    "deploy/**/*.yml",
    "deploy/**/*.json",
)
GRANDFATHERED: dict[str, int] = {}


def found_in(text: str) -> list[str]:
    return [match.group() for word in RETIRED for match in re.finditer(word, text, re.IGNORECASE)]


def test_pages_use_the_words_of_the_glossary() -> None:
    pages = {str(path.relative_to(ROOT)): path for pattern in READ for path in ROOT.glob(pattern)}
    counted = {name: found_in(path.read_text()) for name, path in pages.items()}
    too_many = {name: words for name, words in counted.items() if len(words) > GRANDFATHERED.get(name, 0)}
    assert too_many == {}


def test_pages_that_were_mended_leave_the_list() -> None:
    counted = {name: len(found_in((ROOT / name).read_text())) for name in GRANDFATHERED}
    assert counted == GRANDFATHERED

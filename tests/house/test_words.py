"""Words that no longer appear in what people read, each with the word for it (docs/glossary.md).

Pages that still hold some are listed with how many; the numbers only go down.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.rooms import IMPORT_ROOTS, ROOT

RETIRED = {
    r"\b(?:the|a|this) roll\b(?!-| call| of)": "membership, members",
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


def test_what_the_product_says_uses_the_words_of_the_glossary() -> None:
    """Everything in quotes but docstrings: errors, help, log lines, metrics."""
    texts = {path: list(texts_in(path)) for root in IMPORT_ROOTS for path in root.rglob("*.py")}
    retired = {str(path.relative_to(ROOT)): found_in("\n".join(texts[path])) for path in texts}
    assert {name: words for name, words in retired.items() if words} == {}


def texts_in(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, documented) and node.body]
    docstrings = {id(body[0].value) for body in bodies if isinstance(body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_pages_that_were_mended_leave_the_list() -> None:
    counted = {name: len(found_in((ROOT / name).read_text())) for name in GRANDFATHERED}
    assert counted == GRANDFATHERED

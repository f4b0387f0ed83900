"""Gossip's inner state is read through its `MembershipView`, so it can change without the other rooms."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.rooms import IMPORT_ROOTS, ROOT

INSIDE = [ROOT / "agent" / "adsum" / "gossip", ROOT / "tests" / "gossip"]


def readings(source: str) -> Iterator[int]:
    """Lines that read the shared state of something else than themselves."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name("self")):
                pass
            case ast.Attribute(attr="shared" | "_shared", lineno=line):
                yield line


def files_outside() -> Iterator[Path]:
    for root in [*IMPORT_ROOTS, ROOT / "tests"]:
        for path in root.rglob("*.py"):
            if not any(path.is_relative_to(inside) for inside in INSIDE):
                yield path


def test_nobody_outside_gossip_reads_its_shared_state() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}" for path in files_outside() for line in readings(path.read_text())
    ]
    assert sorted(found) == []


def test_a_reading_past_the_door_is_seen() -> None:
    assert list(readings("a = core.shared.me\nb = core._shared.me\nc = self.shared.me")) == [1, 2]


DOWN = ["core", "sync", "claim_merger", "newcomers", "rivals", "probe", "suspicions", "shared_state"]


def test_the_parts_of_gossip_call_each_other_in_one_direction() -> None:
    """As `shared_state` draws it: who imports nobody above it holds nobody above it either."""
    room, upwards = ROOT / "agent" / "adsum" / "gossip", []
    for place, part in enumerate(DOWN):
        for node in ast.walk(ast.parse((room / f"{part}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported = node.module.rpartition(".")[2]
                if imported in DOWN[:place]:
                    upwards.append(f"{part} imports {imported}")
    assert upwards == []

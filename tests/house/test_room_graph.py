"""Which room may import which: the graph below, in one direction only, as docs/internals/architecture.md
draws it. A new edge is a decision: whoever needs it adds it here and there, and says why in the commit."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

from tests.house.rooms import IMPORT_ROOTS, ROOT, module_name

SHARED = "shared"  # the modules directly in agent/adsum; every room may use them, and they use no room

MAY_IMPORT: dict[str, set[str]] = {
    # Cores.
    "gossip": set(),
    "catalog": set(),
    "raft": set(),
    "consensus": {"raft"},
    "store": {"raft"},
    "sessions": {"store"},
    "agent": {"catalog", "consensus", "gossip", "raft", "store"},
    "dns": {"catalog"},
    # Rims.
    "logs": set(),
    "sockets": {"logs"},
    "storage": {"catalog", "consensus", "logs", "raft"},
    "net": {"gossip", "logs", "sockets", "storage"},
    "http": {"logs", "net"},
    "journal": {"gossip", "logs", "storage"},
    "dns_server": {"dns", "logs", "sockets"},
    "health_checks": {"catalog", "logs"},
    "config": {"catalog", "logs", "net"},
    "watching": {"catalog", "config", "health_checks", "http", "logs"},
    "peers": {"agent", "catalog", "gossip", "logs", "net"},
    "api": {"agent", "catalog", "config", "dns", "gossip", "http", "journal", "logs", "net", "peers"},
    "observe": {
        *("agent", "api", "catalog", "config", "consensus", "dns_server", "gossip", "health_checks", "http"),
        *("logs", "net", "peers", "raft", "servers", "sessions", "storage", "store", "watching"),
    },
    "servers": {"consensus", "logs", "net", "raft", "sessions", "storage", "store"},
    "process": {
        *("agent", "api", "catalog", "config", "consensus", "dns", "dns_server", "gossip", "health_checks"),
        *("http", "journal", "logs", "net", "observe", "peers", "raft", "servers", "sessions"),
        *("storage", "store", "watching"),
    },
    "testing": {
        *("agent", "catalog", "consensus", "gossip", "logs", "process", "raft", "servers", "sessions"),
        *("storage", "store"),
    },
    "cli": {"catalog", "config", "gossip", "net", "process", "testing"},
}


def room_of(module: str) -> str:
    _adsum, *parts = module.split(".")
    return parts[0] if len(parts) > 1 else SHARED


def modules() -> dict[str, Path]:
    return {module_name(path): path for root in IMPORT_ROOTS for path in root.rglob("*.py")}


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("adsum"):
            for name in node.names:
                full = f"{node.module}.{name.name}"
                yield full if full in known else node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("adsum."))


def edges() -> dict[tuple[str, str], str]:
    known = modules()
    found: dict[tuple[str, str], str] = {}
    for module, path in known.items():
        if path.stem in ("__main__", "__init__"):
            continue
        for imported in imports(path, known):
            edge = room_of(module), room_of(imported)
            if edge[0] != edge[1] and edge[1] != SHARED:
                found.setdefault(edge, f"{module} imports {imported}")
    return found


def test_rooms_import_only_what_they_may() -> None:
    new = {why for (room, other), why in edges().items() if other not in MAY_IMPORT.get(room, set())}
    assert sorted(new) == []


def test_what_is_allowed_is_used() -> None:
    used = set(edges())
    allowed = {(room, other) for room, others in MAY_IMPORT.items() for other in others}
    assert sorted(allowed - used) == []


def test_rooms_import_each_other_in_one_direction() -> None:
    tuple(TopologicalSorter(MAY_IMPORT).static_order())  # raises a CycleError that names the circle


def test_the_page_on_the_architecture_draws_the_same_graph() -> None:
    page = (ROOT / "docs" / "internals" / "architecture.md").read_text()
    rows = re.findall(r"^\| `(\w+)/` \| [^|]+ \|([^|]*)\|$", page, re.MULTILINE)
    drawn = {room: set(re.findall(r"\w+", others)) for room, others in rows}
    assert drawn == MAY_IMPORT


def test_class_names_are_unique_enough_to_grep() -> None:
    places: dict[str, list[str]] = {}
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}

"""The wall between cores and rims, in both halves: what a core says it imports, and what it drags in.

A core is deterministic and does no I/O, so that a thousand of them can be run in one process from one
seed. The first half reads the syntax (imports, hash order, set order); the second loads each core in a
process of its own, for `import adsum.dns.wire` also runs every `__init__` above it.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.breaches import import_breaches, order_breaches
from tests.house.rooms import IMPORT_ROOTS, ROOT, core_files, module_name

NEVER_LOADED = {"trio", "socket", "ssl", "dnslib", "msgspec"}

# Entries of the log, records and commands of the store are structs of msgspec: a third of the memory, a tenth
# of the time, nothing for the garbage collector. So is what others say of keys. Other cores do without, for
# they are loaded before the first answer to DNS.
STRUCTS = {"msgspec", "msgspec.msgpack", "msgspec.structs"}
SPEAKERS_OF_KEYS = (
    *("adsum.accepting", "adsum.dedup", "adsum.forwarded", "adsum.kv", "adsum.kv_history"),
    *("adsum.external", "adsum.packed", "adsum.session", "adsum.store_requests", "adsum.transactions"),
    *("adsum.agent.agent_request", "adsum.agent.asking", "adsum.agent.forwarding"),
    "adsum.agent.store_publishing",
)
# Client agents load none of them.
OF_SERVERS = (
    *("adsum.agent.server_agent", "adsum.consensus.", "adsum.raft."),
    *("adsum.sessions.", "adsum.store."),
)

CORE_FILES = core_files()
CORE_NAMES = {module_name(path) for path in CORE_FILES}


@pytest.mark.parametrize("path", CORE_FILES, ids=lambda path: module_name(path))
def test_core_imports_only_what_cores_may(path: Path) -> None:
    allowed = CORE_NAMES | STRUCTS if may_have_structs(module_name(path)) else CORE_NAMES
    assert list(import_breaches(ast.parse(path.read_text()), allowed)) == []


@pytest.mark.parametrize("path", CORE_FILES, ids=lambda path: module_name(path))
def test_core_depends_on_no_hash_no_set_order_and_no_io(path: Path) -> None:
    assert list(order_breaches(ast.parse(path.read_text()))) == []


@pytest.fixture(scope="module")
def loaded_by_core() -> dict[str, list[str]]:
    """For each core, what is loaded in a process (forked from a bare one) that imported nothing else."""
    program = """
import importlib, json, os, sys
for name in sys.argv[1:]:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        importlib.import_module(name)
        print(json.dumps([name, sorted(sys.modules)]), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
    command = [sys.executable, "-c", program, *sorted(CORE_NAMES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", sorted(CORE_NAMES))
def test_core_alone_in_a_process_loads_no_rim(name: str, loaded_by_core: dict[str, list[str]]) -> None:
    loaded = loaded_by_core[name]
    rims = {
        module for module in loaded if module.startswith("adsum.") and not is_core_or_package_of_cores(module)
    }
    never = NEVER_LOADED - STRUCTS if may_have_structs(name) else NEVER_LOADED
    assert never.intersection(loaded) | rims == set()


def may_have_structs(module: str) -> bool:
    return module in SPEAKERS_OF_KEYS or module.startswith(OF_SERVERS)


def is_core_or_package_of_cores(module: str) -> bool:
    return module in CORE_NAMES or any(core.startswith(module + ".") for core in CORE_NAMES)


def test_packages_above_a_core_have_an_empty_init() -> None:
    above = {
        parent / "__init__.py"
        for path in CORE_FILES
        for parent in path.parents
        if parent.is_relative_to(ROOT)
    }
    assert [str(init) for init in sorted(above) if init.exists() and init.read_text()] == []


def test_no_init_closes_the_namespace() -> None:
    """With one of these, the three roots would not merge, or ./dns would shadow dnspython."""
    closing = [root / "__init__.py" for root in IMPORT_ROOTS] + [
        root / "adsum/__init__.py" for root in IMPORT_ROOTS
    ]
    assert [str(path) for path in closing if path.exists()] == []


def test_import_dns_from_the_repository_root_is_dnspython() -> None:
    command = [
        sys.executable,
        "-c",
        "import dns.version; print(dns.__file__)",
    ]  # -c puts the folder on the path
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    assert "site-packages" in found


def test_every_package_is_marked_as_typed() -> None:
    packages = [init.parent for root in IMPORT_ROOTS for init in (root / "adsum").glob("*/__init__.py")]
    assert packages
    assert [str(package) for package in packages if not (package / "py.typed").exists()] == []


@pytest.mark.parametrize(
    "source",
    [
        "import trio",
        "import os.path",
        "import json",
        "import random",
        "from random import choice",
        "from adsum.observe import log",
        "from . import now",
        "from random import Random\nrng = Random(1)",
        "def later():\n    import socket",
        "import importlib",
    ],
)
def test_forbidden_import_is_seen(source: str) -> None:
    assert len(list(import_breaches(ast.parse(source), {"adsum.now"}))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from random import Random\ndef pick(rng: Random) -> Random | None: return rng",
        "from collections.abc import Iterable",
        "from adsum.now import Now",
        "from adsum import now",
        "from __future__ import annotations\nfrom dataclasses import dataclass",
    ],
)
def test_allowed_import_is_let_through(source: str) -> None:
    assert list(import_breaches(ast.parse(source), {"adsum.now"})) == []


@pytest.mark.parametrize(
    "source",
    [
        "hash(name)",
        "for name in {'a', 'b'}: send(name)",
        "for name in set(names): send(name)",
        "sends = [Send(name) for name in {n for n in names}]",
        "order = list(set(names))",
        "text = ','.join({'a', 'b'})",
        "first, *rest = [*set(names)]",
        "seen = set()\nfor name in seen: send(name)",
        "def f(names: set[str]) -> None:\n    for name in names: send(name)",
        "class A:\n    names: set[str]\n    def f(self):\n        return [n for n in self.names]",
        "class A:\n    def f(self): self.free = set()\n    def g(self): return self.free.pop()",
        "for name in set(a) - set(b): send(name)",
        "for name in first.keys() - second.keys(): send(name)",
        "sorted(set(names), key=len)",
        "def f() -> frozenset[str]: ...\nfor name in f(): send(name)",
        "next(iter({1, 2}))",
        "queue.extend(set(names))",
    ],
)
def test_dependence_on_hash_or_set_order_is_seen(source: str) -> None:
    assert len(list(order_breaches(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "for name in sorted(set(names)): send(name)",
        "found = any(name in wanted for name in {1, 2})",
        "both = {name for name in set(a)}",
        "count = len(set(names))",
        "names: dict[str, int] = {}\nfor name in names: send(name)",
        "def f(names: set[str]) -> bool: return 'a' in names",
        "def f():\n    names = set()\ndef g(names: list[str]) -> None:\n    for name in names: send(name)",
    ],
)
def test_order_blind_use_of_a_set_is_let_through(source: str) -> None:
    assert list(order_breaches(ast.parse(source))) == []

"""An agent is put together in one place: the daemon, the simulation and the tests of endpoints get a part
that is added there, or none of them does."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.rooms import IMPORT_ROOTS, ROOT, module_name

MADE_IN = {
    "AgentCore": "adsum.agent.client_agent",
    "ClusterState": "adsum.agent.client_agent",
    "Keyrings": "adsum.peers.peers",
    "OwnerForwarding": "adsum.peers.peers",
    "Outputs": "adsum.peers.peers",
    "PeerHandlers": "adsum.peers.peers",
}

OF_SERVERS = ("adsum.agent.server_agent", "adsum.consensus", "adsum.raft", "adsum.servers", "adsum.storage")


def called(path: Path) -> set[str]:
    calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


@pytest.fixture(scope="module")
def called_in() -> dict[str, set[str]]:
    return {module_name(path): called(path) for root in IMPORT_ROOTS for path in sorted(root.rglob("*.py"))}


@pytest.mark.parametrize("name", MADE_IN)
def test_a_part_of_an_agent_is_made_in_one_place(name: str, called_in: dict[str, set[str]]) -> None:
    assert [module for module, names in called_in.items() if name in names] == [MADE_IN[name]]


def test_the_agent_of_the_tests_of_endpoints_is_made_there_too() -> None:
    names = called(ROOT / "tests/api/agents.py")
    assert {"client_agent", "Peers"} <= names
    assert names.isdisjoint(MADE_IN)


def test_a_client_loads_nothing_of_consensus() -> None:
    program = "import sys, adsum.agent.client_agent; print('\\n'.join(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert "adsum.gossip.core" in loaded.split()
    assert [name for name in loaded.split() if name.startswith(OF_SERVERS)] == []

"""What this agent is among others. Today it is alone: a server leads itself, a client knows no leader.

With gossip and consensus the answers will come from there; these questions stay.
"""

from __future__ import annotations

from adsum.api.door import Agent
from adsum.catalog.model import Node


def leads_alone(agent: Agent) -> bool:
    """One that waits for others to elect with (`bootstrap_expect` above one) leads nobody."""
    config = agent.config
    return config.is_dev or (config.is_server and config.bootstrap_expect <= 1)


def knows_leader(agent: Agent) -> bool:
    return leads_alone(agent)


def is_server(agent: Agent) -> bool:
    return agent.config.is_server or agent.config.is_dev


def own_node(agent: Agent) -> Node:
    host = agent.view.node(agent.own.settings.node_name)
    assert host is not None, "an agent's own node is put before anything asks"
    return host.node.value


def server_address(agent: Agent) -> str:
    """Where servers call each other."""
    return with_port(own_node(agent).address, agent.config.ports.server)


def leader_address(agent: Agent) -> str:
    return server_address(agent) if leads_alone(agent) else ""


def with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"

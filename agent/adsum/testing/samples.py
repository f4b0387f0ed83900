"""A node, a service and checks to begin a test with; change a field with `dataclasses.replace`."""

from __future__ import annotations

from adsum.agent.settings import AgentSettings
from adsum.catalog.definitions import CheckDefinition, ServiceDefinition
from adsum.catalog.model import Node
from adsum.now import SECOND

NODE = Node(node_id="6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01", name="n1", address="127.0.0.1", datacenter="dc1")
SETTINGS = AgentSettings(node=NODE)
HTTP_CHECK = CheckDefinition(
    check_id="service:web1",
    name="Service 'web' check",
    service_id="web1",
    http="http://127.0.0.1:80/",
    interval_ns=10 * SECOND,
)
TTL_CHECK = CheckDefinition(
    check_id="service:web1", name="Service 'web' check", service_id="web1", ttl_ns=10 * SECOND
)
WEB = ServiceDefinition(service_id="web1", name="web", port=80, checks=(HTTP_CHECK,))

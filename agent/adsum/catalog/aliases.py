"""The alias check: it repeats what the checks of another service, or of a node, say, in Consul's texts."""

from __future__ import annotations

from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.catalog.indexes import Family
from adsum.catalog.model import SERF_HEALTH
from adsum.catalog.view import SEVERITY, View
from adsum.topics import Topic

Verdict = tuple[CheckStatus, str]


def verdict(view: View, own_node: str, definition: CheckDefinition) -> Verdict:
    node_name = definition.alias_node or own_node
    host = view.node(node_name)
    service_id = definition.alias_service
    instance = host.instances.get(service_id) if host is not None else None
    if host is None or (service_id and instance is None):
        return CheckStatus.CRITICAL, f"Service {service_id} could not be found on node {node_name}"
    # Of its own node an alias sees what is registered there, of another's also whether it is present.
    unseen = {definition.check_id} if definition.alias_node else {definition.check_id, SERF_HEALTH}
    judges = [row.value for row in (instance.all_checks() if instance else host.node_checks)]
    judges = sorted(
        (each for each in judges if each.check_id not in unseen), key=lambda check: check.check_id
    )
    if not judges:
        return CheckStatus.PASSING, "No checks found."
    gravest = max(judges, key=lambda check: SEVERITY[check.status])
    if gravest.status is CheckStatus.PASSING:
        return CheckStatus.PASSING, "All checks passing."
    return gravest.status, f'Aliased check "{gravest.name}" failing: {gravest.output}'


def topics(own_node: str, definition: CheckDefinition) -> tuple[Topic, ...]:
    """What an alias waits on: any change among the services and checks of the node it looks at."""
    node_name = (definition.alias_node or own_node).lower()
    return Topic(Family.NODE, node_name), Topic(Family.NODE_CHECKS, node_name)

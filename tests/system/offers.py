"""A cluster in which every member offers the same services, and whether all of its agents show all of that.

What an agent shows is compared with what each member says of itself, node ids included. So a former life that
is still listed beside the present one, or in its place, is seen although both go by one name.
"""

from __future__ import annotations

import http.client
from typing import NamedTuple

import msgspec

from tests.system.agents import Agent, AgentFailed, until
from tests.system.clusters import Cluster, Member, Status

SERVICES = ("db", "queue", "web")
REGISTERED_S_MAX = 30.0
ROWS_SHOWN = 4


Rows = list[tuple[str, str, str]]  # status or service, name and id of the node


class Shown(NamedTuple):
    """By one agent; what is missing and what is too much are differences of two of these."""

    members: Rows
    instances: Rows


class Tags(msgspec.Struct):
    id: str


class MemberRow(msgspec.Struct, rename="pascal"):
    name: str
    status: int
    tags: Tags


class Node(msgspec.Struct):
    name: str = msgspec.field(name="Node")
    id: str = msgspec.field(name="ID")


class Instance(msgspec.Struct):
    node: Node = msgspec.field(name="Node")


MEMBERS = msgspec.json.Decoder(list[MemberRow])
INSTANCES = msgspec.json.Decoder(list[Instance])


def offer(member: Member) -> None:
    """Registers all of its services, as soon as the agent takes them."""
    for service in SERVICES:
        if not until(lambda service=service: is_registered(member.agent, service), within_s=REGISTERED_S_MAX):  # type: ignore[misc]  # of the loop
            raise AgentFailed(f"{member.name} does not take {service}:\n{member.agent.log_tail()}")


def is_registered(agent: Agent, service: str) -> bool:
    try:
        return agent.put("/v1/agent/service/register", {"Name": service})[0] == http.client.OK
    except (OSError, http.client.HTTPException):
        return False


def node_id(member: Member) -> str:
    """As it lists itself. Asked until it answers, for it may just have been started; and not of
    /v1/agent/self, which Consul holds back while it takes a registration."""

    def own() -> list[str]:
        return [id_ for _status, name, id_ in members_shown(member) if name == member.name]

    found = until(own, within_s=REGISTERED_S_MAX)
    if not found:
        raise AgentFailed(f"{member.name} does not say who it is:\n{member.agent.log_tail()}")
    return found[0]


def expected(cluster: Cluster) -> Shown:
    """All run, and each is in its present life."""
    nodes = sorted((member.name, node_id(member)) for member in cluster.members)
    return Shown(
        [(Status.ALIVE.name, name, id_) for name, id_ in nodes],
        [(service, name, id_) for service in SERVICES for name, id_ in nodes],
    )


def shown(member: Member) -> Shown:
    return Shown(members_shown(member), instances_shown(member))


def members_shown(member: Member) -> Rows:
    rows = MEMBERS.decode(member.ask("/v1/agent/members") or b"[]")
    return sorted((Status(row.status).name, row.name, row.tags.id) for row in rows)


def instances_shown(member: Member) -> Rows:
    found = Rows()
    for service in SERVICES:
        rows = INSTANCES.decode(member.ask(f"/v1/health/service/{service}?passing") or b"[]")
        found += sorted((service, row.node.name, row.node.id) for row in rows)
    return found


def differences(cluster: Cluster, wanted: Shown) -> list[str]:
    """A line for each agent that does not show just what it ought to."""
    lines = []
    for member in cluster.members:
        seen = shown(member)
        if seen != wanted:
            lines.append(f"{member.name}: {difference(seen, wanted)}")
    return lines


def difference(seen: Shown, wanted: Shown) -> str:
    rows_seen, rows_wanted = (rows.members + rows.instances for rows in (seen, wanted))
    lacking = [" ".join(row) for row in rows_wanted if row not in rows_seen]
    beyond = [" ".join(row) for row in rows_seen if row not in rows_wanted]
    twice = [" ".join(row) for row in sorted(set(rows_seen)) if rows_seen.count(row) > 1]
    kinds = (("lacks", lacking), ("shows, and should not,", beyond), ("shows twice", twice))
    return "; ".join(f"{words} {', '.join(rows[:ROWS_SHOWN])} ({len(rows)})" for words, rows in kinds if rows)

"""Whether a new cluster may be founded now. Pure: what is known goes in, the membership or the reason to wait
comes out.

The danger is two clusters. So a server founds one only with an own empty log, when exactly as many servers as
everyone expects are alive in its datacenter, and each of them has just said itself, in a direct call, that it
is as empty as we are and sees the same servers: where more were started than are expected, and gossip has not
told everybody yet, two sets of them would found at once. A server that expects nothing is no founder and is
not counted; but it may belong to a cluster already, so it is asked as well, and has to answer. Whoever comes
to that conclusion writes the same membership, sorted, and its hash is the cluster's id. Log ids are drawn at
random, so the hash of a wiped server's second attempt is another one.

Anything else means wait. A server that finds a cluster waits to be taken in by it; but if it is one of the
founders itself, by its log id, it founds that one as well, whatever has become of the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from adsum.raft.changer import MEMBERS_MAX, encode_configuration, flaw
from adsum.raft.types import Configuration, MemberId

CLUSTER_ID_CHARACTERS = 32


@dataclass(frozen=True, slots=True)
class ServerStanding:
    """What a server says of itself when it is asked directly."""

    member: MemberId
    datacenter: str
    expect: int
    cluster_id: str  # empty: of none
    is_empty: bool  # nothing in its log
    voters: tuple[MemberId, ...] = ()  # of its cluster, as it knows them now: at first the founders
    sees: tuple[str, ...] = ()  # nodes of the servers alive in its datacenter that may found, itself too
    is_asking: bool = False  # others, and may found a cluster by what they answer


@dataclass(frozen=True, slots=True)
class AliveServer:
    """A server as gossip knows it."""

    node: str
    datacenter: str
    expect: int


@dataclass(frozen=True, slots=True)
class FoundNow:
    configuration: Configuration
    cluster_id: str


@dataclass(frozen=True, slots=True)
class KeepWaiting:
    reason: str  # for the operator


def decide(
    own: ServerStanding, alive: Sequence[AliveServer], answers: Mapping[str, ServerStanding | None]
) -> FoundNow | KeepWaiting:
    """`answers` has what each of the others replied just now; None for one that did not."""
    reason = hindrance(own, alive)
    if reason is not None:
        return KeepWaiting(reason)
    members = [own.member]
    asked = (own.member.node, own.datacenter, alive)
    for node, objection in [
        *((server.node, _objection) for server in founders(*asked)),
        *((server.node, _objection_of_bystander) for server in bystanders(*asked)),
    ]:
        answer = answers.get(node)
        if answer is None:
            return KeepWaiting(f"server {node} does not answer")
        reason = objection(own, node, answer)
        if reason is not None:
            return KeepWaiting(reason)
        if objection is _objection:
            members.append(answer.member)
    configuration = Configuration(voters=tuple(sorted(members)))
    return FoundNow(configuration, cluster_id_of(configuration))


def unsettled(
    me: MemberId, consent: Sequence[str], answers: Mapping[str, ServerStanding | None]
) -> str | None:
    """Why one of those with whom this server agreed to found a cluster may have founded it, or may do so yet
    by this server's consent; None if none of them can."""
    agreed = f"this server agreed to found a cluster with {', '.join(consent)}"
    for node in [each for each in consent if each != me.node]:
        answer = answers.get(node)
        if answer is None:
            return (
                f"{agreed}, and {node}, which may have done so, does not answer: start it again, or, if it "
                f"is gone for good, stop this server and remove the file `consent` beside its log"
            )
        if answer.cluster_id or not answer.is_empty:
            return f"{agreed}, and {node} has founded one or is about to: this server waits for it"
        if answer.member.node != node:
            return f"what answers as server {node} calls itself {answer.member.node}"
        if answer.is_asking:
            return f"{agreed}, and {node} is just asking the others"
    return None


def with_us(me: MemberId, answers: Iterable[ServerStanding | None]) -> FoundNow | None:
    """The cluster that somebody has founded with this very log: the id proves the membership."""
    for answer in answers:
        if answer is not None and me in answer.voters:
            configuration = Configuration(voters=answer.voters)
            if answer.cluster_id == cluster_id_of(configuration) and not flaw(configuration):
                return FoundNow(configuration, answer.cluster_id)
    return None


def counted_on_in(me: MemberId, answers: Iterable[ServerStanding | None]) -> str:
    """The cluster in which this very log has a vote, among voters that are no longer those who founded it:
    so its membership is committed, and on the disks of others."""
    for answer in answers:
        if answer is not None and me in answer.voters and not flaw(Configuration(voters=answer.voters)):
            return answer.cluster_id
    return ""


def to_ask(me: str, datacenter: str, alive: Sequence[AliveServer]) -> list[AliveServer]:
    """The others in this datacenter, each once."""
    others = {server.node: server for server in alive if server.datacenter == datacenter}
    return [server for node, server in sorted(others.items()) if node != me]


def founders(me: str, datacenter: str, alive: Sequence[AliveServer]) -> list[AliveServer]:
    """Those of the others that may found a cluster with us."""
    return [server for server in to_ask(me, datacenter, alive) if expects_founders(server)]


def bystanders(me: str, datacenter: str, alive: Sequence[AliveServer]) -> list[AliveServer]:
    """Those of the others that wait to be taken in, or were."""
    return [server for server in to_ask(me, datacenter, alive) if not expects_founders(server)]


def expects_founders(server: AliveServer) -> bool:
    return server.expect > 0


def seen(own: AliveServer, alive: Sequence[AliveServer]) -> tuple[str, ...]:
    """The nodes that would found together. More than a cluster may have are too many, whoever they are."""
    others = founders(own.node, own.datacenter, alive)
    nodes = sorted(server.node for server in [own, *others] if expects_founders(server))
    return tuple(nodes[: MEMBERS_MAX + 1])


def cluster_id_of(configuration: Configuration) -> str:
    """Of the founders."""
    return hashlib.sha256(encode_configuration(configuration)).hexdigest()[:CLUSTER_ID_CHARACTERS]


def hindrance(own: ServerStanding, alive: Sequence[AliveServer]) -> str | None:
    """What speaks against it before anybody is asked."""
    if own.cluster_id or not own.is_empty:
        return "this server has a log already"
    if own.expect < 1:
        return "bootstrap_expect is not set: this server waits to be taken in by a cluster"
    others = founders(own.member.node, own.datacenter, alive)
    for server in others:
        if server.expect != own.expect:
            return (
                f"server {server.node} has bootstrap_expect {server.expect}, and this one "
                f"{own.expect}: they must be equal"
            )
    beside = len(bystanders(own.member.node, own.datacenter, alive))
    if beside > MEMBERS_MAX:
        return f"{beside} servers have no bootstrap_expect, and a cluster has at most {MEMBERS_MAX}"
    if len(others) + 1 != own.expect:
        counted = f"{len(others) + 1} servers are alive in {own.datacenter}, and {own.expect} are expected"
        return counted + (f"; {beside} more have no bootstrap_expect" if beside else "")
    return None


def _objection(own: ServerStanding, node: str, answer: ServerStanding) -> str | None:
    reason = _objection_of_any(own, node, answer)
    if reason is not None:
        return reason
    if (answer.datacenter, answer.expect) != (own.datacenter, own.expect):
        return (
            f"server {node} says datacenter {answer.datacenter} and bootstrap_expect {answer.expect}; here "
            f"it is {own.datacenter} and {own.expect}"
        )
    return _objection_to_view(own, node, answer)


def _objection_of_bystander(own: ServerStanding, node: str, answer: ServerStanding) -> str | None:
    reason = _objection_of_any(own, node, answer)
    if reason is not None:
        return reason
    if (answer.datacenter, answer.expect) != (own.datacenter, 0):
        return (
            f"server {node} says datacenter {answer.datacenter} and bootstrap_expect {answer.expect}, and "
            f"gossip {own.datacenter} and none"
        )
    return _objection_to_view(own, node, answer)


def _objection_of_any(own: ServerStanding, node: str, answer: ServerStanding) -> str | None:
    if answer.cluster_id:
        return f"server {node} belongs to cluster {answer.cluster_id}: this one waits to be taken in"
    if not answer.is_empty:
        return f"server {node} has a log, or founds with others, and has not said of which cluster"
    if answer.member.node != node or answer.member == own.member:
        return f"what answers as server {node} calls itself {answer.member.node}"
    return None


def _objection_to_view(own: ServerStanding, node: str, answer: ServerStanding) -> str | None:
    if answer.sees != own.sees:
        return f"server {node} sees {', '.join(answer.sees)}, and this one {', '.join(own.sees)}"
    return None

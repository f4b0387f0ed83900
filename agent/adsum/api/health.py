"""/v1/health: instances with the checks that judge them, and checks by node, service and state."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from adsum.api import shapes
from adsum.api.api_types import Agent
from adsum.api.blocking import BlockingReads
from adsum.api.queries import MESH_HEALTH_TOPICS, Nearness, filter_test, host_test, instances, named, proxies
from adsum.api.rendering import WaitableRead
from adsum.catalog.indexes import Family
from adsum.catalog.model import Check, PlacedCheck
from adsum.catalog.view import ANY_STATE, CatalogHost, Row
from adsum.http.request import Query
from adsum.http.router import Route
from adsum.topics import Topic

if TYPE_CHECKING:
    from adsum.catalog.filter import Test

# Newer clients look for it, to tell this from Consul's streaming.
BACKEND = (("X-Consul-Query-Backend", "blocking-query"),)

_entries = partial(instances, items="health_entry", shown=shapes.health_entry, headers=BACKEND)

Placed = Iterable[tuple[CatalogHost, Row[Check]]]


def routes(reads: BlockingReads) -> list[Route]:
    return [
        reads.route("/v1/health/service/", of_service, takes_cached=True, shows_checks=True),
        reads.route("/v1/health/connect/", of_connect, takes_cached=True, shows_checks=True),
        reads.route("/v1/health/ingress/", of_ingress),
        reads.route("/v1/health/checks/", checks_of_service, shows_checks=True),
        reads.route("/v1/health/node/", checks_of_node, shows_checks=True),
        reads.route("/v1/health/state/", checks_in_state, shows_checks=True),
    ]


def of_service(agent: Agent, query: Query, rest: str) -> WaitableRead:
    view, name = agent.view, named(rest, "Missing service name")
    return _entries(agent, (Topic(Family.HEALTH, name.lower()),), query, lambda: view.instances(name))


def of_connect(agent: Agent, query: Query, rest: str) -> WaitableRead:
    view, name = agent.view, named(rest, "Missing service name")
    return _entries(agent, MESH_HEALTH_TOPICS, query, lambda: proxies(view, name))


def of_ingress(agent: Agent, query: Query, rest: str) -> WaitableRead:
    """Gateways are configured in Consul's mesh, which is not here: nothing is ever bound to one."""
    named(rest, "Missing service name")

    def render() -> bytes:
        filter_test(query, "health_entry")
        return b"[]"

    return WaitableRead(agent.view.indexes, (Topic(Family.SERVICES),), render)


def checks_of_service(agent: Agent, query: Query, rest: str) -> WaitableRead:
    view, name, is_wanted_host = agent.view, named(rest, "Missing service name"), host_test(query)

    def found() -> Placed:
        for instance in view.instances(name):
            if is_wanted_host is None or is_wanted_host(instance.host):
                for row in instance.checks:
                    yield instance.host, row

    topics, nearness = (Topic(Family.HEALTH, name.lower()),), Nearness(agent, query)
    return WaitableRead(
        agent.view.indexes,
        topics,
        lambda: _listed(nearness.order(found(), _node_of_check), filter_test(query, "check")),
        is_by_distance=nearness.is_asked_for,
    )


def checks_of_node(agent: Agent, query: Query, rest: str) -> WaitableRead:
    view, name = agent.view, named(rest, "Missing node name")

    def found() -> Placed:
        host = view.node(name)
        return [(host, row) for row in host.checks] if host is not None else ()

    topics = (Topic(Family.NODE_CHECKS, name.lower()),)
    return WaitableRead(agent.view.indexes, topics, lambda: _listed(found(), filter_test(query, "check")))


def checks_in_state(agent: Agent, query: Query, rest: str) -> WaitableRead:
    view, state, is_wanted_host = agent.view, named(rest, "Missing check state"), host_test(query)
    topics: tuple[Topic, ...] = (Topic(Family.STATE, state),)
    if is_wanted_host is not None:
        topics = (*topics, Topic(Family.NODES))
    nearness = Nearness(agent, query)

    def found() -> Placed:
        for host in view.nodes():
            if is_wanted_host is None or is_wanted_host(host):
                for row in host.checks:
                    if state in (ANY_STATE, row.value.status):
                        yield host, row

    def render() -> bytes:
        is_wanted = filter_test(query, "check")
        is_whole = state == ANY_STATE and is_wanted_host is None and is_wanted is None
        if is_whole and not nearness.is_asked_for:
            return shapes.list_of([each for host in view.nodes() for each in shapes.checks_of_host(host)])
        return _listed(nearness.order(found(), _node_of_check), is_wanted)

    return WaitableRead(
        agent.view.indexes, topics, render, lists_everything=True, is_by_distance=nearness.is_asked_for
    )


def _node_of_check(placed: tuple[CatalogHost, Row[Check]]) -> str:
    return placed[0].name


def _listed(found: Placed, is_wanted: Test | None) -> bytes:
    return shapes.list_of(
        shapes.check_fragment(row, host.name)
        for host, row in found
        if is_wanted is None or is_wanted(PlacedCheck(host.name, row.value))
    )

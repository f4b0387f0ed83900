"""/v1/catalog, reading: nodes, services and where they are. Writing is in `catalog_writes`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from adsum.api import parameters, shapes
from adsum.api.answers import json_answer
from adsum.api.api_types import Agent
from adsum.api.blocking import CACHED, BlockingReads, check_cache_control, check_consistency
from adsum.api.queries import (
    INSTANCE_TESTS,
    MESH_TOPICS,
    Nearness,
    filter_test,
    host_test,
    instance_tests,
    instances,
    named,
    passing,
    proxies,
)
from adsum.api.rendering import WaitableRead
from adsum.catalog.indexes import Family
from adsum.catalog.view import CatalogHost
from adsum.http.request import Query, Request
from adsum.http.response import Response
from adsum.http.router import Route
from adsum.topics import Topic

_instances = partial(instances, items="service_node", shown=shapes.service_node_fragment)


def routes(agent: Agent, reads: BlockingReads) -> list[Route]:
    return [
        Route(("GET",), "/v1/catalog/datacenters", partial(datacenters, agent)),
        reads.route("/v1/catalog/nodes", nodes),
        reads.route("/v1/catalog/services", services, takes_cached=True),
        reads.route("/v1/catalog/service/", of_service, takes_cached=True),
        reads.route("/v1/catalog/connect/", of_connect, takes_cached=True),
        reads.route("/v1/catalog/node/", of_node),
        reads.route("/v1/catalog/node-services/", services_of_node),
        reads.route("/v1/catalog/gateway-services/", of_gateway),
    ]


async def datacenters(agent: Agent, request: Request, _rest: str) -> Response:
    parameters.check_namespace(request.query)
    is_cached = check_consistency(request.query)
    if is_cached:
        check_cache_control(request.headers.first("cache-control"))
    headers = CACHED if is_cached else ()
    return json_answer(agent, request, [agent.config.datacenter], headers=headers)


def nodes(agent: Agent, query: Query, _rest: str) -> WaitableRead:
    view, is_wanted_host = agent.view, host_test(query)
    nearness = Nearness(agent, query)

    def render() -> bytes:
        is_wanted = filter_test(query, "node")
        found = (
            host
            for host in view.nodes()
            if (is_wanted_host is None or is_wanted_host(host))
            and (is_wanted is None or is_wanted(host.node.value))
        )
        ordered = nearness.order(found, lambda host: host.name)
        return shapes.list_of(shapes.node_fragment(host.node) for host in ordered)

    topics = (Topic(Family.NODES),)
    return WaitableRead(
        agent.view.indexes, topics, render, lists_everything=True, is_by_distance=nearness.is_asked_for
    )


def services(agent: Agent, query: Query, _rest: str) -> WaitableRead:
    view = agent.view

    def render() -> bytes:
        tests, tags_by_name = instance_tests(query, "service_node"), {}
        for name in view.service_names():
            found = list(passing(view.instances(name), tests))
            if found:
                tags = (tag for instance in found for tag in instance.service.value.tags)
                tags_by_name[name] = list(dict.fromkeys(tags))
        return shapes.encode(tags_by_name)

    # What tests look at is more than names and tags.
    topics = MESH_TOPICS if any(map(query.has, INSTANCE_TESTS)) else (Topic(Family.SERVICES),)
    return WaitableRead(agent.view.indexes, topics, render, lists_everything=True)


def of_service(agent: Agent, query: Query, rest: str) -> WaitableRead:
    view, name = agent.view, named(rest, "Missing service name")
    topics = (Topic(Family.SERVICE, name.lower()),)
    return _instances(agent, topics, query, lambda: view.instances(name))


def of_connect(agent: Agent, query: Query, rest: str) -> WaitableRead:
    view, name = agent.view, named(rest, "Missing service name")
    return _instances(agent, MESH_TOPICS, query, lambda: proxies(view, name))


def of_node(agent: Agent, query: Query, rest: str) -> WaitableRead:
    """Consul's clients test a node that is not there for null."""

    def shown(host: CatalogHost, wanted: list[tuple[str, bytes]]) -> bytes:
        return b'{"Node":%b,"Services":%b}' % (shapes.node_fragment(host.node), shapes.object_of(wanted))

    return _node(agent, query, rest, shown, missing=b"null")


def services_of_node(agent: Agent, query: Query, rest: str) -> WaitableRead:
    def shown(host: CatalogHost, wanted: list[tuple[str, bytes]]) -> bytes:
        listed = shapes.list_of(fragment for _id, fragment in wanted)
        return b'{"Node":%b,"Services":%b}' % (shapes.node_fragment(host.node), listed)

    return _node(agent, query, rest, shown, missing=b'{"Node":null,"Services":null}')


def of_gateway(agent: Agent, _query: Query, rest: str) -> WaitableRead:
    named(rest, "Missing gateway name")
    return WaitableRead(agent.view.indexes, (Topic(Family.SERVICES),), lambda: b"[]")


def _node(
    agent: Agent,
    query: Query,
    rest: str,
    shown: Callable[[CatalogHost, list[tuple[str, bytes]]], bytes],
    *,
    missing: bytes,
) -> WaitableRead:
    """The filter chooses among the node's services, never the node."""
    view, name = agent.view, named(rest, "Missing node name")

    def render() -> bytes:
        is_wanted = filter_test(query, "node_service")
        host = view.node(name)
        if host is None:
            return missing
        rows = [instance.service for instance in host.instances]
        wanted = [row for row in rows if is_wanted is None or is_wanted(row.value)]
        return shown(host, [(row.value.service_id, shapes.service_fragment(row)) for row in wanted])

    return WaitableRead(agent.view.indexes, (Topic(Family.NODE, name.lower()),), render)

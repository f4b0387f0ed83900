"""Which rows of the catalog a query wants, whatever the endpoint, and in which order: tags, node-meta,
`filter=`, `near=`, and who stands for a service in Consul's mesh.

Each parameter becomes one test of an item; an item is shown when it passes them all. Consul applies the
filter after tags and node-meta and before `passing`; as all of them only leave items out, the order shows in
nothing but speed.

There is no mesh here: proxies are services like others, found by what they were registered to stand for.
Nothing is kept per destination, so such a query looks at every instance and waits on all of them; its index
still moves only when its own answer does (`rendering`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from adsum.api import leadership, parameters, shapes
from adsum.api.api_types import Agent
from adsum.api.rendering import WaitableRead
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.indexes import Family
from adsum.catalog.view import ANY_STATE, CatalogHost, Instance, View
from adsum.http.request import Query
from adsum.http.response import HeaderList
from adsum.http.router import HttpRefusal
from adsum.topics import Topic

if TYPE_CHECKING:
    from adsum.catalog.filter import Test
    from adsum.catalog.filter_fields import Items

Item = TypeVar("Item")

INSTANCE_TESTS = ("filter", "node-meta", "tag")
MESH_TOPICS = (Topic(Family.INSTANCES), Topic(Family.NODES))
MESH_HEALTH_TOPICS = (*MESH_TOPICS, Topic(Family.STATE, ANY_STATE))
PROXY_KIND = "connect-proxy"
OWN_AGENT = "_agent"  # this agent's own node, in `near=`


def named(rest: str, sentence: str) -> str:
    if not rest:
        raise HttpRefusal(400, sentence)
    return rest


def filter_test(query: Query, items: Items) -> Test | None:
    """For one look at the items, before the first of them: a wrong filter is refused even where there is
    nothing. Raises `BadFilter`, as the test itself does when it gets too costly."""
    expression = query.first("filter")
    if not expression:
        return None
    from adsum.catalog.filter import compile_filter  # 2 ms, once, for who filters
    from adsum.catalog.filter_fields import TABLES

    return compile_filter(expression, TABLES[items])


def wanted(query: Query, items: Items, found: Iterable[Item], shown: Callable[[Item], object]) -> list[Item]:
    """Those whose shown form passes the filter."""
    is_wanted = filter_test(query, items)
    return [each for each in found if is_wanted is None or is_wanted(shown(each))]


def host_test(query: Query) -> Callable[[CatalogHost], bool] | None:
    wanted = parameters.node_meta(query)
    if not wanted:
        return None
    return lambda host: all(host.node.value.meta.get(key) == value for key, value in wanted.items())


def instance_tests(query: Query, items: Items) -> list[Callable[[Instance], bool]]:
    is_wanted_host = host_test(query)
    is_wanted = filter_test(query, items)
    tags = frozenset(tag.lower() for tag in query.all("tag"))
    tests: list[Callable[[Instance], bool]] = []
    if tags:
        tests.append(lambda instance: tags <= {tag.lower() for tag in instance.service.value.tags})
    if is_wanted_host is not None:
        tests.append(lambda instance: is_wanted_host(instance.host))
    if is_wanted is not None:
        tests.append(is_wanted)
    if items == "health_entry" and parameters.is_true_or_empty(query, "passing"):
        tests.append(lambda instance: instance.status is CheckStatus.PASSING)
    return tests


def passing(items: Iterable[Item], tests: list[Callable[[Item], bool]]) -> Iterable[Item]:
    for test in tests:
        items = filter(test, items)
    return items


def proxies(view: View, destination: str) -> Iterator[Instance]:
    wanted = destination.lower()
    for name in view.service_names():
        for instance in view.instances(name):
            service = instance.service.value
            if service.kind == PROXY_KIND:
                stands_for = str(service.proxy.get("DestinationServiceName", ""))
            else:
                stands_for = service.name if service.connect.get("Native") is True else ""
            if stands_for.lower() == wanted:
                yield instance


class Nearness:
    """`near=`: ordered by the round trip from one node, as network coordinates estimate it.

    What nobody has measured comes last in its usual order, and from a node that nobody has measured
    everything stays in its usual order; both as in Consul.
    """

    def __init__(self, agent: Agent, query: Query) -> None:
        self._agent = agent
        self._near = query.first("near")
        self.is_asked_for = bool(self._near)

    def order(self, items: Iterable[Item], node_of: Callable[[Item], str]) -> Iterable[Item]:
        if not self._near:
            return items
        agent = self._agent
        name = leadership.own_node(agent).name if self._near == OWN_AGENT else self._near
        coordinate_of = agent.cluster.membership.coordinate_of
        origin = coordinate_of(name)
        if origin is None:
            return items
        distances: dict[str, float] = {}
        for item in (items := list(items)):
            node = node_of(item)
            if node not in distances:
                place = coordinate_of(node)
                distances[node] = math.inf if place is None else origin.distance_s(place)
        return sorted(items, key=lambda item: distances[node_of(item)])


def instances(
    agent: Agent,
    topics: tuple[Topic, ...],
    query: Query,
    find: Callable[[], Iterable[Instance]],
    *,
    items: Items,
    shown: Callable[[Instance], bytes],
    headers: HeaderList = (),
) -> WaitableRead:
    """Those of the found ones that a query wants, in its order."""
    nearness = Nearness(agent, query)

    def render() -> bytes:
        wanted = passing(find(), instance_tests(query, items))
        return shapes.list_of(map(shown, nearness.order(wanted, lambda instance: instance.host.name)))

    return WaitableRead(
        agent.view.indexes, topics, render, headers=headers, is_by_distance=nearness.is_asked_for
    )

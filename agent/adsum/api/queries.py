"""Which rows of the catalog a query wants, whatever the endpoint: tags, node-meta, `filter=`.

Each parameter becomes one test of an item; an item is shown when it passes them all. Consul applies the
filter after tags and node-meta and before `passing`; as all of them only leave items out, the order shows in
nothing but speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from adsum.api import parameters
from adsum.catalog.view import CatalogHost, Instance
from adsum.http.request import Query
from adsum.http.router import HttpRefusal

if TYPE_CHECKING:
    from adsum.catalog.filter import Test
    from adsum.catalog.filter_fields import Items

Item = TypeVar("Item")

INSTANCE_TESTS = ("filter", "node-meta", "tag")


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
    return tests


def has_instance_tests(query: Query) -> bool:
    return any(map(query.has, INSTANCE_TESTS))


def passing(items: Iterable[Item], tests: list[Callable[[Item], bool]]) -> Iterable[Item]:
    """Those that pass every test."""
    for test in tests:
        items = filter(test, items)
    return items

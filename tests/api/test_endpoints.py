"""Families of endpoints are found though they are not loaded."""

from __future__ import annotations

import logging
from random import Random

from adsum.api.endpoints import Endpoints
from adsum.api.rendering import ApiCounters
from adsum.logs.stream import LogCounters, LogStream
from adsum.observe.exposition import Exposition
from tests.api.agents import FakeAgent
from tests.observe.support import sources


def endpoints() -> Endpoints:
    agent = FakeAgent()
    metrics = Exposition(sources(agent), agent.config.telemetry)
    return Endpoints(agent, Random(0), ApiCounters(), metrics, LogStream(logging.INFO, LogCounters()))


def test_each_path_of_a_family_has_one_of_its_beginnings() -> None:
    families = endpoints().families()
    for make in families.values():
        own = tuple(beginning for beginning, other in families.items() if other == make)
        assert [route.path for route in make() if not route.path.startswith(own)] == []


def test_each_family_also_answers_without_the_last_slash_of_its_paths() -> None:
    families = endpoints().families()
    for make in families.values():
        own = tuple(beginning for beginning, other in families.items() if other == make)
        assert [path for route in make() if not (path := route.path.rstrip("/")).startswith(own)] == []


def test_no_path_has_the_beginnings_of_two_families() -> None:
    families = endpoints().families()
    both = [(one, other) for one in families for other in families if one != other and other.startswith(one)]
    assert both == []


def test_no_path_belongs_to_two_endpoints() -> None:
    made = endpoints()
    families = dict.fromkeys(made.families().values())
    paths = [route.path for route in (*made.routes(), *(route for family in families for route in family()))]
    assert sorted(paths) == sorted(set(paths))

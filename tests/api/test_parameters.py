"""Parameters as clients send them, answered with Consul's own texts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from adsum.api import parameters
from adsum.http.request import Query
from adsum.http.router import HttpRefusal


def refused(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(HttpRefusal) as refusal:
        call()
    return refusal.value.status, refusal.value.sentence


@pytest.mark.parametrize("raw", [b"passing", b"passing=", b"passing=1", b"passing=True", b"passing=t"])
def test_passing_is_asked_for(raw: bytes) -> None:
    assert parameters.is_true_or_empty(Query(raw), "passing")


@pytest.mark.parametrize("raw", [b"", b"passing=0", b"passing=False", b"passing=f", b"Passing=1"])
def test_passing_is_not_asked_for(raw: bytes) -> None:
    assert not parameters.is_true_or_empty(Query(raw), "passing")


@pytest.mark.parametrize("raw", [b"passing=yes", b"passing=tRUE", b"passing=2"])
def test_passing_that_is_no_boolean_is_named(raw: bytes) -> None:
    query = Query(raw)
    assert refused(lambda: parameters.is_true_or_empty(query, "passing")) == (
        400,
        "Invalid value for ?passing",
    )


def test_enable_must_be_there_and_be_a_boolean() -> None:
    assert parameters.required_boolean(Query(b"enable=True"), "enable")
    assert not parameters.required_boolean(Query(b"enable=false"), "enable")
    for raw, sentence in [
        (b"", "Missing value for enable"),
        (b"enable", 'Invalid value for enable: ""'),
        (b"enable=maybe", 'Invalid value for enable: "maybe"'),
    ]:
        ask = partial(parameters.required_boolean, Query(raw), "enable")
        assert refused(ask) == (400, sentence)


def test_durations_are_go_s_and_so_are_the_complaints() -> None:
    assert parameters.duration_ns(Query(b"wait=1m30s"), "wait") == 90_000_000_000
    assert parameters.duration_ns(Query(b"wait="), "wait") is None
    bad = Query(b"wait=15&ttl=15")
    assert refused(lambda: parameters.duration_ns(bad, "wait", refusal="Invalid wait time")) == (
        400,
        "Invalid wait time",
    )
    assert refused(lambda: parameters.duration_ns(bad, "ttl")) == (
        400,
        'Invalid value for ttl: time: missing unit in duration "15"',
    )


@pytest.mark.parametrize("raw", [b"", b"ns", b"ns=default", b"ns=Default", b"partition=default"])
def test_the_only_namespace_may_be_named(raw: bytes) -> None:
    parameters.check_namespace(Query(raw))


def test_other_namespaces_are_enterprise() -> None:
    query = Query(b"ns=team-a")
    assert refused(lambda: parameters.check_namespace(query)) == (
        400,
        'Bad request: Invalid query parameter: "ns" - Namespaces are a Consul Enterprise feature',
    )
    query = Query(b"partition=x")
    assert refused(lambda: parameters.check_namespace(query))[0] == 400


def test_another_datacenter_has_no_path() -> None:
    parameters.check_datacenter(Query(b"dc="), "dc1")
    parameters.check_datacenter(Query(b"dc=dc1"), "dc1")
    query = Query(b"dc=dc2")
    assert refused(lambda: parameters.check_datacenter(query, "dc1")) == (500, "No path to datacenter")


def test_node_meta_is_split_at_its_first_colon() -> None:
    query = Query(b"node-meta=rack:r1&node-meta=url:http://a&node-meta=bare")
    assert parameters.node_meta(query) == {"rack": "r1", "url": "http://a", "bare": ""}

"""User events: what travels, what is refused, and who lists what."""

from __future__ import annotations

from dataclasses import replace

import cbor2
import pytest

from adsum.agent.user_events import (
    EVENTS_MAX,
    TOPIC,
    UNDECIDED_MAX,
    BadEvent,
    Event,
    UserEvents,
    check,
    decode,
    encode,
)
from adsum.catalog.model import Node, Service
from adsum.catalog.pattern import Pattern
from adsum.catalog.view import View
from adsum.catalog.work import Work
from adsum.gossip.claims import EVENT_BYTES_MAX, UserEvent, user_event
from adsum.now import SECOND, Now

NOW = Now(1_000 * SECOND, 1_800_000_000_000)
ID = bytes(range(16))
DEPLOY = Event(event_id=ID, name="deploy", payload=b"v7")


def carried(event: Event, clock: int = 5) -> UserEvent:
    return user_event(b"sender-1", clock, 1, event.name, encode(event))


@pytest.fixture
def events() -> UserEvents:
    """On the node n1, where `web` runs as web1 with the tags a and blue."""
    view = View(NOW, tag=1)
    view.put_node(NOW, "owner", Node(node_id="owner", name="n1", address="10.0.0.1", datacenter="dc1"))
    view.put_service(NOW, "n1", Service(service_id="web1", name="web", tags=("a", "blue")))
    return UserEvents(view, "n1")


def is_listed(events: UserEvents, event: Event) -> bool:
    events.heard(carried(event))
    return bool(events.recent(NOW))


def test_what_is_carried_comes_back_with_its_lamport_time() -> None:
    whole = replace(DEPLOY, node="^n", service="web", tag="blue")
    assert decode(carried(whole, clock=7)) == replace(whole, clock=7)


@pytest.mark.parametrize("payload", [b"", b"\xff", cbor2.dumps([ID[:4], b"", "", "", ""]), cbor2.dumps([1])])
def test_what_is_no_event_is_counted_and_wakes_nobody(events: UserEvents, payload: bytes) -> None:
    events.heard(user_event(b"sender-1", 1, 1, "x", payload))
    assert (events.counters.unreadable, events.recent(NOW)) == (1, [])
    assert events.take_moved() == ()


def test_fields_of_a_later_version_are_ignored() -> None:
    later = user_event(b"sender-1", 5, 1, "deploy", cbor2.dumps([ID, b"v7", "", "", "", {"new": 1}]))
    assert decode(later) == replace(DEPLOY, clock=5)


def test_an_event_for_everybody_is_listed_and_moves_its_topic(events: UserEvents) -> None:
    assert is_listed(events, DEPLOY)
    assert events.take_moved() == (TOPIC,)
    assert events.take_moved() == ()


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"node": "n"}, True),
        ({"node": "^N1"}, False),  # in Consul case counts as well
        ({"node": "other"}, False),
        ({"service": "^web1$"}, True),
        ({"service": "^web$"}, False),  # ids, as in Consul
        ({"service": "web", "tag": "blu"}, True),
        ({"service": "web", "tag": "^green"}, False),
        ({"node": "n1", "service": "db"}, False),
    ],
)
def test_who_is_meant_is_decided_where_it_arrives(
    events: UserEvents, filters: dict[str, str], expected: bool
) -> None:
    assert is_listed(events, replace(DEPLOY, **filters)) is expected  # type: ignore[arg-type]  # by its name
    assert (events.counters.listed, events.counters.for_others) == (expected, not expected)


def test_an_expression_that_makes_no_sense_here_lists_nothing(events: UserEvents) -> None:
    """One that a sender with less to compare let through."""
    events.heard(carried(replace(DEPLOY, node="(")))
    assert (events.recent(NOW), events.counters.unreadable) == ([], 1)


def test_an_expression_costs_nothing_until_somebody_reads_events(
    events: UserEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    class Counted(Pattern):
        def __init__(self, text: str, work: Work) -> None:
            made.append(text)
            super().__init__(text, work)

    monkeypatch.setattr("adsum.agent.user_events.Pattern", Counted)
    events.heard(carried(replace(DEPLOY, node="^n1$")))
    assert made == []
    assert len(events.recent(NOW)) == len(events.recent(NOW)) == 1
    assert made == ["^n1$"], "once for all readers"


def test_only_so_much_work_a_second_is_done_and_what_is_left_is_listed_later(events: UserEvents) -> None:
    for number in range(2_000):
        events._view.put_service(NOW, "n1", Service(service_id=f"a-{number}", name="a"))
    for number in range(20):  # each some 4 ms, at the prices of the worst case
        events.heard(carried(replace(DEPLOY, payload=b"%d" % number, service="^w.b1$")))
    assert 3 <= len(events.recent(NOW)) <= 10
    assert events.has_undecided
    for second in range(1, 4):
        listed = events.recent(Now(NOW.monotonic_ns + second * SECOND, NOW.wall_ms))
    assert [int(event.payload) for event in listed] == list(range(20))
    assert not events.has_undecided


def test_events_with_a_plain_name_are_all_decided_by_the_first_read(events: UserEvents) -> None:
    for number in range(200):
        events.heard(carried(replace(DEPLOY, payload=b"%d" % number, node="n1")))
    assert len(events.recent(NOW)) == 200


def test_an_event_for_all_waits_for_none_that_is_undecided(events: UserEvents) -> None:
    events.heard(carried(replace(DEPLOY, payload=b"1", node="^n1$")))
    events.heard(carried(replace(DEPLOY, payload=b"2")))
    assert [event.payload for event in events.recent(NOW)] == [b"2", b"1"]


def test_of_more_than_can_wait_undecided_the_oldest_are_dropped_and_counted(events: UserEvents) -> None:
    for _ in range(UNDECIDED_MAX + 5):
        events.heard(carried(replace(DEPLOY, node="^n1$")))
    assert events.counters.undecided_dropped == 5


def test_an_expression_that_needs_too_much_work_here_lists_nothing(events: UserEvents) -> None:
    for number in range(5_000):
        service = Service(service_id=f"a-service-with-a-long-name-{number}", name="web")
        events._view.put_service(NOW, "n1", service)
    events.heard(carried(replace(DEPLOY, service="(x+x+)+y")))
    assert (events.recent(NOW), events.counters.unreadable) == ([], 1)


def test_only_the_newest_are_kept(events: UserEvents) -> None:
    for number in range(EVENTS_MAX + 3):
        events.heard(carried(replace(DEPLOY, payload=str(number).encode())))
    assert len(events.recent(NOW)) == EVENTS_MAX
    assert events.recent(NOW)[0].payload == b"3"


@pytest.mark.parametrize(
    ("filters", "sentence"),
    [
        ({"tag": "x"}, "Cannot provide tag filter without service filter"),
        ({"node": "("}, "Invalid node filter: "),
        ({"service": "["}, "Invalid service filter: "),
        ({"service": "x", "tag": "*"}, "Invalid tag filter: "),
    ],
)
def test_what_cannot_be_meant_is_refused_in_consul_s_words(filters: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadEvent) as refusal:
        check(replace(DEPLOY, **filters))  # type: ignore[arg-type]  # by its name
    assert str(refusal.value).startswith(sentence)


@pytest.mark.parametrize(
    ("name", "filters", "payload_bytes_max"),
    [("a", {}, 414), ("big", {}, 410), ("a", {"node": "x"}, 409), ("a", {"service": "x", "tag": "y"}, 404)],
)
def test_events_may_be_as_large_as_real_consul_lets_them(
    name: str, filters: dict[str, str], payload_bytes_max: int
) -> None:
    """Literal: what 1.8.7 took at most. And what it takes fits into the roll."""
    largest = replace(DEPLOY, name=name, payload=b"x" * payload_bytes_max, **filters)  # type: ignore[arg-type]
    check(largest)
    assert len(name) + len(encode(largest)) <= EVENT_BYTES_MAX
    with pytest.raises(BadEvent, match="exceeds configured limit of 512 bytes"):
        check(replace(largest, payload=largest.payload + b"x"))

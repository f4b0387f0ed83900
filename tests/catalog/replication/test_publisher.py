from __future__ import annotations

import pytest

from adsum.catalog.replication.deltas import Delta, decode
from adsum.catalog.replication.items import NODE_KEY, NODE_NUMBER, VALUE_BYTES_MAX
from adsum.catalog.replication.publisher import OwnIdentity, Publisher, Unpublishable
from adsum.catalog.replication.pushes import Urgency
from adsum.catalog.replication.tally import ReplicationTally
from adsum.now import MILLISECOND, MINUTE, SECOND
from adsum.timers import Timers

HOUR = 60 * MINUTE


@pytest.fixture
def tally() -> ReplicationTally:
    return ReplicationTally()


@pytest.fixture
def publisher(tally: ReplicationTally) -> Publisher:
    return Publisher(OwnIdentity(bytes(16), 1), tally, Timers())


def tell(publisher: Publisher, now_ns: int) -> list[Delta]:
    return [decode(delta.encoded) for delta in publisher.flush(now_ns)]


def test_what_is_published_at_once_goes_in_one_payload(publisher: Publisher) -> None:
    for key in (NODE_KEY, "web", "db"):
        publisher.put(5, key, key.encode(), Urgency.DEFINITION)
        assert publisher.deadline_ns(5) == 5
    (delta,) = tell(publisher, 5)
    assert {item.number: item.value for item in delta.items} == {0: b"node", 1: b"web", 2: b"db"}
    assert publisher.number(NODE_KEY) == NODE_NUMBER
    assert (delta.version, delta.digest) == (3, publisher.state.digest)


def test_an_item_is_published_once_a_second_and_then_with_its_last_value(publisher: Publisher) -> None:
    publisher.put(0, "web", b"1", Urgency.PASSING)
    assert len(tell(publisher, 0)) == 1
    for time_ms, value in ((100, b"2"), (300, b"3"), (800, b"4")):
        publisher.put(time_ms * MILLISECOND, "web", value, Urgency.PASSING)
        assert publisher.deadline_ns(time_ms * MILLISECOND) == SECOND
    assert tell(publisher, SECOND - 1) == []
    assert publisher.deadline_ns(SECOND - 1) == SECOND
    (delta,) = tell(publisher, SECOND)
    assert [item.value for item in delta.items] == [b"4"]
    assert publisher.state.version == 2


def test_a_check_that_is_what_it_was_after_a_second_is_no_news(publisher: Publisher) -> None:
    publisher.put(0, "web", b"1", Urgency.PASSING)
    tell(publisher, 0)
    publisher.put(1, "web", b"2", Urgency.CRITICAL)
    publisher.put(2, "web", b"1", Urgency.PASSING)
    assert tell(publisher, 2 * SECOND) == []
    assert publisher.state.version == 1


def test_a_version_that_was_promised_is_reached_also_by_a_check_that_is_what_it_was(
    publisher: Publisher,
) -> None:
    """Who accepted a session while it was well waits for evidence as new as that."""
    publisher.put(0, "web", b"1", Urgency.CRITICAL)
    tell(publisher, 0)
    assert publisher.promise() == 1
    publisher.put(1, "web", b"2", Urgency.PASSING)
    assert publisher.promise() == 2
    publisher.put(2, "web", b"1", Urgency.CRITICAL)
    assert publisher.promise() == 2
    (delta,) = tell(publisher, 2 * SECOND)
    assert [(item.version, item.value) for item in delta.items] == [(2, b"1")]
    assert publisher.promise() == publisher.state.version == 2


def test_what_is_published_already_is_counted_and_waits_for_nothing(
    publisher: Publisher, tally: ReplicationTally
) -> None:
    publisher.put(0, "web", b"1", Urgency.DEFINITION)
    tell(publisher, 0)
    publisher.put(1, "web", b"1", Urgency.DEFINITION)
    assert (publisher.deadline_ns(1), tally.coalesced) == (None, 1)


def test_what_was_removed_is_published_again_with_the_value_that_it_had(publisher: Publisher) -> None:
    publisher.put(0, "web", b"1", Urgency.DEFINITION)
    tell(publisher, 0)
    publisher.remove(SECOND, "web")
    publisher.put(SECOND, "web", b"1", Urgency.DEFINITION)
    assert publisher.deadline_ns(SECOND) == SECOND
    tell(publisher, SECOND)
    publisher.remove(2 * SECOND, "web")
    tell(publisher, 2 * SECOND)
    publisher.put(3 * SECOND, "web", b"1", Urgency.DEFINITION)
    assert publisher.deadline_ns(3 * SECOND) == 3 * SECOND
    (delta,) = tell(publisher, 3 * SECOND)
    assert [item.value for item in delta.items] == [b"1"]


def test_beyond_the_bucket_statuses_wait_and_definitions_are_left_to_exchanges(publisher: Publisher) -> None:
    for number in range(40):
        publisher.put(0, f"service {number}", bytes(700), Urgency.DEFINITION)
    assert len(tell(publisher, 0)) == 20
    assert publisher.state.version == 40, "all of it is there for who asks"
    assert publisher.deadline_ns(0) is None
    publisher.put(0, "check", b"critical", Urgency.CRITICAL)
    assert tell(publisher, 0) == []
    assert publisher.deadline_ns(0) == 200 * MILLISECOND
    (delta,) = tell(publisher, 200 * MILLISECOND)
    assert delta.items[0].value == b"critical"


def test_the_bucket_is_full_again_after_four_seconds_and_holds_no_more(publisher: Publisher) -> None:
    for round_ns in (0, HOUR):
        for number in range(60):
            publisher.put(
                round_ns, f"check {number}", round_ns.to_bytes(8, "big").ljust(700), Urgency.PASSING
            )
        assert len(tell(publisher, round_ns)) == 20
        assert len(tell(publisher, round_ns + 4 * SECOND)) == 20


def test_what_goes_critical_goes_first(publisher: Publisher) -> None:
    for urgency in (Urgency.DEFINITION, Urgency.PASSING, Urgency.WARNING, Urgency.CRITICAL):
        publisher.put(0, urgency.name, urgency.name.encode().ljust(500), urgency)
    told = [item.value.strip() for delta in tell(publisher, 0) for item in delta.items if item.value]
    assert told == [b"CRITICAL", b"WARNING", b"PASSING", b"DEFINITION"]


def test_payloads_fit_into_what_gossip_carries(publisher: Publisher) -> None:
    for number in range(60):
        publisher.put(0, f"item {number}", bytes(number * 13), Urgency.DEFINITION)
    assert all(len(delta.encoded) <= 900 for delta in tell(publisher, 0))


def test_what_is_too_big_for_a_push_is_announced(publisher: Publisher) -> None:
    publisher.put(0, "web", bytes(801), Urgency.DEFINITION)
    (delta,) = tell(publisher, 0)
    assert (delta.items, delta.notices) == ((), ((1, 1),))
    assert len(delta.encoded) < 60


def test_what_is_too_big_for_anything_is_refused_with_a_sentence(publisher: Publisher) -> None:
    with pytest.raises(Unpublishable, match="'web' would take 65537 bytes in the catalog; at most 65536 fit"):
        publisher.put(0, "web", bytes(VALUE_BYTES_MAX + 1), Urgency.DEFINITION)
    assert publisher.deadline_ns(0) is None


def test_a_removed_item_is_a_tombstone_for_ten_minutes_and_its_number_free_after(
    publisher: Publisher,
) -> None:
    publisher.put(0, "web", b"x", Urgency.DEFINITION)
    tell(publisher, 0)
    publisher.remove(2 * SECOND, "web")
    (delta,) = tell(publisher, 2 * SECOND)
    assert [item.value for item in delta.items] == [None]
    publisher.collect(10 * MINUTE)
    assert len(publisher.state.items) == 1
    publisher.collect(10 * MINUTE + 2 * SECOND)
    assert (len(publisher.state.items), publisher.state.gc_version) == (0, 2)
    assert publisher.number("db") == 1


def test_removing_what_was_never_there_is_nothing(publisher: Publisher) -> None:
    publisher.remove(0, "web")
    assert publisher.deadline_ns(0) is None
    assert tell(publisher, 0) == []


def test_another_life_tells_everything_again(publisher: Publisher) -> None:
    publisher.put(0, "web", b"x", Urgency.DEFINITION)
    publisher.put(0, "db", b"y", Urgency.DEFINITION)
    publisher.remove(0, "db")
    tell(publisher, 0)
    publisher.renew(0, 7)
    (delta,) = tell(publisher, 5 * SECOND)
    assert (delta.generation, [item.value for item in delta.items]) == (7, [b"x"])
    assert publisher.state.is_complete


def test_what_waits_counts_towards_what_an_owner_may_publish(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in ("publisher", "state"):
        monkeypatch.setattr(f"adsum.catalog.replication.{room}.OWNER_BYTES_MAX", 1000)
    publisher.put(0, "web", bytes(600), Urgency.DEFINITION)
    with pytest.raises(Unpublishable, match="'db': one node may publish 1000 bytes; deregister"):
        publisher.put(0, "db", bytes(600), Urgency.DEFINITION)
    publisher.put(0, "web", bytes(900), Urgency.DEFINITION)
    tell(publisher, 0)
    publisher.put(SECOND, "web", bytes(950), Urgency.DEFINITION)
    tell(publisher, SECOND)
    assert publisher.state.size_bytes == 966


def test_what_could_not_be_published_is_counted_by_the_limit_it_met(
    publisher: Publisher, tally: ReplicationTally, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tally.unpublishable == {"item size": 0, "owner size": 0, "items": 0}
    with pytest.raises(Unpublishable):
        publisher.put(0, "huge", bytes(VALUE_BYTES_MAX + 1), Urgency.DEFINITION)
    monkeypatch.setattr("adsum.catalog.replication.publisher.NUMBER_MAX", 1)
    with pytest.raises(Unpublishable, match="'web'"):
        publisher.put(0, "web", b"1", Urgency.DEFINITION)
    monkeypatch.setattr("adsum.catalog.replication.publisher.OWNER_BYTES_MAX", 1)
    for _ in range(2):
        with pytest.raises(Unpublishable, match="'db'"):
            publisher.put(0, "db", b"12", Urgency.DEFINITION)
    assert tally.unpublishable == {"item size": 1, "owner size": 2, "items": 1}

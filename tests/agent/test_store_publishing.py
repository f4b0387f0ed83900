"""From the store's table of nodes without an agent to what replication publishes."""

from __future__ import annotations

import pytest

from adsum.agent.store_publishing import StorePublishing, outdoing, standing_of
from adsum.catalog import records
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.records import CheckState
from adsum.catalog.replication.items import COUNTER_MAX, Item
from adsum.catalog.replication.store_news import StoreNews
from adsum.external import ExternalItem, ExternalKind
from adsum.now import HOUR, MILLISECOND, SECOND
from adsum.owners import STORE
from adsum.store.commands import RenewExternal
from adsum.store.external import ExternalTable
from tests.catalog.replication.support import FIRST_WALL_MS, Group, Peer
from tests.store.stores import Store

NODE = ExternalItem(ExternalKind.NODE, "ext", "", b"node")


def check(status: str) -> ExternalItem:
    return ExternalItem(ExternalKind.CHECK, "ext", "up", b"check", status=status, output="why")


def table_of(*items: ExternalItem) -> ExternalTable:
    table = ExternalTable()
    for item in items:
        table.put(item, revision=7, wall_ms=1_000)
    return table


def test_a_store_in_which_nothing_was_registered_publishes_nothing() -> None:
    assert StorePublishing().news(ExternalTable(), is_leader=True) is None


def test_the_first_look_takes_everything_and_the_next_what_changed() -> None:
    table, publishing = table_of(NODE, check("passing")), StorePublishing()
    first = publishing.news(table, is_leader=True)
    assert first is not None
    assert (first.generation, first.version, first.is_whole, first.tells) == (1_000, 3, True, True)
    assert [item.number for item in first.items] == [1, 2, 3]
    assert publishing.news(table, is_leader=True) is None
    table.put(check("critical"), revision=8, wall_ms=2_000)
    said = records.encode_external_state(2, CheckStatus.CRITICAL, "why")
    assert publishing.news(table, is_leader=False) == StoreNews(
        1_000, 4, (Item(3, 4, said),), is_whole=False, tells=False
    )
    assert records.decode(said) == CheckState(2, CheckStatus.CRITICAL, "why")


def test_what_was_removed_is_told_with_its_version() -> None:
    table, publishing = table_of(NODE, check("passing")), StorePublishing()
    publishing.news(table, is_leader=True)
    table.remove("ext", "", "up", revision=8)
    news = publishing.news(table, is_leader=True)
    assert news is not None
    assert news.items == (Item(2, 4, None), Item(3, 5, None))


def test_after_a_snapshot_was_read_everything_is_told_anew() -> None:
    table, publishing = table_of(NODE), StorePublishing()
    publishing.news(table, is_leader=True)
    news = publishing.news(table_of(NODE, check("passing")), is_leader=True)
    assert news is not None
    assert (news.is_whole, len(news.items)) == (True, 3)


def test_a_status_that_this_version_does_not_know_is_told_as_critical() -> None:
    news = StorePublishing().news(table_of(NODE, check("maintenance")), is_leader=True)
    assert news is not None
    assert news.items[-1].value == records.encode_external_state(2, CheckStatus.CRITICAL, "why")


# That the servers' is the greatest generation.

RECOVERED = 1_763_500_000 << 21  # the offset of revisions after it, by the second in which that was


def test_after_servers_were_recovered_everything_is_told_under_a_later_generation() -> None:
    """What they had lost, others may have, under the numbers that are given out again."""
    table, publishing = table_of(NODE), StorePublishing()
    publishing.news(table, is_leader=True)
    news = publishing.news(table, RECOVERED, is_leader=True)
    assert news is not None
    assert (news.generation, news.is_whole, len(news.items)) == (1_763_501_000, True, 1)


@pytest.mark.parametrize(
    ("offset", "told", "wanted"),
    [
        (0, (1_000, 1), None),
        (0, (999, 50), None),
        (0, (1_000, 2), 1_001),
        (0, (5_000, 1), 5_001),
        (RECOVERED, (5_000, 1), None),
        (RECOVERED, (1_763_505_000, 1), 5_001),
        (0, (COUNTER_MAX - 1, 1), None),
    ],
)
def test_a_leader_outdoes_what_others_have_of_the_store(
    offset: int, told: tuple[int, int], wanted: int | None
) -> None:
    table = table_of(NODE)
    assert outdoing(table, offset, told) == (RenewExternal(wanted) if wanted else None)


def shown(peer: Peer) -> list[bytes | None]:
    state = peer.core.state(STORE)
    return [item.value for item in state.live()] if state is not None else []


def publish(group: Group, server: Peer, publishing: StorePublishing, store: Store) -> None:
    news = publishing.news(store.machine.external, store.machine.offset, is_leader=True)
    if news is not None:
        server.core.publish_store(group.now, news)


@pytest.mark.parametrize("later", [[], [NODE]], ids=["nothing", "something"])
def test_servers_founded_anew_take_back_what_an_agent_has_of_those_before_under_a_clock_days_ahead(
    later: list[ExternalItem],
) -> None:
    group = Group(3)
    server, agent, other = group.peers
    group.pass_time(2 * SECOND)
    before, ahead_ms = ExternalTable(), 7 * 24 * HOUR // MILLISECOND
    before.put(ExternalItem(ExternalKind.NODE, "old", "", b"old"), 3, FIRST_WALL_MS + ahead_ms)
    news = StorePublishing().news(before, is_leader=True)
    assert news is not None
    gone = Peer(9)
    gone.core.publish_store(group.now, news)
    gone.core.tick(group.now)
    agent.core.servers_changed(group.now, [gone.short])
    agent.core.hear(group.now, gone.short, gone.payloads())
    server.core.servers_changed(group.now, [], is_one=True)
    for peer in (agent, other):
        peer.core.servers_changed(group.now, [server.short])

    store, publishing = Store(), StorePublishing()
    for item in later:
        store.machine.external.put(item, 1, FIRST_WALL_MS)
    publish(group, server, publishing, store)
    group.mix(5 * SECOND)
    assert (shown(agent), shown(other)) == ([b"old"], [item.row for item in later])
    external = store.machine.external
    renewal = outdoing(external, store.machine.offset, server.core.store_told)
    assert renewal is not None
    store.run(renewal)
    publish(group, server, publishing, store)
    group.mix(10 * SECOND)
    assert shown(agent) == shown(other) == [item.row for item in later]
    assert outdoing(external, store.machine.offset, server.core.store_told) is None
    assert standing_of(external, store.machine.offset)[0] == FIRST_WALL_MS + ahead_ms + 1

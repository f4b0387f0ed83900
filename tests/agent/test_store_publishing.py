"""From the store's table of nodes without an agent to what replication publishes."""

from __future__ import annotations

from adsum.agent.store_publishing import StorePublishing
from adsum.catalog import records
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.records import CheckState
from adsum.catalog.replication.items import Item
from adsum.catalog.replication.store_news import StoreNews
from adsum.external import ExternalItem, ExternalKind
from adsum.store.external import ExternalTable

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

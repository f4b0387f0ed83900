"""Nodes without an agent in the log: what is registered stands, and what goes takes its sessions along."""

from __future__ import annotations

from adsum.external import ExternalItem, ExternalKind
from adsum.kv import AnswerExtras, StoreAnswer, StoreOutcome
from adsum.session import EndCause, Session
from adsum.store.commands import (
    CreateSession,
    DeregisterExternal,
    RegisterExternal,
    RenewExternal,
    RunTransaction,
)
from adsum.transactions import (
    EntryOperation,
    EntryResult,
    EntryVerb,
    KeyOperation,
    KeyOperationVerb,
    TransactionAnswer,
    decode_answer,
)
from tests.store.stores import Store

DONE, REFUSED = StoreOutcome.DONE, StoreOutcome.REFUSED
GET, SET, CAS = EntryVerb.GET, EntryVerb.SET, EntryVerb.CAS
DELETE, DELETE_CAS = EntryVerb.DELETE, EntryVerb.DELETE_CAS
ID = "2bb5a0c4-7a0e-4f0b-9c53-1d8f3e6a7b90"


def node(name: str, node_id: str = "", row: bytes = b"n", index: int = 0) -> ExternalItem:
    return ExternalItem(ExternalKind.NODE, name, "", row, node_id=node_id, modify=index)


def service(name: str, id_: str, row: bytes = b"s", index: int = 0) -> ExternalItem:
    return ExternalItem(ExternalKind.SERVICE, name, id_, row, modify=index)


def check(name: str, id_: str, service_id: str = "", status: str = "passing", index: int = 0) -> ExternalItem:
    kind = ExternalKind.CHECK
    return ExternalItem(kind, name, id_, b"c", service_id=service_id, status=status, modify=index)


def register(store: Store, *items: ExternalItem) -> StoreAnswer:
    return store.run(RegisterExternal(items))


def session_on(store: Store, id_: str, name: str, *, with_agent: bool = False) -> StoreAnswer:
    session = Session(id_, name, b"uuid" if with_agent else b"", 0, 0, lock_delay_ns=15_000_000_000)
    return store.run(CreateSession(session))


def listed(store: Store, name: str) -> list[tuple[str, int, int]]:
    return [(item.id, item.create, item.modify) for item in store.machine.external.of_node(name)]


def told(store: Store, *operations: EntryOperation | KeyOperation) -> TransactionAnswer:
    answer = store.run(RunTransaction(operations))
    assert answer.extras is not None
    return decode_answer(answer.extras.transaction)


def test_a_registration_has_one_revision_and_again_it_changes_nothing() -> None:
    store = Store()
    store.put(b"a", b"1")
    items = (node("Ext"), service("Ext", "web"), check("Ext", "up", "web"))
    assert register(store, *items) == StoreAnswer(DONE, 2, 2)
    assert listed(store, "ext") == [("", 2, 2), ("web", 2, 2), ("up", 2, 2)]
    assert register(store, *items) == StoreAnswer(DONE, 2, 3)
    assert register(store, service("ext", "web", b"other")).revision == 4
    assert listed(store, "EXT") == [("", 2, 2), ("web", 2, 4), ("up", 2, 2)]
    assert store.space.revision == 1


def test_what_stands_on_nothing_is_refused_and_nothing_of_it_is_done() -> None:
    store = Store()
    refused = register(store, node("ext"), check("ext", "up", "web"))
    sentence = 'failed inserting check: Missing service registration on node "ext"'
    assert refused == StoreAnswer(REFUSED, 0, 1, extras=AnswerExtras(sentence=sentence))
    assert listed(store, "ext") == []
    assert register(store, service("ext", "web")).outcome is REFUSED


def test_a_node_that_is_deregistered_takes_its_sessions_along_in_the_same_entry() -> None:
    store = Store()
    register(store, node("ext"), service("ext", "web"))
    session_on(store, "one", "EXT")
    session_on(store, "agent's", "ext", with_agent=True)
    store.acquire(b"a", "one")
    answer = store.run(DeregisterExternal("Ext"))
    assert (answer.outcome, answer.revision) == (DONE, 5)
    assert listed(store, "ext") == []
    assert [each.id for each in store.machine.sessions.all()] == ["agent's"]
    ended = store.machine.sessions.ended["one"]
    assert (ended.cause, ended.revision, ended.keys) == (EndCause.NODE_GONE, 5, 1)
    assert store.record(b"a").lease is None
    assert store.acquire(b"a", "agent's").outcome is StoreOutcome.HELD
    assert store.run(DeregisterExternal("Ext")) == StoreAnswer(DONE, 5, 7)


def test_a_service_or_a_check_goes_alone_and_no_session_with_it() -> None:
    store = Store()
    register(store, node("ext"), service("ext", "web"), check("ext", "up", "web"), check("ext", "disk"))
    session_on(store, "one", "ext")
    store.run(DeregisterExternal("ext", check_id="disk"))
    assert [id_ for id_, _create, _modify in listed(store, "ext")] == ["", "web", "up"]
    store.run(DeregisterExternal("ext", service_id="web"))
    assert [id_ for id_, _create, _modify in listed(store, "ext")] == [""]
    assert len(store.machine.sessions) == 1


def test_a_node_under_a_new_name_leaves_services_and_sessions_behind() -> None:
    store = Store()
    register(store, node("old", ID), service("old", "web"))
    session_on(store, "one", "old")
    register(store, node("new", ID))
    assert (listed(store, "old"), listed(store, "new")) == ([], [("", 1, 3)])
    assert store.machine.sessions.ended["one"].cause is EndCause.NODE_GONE


def test_a_session_of_a_node_without_an_agent_needs_that_node() -> None:
    """Deregistered after somebody asked for the session, and before that was applied."""
    store = Store()
    refused = session_on(store, "one", "ext")
    assert refused == StoreAnswer(REFUSED, 0, 1, extras=AnswerExtras(sentence="Missing node registration"))
    register(store, node("ext"))
    assert session_on(store, "one", "ext").outcome is DONE


def test_what_was_registered_is_in_the_snapshot_with_what_decides_the_next_numbers() -> None:
    store = Store()
    register(store, node("ext", ID), service("ext", "web"), check("ext", "up", "web", "critical"))
    register(store, node("gone"), service("gone", "db"))
    store.run(DeregisterExternal("gone"))
    other = store.restarted()
    for each in (store, other):
        register(each, node("next"), check("next", "a"), node("moved", ID))
    assert other.machine.hash() == store.machine.hash()
    assert other.machine.external.rows == store.machine.external.rows
    assert store.machine.bytes_total == other.machine.bytes_total > 0


def test_entries_are_set_read_and_deleted_in_transactions() -> None:
    store = Store()
    said = told(
        store,
        EntryOperation(SET, node("ext", ID)),
        EntryOperation(SET, service("ext", "web")),
        EntryOperation(CAS, check("ext", "up", "web")),
        EntryOperation(GET, service("EXT", "web")),
        EntryOperation(GET, node("another name", ID)),
        KeyOperation(KeyOperationVerb.SET, b"a", b"1"),
        EntryOperation(CAS, service("ext", "web", b"new", index=1)),
        EntryOperation(DELETE, check("ext", "up")),
        EntryOperation(DELETE, node("none")),
    )
    assert said.errors == []
    assert [(each.item.id, each.item.modify) for each in said.results if isinstance(each, EntryResult)] == [
        *(("", 1), ("web", 1), ("up", 1), ("web", 1), ("", 1), ("web", 1))
    ]
    assert listed(store, "ext") == [("", 1, 1), ("web", 1, 1)]
    assert store.record(b"a").modify == 1


def test_entries_that_fail_are_told_in_consuls_words_and_nothing_is_done() -> None:
    store = Store()
    register(store, node("ext"), service("ext", "web"), check("ext", "up", "web"))
    said = told(
        store,
        EntryOperation(GET, node("nope")),
        EntryOperation(GET, service("ext", "w")),
        EntryOperation(GET, check("nope", "w")),
        EntryOperation(CAS, node("ext", row=b"new", index=3)),
        EntryOperation(DELETE_CAS, node("nope", index=3)),
        EntryOperation(DELETE, node("nope")),
        EntryOperation(DELETE_CAS, service("ext", "web", index=4)),
        EntryOperation(DELETE_CAS, check("ext", "w", index=4)),
        EntryOperation(CAS, service("ext", "w", index=4)),
        EntryOperation(SET, service("nope", "w")),
        EntryOperation(SET, check("nope", "w")),
        EntryOperation(SET, check("ext", "w", "none")),
        EntryOperation(SET, service("ext", "fine")),
    )
    assert [(each.place, each.sentence) for each in said.errors] == [
        (0, 'node "nope" doesn\'t exist'),
        (1, 'service "w" on node "ext" doesn\'t exist'),
        (2, 'check "w" on node "nope" doesn\'t exist'),
        (3, 'failed to set node "ext", index is stale'),
        (4, 'failed to delete node "nope", index is stale'),
        (6, 'failed to delete service "web" on node "ext", index is stale'),
        (7, 'failed to delete check "w" on node "ext", index is stale'),
        (8, 'failed to set service "w" on node "ext", index is stale'),
        (9, "Missing node registration"),
        (10, "Missing node registration"),
        (11, "Missing service registration"),
    ]
    assert [id_ for id_, _create, _modify in listed(store, "ext")] == ["", "web", "up"]


def test_a_node_that_a_transaction_deletes_frees_what_its_sessions_held_for_what_follows() -> None:
    """But for their delays, and they themselves take nothing any more."""
    store = Store()
    register(store, node("ext", ID))
    session_on(store, "one", "ext")
    store.create("two")
    store.acquire(b"a", "one", b"v")
    held = KeyOperation(KeyOperationVerb.LOCK, b"b", session="one")
    gone = EntryOperation(DELETE, node("ext"))
    said = told(
        store,
        held,
        gone,
        KeyOperation(KeyOperationVerb.LOCK, b"c", session="one"),
        KeyOperation(KeyOperationVerb.LOCK, b"a", session="two"),
        KeyOperation(KeyOperationVerb.LOCK, b"b", session="two"),
        KeyOperation(KeyOperationVerb.CHECK_SESSION, b"a", session=""),
    )
    assert [each.place for each in said.errors] == [2, 3, 4]
    assert said.errors[1].sentence == 'failed to lock key "a" due to lock delay'
    said = told(store, held, gone, KeyOperation(KeyOperationVerb.SET, b"a", b"w"))
    assert said.errors == []
    assert [(store.record(key).lease, store.record(key).value) for key in (b"a", b"b")] == [
        *((None, b"w"), (None, b""))
    ]
    assert store.acquire(b"b", "two").outcome is StoreOutcome.HELD


def test_below_their_apply_level_nothing_is_registered() -> None:
    store = Store(level=1)
    assert register(store, node("ext")).outcome is StoreOutcome.MALFORMED
    assert store.run(DeregisterExternal("ext")).outcome is StoreOutcome.MALFORMED
    assert store.run(RunTransaction(())).outcome is StoreOutcome.MALFORMED


def test_names_are_folded_alike_wherever_they_are_compared() -> None:
    store = Store()
    register(store, node("Straße", ID))
    session_on(store, "one", "Straße")
    register(store, node("other", ID))
    assert store.machine.sessions.get("one") is None
    assert store.machine.sessions.ended["one"].cause is EndCause.NODE_GONE


def sessions_left(store: Store) -> list[str]:
    return [each.id for each in store.machine.sessions.all()]


def test_one_entry_ends_no_more_sessions_of_a_node_than_it_may_and_the_name_waits_for_the_rest() -> None:
    """Else whoever is left would live on with a node that is not theirs."""
    store = Store()
    register(store, node("ext", ID))
    for number in range(1_026):
        session_on(store, f"s{number:04}", "ext")
    assert store.run(DeregisterExternal("ext")).outcome is DONE
    assert listed(store, "ext") == []
    assert sessions_left(store) == ["s1024", "s1025"]
    assert store.machine.sessions.left_to_leader == 2
    sentence = (
        "failed inserting node: sessions of the node that was called EXT before are still ending, 2 of them: "
        "try again in a moment"
    )
    refused = register(store, node("EXT"))
    assert (refused.outcome, refused.extras) == (REFUSED, AnswerExtras(sentence=sentence))
    assert told(store, EntryOperation(SET, node("EXT"))).errors[0].sentence == sentence.removeprefix(
        "failed inserting node: "
    )
    assert register(store, node("another")).outcome is DONE
    store.end("s1024", "s1025")
    assert register(store, node("EXT")).outcome is DONE
    assert store.machine.sessions.left_to_leader == 2


def test_an_entry_that_has_freed_enough_keys_leaves_the_other_sessions_of_the_node() -> None:
    store = Store()
    register(store, node("ext"))
    for session in ("a", "b", "c"):
        session_on(store, session, "ext")
    for number in range(2_048):
        store.acquire(b"%d" % number, "a" if number < 2_047 else "b")
    store.run(DeregisterExternal("ext"))
    assert sessions_left(store) == ["c"]
    store.run(DeregisterExternal("ext"))
    assert sessions_left(store) == []


def test_a_node_that_gets_another_name_ends_no_more_sessions_either() -> None:
    store = Store()
    register(store, node("old", ID))
    for number in range(1_025):
        session_on(store, f"s{number:04}", "old")
    register(store, node("new", ID))
    assert sessions_left(store) == ["s1024"]
    assert register(store, node("old")).outcome is REFUSED


def test_a_transaction_ends_all_sessions_of_a_node_or_fails() -> None:
    store = Store()
    for name, count in (("one", 1_000), ("two", 25)):
        register(store, node(name))
        for number in range(count):
            session_on(store, f"{name}{number:04}", name)
    sentence = (
        'node "two" has more sessions than one entry ends, 1024 or those that hold 2048 keys: deregister it '
        "without a transaction"
    )
    said = told(store, EntryOperation(DELETE, node("one")), EntryOperation(DELETE, node("two")))
    assert [(each.place, each.sentence) for each in said.errors] == [(1, sentence)]
    assert len(sessions_left(store)) == 1_025
    again = EntryOperation(SET, node("one")), EntryOperation(DELETE, node("one"))
    assert told(store, EntryOperation(DELETE, node("one")), *again).errors == []
    assert len(sessions_left(store)) == 25
    assert told(store, EntryOperation(DELETE, node("two"))).errors == []
    assert store.machine.sessions.left_to_leader == 0


def test_entries_that_are_read_in_a_transaction_count_by_their_size() -> None:
    store = Store()
    register(store, node("ext"), service("ext", "web", b"x" * 64_000))
    reads = [EntryOperation(GET, service("ext", "web"))] * 67
    said = told(store, KeyOperation(KeyOperationVerb.SET, b"a", b"1"), *reads)
    assert [each.place for each in said.errors] == [67]
    assert told(store, *reads[:66]).errors == []


def test_a_later_generation_is_begun_and_an_earlier_one_is_not() -> None:
    store = Store()
    store.run(RenewExternal(7))
    assert (store.machine.external.generation, store.machine.external.version) == (7, 1)
    register(store, node("ext"))
    hash_before = store.machine.hash()
    store.run(RenewExternal(9))
    store.run(RenewExternal(8))
    assert (store.machine.external.generation, store.machine.external.version) == (9, 3)
    assert store.machine.hash() != hash_before
    assert store.restarted().machine.external.generation == 9

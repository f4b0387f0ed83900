"""Sessions as the log has them: each begins once, ends once, and it is remembered why."""

from __future__ import annotations

import pytest

from adsum.kv import StoreAnswer, StoreOutcome
from adsum.session import EndCause, EndedSession, Session
from adsum.store.commands import EndSessions, ExpireSessions, NoteRemaining
from adsum.store.session_waiters import SessionWaiters
from tests.store.stores import WALL_MS, Store

DONE, REFUSED = StoreOutcome.DONE, StoreOutcome.REFUSED


def session(id_: str, node: str = "n1") -> Session:
    return Session(id_, node, b"uuid", 1, 0)


def ids(found: list[Session]) -> list[str]:
    return [each.id for each in found]


def test_a_session_has_the_revision_of_its_entry() -> None:
    store = Store()
    store.put(b"a", b"1")
    assert store.create("one", lock_delay_ms=15_000) == StoreAnswer(DONE, 2, 2)
    assert store.machine.sessions.get("one") == Session(
        *("one", "n1", b"uuid", 1, 0), lock_delay_ns=15_000_000_000, create=2, modify=2
    )


def test_a_create_that_comes_again_under_another_name_is_answered_as_before() -> None:
    store = Store()
    store.create("one")
    assert store.create("one", node="elsewhere") == StoreAnswer(DONE, 1, 2)
    found = store.machine.sessions.get("one")
    assert found is not None
    assert found.node == "n1"


def test_a_session_that_has_ended_does_not_come_back() -> None:
    store = Store()
    store.create("one")
    store.end("one")
    assert store.create("one").outcome is REFUSED
    assert len(store.machine.sessions) == 0


def test_sessions_are_listed_by_id_and_by_node_whatever_its_case() -> None:
    store = Store()
    for id_, node in (("c", "n1"), ("a", "N1"), ("b", "n2")):
        store.create(id_, node=node)
    sessions = store.machine.sessions
    assert ids(sessions.all()) == ["a", "b", "c"]
    assert ids(sessions.of_node("N1")) == ["a", "c"]
    assert sessions.of_node("n3") == []


def test_what_is_destroyed_twice_is_gone() -> None:
    store = Store()
    store.create("one")
    assert store.end("one") == StoreAnswer(DONE, 2, 2)
    assert store.end("one") == StoreAnswer(DONE, 2, 3)
    assert store.end("never") == StoreAnswer(DONE, 2, 4)


def test_b14_a_leader_of_another_term_ends_nobodys_session() -> None:
    """It was paused for longer than a TTL, and proposes what it would have proposed before."""
    store = Store(term=2)
    store.create("one")
    for late in (
        ExpireSessions((("one", 0),), term=1),
        EndSessions(("one",), EndCause.CHECK_CRITICAL, "web is critical", term=1),
        NoteRemaining((("one", 5_000),), term=1),
    ):
        assert store.run(late).outcome is REFUSED
    assert ids(store.machine.sessions.all()) == ["one"]
    assert store.run(ExpireSessions((("one", 0),), term=2)).outcome is DONE
    assert ids(store.machine.sessions.all()) == []


def test_b15_what_is_left_of_a_long_ttl_survives_leaders() -> None:
    store = Store()
    store.create("one")
    store.run(NoteRemaining((("one", 40_000), ("nobody", 1)), term=1))
    store = store.restarted()
    found = store.machine.sessions.get("one")
    assert found is not None
    assert (found.remaining_ms, found.renewals, found.modify) == (40_000, 0, 1)


def test_one_that_was_renewed_through_the_log_is_not_expired_by_what_was_known_before() -> None:
    """40 s were noted; it was renewed, and that was acknowledged; the leader died; the next one, which knew
    only of the 40 s, ended it 42 s later."""
    store = Store()
    store.create("one")
    store.run(NoteRemaining((("one", 40_000),), term=1))
    store.run(NoteRemaining((("one", None),), term=1))
    found = store.machine.sessions.get("one")
    assert found is not None
    assert (found.remaining_ms, found.renewals) == (None, 1)
    assert store.run(ExpireSessions((("one", 0),), term=1)) == StoreAnswer(DONE, 1, 4)
    assert len(store.machine.sessions) == 1
    assert store.run(ExpireSessions((("one", 1),), term=1)).outcome is DONE
    assert len(store.machine.sessions) == 0


def test_it_is_remembered_how_the_newest_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adsum.store.sessions.ENDED_MAX", 2)
    store = Store()
    for id_ in ("one", "two", "three"):
        store.create(id_)
    store.acquire(b"a", "two")
    for id_, cause in (
        ("one", EndCause.EXPIRED),
        ("two", EndCause.NODE_FAILED),
        ("three", EndCause.DESTROYED),
    ):
        store.run(EndSessions((id_,), cause, f"because of {id_}"))
    ended = store.machine.sessions.ended
    assert list(ended) == ["two", "three"]
    two = ended["two"]
    assert two == EndedSession(
        two.session, EndCause.NODE_FAILED, "because of two", revision=6, wall_ms=WALL_MS + 6, keys=1
    )
    assert store.machine.sessions.floor == 5
    assert store.restarted().machine.sessions.ended == ended


def test_one_entry_ends_so_many_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 clients may die at once; the leader sees who is left."""
    monkeypatch.setattr("adsum.store.session_commands.ENDS_OF_ONE_ENTRY_MAX", 3)
    monkeypatch.setattr("adsum.store.session_commands.FREED_BY_ONE_ENTRY_MAX", 2)
    store = Store()
    for number in range(6):
        store.create(f"{number}")
    store.acquire(b"a", "3")
    store.acquire(b"b", "3")
    every = ExpireSessions(tuple((f"{number}", 0) for number in range(6)), term=1)
    left = []
    for _ in range(3):
        store.run(every)
        left.append(ids(store.machine.sessions.all()))
    assert left == [["3", "4", "5"], ["4", "5"], []]


# Indexes.


def test_an_index_moves_with_what_is_asked_about_and_with_nothing_else() -> None:
    store = Store()
    store.create("one", node="n1")
    store.create("two", node="n2")
    sessions = store.machine.sessions
    assert (sessions.index_of("one"), sessions.index_of_node("N1"), sessions.revision) == (1, 1, 2)
    store.put(b"a", b"1")
    store.acquire(b"a", "one")
    store.run(NoteRemaining((("one", 1),), term=1))
    assert (sessions.index_of("one"), sessions.revision) == (1, 2)
    store.end("two")
    assert (sessions.index_of("two"), sessions.index_of_node("n2"), sessions.revision) == (6, 6, 6)
    assert (sessions.changed_since("one", 1), sessions.node_changed_since("n1", 1)) == (False, False)
    assert (sessions.changed_since("two", 2), sessions.node_changed_since("n2", 2)) == (True, True)
    assert (sessions.changed_since("two", 6), sessions.node_changed_since("n2", 6)) == (False, False)
    assert (sessions.index_of("never", 9), sessions.changed_since("never", 0)) == (9, False)


def test_a_floor_that_rises_makes_nobody_ask_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adsum.store.sessions.ENDED_MAX", 10)
    store = Store()
    sessions, index, returns = store.machine.sessions, 0, 0
    for number in range(200):
        store.create(f"{number}", node=f"n{number}")
        store.end(f"{number}")
        if sessions.changed_since("absent", index):
            index = sessions.index_of("absent", index)
            returns += 1
            assert not sessions.changed_since("absent", index)
    assert returns == 18


# Waiting.


def test_a_session_that_comes_or_goes_wakes_who_waits_for_it_for_its_node_or_for_all() -> None:
    store, waiters, heard = Store(), SessionWaiters(), list[str]()
    store.create("one")
    assert waiters.woken(store.machine.sessions) == []
    waits = {"one": ("one", None), "two": ("two", None), "n1": (None, "N1"), "n2": (None, "n2")}
    waits["all"] = (None, None)
    wakes = {name: (lambda name=name: heard.append(name)) for name in waits}
    for name, (id_, node) in waits.items():
        waiters.add(wakes[name], id_=id_, node=node)
    assert len(waiters) == 5

    def woken() -> list[str]:
        heard.clear()
        for wake in waiters.woken(store.machine.sessions):
            wake()
        return heard

    store.create("two", node="n2")
    assert woken() == ["two", "n2", "all"]
    store.put(b"a", b"1")
    assert woken() == []
    store.end("one")
    waiters.remove(wakes["all"], id_=None, node=None)
    assert woken() == ["one", "n1"]
    store.create("three", node="n3")
    store = store.restarted()
    assert woken() == ["one", "two", "n1", "n2"]


def test_what_is_read_back_is_indexed_alike() -> None:
    store = Store()
    for id_, node in (("c", "n1"), ("a", "N1"), ("b", "n2")):
        store.create(id_, node=node, lock_delay_ms=9_000)
        store.acquire(id_.encode(), id_)
    store.end("b")
    before, after = store.machine, store.restarted().machine
    assert after.sessions.all() == before.sessions.all()
    assert ids(after.sessions.of_node("n1")) == ["a", "c"]
    assert after.keys_held_by("a") == 1
    assert after.keyspaces[0].delays.all() == [(b"b", 70 + 9_000)]
    for id_ in ("a", "b", "c", "never"):
        assert after.sessions.index_of(id_) == before.sessions.index_of(id_)
    assert after.sessions.bytes_total == before.sessions.bytes_total

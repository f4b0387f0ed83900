"""Keys taken and given back by sessions: Consul's rules, with tokens and delays that make them hold."""

from __future__ import annotations

import pytest

from adsum.kv import AnswerExtras, KeyRecord, RecordExtras, StoreAnswer, StoreOutcome
from adsum.session import EndCause, SessionBehavior
from adsum.store.commands import Acquire, Delete, EndSessions, ExpireSessions, LeaseRule, Put
from tests.store.stores import WALL_MS, Store

DONE, HELD, FENCED = StoreOutcome.DONE, StoreOutcome.HELD, StoreOutcome.FENCED


def with_two(lock_delay_ms: int = 0, behavior: SessionBehavior = SessionBehavior.RELEASE) -> Store:
    """Entries 1 and 2 are sessions; locks begin at 3."""
    store = Store()
    for id_ in ("one", "two"):
        store.create(id_, lock_delay_ms=lock_delay_ms, behavior=behavior)
    return store


def token(answer: StoreAnswer) -> int:
    assert answer.extras is not None
    return answer.extras.token


# Taking and giving back.


def test_a_key_that_is_not_there_is_made_and_held() -> None:
    store = with_two()
    answer = store.acquire(b"a", "one", b"v")
    assert answer == StoreAnswer(DONE, 3, 3, 1, extras=AnswerExtras(token=3))
    assert store.record(b"a") == KeyRecord(
        *(b"v", 3, 3, WALL_MS + 3, WALL_MS + 3),
        lock_index=1,
        lease="one",
        extras=RecordExtras(token=3, fence=3),
    )


def test_nobody_takes_what_another_session_holds() -> None:
    store = with_two()
    store.acquire(b"a", "one", b"v")
    assert store.acquire(b"a", "two", b"w") == StoreAnswer(HELD, 3, 4, extras=AnswerExtras(holder="one"))
    assert store.record(b"a").value == b"v"


def test_the_holder_may_write_by_acquiring_again_and_keeps_lock_index_and_token() -> None:
    store = with_two()
    store.acquire(b"a", "one", b"v")
    assert store.acquire(b"a", "one", b"w") == StoreAnswer(DONE, 4, 4, 1, extras=AnswerExtras(token=3))
    record = store.record(b"a")
    assert (record.value, record.lock_index, record.lease) == (b"w", 1, "one")
    assert store.acquire(b"a", "one", b"w") == StoreAnswer(DONE, 4, 5, 0, extras=AnswerExtras(token=3))


def test_lock_index_counts_how_often_it_was_taken() -> None:
    store = with_two()
    store.put(b"a", b"plain")
    for number in (1, 2, 3):
        store.acquire(b"a", "one")
        assert store.record(b"a").lock_index == number
        store.release(b"a", "one")
        assert store.record(b"a").lock_index == number


def test_only_its_holder_releases_a_key_and_leaves_value_and_flags_as_he_says() -> None:
    store = with_two()
    assert store.release(b"a", "one").outcome is StoreOutcome.COMPARE_FAILED
    store.put(b"a", b"plain")
    assert store.release(b"a", "one").outcome is StoreOutcome.COMPARE_FAILED
    store.acquire(b"a", "one", b"v")
    refused = store.release(b"a", "two", b"w")
    assert (refused.outcome, refused.extras) == (HELD, AnswerExtras(holder="one"))
    assert store.release(b"a", "one", b"last") == StoreAnswer(DONE, 8, 8, 1)
    record = store.record(b"a")
    assert (record.value, record.lease, record.modify) == (b"last", None, 8)
    assert record.extras == RecordExtras(token=0, fence=6)


def test_a_release_starts_no_delay() -> None:
    store = with_two(lock_delay_ms=15_000)
    store.acquire(b"a", "one")
    store.release(b"a", "one")
    assert store.acquire(b"a", "two").outcome is DONE


def test_an_unknown_session_takes_nothing() -> None:
    store = with_two()
    assert store.acquire(b"a", "three") == StoreAnswer(StoreOutcome.NO_SESSION, 0, 3)
    assert store.acquire(b"a", "").outcome is StoreOutcome.NO_SESSION
    assert store.space.get(b"a") is None


def test_a_plain_put_of_a_held_key_keeps_holder_lock_index_and_token() -> None:
    """SD1, SD2."""
    store = with_two()
    store.acquire(b"a", "one", b"v")
    assert store.put(b"a", b"w").outcome is DONE
    record = store.record(b"a")
    assert (record.value, record.lease, record.lock_index) == (b"w", "one", 1)
    assert record.extras == RecordExtras(token=3, fence=3)


def test_lock_index_goes_on_where_a_deleted_key_left_it() -> None:
    """SD1."""
    store = with_two()
    store.acquire(b"a", "one")
    store.delete(b"a")
    store.acquire(b"a", "two")
    assert store.record(b"a").lock_index == 2
    store.delete_tree(b"")
    store.put(b"a", b"plain")
    store.acquire(b"a", "two")
    assert store.record(b"a").lock_index == 3


def test_a_held_key_that_is_deleted_is_free_at_once() -> None:
    store = with_two(lock_delay_ms=15_000)
    for delete in (store.delete, store.delete_tree):
        store.acquire(b"a", "one")
        delete(b"a")
        assert store.machine.keys_held_by("one") == 0
        assert store.acquire(b"a", "two").outcome is DONE
        store.release(b"a", "two")


def test_a_put_that_says_no_lease_takes_key_and_token_from_its_holder() -> None:
    store = with_two()
    store.acquire(b"a", "one", b"v")
    store.run(Put(b"a", b"v", lease_rule=LeaseRule.NONE, skips_equal=True))
    record = store.record(b"a")
    assert (record.lease, record.extras) == (None, RecordExtras(token=0, fence=3))
    assert store.machine.keys_held_by("one") == 0


def test_a_session_holds_so_many_keys_and_is_refused_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adsum.store.locks.HELD_KEYS_MAX", 3)
    store = with_two()
    for key in (b"a", b"b", b"c"):
        assert store.acquire(key, "one").outcome is DONE
    refused = store.acquire(b"d", "one")
    assert refused.outcome is StoreOutcome.REFUSED
    assert refused.extras is not None
    assert "may not hold more: release some" in refused.extras.sentence
    assert store.acquire(b"a", "one", b"again").outcome is DONE
    store.release(b"b", "one")
    assert store.acquire(b"d", "one").outcome is DONE


def test_keys_that_went_with_a_large_tree_count_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looked at each of them when they went."""
    for module in ("session_keys", "locks"):
        monkeypatch.setattr(f"adsum.store.{module}.HELD_KEYS_MAX", 3)
    store = Store.with_history(2)
    store.create("one", lock_delay_ms=15_000)
    for key in (b"t/a", b"t/b", b"t/c"):
        store.acquire(key, "one")
    assert store.acquire(b"d", "one").outcome is StoreOutcome.REFUSED
    store.delete_tree(b"t/")
    assert store.acquire(b"d", "one").outcome is DONE
    store.end("one")
    store.create("two")
    assert store.acquire(b"t/a", "two").outcome is DONE
    assert store.acquire(b"d", "two").outcome is HELD


# Fencing.


def test_b13_who_held_a_key_before_is_refused_under_his_token() -> None:
    """Paused past its TTL, the first holder wakes and writes as if it still held the key."""
    store = with_two()
    first = token(store.acquire(b"a", "one", b"1"))
    store.run(ExpireSessions((("one", 0),), term=1))
    second = token(store.acquire(b"a", "two", b"2"))
    assert (first, second) == (3, 5)
    late = store.run(Put(b"a", b"late", if_token=first))
    assert late.outcome is FENCED
    assert late.extras == AnswerExtras(token=5, sentence="the fencing token 5 was shown under this key")
    assert store.run(Delete(b"a", if_token=first)).outcome is FENCED
    assert store.acquire(b"a", "two", b"late", if_token=first).outcome is FENCED
    assert store.release(b"a", "two", b"late", if_token=first).outcome is FENCED
    assert store.record(b"a").value == b"2"
    assert store.run(Put(b"a", b"3", if_token=second)).outcome is DONE


def test_a_token_that_is_accepted_becomes_the_fence_of_a_key_that_is_no_lock_itself() -> None:
    store = with_two()
    store.index = 100
    assert store.run(Put(b"data", b"1", if_token=10)).outcome is DONE
    assert store.run(Put(b"data", b"2", if_token=9)).outcome is FENCED
    assert store.run(Put(b"data", b"2", if_token=10)).outcome is DONE
    assert store.run(Put(b"data", b"2", if_token=12, skips_equal=True)).outcome is DONE
    assert store.run(Put(b"data", b"3", if_token=11)).outcome is FENCED
    assert store.put(b"data", b"unfenced").outcome is DONE


def test_a_fence_survives_that_its_key_is_deleted() -> None:
    store = with_two()
    store.index = 100
    store.run(Put(b"data", b"1", if_token=10))
    store.run(Delete(b"data", if_token=20))
    assert store.run(Put(b"data", b"2", if_token=15)).outcome is FENCED
    assert store.run(Put(b"data", b"2", if_token=20)).outcome is DONE


def test_a_token_shown_for_a_key_that_is_not_there_is_its_fence_as_well() -> None:
    store = with_two()
    store.index = 100
    assert store.run(Delete(b"data", if_token=20)) == StoreAnswer(DONE, 101, 101)
    assert store.run(Delete(b"data", if_token=20)) == StoreAnswer(DONE, 101, 102)
    assert store.run(Put(b"data", b"1", if_token=19)).outcome is FENCED
    assert store.put(b"data", b"2").outcome is DONE
    assert store.run(Put(b"data", b"3", if_token=19)).outcome is FENCED


def test_a_token_that_was_given_to_nobody_fences_nobody_off() -> None:
    """As a fence it would outlive the key, and shut out every holder to come."""
    store = with_two()
    refused = store.run(Put(b"data", b"1", if_token=4))
    assert refused.outcome is StoreOutcome.REFUSED
    assert refused.extras is not None
    assert refused.extras.sentence == "no grant has the fencing token 4: the newest revision is 3"
    assert store.run(Delete(b"data", if_token=1 << 63)).outcome is StoreOutcome.REFUSED
    assert store.acquire(b"a", "one", if_token=1 << 63).outcome is StoreOutcome.REFUSED
    first = token(store.acquire(b"a", "one"))
    assert store.release(b"a", "one", if_token=1 << 63).outcome is StoreOutcome.REFUSED
    assert store.run(Put(b"a", b"2", if_token=first)).outcome is DONE
    assert (store.record(b"a").fence, store.space.fence_floor, store.space.get(b"data")) == (first, 0, None)


def test_a_refusal_by_the_floor_alone_names_it() -> None:
    store = Store.with_history(1)
    store.index = 100
    store.run(Put(b"a", b"1", if_token=40))
    store.delete(b"a")
    store.put(b"z", b"1")
    refused = store.run(Put(b"other", b"1", if_token=39))
    assert refused.outcome is FENCED
    assert refused.extras is not None
    assert refused.extras.token == 40
    assert refused.extras.sentence.startswith("nobody remembers this key")
    assert "the fencing token 40 was shown" in refused.extras.sentence
    assert store.run(Put(b"other", b"1", if_token=40)).outcome is DONE


def test_a_key_written_anew_after_it_was_forgotten_is_fenced_by_the_floor() -> None:
    """Else its holder of long ago could write again as soon as anybody had made the key."""
    store = Store.with_history(1)
    store.index = 100
    store.run(Put(b"a", b"1", if_token=40))
    store.delete(b"a")
    store.put(b"z", b"1")
    store.put(b"a", b"anew")
    assert store.run(Put(b"a", b"late", if_token=39)).outcome is FENCED


# Ends.


def test_an_end_frees_its_keys_in_its_own_entry() -> None:
    store = with_two()
    store.acquire(b"b", "one", b"v")
    store.acquire(b"a", "one", b"v")
    store.acquire(b"c", "two", b"v")
    assert store.end("one") == StoreAnswer(DONE, 6, 6, 2)
    assert [(key, each.lease, each.modify) for key, each in store.space.table.items(b"", None)] == [
        *((b"a", None, 6), (b"b", None, 6), (b"c", "two", 5))
    ]
    assert store.record(b"a") == KeyRecord(
        *(b"v", 4, 6, WALL_MS + 4, WALL_MS + 6), lock_index=1, extras=RecordExtras(token=0, fence=4)
    )


def test_an_end_deletes_keys_where_the_session_says_so() -> None:
    store = with_two(behavior=SessionBehavior.DELETE)
    store.acquire(b"a", "one")
    store.acquire(b"a", "one", b"again")
    assert store.end("one") == StoreAnswer(DONE, 5, 5, 1)
    assert store.space.get(b"a") is None
    assert store.run(Put(b"a", b"late", if_token=2)).outcome is FENCED
    store.acquire(b"a", "two")
    assert store.record(b"a").lock_index == 2


@pytest.mark.parametrize("behavior", SessionBehavior)
def test_after_an_end_nobody_takes_its_keys_for_as_long_as_it_said(behavior: SessionBehavior) -> None:
    """In cluster time, which entries carry, also when the holder ended itself."""
    store = with_two(lock_delay_ms=15_000, behavior=behavior)
    store.time_ms = 100_000
    store.acquire(b"a", "one")
    store.end("one")
    store.time_ms = 100_001
    refused = store.acquire(b"a", "two")
    assert (refused.outcome, refused.extras) == (HELD, AnswerExtras(delay_ms=14_999))
    store.time_ms = 114_999
    assert store.acquire(b"a", "two").extras == AnswerExtras(delay_ms=1)
    store.time_ms = 115_000
    assert store.acquire(b"a", "two").outcome is DONE


def test_a_delay_counts_as_60_seconds_at_most() -> None:
    store = with_two(lock_delay_ms=3_600_000)
    store.time_ms = 0
    store.acquire(b"a", "one")
    store.end("one")
    assert store.acquire(b"a", "two").extras == AnswerExtras(delay_ms=60_000)


def test_b16_no_poller_gets_around_a_delay_by_restart_or_by_the_next_leader() -> None:
    """Twelve of them, all the time; cluster time stands still while nobody leads."""
    for fate in ("goes on", "restarts", "next leader"):
        store = with_two(lock_delay_ms=1_000)
        store.time_ms = 5_000
        store.acquire(b"a", "one")
        store.end("one")
        for number in range(12):
            store.create(f"poller-{number}")
        won = []
        for now_ms in range(5_000, 6_100, 50):
            store.time_ms = now_ms
            if fate == "restarts":
                store = store.restarted()
            if fate == "next leader":
                store.term += 1
            answers = [store.acquire(b"a", f"poller-{number}").outcome for number in range(12)]
            won += [(now_ms, number) for number, outcome in enumerate(answers) if outcome is DONE]
        assert won == [(6_000 + 50 * more, 0) for more in (0, 1)], fate


def test_delays_that_are_over_go_and_no_others() -> None:
    store = with_two(lock_delay_ms=1_000)
    store.create("long", lock_delay_ms=9_000)
    store.time_ms = 0
    for number in range(300):
        store.acquire(b"short/%d" % number, "one")
    store.acquire(b"long", "long")
    store.end("one", "long")
    delays = store.space.delays
    assert len(delays) == 301
    store.time_ms = 1_000
    left = []
    for _ in range(5):
        store.put(b"z", b"")
        left.append(len(delays))
    assert left == [173, 45, 1, 1, 1]
    assert delays.left_ms(b"long", 1_000) == 8_000
    assert len(store.restarted().space.delays) == 1


def test_a_key_that_was_freed_twice_waits_for_the_later_delay() -> None:
    store = with_two(lock_delay_ms=1_000)
    store.create("long", lock_delay_ms=5_000)
    store.time_ms = 0
    store.acquire(b"a", "one")
    store.end("one")
    store.time_ms = 1_000
    store.acquire(b"a", "long")
    store.end("long")
    store.time_ms = 5_999
    assert store.acquire(b"a", "two").extras == AnswerExtras(delay_ms=1)


def test_sessions_that_one_entry_ends_free_all_their_keys_in_it() -> None:
    store = with_two()
    store.acquire(b"a", "one")
    store.acquire(b"b", "two")
    store.run(EndSessions(("two", "one", "two", "nobody"), EndCause.NODE_FAILED, "n1 failed", term=1))
    assert [each.lease for _key, each in store.space.table.items(b"", None)] == [None, None]
    assert [(each.cause, each.keys) for each in store.machine.sessions.ended.values()] == [
        *((EndCause.NODE_FAILED, 1), (EndCause.NODE_FAILED, 1))
    ]


def test_tokens_of_one_key_only_rise() -> None:
    store = with_two()
    tokens = []
    for number in range(6):
        session = ("one", "two")[number % 2]
        tokens.append(token(store.acquire(b"a", session)))
        if number == 3:
            store.delete(b"a")
        else:
            store.release(b"a", session)
    assert tokens == [3, 5, 7, 9, 11, 13]


def test_what_comes_with_sessions_is_malformed_below_their_apply_level() -> None:
    """On every version alike: one that knows nothing of tokens does a put without looking at them."""
    store = Store(level=1)
    assert store.create("one").outcome is StoreOutcome.MALFORMED
    assert store.run(Acquire(b"a", b"", "one")).outcome is StoreOutcome.MALFORMED
    assert store.run(Put(b"a", b"1", if_token=9)).outcome is DONE
    assert store.record(b"a").extras is None
    store.level = 2
    assert store.create("one").outcome is DONE


def test_servers_that_would_end_a_lock_delay_at_other_times_differ() -> None:
    store = with_two(lock_delay_ms=15_000)
    store.acquire(b"a", "one")
    store.end("one")
    other = store.restarted()
    other.space.delays.start([b"a"], 14_000)
    assert other.machine.hash() != store.machine.hash()

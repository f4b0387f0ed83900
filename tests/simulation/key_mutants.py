"""The store, and what forwards to it, with one rule broken. The swarm of keys has to notice every one.

They exist in tests only: what ships has no switch that makes it unsafe.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import count
from typing import Any

import msgspec
import pytest

from adsum import forwarded
from adsum.agent.forwarding import Forwarding
from adsum.dedup import DedupKey
from adsum.forwarded import ForwardedWrite
from adsum.kv import KeyCause, KeyRead, KeyRefusal, KeyWrite, ReadMode
from adsum.servers.keys import ServerKeys
from adsum.store.commands import Put, StoreRequest, decode_request
from adsum.store.deleted_trees import DeletedTrees
from adsum.store.keyspace import Keyspace
from adsum.store.results import ResultTable
from adsum.store.waiters import KeyWaiters

Mutation = Callable[[pytest.MonkeyPatch], None]

# The state machine.


def writes_do_not_compare(patch: pytest.MonkeyPatch) -> None:
    """Of those who read the same, each may write."""

    def without_compare(data: bytes) -> StoreRequest:
        request = decode_request(data)
        if not isinstance(request.command, Put):
            return request
        return msgspec.structs.replace(request, command=msgspec.structs.replace(request.command, cas=None))

    patch.setattr("adsum.store.machine.decode_request", without_compare)


def repeats_are_run_again(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks whether a request was answered before."""
    patch.setattr(ResultTable, "find", lambda _self, _key, *, seen: None)


def answers_are_not_in_the_snapshot(patch: pytest.MonkeyPatch) -> None:
    """Whoever begins with one runs again what others know."""
    patch.setattr(ResultTable, "load", lambda *_self_and_row: None)


def forgotten_answers_raise_no_floor(patch: pytest.MonkeyPatch) -> None:
    """An agent that was put out looks like one that never asked."""

    def keep_without_floor(self: ResultTable, key: DedupKey, answer: bytes, revision: int) -> None:
        keep(self, key, answer, revision)
        self.floor = 0

    keep = ResultTable.keep
    patch.setattr(ResultTable, "keep", keep_without_floor)


def deletions_leave_no_trace(patch: pytest.MonkeyPatch) -> None:
    """Who waits for a key is not told that it went."""
    patch.setattr(Keyspace, "_bury", lambda *_self_and_key: None)


def deleted_trees_leave_no_trace(patch: pytest.MonkeyPatch) -> None:
    """Nor that everything below a prefix did."""
    patch.setattr(DeletedTrees, "add", lambda _self, _prefix, _revision: None)


def indexes_of_what_is_absent_may_fall(patch: pytest.MonkeyPatch) -> None:
    """Poor pollers begin anew."""
    patch.setattr(Keyspace, "_beyond_floor", lambda _self, changed, _since: changed)


def prefixes_wake_nobody(patch: pytest.MonkeyPatch) -> None:
    """Who waits for anything below one is told when he asks again."""
    patch.setattr(KeyWaiters, "_hit", lambda _self, _key: iter(()))


def reads_are_confirmed_by_nobody(patch: pytest.MonkeyPatch) -> None:
    """A leader that was replaced answers as if it led."""

    def look(self: ServerKeys, accepted: Any) -> None:
        self.look(accepted)

    patch.setattr(ServerKeys, "confirm", look)


# Forwarding.


def retries_go_under_another_name(patch: pytest.MonkeyPatch) -> None:
    names = count(10_000)
    _change_name(patch, lambda key: msgspec.structs.replace(key, sequence=next(names)))


def later_attempts_look_like_the_first(patch: pytest.MonkeyPatch) -> None:
    """Where nobody remembers, the first is begun anew."""
    _change_name(patch, lambda key: msgspec.structs.replace(key, attempt=0))


def _change_name(patch: pytest.MonkeyPatch, change: Callable[[DedupKey], DedupKey]) -> None:
    def under_another_name(write: KeyWrite, key: DedupKey, wall_ms: int, seen: int) -> ForwardedWrite:
        return ForwardedWrite(write, change(key), wall_ms, seen)

    patch.setattr("adsum.agent.agent_request.ForwardedWrite", under_another_name)


def retries_know_what_is_known_by_now(patch: pytest.MonkeyPatch) -> None:
    """And not what was known when the request began: so it passes for one that began after the floor."""

    def seen_now(write: KeyWrite, key: DedupKey, wall_ms: int, _seen: int) -> ForwardedWrite:
        return ForwardedWrite(write, key, wall_ms, 1 << 40)

    patch.setattr("adsum.agent.agent_request.ForwardedWrite", seen_now)


def what_may_have_been_done_is_refused(patch: pytest.MonkeyPatch) -> None:
    certain = KeyRefusal(KeyCause.NO_LEADER, "it was not done")
    patch.setattr("adsum.agent.forwarding._unknown", lambda _sentence: certain)


def broken_lines_count_as_not_sent(patch: pytest.MonkeyPatch) -> None:
    def not_sent(self: Forwarding, asking: Any, sentence: str, *, is_sent: bool, avoids: bool = True) -> None:
        unreached(self, asking, sentence, is_sent=is_sent and not avoids, avoids=avoids)

    unreached = Forwarding._unreached
    patch.setattr(Forwarding, "_unreached", not_sent)


def who_hangs_up_takes_those_with_him_who_joined(patch: pytest.MonkeyPatch) -> None:
    def close(self: Forwarding, token: Hashable) -> None:
        tokens = getattr(self._open.get(token), "tokens", {})
        for other in [each for each in tokens if each != token]:
            del tokens[other]
            del self._open[other]
        give_up(self, token)

    give_up = Forwarding._give_up
    patch.setattr(Forwarding, "_give_up", close)


def only_the_first_of_those_who_joined_is_answered(patch: pytest.MonkeyPatch) -> None:
    def answer_one(self: Forwarding, asking: Any, outcome: Any) -> None:
        for token in list(asking.tokens)[1:]:
            del asking.tokens[token]
        end(self, asking, outcome)

    end = Forwarding._end_read
    patch.setattr(Forwarding, "_end_read", answer_one)


def all_reads_may_be_old(patch: pytest.MonkeyPatch) -> None:
    def stale(body: bytes) -> KeyRead:
        return msgspec.structs.replace(decode(body), mode=ReadMode.STALE)

    decode = forwarded.decode_read
    patch.setattr(forwarded, "decode_read", stale)

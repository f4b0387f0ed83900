"""Servers with the store, of which one applies an entry otherwise than the others: it is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec import structs

from adsum.agent.server_agent import Proposal
from adsum.consensus.effects import StateDoubted
from adsum.dedup import DedupKey
from adsum.now import MILLISECOND, SECOND
from adsum.raft.types import Entry, MemberId
from adsum.store.commands import Put, StoreRequest, encode_request
from adsum.store.machine import StoreMachine
from adsum.testing.hosts import SimulatedHost
from adsum.testing.logged_store import LoggedStore
from adsum.testing.raft_cluster import SETTINGS, BareServers

BROKEN_AT = 40  # the first hash after it is that of 64


class OneEntryDiffers(LoggedStore):
    """The shipped store; on one server a write comes out with other flags."""

    def __init__(self, applied: Callable[[Entry], None], is_broken: bool) -> None:
        super().__init__(StoreMachine())
        self._applied = applied
        self._is_broken = is_broken

    def apply(self, entry: Entry) -> bytes:
        self.registers.see(entry)
        seen = entry
        if self._is_broken and entry.index == BROKEN_AT:
            seen = structs.replace(entry, data=encode_request(StoreRequest(Put(b"key/0", b"?", flags=1), 1)))
        answer = self.store.apply(seen)
        self._applied(entry)
        return answer


class Broken(BareServers):
    def __init__(self, seed: int, servers: int, broken: Sequence[int]) -> None:
        self.doubts: list[tuple[str, bool]] = []  # by whom, and whether it has stopped
        made: list[None] = []

        def make(applied: Callable[[Entry], None]) -> OneEntryDiffers:
            made.append(None)
            return OneEntryDiffers(applied, len(made) - 1 in broken)

        super().__init__(servers, seed=seed, settings=SETTINGS, is_traced=False, make_machine=make)
        self.raft.may_differ = True
        members = [MemberId(f"n{number}", "a") for number in range(servers)]
        self.raft.found(members, self.hosts, voters=servers)
        for host in self.hosts:
            self.start(host.index)
        self.answered = 0
        self._sequence = 0

    def _do(self, host: SimulatedHost, effects: Sequence[Any]) -> None:
        super()._do(host, effects)
        for effect in effects:
            if isinstance(effect, StateDoubted) and effect.reason:
                self.doubts.append((self.raft.on_host[host.index].me.node, effect.has_stopped))

    def write(self, count: int) -> None:
        """One after the other, to whichever server is next."""
        for _ in range(count):
            self._sequence += 1
            number = self._sequence
            put = Put(b"key/%d" % (number % 7), b"%d" % number)
            server = self.raft.on_host[number % len(self.hosts)]
            proposal = Proposal(
                encode_request(StoreRequest(put, number)), DedupKey("client", 1, number, number)
            )
            self.raft.submit(server, proposal, lambda reply: self._count(reply.refusal is None))
            self.run_for(20 * MILLISECOND)

    def _count(self, is_done: bool) -> None:
        self.answered += is_done


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("broken", range(3))
def test_the_one_of_three_that_applied_an_entry_otherwise_stops_and_the_others_go_on(
    seed: int, broken: int
) -> None:
    world = Broken(seed, 3, [broken])
    world.run_for(3 * SECOND)
    world.write(100)
    world.run_for(10 * SECOND)
    # The other two may have differed from each other's leader for a moment before the third had told.
    assert (f"n{broken}", True) in world.doubts
    assert [node for node, has_stopped in world.doubts if has_stopped] == [f"n{broken}"]
    doubts = {server.me.node: server.core.comparing.doubt for server in world.raft.up()}
    assert doubts == {node: "differs" if node == f"n{broken}" else "" for node in ("n0", "n1", "n2")}
    applied = {server.me.node: server.core.applied for server in world.raft.up()}
    assert applied[f"n{broken}"] < min(applied[node] for node in applied if node != f"n{broken}")
    assert world.answered > 95
    (leader,) = [server.me.node for server in world.raft.leaders()]
    assert leader != f"n{broken}"


@pytest.mark.parametrize("seed", range(5))
def test_where_one_stands_against_one_both_doubt_and_nobody_stops(seed: int) -> None:
    world = Broken(seed, 2, [seed % 2])
    world.run_for(3 * SECOND)
    world.write(100)
    world.run_for(2 * SECOND)
    assert sorted(world.doubts) == [("n0", False), ("n1", False)]
    assert [server.core.comparing.doubt for server in world.raft.up()] == ["disputed", "disputed"]
    assert world.answered == 100


def test_servers_that_are_alike_never_doubt() -> None:
    world = Broken(1, 3, [])
    world.run_for(3 * SECOND)
    world.write(200)
    world.run_for(2 * SECOND)
    assert world.doubts == []
    assert min(server.core.comparing.agreed for server in world.raft.up()) >= 4

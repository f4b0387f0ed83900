"""What must hold whatever the network does: pushes come in any order, twice, or never; clocks pass the time
after which tombstones are forgotten; owners begin new lives. In the end exchanges make all copies the
owner's state, and on the way nothing goes backwards."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adsum.catalog.replication.effects import CarryThis, OwnerChanged
from adsum.catalog.replication.interner import Interner
from adsum.catalog.replication.state import OwnerState
from adsum.now import MINUTE, SECOND
from adsum.testing.shared_states import SharedStates
from tests.catalog.replication.support import Group, Peer, values


class Put(NamedTuple):
    key: int
    size: int


class Remove(NamedTuple):
    key: int


class Pass(NamedTuple):
    seconds: int


class Renew(NamedTuple):
    pass


class Deliver(NamedTuple):
    receiver: int
    seed: int


class Exchange(NamedTuple):
    seconds: int


KEYS = st.integers(0, 5)
STEPS = st.one_of(
    st.builds(Put, KEYS, st.sampled_from([3, 3, 3, 700, 1_500, 40_000])),
    st.builds(Put, KEYS, st.just(2)),
    st.builds(Remove, KEYS),
    st.builds(Pass, st.sampled_from([1, 2, 15, 400, 700])),
    st.builds(Renew),
    st.builds(Deliver, st.integers(1, 2), st.integers(0, 1_000)),
    st.builds(Deliver, st.integers(1, 2), st.integers(0, 1_000)),
    st.builds(Exchange, st.sampled_from([2, 6])),
)


class Story:
    def __init__(self, interner: Interner) -> None:
        self.group = Group(3, interner=interner)
        self.owner = self.group.peers[0]
        self.sent: list[bytes] = []
        self.puts = 0

    def play(self, step: Put | Remove | Pass | Renew | Deliver | Exchange) -> None:
        group, core = self.group, self.owner.core
        match step:
            case Put(key, size):
                self.puts += 1
                core.publisher.put(
                    group.now.monotonic_ns, f"item {key}", self.puts.to_bytes(2, "big").ljust(size, b".")
                )
                self._let_go()
            case Remove(key):
                core.publisher.remove(group.now.monotonic_ns, f"item {key}")
                self._let_go()
            case Pass(seconds):
                group.pass_time(seconds * SECOND, step_ns=max(SECOND // 2, seconds * SECOND // 20))
                self._note_payloads()
            case Renew():
                core.renew(group.now, core.publisher.state.generation + 1)
                self._let_go()
            case Deliver(receiver, seed):
                random = Random(seed)
                some = random.sample(self.sent, random.randrange(len(self.sent) + 1))
                peer = group.peers[receiver]
                peer.core.hear(group.now, self.owner.short, tuple(some))
                peer.core.hear(group.now, self.owner.short, tuple(some[:1]))
            case Exchange(seconds):
                group.mix(seconds * SECOND)
        for peer in group.peers:
            self._look_at(peer)

    def _let_go(self) -> None:
        self.owner.core.tick(self.group.now)
        self._note_payloads()

    def _note_payloads(self) -> None:
        self.sent += self.owner.payloads()

    def _look_at(self, peer: Peer) -> None:
        for effect in peer.take():
            match effect:
                case OwnerChanged(_owner, OwnerState() as before, OwnerState() as after):
                    nothing_goes_back(before, after)
                case CarryThis(_key, payload):
                    assert payload in self.sent


def nothing_goes_back(before: OwnerState, after: OwnerState) -> None:
    assert after.generation >= before.generation
    if after.generation > before.generation:
        return
    assert after.low_water >= before.low_water
    assert after.gc_version >= before.gc_version or after.low_water >= before.gc_version
    for number, item in after.items.items():
        known = before.items.get(number)
        if known is None:
            is_shown = item.value is not None  # tombstones may be had from whoever still has them
            assert not is_shown or item.version > before.low_water, "what was removed is back"
        else:
            assert item.version >= known.version, "an older value replaced a newer one"
    for number, item in before.items.items():
        if number not in after.items:
            assert after.low_water >= item.version, "an item is gone that nobody removed"


@pytest.mark.parametrize("interner", [Interner, SharedStates])
@given(steps=st.lists(STEPS, max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_order_duplication_and_loss_ends_in_the_owners_state(
    interner: type[Interner], steps: list[Put | Remove | Pass | Renew | Deliver | Exchange]
) -> None:
    story = Story(interner())
    for step in steps:
        story.play(step)
    story.group.pass_time(2 * SECOND)
    story.group.mix(30 * SECOND)
    for peer in story.group.peers:
        assert values(peer, story.owner) == story.owner.published()
        assert peer.core.root == story.owner.core.root
        state = peer.core.state(story.owner.short)
        assert state is None or state.is_complete or not state.version


def test_tombstones_are_forgotten_and_who_slept_over_it_gets_the_whole_owner() -> None:
    group = Group(3)
    owner, _, sleeper = group.peers
    for key in ("a", "b", "c"):
        owner.core.publisher.put(group.now.monotonic_ns, key, key.encode())
    group.mix(6 * SECOND)
    assert values(sleeper, owner) == owner.published()
    del group.by_short[sleeper.short], group.peers[2]
    for peer in group.peers:
        peer.core.member_failed(group.now, sleeper.short)
    owner.core.publisher.remove(group.now.monotonic_ns, "b")
    group.mix(6 * SECOND)
    group.pass_time(30 * MINUTE, step_ns=10 * SECOND)
    owner_state = owner.core.state(owner.short)
    assert owner_state is not None
    assert (len(owner_state.items), owner_state.gc_version) == (2, 4)
    group.by_short[sleeper.short] = sleeper
    group.peers.append(sleeper)
    for peer in group.peers[:2]:
        peer.core.joined(group.now, sleeper.short)
    group.mix(10 * SECOND)
    assert values(sleeper, owner) == {1: b"a", 3: b"c"}

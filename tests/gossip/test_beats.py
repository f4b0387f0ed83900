"""Who is told next: stacks with stale entries must give what plain ordered buckets would."""

from __future__ import annotations

from random import Random

import pytest

from adsum.gossip import beats as module
from adsum.gossip.beats import ENTRIES_MAX, TOLD_MAX, Beats
from adsum.gossip.members import Member
from adsum.gossip.wire import BEAT
from adsum.now import SECOND
from tests.gossip.support import alive


class Buckets:
    """Each member in the one bucket of how often it was told; the last put in goes first."""

    def __init__(self) -> None:
        self.buckets: list[dict[Member, int]] = [{} for _ in range(TOLD_MAX)]
        self.beats: dict[Member, int] = {}

    def hear(self, member: Member, beat: int) -> None:
        if beat <= self.beats.get(member, 0):
            return
        self.beats[member] = beat
        if member not in self.buckets[0]:
            self._drop(member)
            self.buckets[0][member] = 0

    def forget(self, member: Member) -> None:
        self._drop(member)
        self.beats.pop(member, None)

    def pack(self, wanted: int) -> bytes:
        taken: list[tuple[Member, int]] = []
        for told, bucket in enumerate(self.buckets):
            while bucket and len(taken) < wanted:
                taken.append((bucket.popitem()[0], told))
        for member, told in reversed(taken):
            if told + 1 < TOLD_MAX:
                self.buckets[told + 1][member] = 0
        return b"".join(BEAT.pack(member.short, member.alive.tag, self.beats[member]) for member, _ in taken)

    def _drop(self, member: Member) -> None:
        for bucket in self.buckets:
            bucket.pop(member, None)


@pytest.mark.parametrize("seed", range(8))
def test_counters_go_out_in_the_order_of_plain_buckets(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SWEEP_AFTER", 30)  # so that sweeping happens in between
    random = Random(seed)
    members = [Member(alive(f"n{number}"), 0) for number in range(25)]
    beats, oracle = Beats(SECOND), Buckets()
    for step in range(2_000):
        member = random.choice(members)
        match random.randrange(8):
            case 0 | 1 | 2 | 3:
                beat = member.beat + random.randrange(-1, 3)
                beats.hear(step * SECOND, member, beat)
                oracle.hear(member, beat)
            case 4:
                beats.forget(member)
                oracle.forget(member)
            case _:
                wanted = random.randrange(ENTRIES_MAX + 1)
                assert beats.pack(wanted * BEAT.size) == oracle.pack(wanted)


def test_stale_entries_do_not_pile_up() -> None:
    beats, members = Beats(SECOND), [Member(alive(f"n{number}"), 0) for number in range(20)]
    for second in range(1, 2_000):
        for member in members:
            beats.hear(second * SECOND, member, second)
        beats.pack(3 * BEAT.size)
        beats.forget(members[second % 20])
    assert sum(map(len, beats._stacks)) < 2 * module.SWEEP_AFTER

"""Who is told next: stacks with stale entries must give what plain ordered buckets would."""

from __future__ import annotations

from random import Random

import pytest

from adsum.gossip import beats as module
from adsum.gossip.beats import ENTRIES_MAX, TOLD_MAX, Beats
from adsum.gossip.members import Member, Roster
from adsum.gossip.wire import BEAT
from adsum.now import MILLISECOND, SECOND
from tests.gossip.support import alive, short


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


def beating(beats: Beats, member: Member, *, seconds: int, delay_ns: int = 0) -> None:
    for second in range(1, seconds + 1):
        beats.hear(second * SECOND + delay_ns, member, second)


def test_only_increases_count() -> None:
    beats, member = Beats(SECOND), Member(alive("a"), 0)
    beats.hear(10 * SECOND, member, 10)
    beats.hear(12 * SECOND, member, 10)
    beats.hear(13 * SECOND, member, 9)
    assert member.beat == 10
    assert beats.age_s(13 * SECOND, member) == 3


def test_a_backlog_of_old_counters_does_not_make_a_member_look_alive() -> None:
    beats, member = Beats(SECOND), Member(alive("a"), 0)
    beating(beats, member, seconds=10)
    beats.hear(40 * SECOND, member, 11)  # sent at 11 s, and held up for 29
    assert beats.age_s(40 * SECOND, member) == 29


def test_a_counter_emitted_after_my_probe_proves_life() -> None:
    beats, member = Beats(SECOND), Member(alive("a"), 0)
    beating(beats, member, seconds=10, delay_ns=20 * MILLISECOND)
    assert not beats.has_beaten_since(9 * SECOND + 500 * MILLISECOND, member)
    beats.hear(12 * SECOND, member, 11)
    beats.hear(12 * SECOND, member, 12)
    assert beats.has_beaten_since(10 * SECOND + 500 * MILLISECOND, member)


def test_counters_go_out_freshest_first_and_least_told_first() -> None:
    beats, roster = Beats(SECOND), Roster(Random(1), members_max=99)
    for name in ("a", "b", "c"):
        roster.add(Member(alive(name), 0))
        beats.hear(SECOND, roster.by_name[name], 1)
    first = beats.pack(14 * 2)
    assert [first[start : start + 8] for start in (0, 14)] == [short("c"), short("b")]
    assert beats.pack(14)[:8] == short("a")


def test_counters_of_another_life_are_not_taken() -> None:
    roster, beats = Roster(Random(1), members_max=99), Beats(SECOND)
    roster.add(Member(alive("a", generation=7), 0))
    other = Roster(Random(1), members_max=99)
    other.add(Member(alive("a", generation=8), 0))
    beats.hear(SECOND, other.by_name["a"], 99)
    Beats(SECOND).hear_all(SECOND, roster, beats.pack(1_000))
    assert roster.by_name["a"].beat == 0


def test_schedule_phi_rises_with_age_beyond_what_others_show() -> None:
    beats = Beats(SECOND)
    peers = [Member(alive(f"n{number}"), 0) for number in range(40)]
    for second in range(1, 120):
        for number, peer in enumerate(peers[1:]):
            if (second + number) % 6 == 0:
                beats.hear(second * SECOND, peer, second)
        beats.sample(second * SECOND, peers[1:9])
    beats.hear(60 * SECOND, peers[0], 60)
    values = [beats.phi(second * SECOND, peers[0]) for second in (61, 70, 90, 119)]
    assert values == sorted(values)
    assert values[0] < 1
    assert values[-1] > 3

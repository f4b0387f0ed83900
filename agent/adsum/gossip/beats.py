"""Counters of life: every agent counts its probe periods, and everybody passes on the greatest count heard.

A counter that was emitted after my probe proves that the process lives, whatever happened to the probe:
that vetoes a suspicion. One that stays behind for longer than nearly any other does is a second witness. At
a thousand members the counters spread in some fifteen seconds, so they can never be the fast detector, and
phi over them never decides alone.

Only increases count, so duplicates and late messages cannot make a peer look younger (the flaw of arrival
gaps that ScyllaDB dropped them for). Counters ride in the spare bytes of datagrams, the freshest and least
told first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from adsum.gossip.histogram import Histogram
from adsum.gossip.wire import BEAT
from adsum.now import MINUTE, SECOND

if TYPE_CHECKING:
    from adsum.gossip.members import Member, Roster

ENTRIES_MAX = 16  # 224 bytes; with five datagrams a second a thousand counters are some fifteen seconds old
TOLD_MAX = 8
AGES_PER_PERIOD = 8  # peers whose age is sampled
PHI_MAX = 16.0
SAMPLES_MIN = 200  # below, silence of a counter is told but counts for nothing
HALF_LIFE_NS = 10 * MINUTE
# The earliest arrival of ten minutes tells when the peer began to count, up to the smallest delay. Older
# ones are forgotten because no two clocks run alike.
OFFSET_KEPT_NS = 10 * MINUTE
NEVER_NS = -OFFSET_KEPT_NS - 1


class Beats:
    def __init__(self, interval_ns: int) -> None:
        self.interval_ns = interval_ns
        self.advances = 0
        self._ages_s = Histogram(0.05, 3_600.0, HALF_LIFE_NS)
        self._buckets: list[dict[Member, None]] = [{} for _ in range(TOLD_MAX)]

    def hear(self, now_ns: int, member: Member, beat: int) -> None:
        if beat <= member.beat:
            return
        self.advances += 1
        offset_ns = now_ns - beat * self.interval_ns
        if offset_ns < member.offset_ns or now_ns - member.offset_at_ns > OFFSET_KEPT_NS:
            member.offset_ns = offset_ns
            member.offset_at_ns = now_ns
        member.beat = beat
        told = member.told
        if told:
            if told < TOLD_MAX:
                del self._buckets[told][member]
            member.told = 0
            self._buckets[0][member] = None

    def hear_all(self, now_ns: int, roster: Roster, packed: bytes) -> None:
        by_short = roster.by_short
        hear = self.hear
        for short, tag, beat in BEAT.iter_unpack(packed):
            member = by_short.get(short)
            if member is not None and beat > member.beat and tag == member.tag:
                hear(now_ns, member, beat)

    def pack(self, room_bytes: int) -> bytes:
        wanted = min(ENTRIES_MAX, room_bytes // BEAT.size)
        taken: list[Member] = []
        for bucket in self._buckets:
            while bucket and len(taken) < wanted:
                taken.append(bucket.popitem()[0])
            if len(taken) >= wanted:
                break
        pack = BEAT.pack
        packed = b"".join([pack(member.profile.node_id, member.tag, member.beat) for member in taken])
        for member in reversed(taken):
            member.told += 1
            if member.told < TOLD_MAX:
                self._buckets[member.told][member] = None
        return packed

    def forget(self, member: Member) -> None:
        """It is gone, or began a new life."""
        if member.told < TOLD_MAX:
            del self._buckets[member.told][member]
        member.told = TOLD_MAX
        member.beat = 0
        member.offset_at_ns = NEVER_NS

    def sample(self, now_ns: int, peers: list[Member]) -> None:
        for member in peers:
            if member.beat:
                self._ages_s.add(now_ns, max(0.05, self.age_s(now_ns, member)))

    def age_s(self, now_ns: int, member: Member) -> float:
        return (now_ns - member.offset_ns - member.beat * self.interval_ns) / SECOND

    def phi(self, now_ns: int, member: Member) -> float:
        if not member.beat or self._ages_s.count < SAMPLES_MIN:
            return 0.0
        return min(PHI_MAX, -math.log10(max(1e-16, self._ages_s.survival(self.age_s(now_ns, member)))))

    def has_beaten_since(self, since_ns: int, member: Member) -> bool:
        """The one period taken off covers the smallest delay, which nobody can know."""
        emitted_ns = member.offset_ns + (member.beat - 1) * self.interval_ns
        return member.beat > 0 and emitted_ns > since_ns

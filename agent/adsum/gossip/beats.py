"""Counters of life: every agent counts its probe periods, and everybody passes on the greatest count heard.

A counter that was emitted after my probe proves that the process lives, whatever happened to the probe:
that vetoes a suspicion. One that stays behind for longer than nearly any other does is a second witness. At
a thousand members the counters spread in some fifteen seconds, so they can never be the fast detector, and
phi over them never decides alone.

Only increases count, so duplicates and late messages cannot make a peer look younger (the flaw of arrival
gaps that ScyllaDB dropped them for). Counters ride in the spare bytes of probes, and of one tick a second
however much news there is, the freshest and least told first.

This is the hottest place of gossip: a thousand members hear sixteen counters in each datagram. So the
loops below are written out, and who is to be told next lies in stacks that are only pushed and popped. An
entry of a stack counts while its member was told that often; the latest one lies on top of older ones of the
same member, and what is stale is skipped, and swept out now and then."""

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
SWEEP_AFTER = 1_024  # entries taken, and some for each that is live: sweeping costs little per entry then
SWEEP_PER_LIVE = 4


class Beats:
    def __init__(self, interval_ns: int) -> None:
        self.interval_ns = interval_ns
        self._ages_s = Histogram(0.05, 3_600.0, HALF_LIFE_NS)
        self._stacks: list[list[Member]] = [[] for _ in range(TOLD_MAX)]  # by how often they were told
        self._until_sweep = SWEEP_AFTER

    def hear(self, now_ns: int, member: Member, beat: int) -> None:
        if beat <= member.beat:
            return
        member.beat = beat
        offset_ns = now_ns - beat * self.interval_ns
        if offset_ns < member.beat_offset_ns or now_ns - member.beat_offset_at_ns > OFFSET_KEPT_NS:
            member.beat_offset_ns = offset_ns
            member.beat_offset_at_ns = now_ns
        if member.beat_told:
            member.beat_told = 0
            self._stacks[0].append(member)

    def hear_all(self, now_ns: int, roster: Roster, packed: bytes) -> None:
        find = roster.by_short.get
        interval_ns, fresh = self.interval_ns, self._stacks[0]
        long_ago_ns = now_ns - OFFSET_KEPT_NS
        for short, tag, beat in BEAT.iter_unpack(packed):
            member = find(short)
            if member is not None and beat > member.beat and tag == member.alive.tag:
                member.beat = beat
                offset_ns = now_ns - beat * interval_ns
                if offset_ns < member.beat_offset_ns or member.beat_offset_at_ns < long_ago_ns:
                    member.beat_offset_ns = offset_ns
                    member.beat_offset_at_ns = now_ns
                if member.beat_told:
                    member.beat_told = 0
                    fresh.append(member)

    def pack(self, room_bytes: int) -> bytes:
        taken = self._take(min(ENTRIES_MAX, room_bytes // BEAT.size))
        pack, stacks = BEAT.pack, self._stacks
        packed = b"".join([pack(member.short, member.alive.tag, member.beat) for member in taken])
        for member in reversed(taken):
            member.beat_told = told = -member.beat_told
            if told < TOLD_MAX:
                stacks[told].append(member)
        self._count(len(taken))
        return packed

    def _take(self, wanted: int) -> list[Member]:
        """The freshest of the least told; below zero while they are in hand, so that none is taken twice."""
        taken: list[Member] = []
        for told, stack in enumerate(self._stacks):
            while stack and wanted > 0:
                member = stack.pop()
                if member.beat_told == told:
                    member.beat_told = -(told + 1)
                    taken.append(member)
                    wanted -= 1
            if wanted <= 0:
                break
        return taken

    def forget(self, member: Member) -> None:
        """It is gone, or began a new life."""
        member.beat_told = TOLD_MAX
        member.beat = 0
        member.beat_offset_at_ns = NEVER_NS
        self._count(1)

    def _count(self, moved: int) -> None:
        """Whoever moves leaves at most one stale entry behind."""
        self._until_sweep -= moved
        if self._until_sweep <= 0:
            for told, stack in enumerate(self._stacks):
                latest = dict.fromkeys(member for member in reversed(stack) if member.beat_told == told)
                stack[:] = reversed(latest)
            self._until_sweep = SWEEP_AFTER + SWEEP_PER_LIVE * sum(map(len, self._stacks))

    def sample(self, now_ns: int, peers: list[Member]) -> None:
        for member in peers:
            if member.beat and member.suspicion is None:
                self._ages_s.add(now_ns, max(0.05, self.age_s(now_ns, member)))

    def age_s(self, now_ns: int, member: Member) -> float:
        return (now_ns - member.beat_offset_ns - member.beat * self.interval_ns) / SECOND

    def phi(self, now_ns: int, member: Member) -> float:
        if not member.beat or self._ages_s.count < SAMPLES_MIN:
            return 0.0
        return min(PHI_MAX, -math.log10(max(1e-16, self._ages_s.survival(self.age_s(now_ns, member)))))

    def has_beaten_since(self, since_ns: int, member: Member) -> bool:
        """The one period taken off covers the smallest delay, which nobody can know."""
        emitted_ns = member.beat_offset_ns + (member.beat - 1) * self.interval_ns
        return member.beat > 0 and emitted_ns > since_ns

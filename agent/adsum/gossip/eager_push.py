"""News goes out at once: to a few members when it arises or is first heard, then by its mark in some ticks.

The idea is that of epidemic broadcast trees (Leitão, Pereira, Rodrigues: "Epidemic Broadcast Trees", 2007)
without the trees: an eager push on first hearing, then lazy naming of what one has, and whoever lacks it
asks the next who names it, within one round trip. With five pushes each, one member in a hundred is missed;
ticks of those who have it reach that one some fifteen times a second. The comparison of rosters and of
catalogs stays as the net below.

Accusations, what is long and not urgent, and what a comparison brought is not pushed: ticks tell it, at once
where it arose, and name it as well.
In a small cluster whoever has news pushes it to every member itself and says so: nobody need push it on.

Pushes are paid for from an allowance of datagrams and bytes, from which the ticks beside them are paid first.
Past it they come later and hold more each, and the ticks tell what is still waiting: under load news travels
as it would without.
Membership goes first, then what is critical. Answers to those who ask are paid for in the same way; asking
has an allowance of its own.
"""

from __future__ import annotations

from adsum.address import Address
from adsum.allowance import Allowance
from adsum.gossip import ages
from adsum.gossip.broadcasts import HEAD_BYTES, Class, QueuedBroadcast, scale_of
from adsum.gossip.fresh_news import TIERS
from adsum.gossip.members import Member
from adsum.gossip.recent_news import HALF_MAX, RecentPayload, mark_of, marks_of
from adsum.gossip.shared_state import COALESCED_NS, SharedState
from adsum.gossip.wire import Packet, PacketFlag, PacketKind
from adsum.now import MILLISECOND, SECOND, Now

PUSHED_BY_OWN = 8  # members, for what arose here: nobody else begins it
ALL_MAX = 64  # members, up to which what arose here is pushed to all of them
# Twenty changes a second in a cluster of any size are a hundred datagrams. At once: two changes that arise
# here in a cluster of 64, or twenty at a time in one of 40. For their bytes see `news_allowance`.
DATAGRAMS_A_SECOND, DATAGRAMS_AT_ONCE = 200, 128
ASK_AGAIN_NS = 20 * MILLISECOND
# Datagrams. Members name what they have some fifteen times a second, and few name anything that is lacking.
ASKS_A_SECOND, ASKS_AT_ONCE = 50, 100
LISTENED_NS = 2 * SECOND  # before it asks: what was told before it came a newcomer gets by comparisons


class EagerPush:
    def __init__(self, shared: SharedState) -> None:
        self._shared = shared
        self._datagrams = Allowance(a_second=DATAGRAMS_A_SECOND, at_once=DATAGRAMS_AT_ONCE)
        self._asks = Allowance(a_second=ASKS_A_SECOND, at_once=ASKS_AT_ONCE)
        self._listens_ns: int | None = None  # since when members have told it anything
        self._asked: dict[bytes, int] = {}  # marks that somebody was asked for, and when

    # What goes out.

    def push(self, now: Now) -> None:
        """What is fresh, as far as it can be paid for; the rest a little later, unless a tick has told it."""
        shared = self._shared
        own, heard = shared.fresh_own, shared.fresh_heard
        shared.pushed_ns = now.monotonic_ns
        if not shared.roster.present:
            own.clear()  # whoever comes is compared with
            heard.clear()
        while (tier := min(own.tier, heard.tier)) < len(TIERS):
            is_own = own.tier == tier
            peers, flags = self._audience(now, is_own=is_own)
            if not peers:
                shared.push_at(self._paid_again_ns(now.monotonic_ns))
                return
            entries = (own if is_own else heard).take(shared.room_bytes())
            self._send(now, peers, flags, entries)

    def _audience(self, now: Now, *, is_own: bool) -> tuple[list[Member], int]:
        """Whom the next datagram goes to; nobody when it cannot be paid for, or nobody is there."""
        roster, now_ns, few = self._shared.roster, now.monotonic_ns, self._shared.settings.push_nodes
        if not self._bytes().is_left(now_ns):
            return [], 0
        if is_own and self._is_small() and self._datagrams.can_take(now_ns, roster.present):
            return roster.everybody(), PacketFlag.NOT_ON
        wanted = max(few, PUSHED_BY_OWN) if is_own else few
        return roster.pick(wanted) if self._datagrams.can_take(now_ns, wanted) else [], 0

    def _is_small(self) -> bool:
        return self._shared.roster.present <= ALL_MAX

    def _bytes(self) -> Allowance:
        return self._shared.allowance.of(is_small=self._is_small())

    def _send(
        self, now: Now, peers: list[Member], flags: int, entries: list[tuple[Class, QueuedBroadcast]]
    ) -> None:
        shared, scale = self._shared, scale_of(self._shared.members)
        for kind, entry in entries:
            queue = shared.broadcasts.queues[kind]
            queue.pushed(entry, queue.told_max(scale))
        claims = [entry for kind, entry in entries if kind is not Class.CATALOG]
        packet = Packet(
            PacketKind.GOSSIP,
            flags=flags,
            beat=shared.me.beat(now.monotonic_ns),
            root=shared.root,
            claims=[entry.payload for entry in claims],
            carried=[entry.payload for kind, entry in entries if kind is Class.CATALOG],
            ages=bytes([ages.coded(now.monotonic_ns, entry.born_ns) for entry in claims]),
        )
        size_bytes = shared.post([peer.profile.address for peer in peers], packet)
        self._datagrams.charge(now.monotonic_ns, len(peers))
        shared.allowance.charge(now.monotonic_ns, size_bytes)
        shared.tally.pushes += len(peers)

    def _paid_again_ns(self, now_ns: int) -> int:
        """When the next datagram can be paid for."""
        self._shared.tally.pushes_put_off += 1
        datagrams_ns = self._datagrams.can_take_from_ns(PUSHED_BY_OWN)
        bytes_ns = now_ns + self._bytes().left_in_ns(now_ns)
        return max(now_ns + COALESCED_NS, datagrams_ns, bytes_ns)

    # What comes in.

    def remember(self, now: Now, packet: Packet) -> None:
        """All that a datagram tells, before anything is made of it."""
        recent, now_ns = self._shared.recent, now.monotonic_ns
        if self._listens_ns is None:
            self._listens_ns = now_ns
        if not (packet.claims or packet.carried):
            return
        is_for_all = bool(packet.flags & PacketFlag.NOT_ON)
        for place, payload in enumerate(packet.claims):
            mark = mark_of(payload)
            if mark not in recent:
                age = packet.ages[place] if place < len(packet.ages) else ages.UNKNOWN
                born_ns = ages.born_ns(now_ns, age)
                recent.add(now_ns, mark, RecentPayload(payload, born_ns, is_for_all=is_for_all))
        for payload in packet.carried:
            mark = mark_of(payload)
            if mark not in recent:
                recent.add(now_ns, mark, RecentPayload(payload, is_claim=False, is_for_all=is_for_all))

    def ask_for_lacking(self, now: Now, source: Address, packed: bytes) -> None:
        """A member names what it has."""
        shared, now_ns = self._shared, now.monotonic_ns
        if self._listens_ns is None or now_ns - self._listens_ns < LISTENED_NS:
            return
        lacking = [mark for mark in marks_of(packed) if mark not in shared.recent]
        wanted = [mark for mark in lacking if now_ns - self._asked.get(mark, -ASK_AGAIN_NS) >= ASK_AGAIN_NS]
        if not wanted:
            return
        if not self._asks.take(now_ns):
            shared.tally.news_not_asked_for += len(wanted)
            return
        if len(self._asked) > HALF_MAX:
            self._asked.clear()
        self._asked.update(dict.fromkeys(wanted, now_ns))
        shared.tally.news_asked_for += len(wanted)
        shared.post([source], Packet(PacketKind.GOSSIP, beat=shared.me.beat(now_ns), want=b"".join(wanted)))

    def answer(self, now: Now, source: Address, packed: bytes) -> None:
        """A member lacks what we named: as much of it as one datagram holds."""
        shared, now_ns = self._shared, now.monotonic_ns
        room_bytes = shared.room_bytes()
        claims, told, carried = list[bytes](), list[int](), list[bytes]()
        for mark in marks_of(packed):
            news = shared.recent.get(mark)
            if news is None or len(news.payload) + HEAD_BYTES > room_bytes:
                continue
            room_bytes -= len(news.payload) + HEAD_BYTES
            if news.is_claim:
                claims.append(news.payload)
                told.append(ages.coded(now_ns, news.born_ns))
            else:
                carried.append(news.payload)
        if not claims and not carried:
            return  # it was named too long ago
        if not (self._bytes().is_left(now_ns) and self._datagrams.take(now_ns)):
            shared.tally.answers_refused += 1
            return
        packet = Packet(
            PacketKind.GOSSIP, flags=PacketFlag.NOT_ON, beat=shared.me.beat(now_ns), root=shared.root
        )
        packet = packet._replace(claims=claims, carried=carried, ages=bytes(told))
        shared.allowance.charge(now_ns, shared.post([source], packet))
        shared.tally.news_answered += len(claims) + len(carried)

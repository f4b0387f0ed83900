"""Strangers that were told of by nobody we know: each is asked before it counts.

Who asks to join introduces itself, and in plaintext anybody who reaches the port can introduce ten thousand
that do not exist. So whom no member introduced (see `Source`), and everybody while the roster is full, is
pinged at the address it claims, by a datagram and then over a stream too. Whoever answers is met, and told to
others; whoever does not is forgotten, with a note for the operator. What members tell is believed as before:
asking everybody oneself would cost a thousand pings for each who joins a thousand.

The ping carries a number that cannot be guessed and no news; so an answer proves the address, and a stranger
who claims that of another makes us send it a few bytes, at a bounded rate.
"""

from __future__ import annotations

from collections import Counter

from adsum.allowance import Allowance
from adsum.gossip.claims import Alive
from adsum.gossip.commands import PingOutcome
from adsum.gossip.effects import Note, PingStream
from adsum.gossip.evidence import ChangeCause, Evidence
from adsum.gossip.shared_state import GossipTimer, SharedState
from adsum.gossip.wire import Header, PacketKind
from adsum.now import MILLISECOND, SECOND, Now

# Who introduces itself in an exchange, as a joiner does, holds a connection. A thousand agents that are
# started together and all ask the same one are asked at once; at most 1,024 + 3 s × 256 wait for an answer.
JOINERS_AT_ONCE = 1_024
JOINERS_A_SECOND = 256
# Datagrams may come from anywhere. While a cluster starts all at once, its members are strangers to each
# other, and without these it would take them half as long again until all know all.
TOLD_AT_ONCE = 64
TOLD_A_SECOND = 32
# One host may run many agents, and one that answers for thousands of ports is none that we need to know.
PER_HOST_MAX = 256
# A lost datagram is normal; one that only a stream reaches may have a firewall before its UDP port.
AGAIN_NS = 200 * MILLISECOND
FORGOTTEN_NS = 3 * SECOND
STREAMS_MAX = 16  # of the 256 that the rim opens at once, so that members' probes have theirs
# Strangers must not push the history of members out of the journal.
NOTED_AT_ONCE = 10
NOTED_A_SECOND = 1 / 60
# Numbers of ordinary probes count up from 1, and are as many as seconds have passed, more or less.
SEQUENCE_FIRST = 1 << 31


class Newcomer:
    __slots__ = ("asked_ns", "has_more", "has_stream", "sequence", "told")

    def __init__(self, told: Alive, sequence: int, asked_ns: int) -> None:
        self.told = told
        self.sequence = sequence
        self.asked_ns = asked_ns
        self.has_stream = False
        self.has_more = False  # it knows others, whom we did not take from a stranger


class Newcomers:
    def __init__(self, shared: SharedState) -> None:
        self.shared = shared
        self._waiting: dict[bytes, Newcomer] = {}  # by short id
        self._by_sequence: dict[int, Newcomer] = {}
        self._joiners = Allowance(a_second=JOINERS_A_SECOND, at_once=JOINERS_AT_ONCE)
        self._told = Allowance(a_second=TOLD_A_SECOND, at_once=TOLD_AT_ONCE)
        self._let_in: dict[bytes, str] = {}  # hosts of members that came this way, by short id
        self._by_host: Counter[str] = Counter()
        self._notes = Allowance(a_second=NOTED_A_SECOND, at_once=NOTED_AT_ONCE)
        self._streams = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def is_room_left(self, now: Now) -> bool:
        return self._joiners.can_take(now.monotonic_ns)

    def has_more(self, short: bytes) -> None:
        """It told us of others, who are not taken from a stranger: we ask it again when it has answered."""
        newcomer = self._waiting.get(short)
        if newcomer is not None:
            newcomer.has_more = True

    def ask(self, now: Now, told: Alive, *, joins: bool) -> None:
        """It joins when it said so itself, in an exchange."""
        known = self._waiting.get(told.subject)
        if known is not None and known.told.profile.address == told.profile.address:
            if told.standing > known.told.standing:
                known.told = told
            return
        is_host_full = self._by_host[told.profile.address.host] >= PER_HOST_MAX
        allowance = self._joiners if joins else self._told
        if is_host_full or not allowance.take(now.monotonic_ns):
            self.shared.tally.drop("newcomers")
            return
        if known is not None:  # elsewhere than it said before: who answers there is another
            self._end(known)
        sequence = SEQUENCE_FIRST | self.shared.random.getrandbits(31)
        while sequence in self._by_sequence:
            sequence = SEQUENCE_FIRST | self.shared.random.getrandbits(31)
        newcomer = Newcomer(told, sequence, now.monotonic_ns)
        self._waiting[told.subject] = newcomer
        self._by_sequence[sequence] = newcomer
        self._ping(now, newcomer)
        self.shared.timers.set((GossipTimer.NEWCOMER, sequence), now.monotonic_ns + AGAIN_NS)

    def due(self, now: Now, sequence: int) -> None:
        newcomer = self._by_sequence.get(sequence)
        if newcomer is None:
            return
        forgotten_ns = newcomer.asked_ns + FORGOTTEN_NS
        if now.monotonic_ns >= forgotten_ns:
            self._end(newcomer)
            self.shared.tally.newcomers_silent += 1
            if self._notes.take(now.monotonic_ns):
                self.shared.note(Note.UNANSWERED, newcomer.told.profile, Evidence(ChangeCause.SUSPECTED))
            return
        self._ping(now, newcomer)
        if self._streams < STREAMS_MAX:
            self._streams += 1
            newcomer.has_stream = True
            address, timeout_ns = newcomer.told.profile.address, forgotten_ns - now.monotonic_ns
            self.shared.effects.append(PingStream(sequence, newcomer.told.subject, address, timeout_ns))
        self.shared.timers.set((GossipTimer.NEWCOMER, sequence), forgotten_ns)

    def awaits(self, sequence: int) -> bool:
        return sequence in self._by_sequence

    def acked(self, header: Header, sequence: int) -> Newcomer | None:
        """Who has answered so, and is there."""
        newcomer = self._by_sequence[sequence]
        if header.sender == newcomer.told.subject:
            return self._answered(newcomer)
        self.shared.tally.drop("ack of another")
        return None

    def stream_pinged(self, sequence: int, outcome: PingOutcome) -> Newcomer | None:
        """Who has answered so, and is there."""
        newcomer = self._by_sequence.get(sequence)
        if newcomer is None or outcome is not PingOutcome.ANSWERED:
            return None
        return self._answered(newcomer)

    def _answered(self, newcomer: Newcomer) -> Newcomer:
        self._end(newcomer)
        self.shared.tally.newcomers_answered += 1
        return newcomer

    def let_in(self, told: Alive) -> None:
        host = told.profile.address.host
        self._let_in[told.subject] = host
        self._by_host[host] += 1

    def gone(self, short: bytes) -> None:
        """Off the roster; it makes room for others of its host."""
        host = self._let_in.pop(short, None)
        if host is not None:
            self._by_host[host] -= 1
            if not self._by_host[host]:
                del self._by_host[host]

    def _ping(self, now: Now, newcomer: Newcomer) -> None:
        told = newcomer.told
        self.shared.send_bare(
            now, told.profile.address, PacketKind.PING, sequence=newcomer.sequence, about=told.subject
        )

    def _end(self, newcomer: Newcomer) -> None:
        del self._waiting[newcomer.told.subject]
        del self._by_sequence[newcomer.sequence]
        self._streams -= newcomer.has_stream
        self.shared.timers.cancel((GossipTimer.NEWCOMER, newcomer.sequence))

"""A client agent's requests for keys and sessions, on their way to the servers and back.

A server has consensus and the store; a client has this in their place. Each write gets its name here, so that
it can be asked again: what an earlier try has done is known again and not done twice. Writes, and reads that
may not be old, go to the leader; others go to all servers alike. What finds no server, or none that knows a
leader, is held for a while and tried again.

Blocked reads that ask the same are asked once, and wait at a server without an end; whoever waits for them
says when it is over. Renewals of sessions gather for a moment and travel together; one that was done twice
was done once, so they are asked again like reads.

While nobody leads, only a few of those that are held try at a time: the others wait for their success.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Hashable, Mapping
from functools import partial
from random import Random

from msgspec import DecodeError

from adsum import forwarded
from adsum.accepting import AcceptedWrite
from adsum.address import Address
from adsum.agent import saved_servers
from adsum.agent.agent_request import TOLD, AgentRequest, ForwardCounters, Questions, written_out
from adsum.agent.asking import (
    AnswerForwarded,
    AskServer,
    CancelAsk,
    ForwardCommand,
    ForwardEffect,
    ForwardRead,
    ForwardRenewal,
    ForwardReport,
    ForwardWrite,
    GiveUpForwarded,
    Outcome,
    ServerAnswered,
    ServerRefused,
    ServersChanged,
    ServerUnreached,
)
from adsum.agent.known_servers import KnownServers
from adsum.agent.saved_files import SERVERS
from adsum.dedup import WriteNumbers
from adsum.effects import Save, WriteFile
from adsum.forwarded import (
    RENEWALS_MAX,
    FoundPiece,
    KeysPiece,
    Renewed,
    RenewSessions,
)
from adsum.kv import (
    KeyCause,
    KeyRead,
    KeyRefusal,
    KeysFound,
    StoreAnswer,
    decode_answer,
)
from adsum.now import MILLISECOND, SECOND, Now
from adsum.store_requests import OF_ONE_SERVER, SessionsFound, StoreFound, StoreRead, TransactionFound

HOLD_NS = 7 * SECOND  # Consul's rpc_hold_timeout
LEADER_NS = 3 * SECOND  # its time to answer, before another server is asked
FOLLOWER_NS = SECOND  # it may not have noticed yet that the leader is gone
RETRY_NS = 50 * MILLISECOND
AVOIDED_NS = SECOND  # a server that could not be reached, while there are others
WAITING_NS = 3_600 * SECOND  # of a blocked read at one server; then it is asked again
REQUESTS_MAX = 16_384  # as many as the API has connections
GATHERING_NS = 5 * MILLISECOND  # of renewals
BATCHES_APART_NS = 100 * MILLISECOND  # of them: each is a question to the quorum
PROBES_MAX = 16  # of those that are held, each RETRY_NS

# Nothing was done, and another server, or the same a little later, may do it.
PASSING = (KeyCause.NO_LEADER, KeyCause.BUSY, KeyCause.NO_SERVERS, KeyCause.DOUBTED)

NO_SERVER = "this agent knows no server"
TOO_MANY = f"{REQUESTS_MAX} requests wait for servers"
TOO_LARGE = f"the answer has more than {forwarded.FOUND_BYTES_MAX >> 20} MiB; ask for a longer prefix"
MOVED = "the server that was asked is gone, or leads no more"
NO_ANSWER = "a server's answer makes no sense to this version"


class Forwarding:
    def __init__(
        self,
        servers: KnownServers,
        saved: Mapping[bytes, Address],
        numbers: WriteNumbers,
        random: Random,
        *,
        hold_ns: int = HOLD_NS,
    ) -> None:
        """`saved`: the servers of the last run, for as long as gossip knows none."""
        self.counters = ForwardCounters()
        self.numbers = numbers
        self.known: dict[bytes, Address] = dict(saved)
        self.seen = 0  # the newest revision in any answer
        self._servers = servers
        self._version = -1  # of them, as seen last
        self._present: dict[bytes, Address] = {}
        self._hold_ns = hold_ns
        self._salt = random.getrandbits(32)
        self._leader = servers.leader
        self._named: bytes | None = None  # as leader, by a server; gossip is a little later
        self._avoided: dict[bytes, int] = {}  # until when
        self._turn = 0
        self._ticket = 0
        self._now = Now(0, 0)
        self._effects: list[ForwardEffect] = []
        self._open: dict[Hashable, AcceptedWrite | AgentRequest] = {}
        self._writes: dict[AcceptedWrite, AgentRequest] = {}
        self._blocked: dict[Questions, AgentRequest] = {}
        self._renewals: AgentRequest | None = None  # that gather
        self._renewed: dict[str, int] = {}  # their sessions, each with its place
        self._renewals_ns = 0  # when they leave
        self._next_renewals_ns = 0  # and not before
        self._asked: dict[int, AgentRequest] = {}  # by ticket
        self._held: deque[tuple[int, AgentRequest]] = deque()  # in the order of their deadlines
        self._retries: deque[tuple[int, AgentRequest]] = deque()
        self._is_dry = False  # the last that needed a leader found none
        self._why_dry = ""
        self._parked: deque[AgentRequest] = deque()  # until one finds a leader
        self._probing_ns = 0
        self._probes = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def waits_for(self) -> str:
        """Why the last that needed a leader found none; empty while there is one."""
        return self._why_dry if self._is_dry else ""

    @property
    def knows_leader(self) -> bool:
        return bool(self._named or self._leader)

    @property
    def requests_open(self) -> int:
        return len(self._open)

    @property
    def questions_open(self) -> int:
        return len(self._asked)

    @property
    def has_news(self) -> bool:
        """`ServersChanged` is due."""
        return self._servers.version != self._version

    def address_of(self, server: bytes) -> Address | None:
        return self.known.get(server)

    # The four verbs.

    def command(self, now: Now, command: ForwardCommand) -> list[ForwardEffect]:
        self._now = now
        match command:
            case GiveUpForwarded(token):
                self._give_up(token)
            case ForwardRenewal(session_id, token):
                self._renew(session_id, token)
            case _ if len(self._open) >= REQUESTS_MAX:
                self.counters.refused += 1
                self._effects.append(AnswerForwarded(command.token, KeyRefusal(KeyCause.BUSY, TOO_MANY)))
            case ForwardWrite(write, token):
                accepted = AcceptedWrite(write, partial(self._answer, token), self)
                self._open[token] = accepted
                accepted.start()
            case ForwardRead(read, token):
                self._read(read, token)
        return self._taken()

    def receive(self, now: Now, report: ForwardReport) -> list[ForwardEffect]:
        self._now = now
        if isinstance(report, ServersChanged):
            self._servers_changed()
            return self._taken()
        asking = self._asked.pop(report.ticket, None)
        if asking is not None:
            asking.ticket = 0
            match report:
                case ServerAnswered(_, body):
                    self._answered(asking, body)
                case ServerRefused(_, cause, sentence, leader):
                    self._refused(asking, KeyRefusal(cause, sentence), leader)
                case ServerUnreached(_, is_sent, sentence):
                    self._unreached(asking, sentence, is_sent=is_sent)
        return self._taken()

    def tick(self, now: Now) -> list[ForwardEffect]:
        self._now = now
        now_ns = now.monotonic_ns
        while self._held and (self._held[0][1].is_over or self._held[0][0] <= now_ns):
            deadline_ns, asking = self._held.popleft()
            # What is under way ends by itself, and then it is judged.
            if not asking.is_over and not asking.ticket and asking.deadline_ns <= deadline_ns:
                self._run_out(asking)
        while self._retries and self._retries[0][0] <= now_ns:
            self._go(self._retries.popleft()[1])
        if self._renewals is not None and self._renewals_ns <= now_ns:
            self._send_renewals(self._renewals)
        self._probe()
        return self._taken()

    def deadline(self) -> int | None:
        due = [queue[0][0] for queue in (self._held, self._retries) if queue]
        if self._parked:
            due.append(self._probing_ns)
        if self._renewals is not None:
            due.append(self._renewals_ns)
        return min(due, default=None)

    # For `AcceptedWrite`.

    def begin(self, accepted: AcceptedWrite) -> None:
        asking = AgentRequest(self._now.monotonic_ns + self._hold_ns, None, accepted)
        asking.key, asking.seen, asking.wall_ms = accepted.key, self.seen, self._now.wall_ms
        self._writes[accepted] = asking
        self._held.append((asking.deadline_ns, asking))
        self._go(asking)

    def refusal_of(self, error: Exception) -> KeyRefusal:
        assert isinstance(error, KeyRefusal), "nothing else is made of what servers say"
        return error

    # What clients ask.

    def _read(self, read: KeyRead | StoreRead, token: Hashable) -> None:
        waiting = self._blocked.get(read)
        if waiting is not None:
            self.counters.joined += 1
            waiting.tokens[token] = 0
            self._open[token] = waiting
            return
        asking = AgentRequest(self._now.monotonic_ns + self._hold_ns, read, None)
        asking.tokens[token] = 0
        self._open[token] = asking
        if asking.is_blocked:
            self._blocked[read] = asking
        self._held.append((asking.deadline_ns, asking))
        self._go(asking)

    def _renew(self, session_id: str, token: Hashable) -> None:
        """They have room of their own: writes that wait must not end a session."""
        if len(self._open) >= 2 * REQUESTS_MAX:
            self.counters.refused += 1
            self._effects.append(AnswerForwarded(token, KeyRefusal(KeyCause.BUSY, TOO_MANY)))
            return
        self.counters.renewals += 1
        if self._renewals is None:
            self._renewals = AgentRequest(0, RenewSessions(()), None)
            self._renewed = {}
            self._renewals_ns = max(self._now.monotonic_ns + GATHERING_NS, self._next_renewals_ns)
        asking = self._renewals
        asking.tokens[token] = self._renewed.setdefault(session_id, len(self._renewed))
        self._open[token] = asking
        if len(self._renewed) == RENEWALS_MAX:
            self._send_renewals(asking)

    def _send_renewals(self, asking: AgentRequest) -> None:
        self.counters.renewal_batches += 1
        self._next_renewals_ns = self._now.monotonic_ns + BATCHES_APART_NS
        self._renewals = None
        asking.read = RenewSessions(tuple(self._renewed))
        self._hold(asking)
        self._go(asking)

    def _give_up(self, token: Hashable) -> None:
        asked = self._open.pop(token, None)
        if isinstance(asked, AcceptedWrite):
            asked.give_up()
            self._close(self._writes[asked])
        elif asked is not None:
            del asked.tokens[token]
            if not asked.tokens:
                self._close(asked)

    # One try.

    def _go(self, asking: AgentRequest) -> None:
        if asking.is_over:
            return
        if asking.needs_leader and self._is_dry and not self._may_probe():
            self._parked.append(asking)
        else:
            self._try(asking)

    def _try(self, asking: AgentRequest) -> None:
        now_ns = self._now.monotonic_ns
        server = self._chosen(asking)
        if server is None:
            self._passed(asking, KeyRefusal(KeyCause.NO_SERVERS, NO_SERVER))
            return
        self.counters.retried += asking.server is not None
        asking.server, asking.tried_ns = server, now_ns
        asking.pieces, asking.parts, asking.pieces_bytes = [], [], 0
        self._ask(asking, *written_out(asking))

    def _ask(self, asking: AgentRequest, method: str, body: bytes) -> None:
        assert asking.server is not None, "it was chosen"
        self._ticket += 1
        asking.ticket = self._ticket
        self._asked[asking.ticket] = asking
        self.counters.asked += 1
        timeout_ns = WAITING_NS
        if not asking.is_blocked or method == forwarded.MORE:
            longest_ns = LEADER_NS if asking.server == (self._named or self._leader) else FOLLOWER_NS
            timeout_ns = max(MILLISECOND, min(longest_ns, asking.deadline_ns - self._now.monotonic_ns))
        self._effects.append(AskServer(asking.ticket, asking.server, method, body, timeout_ns))

    def _chosen(self, asking: AgentRequest) -> bytes | None:
        if not self.known:
            return None
        now_ns = self._now.monotonic_ns
        servers = sorted(self.known)
        fit = [each for each in servers if self._avoided.get(each, 0) <= now_ns] or servers
        if (asking.needs_leader and not asking.is_blocked) or isinstance(asking.read, OF_ONE_SERVER):
            leader = self._named or self._leader
            if leader in fit and leader != asking.server:
                return leader
            self._turn += 1
            spread = self._turn
        else:
            key = asking.read.key if isinstance(asking.read, KeyRead) else b""
            spread = zlib.crc32(key, self._salt)  # of one key by one server, as long as it lives
        others = [each for each in fit if each != asking.server] or fit
        return others[spread % len(others)]

    # What came of it.

    def _answered(self, asking: AgentRequest, body: bytes) -> None:
        try:
            match asking.read:
                case None:
                    self._written(asking, decode_answer(body))
                case KeyRead():
                    self._found(asking, len(body), forwarded.decode_piece(body))
                case RenewSessions(ids):
                    self._renewals_done(asking, ids, forwarded.decode_renewed(body))
                case _:
                    self._found_part(asking, forwarded.decode_found_piece(body))
        except DecodeError:
            self._unreached(asking, NO_ANSWER, is_sent=True)
            return
        if asking.needs_leader:
            self._has_leader()

    def _written(self, asking: AgentRequest, answer: StoreAnswer) -> None:
        if answer.outcome in TOLD:
            self.seen = max(self.seen, answer.revision)
        self._end_write(asking, answer)

    def _found(self, asking: AgentRequest, size: int, piece: KeysPiece) -> None:
        asking.pieces.append(piece.found)
        asking.pieces_bytes += size
        if not piece.more:
            found = forwarded.joined(asking.pieces) if len(asking.pieces) > 1 else piece.found
            self.seen = max(self.seen, found.index)
            self._end_read(asking, found)
        elif asking.pieces_bytes > forwarded.FOUND_BYTES_MAX:
            self._end_read(asking, KeyRefusal(KeyCause.TOO_LARGE, TOO_LARGE))
        else:
            self._hold(asking)  # it goes on
            self._ask(asking, forwarded.MORE, forwarded.encode(piece.more))

    def _found_part(self, asking: AgentRequest, piece: FoundPiece) -> None:
        asking.parts.append(piece.part)
        asking.pieces_bytes += len(piece.part)
        if not piece.more:
            found = forwarded.decode_found(b"".join(asking.parts))
            if isinstance(found, SessionsFound | TransactionFound):
                self.seen = max(self.seen, found.index)
            self._end_read(asking, found)
        elif asking.pieces_bytes > forwarded.FOUND_BYTES_MAX:
            self._end_read(asking, KeyRefusal(KeyCause.TOO_LARGE, TOO_LARGE))
        else:
            self._hold(asking)
            self._ask(asking, forwarded.MORE, forwarded.encode(piece.more))

    def _renewals_done(self, asking: AgentRequest, ids: tuple[str, ...], renewed: Renewed) -> None:
        if len(renewed.sessions) != len(ids):
            raise DecodeError("an answer of another length")
        places = dict(asking.tokens)
        self._close(asking)
        for token, place in places.items():
            self._answer(token, renewed.sessions[place])

    def _refused(self, asking: AgentRequest, refusal: KeyRefusal, leader: bytes | None) -> None:
        has_begun = bool(asking.pieces or asking.parts)
        if refusal.cause is KeyCause.BUSY and asking.read is None and not asking.is_doubtful:
            self._end(asking, refusal)  # to ask again at once is what makes a server busy
        elif refusal.cause in PASSING or (has_begun and refusal.cause is KeyCause.FAILED):
            if leader is not None and leader in self.known and leader != asking.server:
                self._named = leader
            elif asking.server == self._named:
                self._named = None
            self._passed(asking, refusal)
        elif refusal.cause is KeyCause.UNKNOWN:
            self._unreached(asking, refusal.sentence, is_sent=True, avoids=False)
        else:
            self._end(asking, refusal)

    def _unreached(self, asking: AgentRequest, sentence: str, *, is_sent: bool, avoids: bool = True) -> None:
        if avoids and asking.server is not None:
            self._avoid(asking.server)
        if is_sent and asking.read is None:
            self.counters.doubtful += not asking.is_doubtful
            asking.is_doubtful = True
            asking.key = asking.key.again()
        self._passed(asking, KeyRefusal(KeyCause.NO_LEADER, sentence))

    def _avoid(self, server: bytes) -> None:
        now_ns = self._now.monotonic_ns
        self._avoided = {each: until for each, until in self._avoided.items() if until > now_ns}
        self._avoided[server] = now_ns + AVOIDED_NS
        if server == self._named:
            self._named = None

    def _passed(self, asking: AgentRequest, why: KeyRefusal) -> None:
        """It came to nothing, and may be tried again."""
        now_ns = self._now.monotonic_ns
        asking.why = why
        if asking.needs_leader:
            self._is_dry, self._why_dry = True, why.sentence
        if asking.is_blocked and now_ns - asking.tried_ns >= self._hold_ns:
            self._hold(asking)  # it was waiting, and waits anew
        if now_ns >= asking.deadline_ns:
            self._run_out(asking)
        else:
            self._retries.append((now_ns + RETRY_NS, asking))

    def _hold(self, asking: AgentRequest) -> None:
        asking.deadline_ns = self._now.monotonic_ns + self._hold_ns
        self._held.append((asking.deadline_ns, asking))

    def _run_out(self, asking: AgentRequest) -> None:
        self.counters.out_of_time += 1
        why = asking.why
        if why is None or why.cause is KeyCause.NO_LEADER:
            last = "no leader was found" if why is None else why.sentence
            why = KeyRefusal(
                KeyCause.NO_LEADER, f"it was held for {self._hold_ns / SECOND:.0f} s, and at last: {last}"
            )
        self._end(asking, why)

    # Who leads, and who is there.

    def _has_leader(self) -> None:
        if self._is_dry:
            self._is_dry = False
            parked, self._parked = self._parked, deque()
            for asking in parked:
                self._go(asking)

    def _may_probe(self) -> bool:
        if self._now.monotonic_ns >= self._probing_ns:
            self._probing_ns = self._now.monotonic_ns + RETRY_NS
            self._probes = PROBES_MAX
        self._probes -= 1
        return self._probes >= 0

    def _probe(self) -> None:
        if self._now.monotonic_ns >= self._probing_ns:
            for _ in range(min(len(self._parked), PROBES_MAX)):
                self._go(self._parked.popleft())

    def _servers_changed(self) -> None:
        present = {each.node_id: each.address for each in self._servers.present}
        self._version = self._servers.version
        gone = [each for each in self._present if each not in present]
        leader, led_before = self._servers.leader, self._leader
        self._present, self._leader = present, leader
        if present and present != self.known:
            self.known = present
            self._effects.append(Save((WriteFile(SERVERS, saved_servers.encode(present)),), is_synced=False))
        if leader is not None and leader != led_before:
            self._named = None
            self._avoided.pop(leader, None)
            self._has_leader()
        is_new = leader is not None and leader != led_before
        for asking in list(self._asked.values()):
            is_led = is_new and asking.needs_leader and not asking.is_blocked
            if asking.server in gone or (is_led and asking.server == led_before):
                self._cancel(asking)
                self._unreached(asking, MOVED, is_sent=True, avoids=False)

    # The end.

    def _end(self, asking: AgentRequest, refusal: KeyRefusal) -> None:
        if asking.read is not None:
            self._end_read(asking, refusal)
        elif asking.is_doubtful:
            self._end_write(asking, _unknown(refusal.sentence))
        else:
            self._end_write(asking, refusal)

    def _end_write(self, asking: AgentRequest, outcome: StoreAnswer | KeyRefusal) -> None:
        assert asking.accepted is not None, "it is a write"
        accepted = asking.accepted
        self._close(asking)
        accepted(outcome)

    def _end_read(self, asking: AgentRequest, outcome: KeysFound | StoreFound | KeyRefusal) -> None:
        tokens = list(asking.tokens)
        self._close(asking)
        for token in tokens:
            self._answer(token, outcome)

    def _answer(self, token: Hashable, outcome: Outcome) -> None:
        del self._open[token]
        self._effects.append(AnswerForwarded(token, outcome))

    def _cancel(self, asking: AgentRequest) -> None:
        del self._asked[asking.ticket]
        self._effects.append(CancelAsk(asking.ticket))
        asking.ticket = 0

    def _close(self, asking: AgentRequest) -> None:
        asking.is_over = True
        if asking.ticket:
            self._cancel(asking)
        if asking.accepted is not None:
            del self._writes[asking.accepted]
        elif asking.is_blocked and asking.read is not None:
            del self._blocked[asking.read]
        elif asking is self._renewals:
            self._renewals = None
        asking.accepted, asking.pieces, asking.parts = None, [], []
        for queue in (self._held, self._retries):
            while queue and queue[0][1].is_over:
                queue.popleft()
        while self._parked and self._parked[0].is_over:
            self._parked.popleft()

    def _taken(self) -> list[ForwardEffect]:
        effects, self._effects = self._effects, []
        return effects


def _unknown(sentence: str) -> KeyRefusal:
    return KeyRefusal(KeyCause.UNKNOWN, f"it may have been done: {sentence}; read the key to find out")

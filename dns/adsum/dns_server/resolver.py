"""From a packet to its answer: what it asks, what the zone says, and whether a recursor must be sent for.

A question that was asked before, byte for byte, is answered by looking up its bytes, unparsed. What is
known that way is forgotten when the catalog or the settings move, and when it is too much: then it takes
another reading, but its rendering is still there (see `Generations`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from adsum.dns import wire
from adsum.dns.answers import Answers, DnsRendering, Rendered, Transport
from adsum.dns.message import read_message, read_records
from adsum.dns.wire import RA, SERVFAIL, A, MalformedQuestion, Question
from adsum.dns.zone import Answer, continued
from adsum.dns_server.counters import AnswerLabels, DnsCounters, tally_of
from adsum.dns_server.recursor import Recursion
from adsum.frozen import dataclass
from adsum.logs.complaints import Complaints
from adsum.logs.faults import Faults
from adsum.named import NamedTuple

logger = logging.getLogger("dns")

KNOWN_MAX = 4096  # questions answered by their bytes, per transport
KNOWN_BYTES_MAX = 320  # of one such question: the longest name, and EDNS with a cookie
CHASE_EDNS_BYTES = 1232


class KnownQuestion(NamedTuple):
    take: Callable[[], Rendered]
    echo: bytes
    tally: AnswerLabels


@dataclass(frozen=True, slots=True)
class Errand:
    """A question that only a recursor can answer, or finish."""

    packet: bytes
    question: Question
    answer: Answer
    transport: Transport


class Resolver:
    def __init__(
        self, answers: Answers, recursion: Recursion, counters: DnsCounters, faults: Faults | None = None
    ) -> None:
        self.counters = counters
        self._answers = answers
        self._recursion = recursion
        self._faults = faults or Faults()
        self._complaints = Complaints(logger)
        self._epoch = answers.epoch
        self._known: dict[Transport, dict[bytes, KnownQuestion]] = {transport: {} for transport in Transport}

    def known(self, transport: Transport) -> dict[bytes, KnownQuestion]:
        """Questions, from their flags on, whose answers need no thought. True until the next await."""
        epoch = self._answers.refresh()
        if epoch != self._epoch:
            self._epoch = epoch
            self.counters.rendering_overflows = self._answers.overflows
            for known in self._known.values():
                known.clear()
        return self._known[transport]

    def consider(self, packet: bytes, transport: Transport) -> bytes | Errand:
        """The answer (empty for silence), or the errand that will bring it."""
        outcome = self.consider_common(packet, transport)
        return self.consider_unusual(packet, transport) if outcome is None else outcome

    def consider_common(self, packet: bytes, transport: Transport) -> bytes | Errand | None:
        """The same for a question in the common form; None for any other packet."""
        try:
            question = wire.parse_question(packet)
            return None if question is None else self._answer(packet, question, transport)
        except Exception as error:
            return self._dropped(error)

    def consider_unusual(self, packet: bytes, transport: Transport) -> bytes | Errand:
        """The same for all that is not in the common form."""
        try:
            read = read_message(packet)
            if isinstance(read, MalformedQuestion):
                self.counters.malformed += 1
                self._complaints.say("malformed", "a DNS packet asked nothing: %s", read.reason)
                return read.reply
            self.counters.full += 1
            return self._answer(packet, read, transport)
        except Exception as error:
            return self._dropped(error)

    async def run(self, errand: Errand) -> bytes:
        try:
            return await self._run(errand)
        except Exception as error:
            return self._dropped(error)

    async def _run(self, errand: Errand) -> bytes:
        question, answer = errand.question, errand.answer
        settings = self._answers.settings
        if answer.is_known_elsewhere:
            reply = await self._recursion.ask(errand.packet, question.echo, settings, errand.transport)
            if not reply:
                return self._failure(question, errand.transport)
            self._count(question, errand.transport, wire.HEADER.unpack_from(reply)[1] & wire.RCODE_MASK)
            return reply
        name = wire.encode_name(answer.chase) or wire.ROOT
        chase = Question(0, wire.RD, name, A)
        packet = wire.query(0, name, A, CHASE_EDNS_BYTES)
        reply = await self._recursion.ask(packet, chase.echo, settings, errand.transport)
        full = continued(answer, read_records(reply) if reply else ())
        rendering = self._answers.rendering(question, errand.transport, full)
        return self._assembled(question, rendering, errand.transport)

    def _answer(self, packet: bytes, question: Question, transport: Transport) -> bytes | Errand:
        rendering = self._answers.to(question, transport)
        answer = rendering.answer
        if self._answers.settings.recursors and (answer.is_known_elsewhere or answer.chase):
            if not self._recursion.reserve():
                return self._failure(question, transport)
            return Errand(packet, question, answer, transport)
        self._remember(packet, question, rendering, transport)
        return self._assembled(question, rendering, transport)

    def _remember(
        self, packet: bytes, question: Question, rendering: DnsRendering, transport: Transport
    ) -> None:
        if len(packet) > KNOWN_BYTES_MAX:
            return
        known = self.known(transport)
        if len(known) >= KNOWN_MAX:
            self.counters.memory_overflows += 1
            known.clear()
        tally = tally_of(_label(transport), question.qtype, rendering.answer.rcode)
        known[packet[2:]] = KnownQuestion(rendering.take, question.echo, tally)

    def _assembled(self, question: Question, rendering: DnsRendering, transport: Transport) -> bytes:
        self._count(question, transport, rendering.answer.rcode)
        head, body = rendering.take()
        return question.message_id.to_bytes(2) + head + question.echo + body

    def _failure(self, question: Question, transport: Transport) -> bytes:
        self._count(question, transport, SERVFAIL)
        return wire.failure(question, SERVFAIL, extra_flags=RA)

    def _count(self, question: Question, transport: Transport, rcode: int) -> None:
        self.counters.answered[tally_of(_label(transport), question.qtype, rcode)] += 1

    def _dropped(self, error: Exception) -> bytes:
        """A bug of ours must not become a packet that ends the agent: the asker gets silence."""
        self._faults.dropped("dns", error)
        return b""


def _label(transport: Transport) -> str:
    return "tcp" if transport is Transport.TCP else "udp"

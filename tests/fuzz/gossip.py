"""Datagrams of gossip: every kind, with claims of every kind, counters of life and news of the catalog."""

from __future__ import annotations

import struct

from adsum.gossip.coordinates import Coordinate
from adsum.gossip.wire import BEAT, PacketKind
from tests.fuzz.catalog import Catalog
from tests.fuzz.participants import AGENTS, AGENTS_ATTACKED, EVERYBODY, FUZZER, STRANGERS_MADE_UP, Participant
from tests.fuzz.trees import Cbor, Input, Known
from tests.fuzz.values import Values

CLAIMS_MAX = 3  # in one datagram; it has to fit
NOW = "now"
KINDS = 6  # of claims
USER_EVENT = 5
META = (b"", b"\x86\x63dc1\x651.8.7\xf5\x19\x20\x6c\xf4\x00")


class Gossip:
    def __init__(self, values: Values) -> None:
        self.values = values
        self.random = values.random
        self._catalog = Catalog(values)

    def datagram(self) -> Input:
        random = self.random
        claims = [self.claim() for _ in range(random.randint(0, CLAIMS_MAX))]
        carried = [Cbor(self._catalog.push()) for _ in range(random.randint(0, 2))]
        fields: list[object] = [
            *(
                int(random.choice(list(PacketKind))),
                random.randrange(1 << 32),
                random.choice(EVERYBODY).short,
            ),
            *(random.randrange(5_000), random.randrange(8), random.randrange(1 << 20)),
            *(random.randbytes(8), self._coordinate(), [Cbor(claim) for claim in claims], self._beats()),
            *(carried, bytes(random.randrange(256) for _ in claims)),
        ]
        if random.random() < 0.5:
            fields[2] = b""
        return self._from(random.choice(self._senders()), fields)

    def claim_alone(self) -> Input:
        """Nothing but one claim, from the member: what a relay would pass on."""
        return self._told(self.claim())

    def newcomer(self, number: int) -> Input:
        """A member that nobody has heard of: what is odd about it is not measured by what was known."""
        short = b"\x20" + number.to_bytes(7)
        return self._told(self.values.mutated(self.alive(Participant(short * 2, f"new-{number}", "port0"))))

    def event_alone(self) -> Input:
        """A user event, whose patterns every agent tries on all its services."""
        return self._told(self._claim_of(USER_EVENT, FUZZER))

    def _told(self, claim: object) -> Input:
        return self._from(
            FUZZER, [int(PacketKind.GOSSIP), 1, b"", 0, 0, 1, b"", b"", [Cbor(claim)], b"", [], b"\0"]
        )

    def _from(self, sender: Participant, fields: list[object]) -> Input:
        mutated = self.values.mutated(Cbor(fields), times_max=1)
        generation: object = Known("life")
        if sender in STRANGERS_MADE_UP and self.values.chance(0.1):
            generation = self.random.choice((0, (1 << 53) - 1, 1 << 53, (1 << 64) - 1, Known(NOW, 1 << 36)))
        content = {"sender": sender.short, "generation": generation, "body": mutated}
        return Input("datagram", self.random.randrange(AGENTS), content)

    def _senders(self) -> tuple[Participant, ...]:
        stranger, agent = self.random.choice(STRANGERS_MADE_UP), self.random.choice(AGENTS_ATTACKED)
        return (FUZZER, FUZZER, FUZZER, stranger, agent)

    # Claims, as `gossip.claims` writes them.

    def claim(self) -> object:
        subject = self.random.choice((*AGENTS_ATTACKED, self.random.choice(STRANGERS_MADE_UP)))
        kind = self.random.randrange(2 * KINDS)
        fields = self.alive(subject) if kind >= KINDS else self._claim_of(kind, subject)
        return self.values.mutated(fields, times_max=1)

    def alive(self, subject: Participant) -> list[object]:
        host: object = "127.0.0.1" if self.values.chance(0.4) else self.values.host()
        port: object = Known(subject.port) if self.values.chance(0.9) else self.values.port()
        meta = self.random.choice((*META, self.values.octets()[:256]))
        who = [0, subject.node_id, self._generation(), self._counter(), subject.name, host, port, meta, 1, 1]
        version = self.random.choice(("0.1.0", "", self.values.text()[:40]))
        signature = self._signature()
        return [*who, version, *signature] if version or signature else who

    def _claim_of(self, kind: int, subject: Participant) -> list[object]:
        head: list[object] = [kind, subject.short, self._generation(), self._counter()]
        legs, phi = self.random.randrange(256), self.random.randrange(900)
        accusation = [self._shorts(1), self._shorts(0), legs, phi]
        match kind:
            case 0:
                return self.alive(subject)
            case 1:
                return [*head, *accusation]
            case 2:
                return [*head, *accusation, self.random.randrange(2)]
            case 3:
                by = self.random.choice(EVERYBODY).short
                return [*head, self.random.randint(1, 2), by, *self._signature()]
            case 4:
                duration_ms = self.random.choice((0, 5_000, 30_000))
                return [kind, subject.short, self._generation(), duration_ms, *self._signature()]
        event = Cbor([self.random.randbytes(16), b"payload", *self._patterns()])
        number = self.random.randrange(1 << 20)
        told = [kind, subject.short, self._counter(), number, self.values.text()[:40], event]
        return [*told, *self._signature()]

    def _signature(self) -> list[bytes]:
        return [self.random.randbytes(64)] if self.values.chance(0.2) else []

    def _patterns(self) -> list[str]:
        patterns = ("", "", "n.*", "(a|b)*c", ".{0,230}c", "(", "\\pL{3}", "(?i)web", "x{1000}")
        return [self.random.choice(patterns) for _ in range(3)]

    def _generation(self) -> object:
        near = (Known("life"), Known(NOW), Known(NOW, 60_000), Known(NOW, 86_300_000), Known(NOW, 90_000_000))
        return self.random.choice((*near, *near[:2], 0, (1 << 53) - 1, (1 << 53) - 2))

    def _counter(self) -> int:
        likely = self.random.randrange(1 << 20)
        return self.random.choice((0, 1, 2, 100, (1 << 53) - 1, (1 << 53) - 2, likely))

    def _shorts(self, at_least: int) -> list[bytes]:
        return [each.short for each in self.random.choices(EVERYBODY, k=self.random.randint(at_least, 4))]

    # What rides along.

    def _beats(self) -> bytes:
        count = self.random.choice((0, 1, 3))
        members = [each.short for each in self.random.choices(EVERYBODY, k=count)]
        return b"".join(BEAT.pack(each, self.random.randrange(1 << 16), self._beat()) for each in members)

    def _beat(self) -> int:
        return self.random.choice((0, 7, (1 << 32) - 1))

    def _coordinate(self) -> bytes:
        if self.values.chance(0.5):
            return Coordinate((self.random.uniform(-1, 1),) * 8).pack()
        odd = (0.0, float("nan"), float("inf"), 1e38, -100.0, 1e-45)
        return struct.pack(">11f", *(self.random.choice(odd) for _ in range(11)))

"""The pieces of news that travel: each names its subject, its place in the order, and who says so.

Claims are CBOR arrays of positional fields, relayed as the bytes that came. They are encoded once where
they are made and decoded once where they are first heard: `Claims` remembers decoded bytes, because each
claim arrives some sixteen times, and a thousand simulated members can share one memory of them.

Decoding is strict. Only the rows below, only canonical bytes (one claim has one encoding, else variants
of it would fill memories), no tags, no indefinite lengths. Fields that a later version appends are kept and
ignored.

What a member says of itself has room for a signature by the member's key, over the bytes before it. Nobody
signs yet; one that is there is passed on with the claim."""

from __future__ import annotations

import enum
import hashlib
import struct
from typing import Any

from adsum.address import Address, is_ip_host
from adsum.cbor import BadEncoding, canonical_array
from adsum.frozen import dataclass
from adsum.gossip.order import Departure, Rank, Standing
from adsum.newest import remember
from adsum.owners import STORE
from adsum.rows import RowCodec, RowField, RowKinds, choice, counter, exactly, listed, octets, text

META_BYTES_MAX = 256  # everything bigger belongs into the catalog
NAME_BYTES_MAX = 128
VERSION_BYTES_MAX = 32
SIGNATURE_BYTES = 64
WITNESSES_MAX = 4  # one accuser and K = 3 confirmations
CLAIM_BYTES_MAX = 1_024
EVENT_BYTES_MAX = 512
RESTART_MS_MAX = 30_000
# Some 600 bytes each. A claim comes again and again for a second or two; agents that come and go would fill
# a greater memory with what nobody tells any more.
REMEMBERED_MAX = 2_048
COUNTER_MAX = 1 << 53
_DIGESTED = struct.Struct(">QBQB")
NODE_ID_BYTES = 16
SHORT = 8  # bytes of a node id that stand for it in packets


@dataclass(frozen=True, slots=True)
class Profile:
    """What a member says about itself; the same for all its incarnations that say the same."""

    node_id: bytes  # the 16 bytes of its uuid
    name: str
    address: Address
    meta: bytes = b""
    version_min: int = 1  # of the protocol that it speaks
    version_max: int = 1
    version: str = ""  # of Adsum

    @property
    def short(self) -> bytes:
        return self.node_id[:SHORT]


class DeathCause(enum.IntEnum):
    SILENT = 0
    REFUSED = 1


@dataclass(frozen=True, slots=True)
class Alive:
    profile: Profile
    standing: Standing
    encoded: bytes
    digest: int
    subject: bytes  # one object, for every roster and probe is keyed by it
    tag: int  # tells counters of this life from those of another
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class Suspect:
    subject: bytes
    standing: Standing
    accusers: tuple[bytes, ...]  # the original one first; each has failed to reach the subject itself
    refusers: tuple[bytes, ...]  # whose connection the subject's host refused
    legs: int
    phi_tenths: int
    encoded: bytes


@dataclass(frozen=True, slots=True)
class Dead:
    subject: bytes
    standing: Standing
    accusers: tuple[bytes, ...]
    refusers: tuple[bytes, ...]
    legs: int
    phi_tenths: int
    cause: DeathCause
    encoded: bytes


@dataclass(frozen=True, slots=True)
class Left:
    subject: bytes
    standing: Standing
    by: bytes  # whose operator decided it; the subject itself when it leaves
    encoded: bytes
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class RestartingSoon:
    subject: bytes
    generation: int
    duration_ms: int
    encoded: bytes
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class UserEvent:
    subject: bytes  # who fired it
    clock: int  # Lamport time
    number: int  # the origin's own count, so that equal events in one tick stay two
    name: str
    payload: bytes
    encoded: bytes
    signature: bytes = b""


Shorts = tuple[bytes, ...]
Grounds = tuple[Shorts, Shorts, int, int]  # accusers, refusers, legs and phi
Verdict = Suspect | Dead | Left
Claim = Alive | Verdict | RestartingSoon | UserEvent


def alive(profile: Profile, generation: int, incarnation: int) -> Alive:
    standing = Standing(generation, Departure.NONE, incarnation, Rank.ALIVE)
    who = profile.node_id, generation, incarnation, profile.name, *profile.address, profile.meta
    encoded = _ALIVE.bytes_of(*who, profile.version_min, profile.version_max, profile.version)
    return _alive_of(profile, standing, encoded)


def suspect(
    subject: bytes,
    generation: int,
    incarnation: int,
    accusers: tuple[bytes, ...],
    *,
    refusers: tuple[bytes, ...] = (),
    legs: int = 0,
    phi_tenths: int = 0,
) -> Suspect:
    said = subject, generation, incarnation, accusers[:WITNESSES_MAX], refusers[:WITNESSES_MAX]
    return _suspect(_SUSPECT.bytes_of(*said, legs, phi_tenths), *said, legs, phi_tenths)


def dead(accusation: Suspect, cause: DeathCause) -> Dead:
    """A suspicion that nobody refuted in time."""
    said = _said(accusation)
    return _dead(_DEAD.bytes_of(*said, cause), *said, cause)


def accusation(verdict: Dead) -> Suspect:
    """What a verdict from elsewhere is worth where its subject counts as present: grounds to ask it."""
    said = _said(verdict)
    return _suspect(_SUSPECT.bytes_of(*said), *said)


def without_refusals(claim: Suspect) -> Suspect:
    who, generation, incarnation, accusers, _refusers, legs, phi_tenths = _said(claim)
    return suspect(who, generation, incarnation, accusers, legs=legs, phi_tenths=phi_tenths)


def _said(claim: Suspect | Dead) -> tuple[bytes, int, int, *Grounds]:
    """As their rows have it."""
    who = claim.subject, claim.standing.generation, claim.standing.incarnation
    return *who, claim.accusers, claim.refusers, claim.legs, claim.phi_tenths


def left(subject: bytes, generation: int, incarnation: int, departure: Departure, by: bytes) -> Left:
    said = subject, generation, incarnation, departure, by
    return _left(_LEFT.bytes_of(*said), *said)


def digest_of(profile: Profile, standing: Standing) -> int:
    """One member's share in the digest of a roster."""
    packed = _DIGESTED.pack(*standing)
    return int.from_bytes(hashlib.blake2b(profile.node_id + packed, digest_size=8).digest(), "big")


def restarting(subject: bytes, generation: int, duration_ms: int) -> RestartingSoon:
    said = subject, generation, min(duration_ms, RESTART_MS_MAX)
    return _restarting(_RESTARTING.bytes_of(*said), *said)


def user_event(subject: bytes, clock: int, number: int, name: str, payload: bytes) -> UserEvent:
    said = subject, clock, number, name, payload
    return _event(_EVENT.bytes_of(*said), *said)


def joined(one: Suspect, other: Suspect) -> Suspect:
    """Two suspicions of one standing: every real witness once, the original accuser still first."""
    accusers = tuple(dict.fromkeys(one.accusers + other.accusers))[:WITNESSES_MAX]
    refusers = tuple(dict.fromkeys(one.refusers + other.refusers))[:WITNESSES_MAX]
    legs, phi = one.legs | other.legs, max(one.phi_tenths, other.phi_tenths)
    if (accusers, refusers, legs, phi) == (one.accusers, one.refusers, one.legs, one.phi_tenths):
        return one
    who, generation, incarnation, *_grounds = _said(one)
    return suspect(who, generation, incarnation, accusers, refusers=refusers, legs=legs, phi_tenths=phi)


class Claims:
    """Decoded claims by their bytes. Bounded: when full it starts again, which costs only decoding."""

    def __init__(self, remembered_max: int = REMEMBERED_MAX) -> None:
        self._remembered_max = remembered_max
        self._known: dict[bytes, Claim] = {}

    def __len__(self) -> int:
        return len(self._known)

    def decode(self, encoded: bytes) -> Claim:
        claim = self._known.get(encoded)
        if claim is None:
            claim = decode(encoded)
            self.remember(claim)
        return claim

    def remember(self, claim: Claim) -> None:
        remember(self._known, claim.encoded, claim, self._remembered_max)


def decode(encoded: bytes) -> Claim:
    if len(encoded) > CLAIM_BYTES_MAX:
        raise BadEncoding("too long")
    claim = _CLAIMS.decode(canonical_array(encoded), encoded)
    if claim is None:
        raise BadEncoding("a claim of no kind")
    return claim


# What is made of rows. The first argument is the claim as it came, the others are the fields below.


def _alive(encoded: bytes, node_id: bytes, generation: int, incarnation: int, *said: Any) -> Alive:
    name, host, port, meta, version_min, version_max, version, signature = said
    if version_min > version_max:
        raise BadEncoding("a member without proper versions")
    profile = Profile(node_id, name, Address(host, port), meta, version_min, version_max, version)
    standing = Standing(generation, Departure.NONE, incarnation, Rank.ALIVE)
    return _alive_of(profile, standing, encoded, signature)


def _alive_of(profile: Profile, standing: Standing, encoded: bytes, signature: bytes = b"") -> Alive:
    digest = digest_of(profile, standing)
    return Alive(profile, standing, encoded, digest, profile.short, standing.generation & 0xFFFF, signature)


def _suspect(
    encoded: bytes, subject: bytes, generation: int, incarnation: int, *grounds: *Grounds
) -> Suspect:
    standing = Standing(generation, Departure.NONE, incarnation, Rank.SUSPECT)
    return Suspect(subject, standing, *grounds, encoded)


def _dead(
    encoded: bytes, subject: bytes, generation: int, incarnation: int, *grounds: *tuple[*Grounds, DeathCause]
) -> Dead:
    standing = Standing(generation, Departure.NONE, incarnation, Rank.DEAD)
    return Dead(subject, standing, *grounds, encoded)


def _left(encoded: bytes, subject: bytes, generation: int, incarnation: int, *said: Any) -> Left:
    departure, by, *signature = said
    return Left(subject, Standing(generation, departure, incarnation, Rank.DEAD), by, encoded, *signature)


def _restarting(
    encoded: bytes, subject: bytes, generation: int, duration_ms: int, signature: bytes = b""
) -> RestartingSoon:
    return RestartingSoon(subject, generation, min(duration_ms, RESTART_MS_MAX), encoded, signature)


def _event(
    encoded: bytes, subject: bytes, clock: int, number: int, name: str, payload: bytes, signature: bytes = b""
) -> UserEvent:
    if len(name.encode()) + len(payload) > EVENT_BYTES_MAX:
        raise BadEncoding("an event that is too big")
    return UserEvent(subject, clock, number, name, payload, encoded, signature)


# The rows, in the order of their numbers.


def _node_id(node_id: bytes) -> bytes:
    if len(node_id) != NODE_ID_BYTES or node_id[:SHORT] == STORE:
        raise BadEncoding("an id that no member can have")
    return node_id


def _ip_host(host: str) -> str:
    if not is_ip_host(host):
        raise BadEncoding("a member without proper address")
    return host


def _signature(signature: bytes) -> bytes:
    if len(signature) not in (0, SIGNATURE_BYTES):
        raise BadEncoding("a signature of a wrong length")
    return signature


NODE_ID, HOST = RowField("node_id", bytes, _node_id), RowField("host", str, _ip_host)
NAME, PORT = text("name", NAME_BYTES_MAX, at_least=1), counter("port", 65_536, at_least=1)
META, VERSION = octets("meta", META_BYTES_MAX), text("version", VERSION_BYTES_MAX, default="")
_SUBJECT, _WITNESS, _BY = exactly("subject", SHORT), exactly("", SHORT), exactly("by", SHORT)
_GENERATION, _INCARNATION = counter("generation", COUNTER_MAX), counter("incarnation", COUNTER_MAX)
_STANDING = (_SUBJECT, _GENERATION, _INCARNATION)
_PROTOCOLS = (counter("version_min", 256, at_least=1), counter("version_max", 256, at_least=1))
_GROUNDS = (
    listed("accusers", _WITNESS, WITNESSES_MAX, at_least=1),
    listed("refusers", _WITNESS, WITNESSES_MAX),
    *(counter("legs", 256), counter("phi_tenths", 10_000)),
)
_CAUSE = choice("cause", {int(cause): cause for cause in DeathCause})
_DEPARTURE = choice("departure", {int(each): each for each in Departure if each is not Departure.NONE})
_DURATION = counter("duration_ms", COUNTER_MAX)
_CLOCK, _COUNT = counter("clock", COUNTER_MAX), counter("number", COUNTER_MAX)
_SIGNATURE = RowField("signature", bytes, _signature, default=b"")
_ME = (NODE_ID, _GENERATION, _INCARNATION, NAME, HOST, PORT, META, *_PROTOCOLS, VERSION)
_ALIVE = RowCodec(_alive, *_ME, _SIGNATURE, kind=0)
_SUSPECT = RowCodec(_suspect, *_STANDING, *_GROUNDS, kind=1)
_DEAD = RowCodec(_dead, *_STANDING, *_GROUNDS, _CAUSE, kind=2)
_LEFT = RowCodec(_left, *_STANDING, _DEPARTURE, _BY, _SIGNATURE, kind=3)
_RESTARTING = RowCodec(_restarting, _SUBJECT, _GENERATION, _DURATION, _SIGNATURE, kind=4)
_EVENT = RowCodec(_event, _SUBJECT, _CLOCK, _COUNT, text("name"), octets("payload"), _SIGNATURE, kind=5)
_CLAIMS: RowKinds[Claim] = RowKinds(_ALIVE, _SUSPECT, _DEAD, _LEFT, _RESTARTING, _EVENT)

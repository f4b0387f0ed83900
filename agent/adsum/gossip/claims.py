"""The pieces of news that travel: each names its subject, its place in the order, and who says so.

Claims are CBOR arrays of positional fields, relayed as the bytes that came. They are encoded once where
they are made and decoded once where they are first heard: `Claims` remembers decoded bytes, because each
claim arrives some sixteen times, and a thousand simulated members can share one memory of them.

Decoding is strict. Only the shapes below, only canonical bytes (one claim has one encoding, else variants
of it would fill memories), no tags, no indefinite lengths. Fields that a later version appends are kept and
ignored."""

from __future__ import annotations

import enum
import hashlib
import struct
from typing import Any

import cbor2

from adsum.address import Address, is_ip_host
from adsum.cbor import BadEncoding, canonical_array
from adsum.frozen import dataclass
from adsum.gossip.order import Departure, Rank, Standing

META_BYTES_MAX = 256  # everything bigger belongs into the catalog
NAME_BYTES_MAX = 128
WITNESSES_MAX = 4  # one accuser and K = 3 confirmations
CLAIM_BYTES_MAX = 1_024
EVENT_BYTES_MAX = 512
RESTART_MS_MAX = 30_000
# Some 600 bytes each. A claim comes again and again for a second or two; agents that come and go would fill
# a greater memory with what nobody tells any more.
REMEMBERED_MAX = 2_048
COUNTER_MAX = 1 << 53
_DIGESTED = struct.Struct(">QBQB")
SHORT = 8  # bytes of a node id that stand for it in packets


@dataclass(frozen=True, slots=True)
class Profile:
    """What a member says about itself; the same for all its incarnations that say the same."""

    node_id: bytes  # the 16 bytes of its uuid
    name: str
    address: Address
    meta: bytes = b""
    version_min: int = 1
    version_max: int = 1

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


@dataclass(frozen=True, slots=True)
class RestartingSoon:
    subject: bytes
    generation: int
    duration_ms: int
    encoded: bytes


@dataclass(frozen=True, slots=True)
class UserEvent:
    subject: bytes  # who fired it
    clock: int  # Lamport time
    number: int  # the origin's own count, so that equal events in one tick stay two
    name: str
    payload: bytes
    encoded: bytes


Verdict = Suspect | Dead | Left
Claim = Alive | Verdict | RestartingSoon | UserEvent


def alive(profile: Profile, generation: int, incarnation: int) -> Alive:
    standing = Standing(generation, Departure.NONE, incarnation, Rank.ALIVE)
    host, port = profile.address
    fields = [
        *(0, profile.node_id, generation, incarnation, profile.name, host, port, profile.meta),
        *(profile.version_min, profile.version_max),
    ]
    return _alive_of(profile, standing, cbor2.dumps(fields))


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
    standing = Standing(generation, Departure.NONE, incarnation, Rank.SUSPECT)
    accusers, refusers = accusers[:WITNESSES_MAX], refusers[:WITNESSES_MAX]
    fields = [1, subject, generation, incarnation, accusers, refusers, legs, phi_tenths]
    return Suspect(subject, standing, accusers, refusers, legs, phi_tenths, cbor2.dumps(fields))


def dead(accusation: Suspect, cause: DeathCause) -> Dead:
    """A suspicion that nobody refuted in time."""
    generation, _departure, incarnation, _rank = accusation.standing
    standing = Standing(generation, Departure.NONE, incarnation, Rank.DEAD)
    accusers, refusers = accusation.accusers, accusation.refusers
    legs, phi = accusation.legs, accusation.phi_tenths
    fields = [2, accusation.subject, generation, incarnation, accusers, refusers, legs, phi, int(cause)]
    encoded = cbor2.dumps(fields)
    return Dead(accusation.subject, standing, accusers, refusers, legs, phi, cause, encoded)


def accusation(verdict: Dead) -> Suspect:
    """What a verdict from elsewhere is worth where its subject counts as present: grounds to ask it."""
    generation, _departure, incarnation, _rank = verdict.standing
    return suspect(
        verdict.subject,
        generation,
        incarnation,
        verdict.accusers,
        refusers=verdict.refusers,
        legs=verdict.legs,
        phi_tenths=verdict.phi_tenths,
    )


def left(subject: bytes, generation: int, incarnation: int, departure: Departure, by: bytes) -> Left:
    standing = Standing(generation, departure, incarnation, Rank.DEAD)
    return Left(subject, standing, by, cbor2.dumps([3, subject, generation, incarnation, int(departure), by]))


def digest_of(profile: Profile, standing: Standing) -> int:
    """One member's share in the digest of a roster."""
    packed = _DIGESTED.pack(*standing)
    return int.from_bytes(hashlib.blake2b(profile.node_id + packed, digest_size=8).digest(), "big")


def restarting(subject: bytes, generation: int, duration_ms: int) -> RestartingSoon:
    duration_ms = min(duration_ms, RESTART_MS_MAX)
    encoded = cbor2.dumps([4, subject, generation, duration_ms])
    return RestartingSoon(subject, generation, duration_ms, encoded)


def user_event(subject: bytes, clock: int, number: int, name: str, payload: bytes) -> UserEvent:
    encoded = cbor2.dumps([5, subject, clock, number, name, payload])
    return UserEvent(subject, clock, number, name, payload, encoded)


def joined(one: Suspect, other: Suspect) -> Suspect:
    """Two suspicions of one standing: every real witness once, the original accuser still first."""
    accusers = tuple(dict.fromkeys(one.accusers + other.accusers))[:WITNESSES_MAX]
    refusers = tuple(dict.fromkeys(one.refusers + other.refusers))[:WITNESSES_MAX]
    legs, phi = one.legs | other.legs, max(one.phi_tenths, other.phi_tenths)
    if (accusers, refusers, legs, phi) == (one.accusers, one.refusers, one.legs, one.phi_tenths):
        return one
    generation, _departure, incarnation, _rank = one.standing
    return suspect(
        one.subject, generation, incarnation, accusers, refusers=refusers, legs=legs, phi_tenths=phi
    )


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
        if len(self._known) >= self._remembered_max:
            self._known.clear()
        self._known[claim.encoded] = claim


def decode(encoded: bytes) -> Claim:
    if len(encoded) > CLAIM_BYTES_MAX:
        raise BadEncoding("too long")
    fields = canonical_array(encoded)
    match fields:
        case [0, bytes(), int(), int(), str(), str(), int(), bytes(), int(), int(), *_]:
            return _alive(fields, encoded)
        case [1, bytes(), int(), int(), list(), list(), int(), int(), *_]:
            return _suspect(fields, encoded)
        case [2, bytes(), int(), int(), list(), list(), int(), int(), int(cause), *_] if cause in _CAUSES:
            accusation = _suspect(fields, encoded)
            standing = accusation.standing._replace(rank=Rank.DEAD)
            return Dead(
                accusation.subject,
                standing,
                accusation.accusers,
                accusation.refusers,
                accusation.legs,
                accusation.phi_tenths,
                DeathCause(cause),
                encoded,
            )
        case [3, bytes(subject), int(generation), int(incarnation), int(departure), bytes(by), *_] if (
            departure in _DEPARTURES
        ):
            _check_counters(generation, incarnation)
            standing = Standing(generation, Departure(departure), incarnation, Rank.DEAD)
            return Left(_short(subject), standing, _short(by), encoded)
        case [4, bytes(subject), int(generation), int(duration_ms), *_]:
            _check_counters(generation, duration_ms)
            return RestartingSoon(_short(subject), generation, min(duration_ms, RESTART_MS_MAX), encoded)
        case [5, bytes(subject), int(clock), int(number), str(name), bytes(payload), *_]:
            _check_counters(clock, number)
            if len(name.encode()) + len(payload) > EVENT_BYTES_MAX:
                raise BadEncoding("an event that is too big")
            return UserEvent(_short(subject), clock, number, name, payload, encoded)
    raise BadEncoding("unknown shape")


def _alive(fields: list[Any], encoded: bytes) -> Alive:
    _kind, node_id, generation, incarnation, name, host, port, meta, version_min, version_max = fields[:10]
    _check_counters(generation, incarnation)
    if len(node_id) != 16 or not 0 < len(name.encode()) <= NAME_BYTES_MAX or len(meta) > META_BYTES_MAX:
        raise BadEncoding("a member without proper id, name or meta")
    if type(port) is not int or not 0 < port < 65_536 or not is_ip_host(host):
        raise BadEncoding("a member without proper address")
    if not 0 < version_min <= version_max < 256:
        raise BadEncoding("a member without proper versions")
    profile = Profile(node_id, name, Address(host, port), meta, version_min, version_max)
    standing = Standing(generation, Departure.NONE, incarnation, Rank.ALIVE)
    return _alive_of(profile, standing, encoded)


def _alive_of(profile: Profile, standing: Standing, encoded: bytes) -> Alive:
    digest = digest_of(profile, standing)
    return Alive(profile, standing, encoded, digest, profile.short, standing.generation & 0xFFFF)


def _suspect(fields: list[Any], encoded: bytes) -> Suspect:
    _kind, subject, generation, incarnation, accusers, refusers, legs, phi_tenths = fields[:8]
    _check_counters(generation, incarnation)
    standing = Standing(generation, Departure.NONE, incarnation, Rank.SUSPECT)
    if not 0 <= legs < 256 or not 0 <= phi_tenths < 10_000 or not accusers:
        raise BadEncoding("an accusation without proper grounds")
    return Suspect(_short(subject), standing, _shorts(accusers), _shorts(refusers), legs, phi_tenths, encoded)


def _shorts(values: list[Any]) -> tuple[bytes, ...]:
    if len(values) > WITNESSES_MAX:
        raise BadEncoding("too many witnesses")
    return tuple(_short(value) for value in values)


def _short(value: object) -> bytes:
    if not isinstance(value, bytes) or len(value) != SHORT:
        raise BadEncoding("not a member's short id")
    return value


def _check_counters(*values: int) -> None:
    for value in values:
        if type(value) is not int or not 0 <= value < COUNTER_MAX:  # a boolean would pass for one
            raise BadEncoding("a counter out of range")


_CAUSES = frozenset(DeathCause)
_DEPARTURES = frozenset(Departure) - {Departure.NONE}

"""Who is speaking, to which cluster it belongs, and what for: the first frame in each direction of a stream.

The cluster's id is empty until it is known. Two agents that both have one and differ never talk on; neither
do two that know one cluster in different recovery epochs.
"""

from __future__ import annotations

import enum
from typing import Any

from adsum.address import Address
from adsum.cbor import BadEncoding
from adsum.frozen import dataclass
from adsum.named import NamedTuple
from adsum.net.errors import TurnedAway
from adsum.net.framing import read
from adsum.rows import RowCodec, RowKinds, counter, exactly, number, text

VERSION_MIN = VERSION_MAX = 1
NODE_ID_BYTES = 16
CLUSTER_ID_BYTES_MAX = 64
EPOCH_MAX = 1 << 53


class Purpose(enum.IntEnum):
    PING = 1  # the answering introduction is the answer
    SYNC = 2
    CALLS = 3
    KEYS = 4  # calls of agents to servers


class WelcomeRefusal(enum.IntEnum):
    OTHER_CLUSTER = 1
    OTHER_EPOCH = 2
    OTHER_VERSION = 3
    NOT_SERVED = 4
    BUSY = 5


REASONS = {
    WelcomeRefusal.OTHER_CLUSTER: "it belongs to another cluster",
    WelcomeRefusal.OTHER_EPOCH: "its cluster was recovered at another time than ours",
    WelcomeRefusal.OTHER_VERSION: "our versions have no protocol in common",
    WelcomeRefusal.NOT_SERVED: "it does not offer this here",
    WelcomeRefusal.BUSY: "it serves as many as it can already",
}


class PeerIdentity(NamedTuple):
    """Of this agent, as it is at the moment."""

    node_id: bytes
    cluster_id: str = ""
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Introduction:
    identity: PeerIdentity
    purpose: Purpose
    version_min: int = VERSION_MIN
    version_max: int = VERSION_MAX


@dataclass(frozen=True, slots=True)
class Peer:
    """Whom a stream leads to."""

    address: Address
    identity: PeerIdentity
    version: int  # the highest that both speak
    is_authenticated: bool  # it holds our key, or a certificate that we verified


def encode(introduction: Introduction) -> bytes:
    versions = introduction.version_min, introduction.version_max
    return _INTRODUCTION.bytes_of(*versions, *introduction.identity, introduction.purpose)


def encode_refusal(refusal: WelcomeRefusal) -> bytes:
    return _REFUSAL.bytes_of(refusal)


def decode(payload: bytes) -> Introduction | WelcomeRefusal | None:
    """None is what only a later version knows: a purpose, a refusal. Raises `MalformedFrame`."""
    return read(_OPENINGS, payload)


def _introduction(version_min: int, version_max: int, *said: Any) -> Introduction | None:
    node_id, cluster_id, epoch, purpose = said
    if version_min > version_max:
        raise BadEncoding("an introduction that makes no sense")
    if purpose not in Purpose.__members__.values():
        return None
    return Introduction(PeerIdentity(node_id, cluster_id, epoch), Purpose(purpose), version_min, version_max)


def _refusal(refusal: int) -> WelcomeRefusal | None:
    return WelcomeRefusal(refusal) if refusal in WelcomeRefusal.__members__.values() else None


_INTRODUCTION = RowCodec(
    _introduction,
    *(counter("version_min", 256, at_least=1), counter("version_max", 256, at_least=1)),
    *(exactly("node_id", NODE_ID_BYTES), text("cluster_id", CLUSTER_ID_BYTES_MAX)),
    *(counter("epoch", EPOCH_MAX), number("purpose")),
    kind=0,
)
_REFUSAL = RowCodec(_refusal, number("refusal"), kind=1)
_OPENINGS: RowKinds[Introduction | WelcomeRefusal] = RowKinds(_INTRODUCTION, _REFUSAL)


def objection(mine: PeerIdentity, theirs: Introduction) -> WelcomeRefusal | None:
    if theirs.version_max < VERSION_MIN or theirs.version_min > VERSION_MAX:
        return WelcomeRefusal.OTHER_VERSION
    if not mine.cluster_id or not theirs.identity.cluster_id:
        return None
    if mine.cluster_id != theirs.identity.cluster_id:
        return WelcomeRefusal.OTHER_CLUSTER
    return WelcomeRefusal.OTHER_EPOCH if mine.epoch != theirs.identity.epoch else None


def met(introduction: Introduction, address: Address, *, is_authenticated: bool) -> Peer:
    version = min(VERSION_MAX, introduction.version_max)
    return Peer(address, introduction.identity, version, is_authenticated)


def turned_away(refusal: WelcomeRefusal | None) -> TurnedAway:
    return TurnedAway("it gave no reason we know" if refusal is None else REASONS[refusal])

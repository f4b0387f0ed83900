"""One request of a client agent to the servers, from when it is accepted until it is answered: what is asked,
of whom it was asked last, and what has come of it so far. What becomes of it is `forwarding`'s to decide.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from adsum import forwarded, mutable
from adsum.accepting import AcceptedWrite
from adsum.dedup import DedupKey
from adsum.forwarded import ForwardedChange, ForwardedWrite, RenewSessions
from adsum.kv import KeyRead, KeyRefusal, KeysFound, KeyWrite, ReadMode, StoreOutcome
from adsum.store_requests import StoreRead

# What the log answers once and for all.
TOLD = (
    *(StoreOutcome.DONE, StoreOutcome.COMPARE_FAILED, StoreOutcome.NOT_DONE, StoreOutcome.REFUSED),
    *(StoreOutcome.NO_SESSION, StoreOutcome.HELD, StoreOutcome.FENCED, StoreOutcome.CONFLICT),
)

Questions: TypeAlias = KeyRead | StoreRead | RenewSessions  # what may be asked twice


@mutable.dataclass(slots=True)
class ForwardCounters:
    asked: int = 0
    retried: int = 0  # asks that were not the first of their request
    doubtful: int = 0  # writes of which one try may have been done
    joined: int = 0  # blocked reads that found an equal one waiting
    renewals: int = 0  # of sessions
    renewal_batches: int = 0
    refused: int = 0  # because too many were under way
    out_of_time: int = 0


class AgentRequest:
    """One request to servers: a write, or a question that is perhaps of several clients."""

    __slots__ = (
        *("accepted", "deadline_ns", "is_doubtful", "is_over", "key", "more", "parts", "pieces"),
        *("pieces_bytes", "read", "seen", "server", "ticket", "tokens", "tried_ns", "wall_ms", "why"),
    )

    def __init__(self, deadline_ns: int, read: Questions | None, accepted: AcceptedWrite | None) -> None:
        self.deadline_ns = deadline_ns
        self.read = read
        self.accepted = accepted
        self.tokens: dict[Hashable, int] = {}  # whom it is for, and the place of what is theirs in the answer
        self.key: DedupKey
        self.seen = 0
        self.wall_ms = 0
        self.ticket = 0  # of the try under way
        self.server: bytes | None = None  # that was asked last
        self.tried_ns = 0
        self.is_doubtful = False  # an earlier try may have been done
        self.is_over = False
        self.why: KeyRefusal | None = None  # the last try came to nothing
        self.pieces: list[KeysFound] = []  # of its answer, as far as they have come
        self.parts: list[bytes] = []  # of one that is about something else than keys
        self.pieces_bytes = 0
        self.more = 0

    @property
    def is_blocked(self) -> bool:
        return self.read is not None and is_blocked(self.read)

    @property
    def needs_leader(self) -> bool:
        read = self.read
        return read is None or isinstance(read, RenewSessions) or read.mode is not ReadMode.STALE


def is_blocked(read: Questions) -> bool:
    return not isinstance(read, RenewSessions) and bool(read.since) and read.waits


def written_out(request: AgentRequest) -> tuple[str, bytes]:
    """How it is asked for."""
    match request.read:
        case None:
            assert request.accepted is not None, "it is a write"
            write, about = request.accepted.write, (request.key, request.wall_ms, request.seen)
            if isinstance(write, KeyWrite):
                return forwarded.WRITE, forwarded.encode(ForwardedWrite(write, *about))
            return forwarded.CHANGE, forwarded.encode(ForwardedChange(write, *about))
        case KeyRead():
            return forwarded.READ, forwarded.encode(request.read)
        case RenewSessions():
            return forwarded.RENEW, forwarded.encode(request.read)
        case _:
            return forwarded.ASK, forwarded.encode(request.read)

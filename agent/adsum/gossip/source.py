from __future__ import annotations

from adsum.address import Address
from adsum.named import NamedTuple


class Telling(NamedTuple):
    """How a claim came here, and whether it goes on from here."""

    is_sync: bool
    age: int  # see `ages`
    is_told_on: bool = True  # not while a newcomer is told what everybody else knows


class Source(NamedTuple):
    """Who tells it. Whom a member introduces is believed to be there; others are asked first."""

    address: Address | None  # None when a sync told it
    sender: bytes
    is_member: bool
    has_answered: bool = False  # it was asked at the address that it claims
    telling: Telling | None = None  # None when this agent has found it out, or was told to say so


FROM_MEMBER = Source(None, b"", is_member=True)
FROM_STRANGER = Source(None, b"", is_member=False)

from __future__ import annotations

from typing import NamedTuple

from adsum.address import Address


class Source(NamedTuple):
    """Who tells it. Whom a member introduces is believed to be there; others are asked first."""

    address: Address | None  # None when a sync told it
    sender: bytes
    is_member: bool
    has_answered: bool = False  # it was asked at the address that it claims


FROM_MEMBER = Source(None, b"", is_member=True)
FROM_STRANGER = Source(None, b"", is_member=False)

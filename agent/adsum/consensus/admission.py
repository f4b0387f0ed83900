"""Who is heard as a server, and where a server is looked for.

Quorum decides who is a member; gossip says only where each was last seen, and may be wrong about all of them
while every connection works. So a member is heard and dialled whatever gossip says of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from adsum.address import Address


def places_of(said: Address | None, found: Address | None) -> list[Address]:
    """Where to look for a server, the likeliest first: where gossip says, and where it was last found."""
    return list(dict.fromkeys(place for place in (said, found) if place is not None))


def is_heard(
    host: str, places: Sequence[Address], *, is_said: bool, is_member: bool, is_authenticated: bool
) -> bool:
    """Whether who speaks from this host is one of our servers; `is_said`: gossip knows it as one. Where
    nothing proves who speaks, it must speak from where it is looked for."""
    if not is_said and not is_member:
        return False
    return is_authenticated or host in [place.host for place in places]

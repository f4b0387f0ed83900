"""Which voters are missing where nobody can lead for want of them, in words for an operator.

While nobody leads every voter that runs asks the others for their votes within each election timeout, and
they answer, so who is silent for several of them does not run or is not reached. Gossip may still know it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from adsum.raft.types import Configuration, MemberId

WHAT_TO_DO = (
    "start them again; where they are gone for good, a quorum recovery makes one that is left the only voter"
)


def without_majority(
    configuration: Configuration,
    me: MemberId,
    silences_ms: Mapping[str, int],
    *,
    running_ms: int,
    silent_ms: int,
    wall_ms: int,
    name_of: Callable[[str], str],
) -> str:
    """Empty while enough of them were heard lately. `silences_ms` is how long ago each node was heard; one
    that never was is missed for as long as this server runs. Missing is who was not heard for `silent_ms`."""
    missing = {
        voter: silences_ms.get(voter.node, running_ms)
        for voter in sorted({*configuration.voters, *configuration.voters_outgoing})
        if voter != me and silences_ms.get(voter.node, running_ms) >= silent_ms
    }
    halves = [half for half in (configuration.voters, configuration.voters_outgoing) if half]
    cut = [half for half in halves if 2 * sum(each not in missing for each in half) <= len(half)]
    if not cut:
        return ""
    short = cut[0]
    told = ", ".join(
        f"{name_of(voter.node)} ({_since(wall_ms - silences_ms[voter.node])})"
        if voter.node in silences_ms
        else f"{name_of(voter.node)} (not heard since this server started)"
        for voter in missing
        if voter in short
    )
    count = sum(voter in missing for voter in short)
    return f"{count} of {len(short)} voters are missing: {told}; {WHAT_TO_DO}"


def _since(wall_ms: int) -> str:
    return f"since {datetime.fromtimestamp(wall_ms // 1_000, UTC):%Y-%m-%dT%H:%M:%SZ}"

"""What a set of voters agrees on; in a joint configuration, what both sets do.

Pure arithmetic over small tuples. A joint configuration agrees on the lower of what its halves agree on, wins
when both win, and loses as soon as one has lost.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from adsum.raft.types import Configuration, MemberId


class VoteOutcome(enum.Enum):
    PENDING = "pending"
    WON = "won"
    LOST = "lost"


def agreed(configuration: Configuration, values: Mapping[MemberId, int]) -> int:
    """The highest number that a quorum has reached; who is not listed is at 0."""
    index = majority_agreed(configuration.voters, values)
    if configuration.voters_outgoing:
        return min(index, majority_agreed(configuration.voters_outgoing, values))
    return index


def tally(configuration: Configuration, votes: Mapping[MemberId, bool]) -> VoteOutcome:
    """Who is not listed has not voted yet."""
    incoming = majority_tally(configuration.voters, votes)
    if not configuration.voters_outgoing:
        return incoming
    outgoing = majority_tally(configuration.voters_outgoing, votes)
    if VoteOutcome.LOST in (incoming, outgoing):
        return VoteOutcome.LOST
    return VoteOutcome.WON if incoming is outgoing is VoteOutcome.WON else VoteOutcome.PENDING


def majority_agreed(voters: tuple[MemberId, ...], values: Mapping[MemberId, int]) -> int:
    assert voters, "nobody can agree on anything"
    reached = sorted([values.get(voter, 0) for voter in voters], reverse=True)
    return reached[len(voters) // 2]  # of 3 the second, of 4 the third, of 5 the third


def majority_tally(voters: tuple[MemberId, ...], votes: Mapping[MemberId, bool]) -> VoteOutcome:
    needed = len(voters) // 2 + 1
    yes = sum(1 for voter in voters if votes.get(voter) is True)
    no = sum(1 for voter in voters if votes.get(voter) is False)
    if yes >= needed:
        return VoteOutcome.WON
    return VoteOutcome.LOST if len(voters) - no < needed else VoteOutcome.PENDING

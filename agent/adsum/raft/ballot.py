"""Elections: who gets a vote, and how the votes stand.

A server first asks for pre-votes, in the term that would begin and without beginning it: one that was cut
off for a while learns there that it cannot win, and disturbs nobody with a higher term. A refusal carries
the refuser's own term, so that a candidate with the longer log and the lower term catches up and wins the
next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from adsum.raft.messages import VoteReply, VoteRequest
from adsum.raft.quorum import VoteOutcome, tally
from adsum.raft.replica import Replica
from adsum.raft.types import NO_TERM, MemberId, Term


@dataclass(slots=True, eq=False)
class Ballot:
    """One election as its candidate sees it."""

    is_prevote: bool
    votes: dict[MemberId, bool] = field(default_factory=dict)

    def count(self, replica: Replica, voter: MemberId, *, is_granted: bool) -> VoteOutcome:
        """Nobody is elected before its own disk knows: it could forget that it led this term, be given the
        same votes again, and lead it a second time with another log."""
        self.votes.setdefault(voter, is_granted)  # the first word holds; a repeated one changes nothing
        outcome = tally(replica.configuration, self.votes)
        is_stored = self.is_prevote or replica.me in self.votes
        return VoteOutcome.PENDING if outcome is VoteOutcome.WON and not is_stored else outcome

    def granted(self) -> list[MemberId]:
        return [voter for voter, is_granted in self.votes.items() if is_granted]


def request_votes(replica: Replica, term: Term, *, is_prevote: bool, is_transfer: bool) -> None:
    last = (replica.log.last_index, replica.log.last_term)
    for member in replica.configuration.members():
        if member != replica.me and replica.configuration.is_voter(member):
            link = (replica.stamp, replica.me, member)
            replica.send_now(VoteRequest(*link, term, *last, is_prevote=is_prevote, is_transfer=is_transfer))


def consents(replica: Replica, request: VoteRequest) -> bool:
    """Not asked is whether the candidate, or we, are voters as far as we know: our knowledge may lag behind
    the change that made us so, and then an election without us could be impossible."""
    if request.is_prevote and request.term > replica.term:
        is_free = True
    else:
        has_chosen = replica.vote is not None or replica.leader is not None
        is_free = replica.vote == request.source or not has_chosen
    return is_free and replica.log.is_up_to_date(request.last_index, request.last_term)


def vote_for_oneself(replica: Replica) -> None:
    """It counts like any other, when it is on disk."""
    link = (replica.stamp, replica.me, replica.me)
    own = VoteReply(
        *link, replica.term, is_prevote=False, is_granted=True, commit_index=0, commit_term=NO_TERM
    )
    replica.send_after_store(own)


def answer(replica: Replica, request: VoteRequest, *, is_granted: bool) -> None:
    link = (replica.stamp, replica.me, request.source)
    term = request.term if is_granted else replica.term
    commit = (replica.log.commit, replica.log.term_at(replica.log.commit) or NO_TERM)
    replica.send_after_store(VoteReply(*link, term, request.is_prevote, is_granted, *commit))

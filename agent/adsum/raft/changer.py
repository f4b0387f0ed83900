"""How one membership becomes the next, without two majorities that do not know of each other.

A change that moves at most one voter goes in one step: old and new majorities always share a member.
Anything more goes through a joint configuration, in which both must agree, and which is left by a second
change; with `auto_leave` the leader does that by itself. A changer runs on the leader only: the entry it
leads to holds the whole new configuration, so followers and newcomers need no history to read it.

A stranger joins as learner, always: before it may vote it has to hold the log (its caller checks how much of
it), and a server whose disk was wiped is such a stranger.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import cbor2

from adsum.raft.errors import ChangeRefused
from adsum.raft.types import Configuration, MemberId

# Consul recommends 3 or 5; more only slow each other down. Learners are few and on their way to something
# else.
MEMBERS_MAX = 32
REMOVED_MAX = 32  # of whom it is remembered; the first is forgotten, and taken in again if it still asks


class ChangeVerb(enum.Enum):
    LEARN = "learn"  # join without a vote, or give up the vote
    VOTE = "vote"  # a learner is promoted
    LEAVE = "leave"  # for now: who still runs is taken in again
    REMOVE = "remove"  # for good, until another step names it


@dataclass(frozen=True, slots=True)
class Step:
    verb: ChangeVerb
    member: MemberId


class Transition(enum.Enum):
    AUTO = "auto"  # simple where that is safe, else joint and left without being asked
    SIMPLE = "simple"
    JOINT = "joint"  # left without being asked
    JOINT_EXPLICIT = "joint-explicit"  # left by an empty change


@dataclass(frozen=True, slots=True)
class ConfigurationChange:
    """Without steps it leaves the joint configuration."""

    steps: tuple[Step, ...] = ()
    transition: Transition = Transition.AUTO


LEAVE_JOINT = ConfigurationChange()


def changed(configuration: Configuration, change: ConfigurationChange) -> Configuration:
    """The configuration that proposes itself next, or `ChangeRefused`."""
    check(configuration)
    if not change.steps:
        return left_joint(configuration)
    if configuration.is_joint:
        raise ChangeRefused("the previous change is still joint: leave it first")
    after = _Draft(configuration).take(change.steps, is_joint=False)
    moves = voters_moved(configuration, after)
    if change.transition is Transition.SIMPLE and moves > 1:
        raise ChangeRefused(f"{moves} voters move at once: that takes a joint change")
    if change.transition is Transition.SIMPLE or (change.transition is Transition.AUTO and moves <= 1):
        return check(after)
    auto_leave = change.transition is not Transition.JOINT_EXPLICIT
    return check(_Draft(configuration).take(change.steps, is_joint=True, auto_leave=auto_leave))


def left_joint(configuration: Configuration) -> Configuration:
    if not configuration.is_joint:
        raise ChangeRefused("the configuration is not joint: there is nothing to leave")
    learners = _sorted((*configuration.learners, *configuration.learners_next))
    return check(Configuration(voters=configuration.voters, learners=learners, removed=configuration.removed))


def voters_moved(before: Configuration, after: Configuration) -> int:
    gone = [voter for voter in before.voters if voter not in after.voters]
    come = [voter for voter in after.voters if voter not in before.voters]
    return len(gone) + len(come)


def check(configuration: Configuration) -> Configuration:
    """What holds of every configuration, whoever made it."""
    wrong = flaw(configuration)
    assert not wrong, wrong
    return configuration


def flaw(configuration: Configuration) -> str:
    """What is wrong with it; empty if nothing is."""
    voters, outgoing = configuration.voters, configuration.voters_outgoing
    learners, learners_next = configuration.learners, configuration.learners_next
    if not all(group == _sorted(group) for group in (voters, outgoing, learners, learners_next)):
        return "members of a configuration are sorted and appear once"
    if not voters:
        return "a configuration without voters could never change again"
    if any(configuration.is_voter(learner) for learner in learners):
        return "a learner has no vote"
    if not all(learner in outgoing and learner not in voters for learner in learners_next):
        return "only an outgoing voter who does not stay waits to become a learner"
    if configuration.auto_leave and not outgoing:
        return "there is nothing to leave"
    if any(member in voters or member in learners for member in configuration.removed):
        return "who was removed is no member"
    if len(configuration.removed) > REMOVED_MAX:
        return f"more than {REMOVED_MAX} are remembered as removed"
    return ""


class _Draft:
    """A configuration in the making. In a joint one the old voters keep their vote as `voters_outgoing`."""

    def __init__(self, before: Configuration) -> None:
        self.before = before
        self.voters = list(before.voters)
        self.learners = list(before.learners)
        self.learners_next: list[MemberId] = []
        self.removed = list(before.removed)

    def take(self, steps: tuple[Step, ...], *, is_joint: bool, auto_leave: bool = False) -> Configuration:
        for step in steps:
            match step.verb:
                case ChangeVerb.VOTE:
                    self._promote(step.member)
                case ChangeVerb.LEARN:
                    self._teach(step.member, is_joint=is_joint)
                case ChangeVerb.LEAVE:
                    self._remove(step.member)
                case ChangeVerb.REMOVE:
                    self._remove(step.member)
                    self.removed.append(step.member)
        if not self.voters:
            raise ChangeRefused("it would leave no voter")
        draft = Configuration(
            voters=_sorted(self.voters),
            voters_outgoing=self.before.voters if is_joint else (),
            learners=_sorted(self.learners),
            learners_next=_sorted(self.learners_next),
            auto_leave=auto_leave,
            removed=tuple(self.removed[-REMOVED_MAX:]),
        )
        if len(draft.members()) > MEMBERS_MAX:
            raise ChangeRefused(f"more than {MEMBERS_MAX} members")
        return draft

    def _promote(self, member: MemberId) -> None:
        if member in self.voters:
            return
        if member not in self.learners and member not in self.before.voters:
            raise ChangeRefused(f"{member} is unknown: it joins as a learner first")
        self._remove(member)
        self.voters.append(member)

    def _teach(self, member: MemberId, *, is_joint: bool) -> None:
        if member in self.learners or member in self.learners_next:
            return
        self._remove(member)
        if is_joint and member in self.before.voters:
            self.learners_next.append(member)
        else:
            self.learners.append(member)

    def _remove(self, member: MemberId) -> None:
        for group in (self.voters, self.learners, self.learners_next, self.removed):
            if member in group:
                group.remove(member)


def _sorted(members: tuple[MemberId, ...] | list[MemberId]) -> tuple[MemberId, ...]:
    return tuple(sorted(dict.fromkeys(members)))


# As bytes in an entry: positional, so that equal configurations are equal bytes everywhere.


def encode_configuration(configuration: Configuration) -> bytes:
    groups = (
        configuration.voters,
        configuration.voters_outgoing,
        configuration.learners,
        configuration.learners_next,
    )
    rows = [[list(member) for member in group] for group in groups]
    removed = [list(member) for member in configuration.removed]
    return cbor2.dumps([*rows, configuration.auto_leave, *([removed] if removed else [])])


def decode_configuration(data: bytes) -> Configuration:
    return check(_decoded(data))


def is_configuration(data: bytes) -> bool:
    """Asked of what comes from elsewhere, before it is believed."""
    try:
        return not flaw(_decoded(data))
    except (cbor2.CBORDecodeError, ValueError, TypeError):
        return False


def _decoded(data: bytes) -> Configuration:
    voters, outgoing, learners, learners_next, auto_leave, *rest = cbor2.loads(data)
    groups = (voters, outgoing, learners, learners_next, *(rest or [[]]))
    voters, outgoing, learners, learners_next, removed = (
        tuple(MemberId(node, log) for node, log in group) for group in groups
    )
    return Configuration(voters, outgoing, learners, learners_next, auto_leave, removed)

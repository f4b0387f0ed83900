"""Who is told to have a name, and for how long: by shipped cores, with what others say made up by hand."""

from __future__ import annotations

from adsum.agent.conflicts import STANDS_NS, Conflicts
from adsum.gossip import claims
from adsum.gossip.claims import Profile
from adsum.gossip.effects import ConflictSeen, MemberChanged, Refuser
from adsum.gossip.wire import PacketFlag, PacketKind
from adsum.now import SECOND
from tests.gossip.support import GENERATION, Stage, alive, dead, of, profile, short

ME, OTHER = profile("me"), profile("me", node="other")
SAYS_A = Refuser(short("a"), profile("a").address, OTHER.short)
SAYS_OTHER = Refuser(OTHER.short, OTHER.address, OTHER.short)


class Watched:
    def __init__(self) -> None:
        self.stage = Stage("a", "b")
        self.stage.stop_probing()
        self.conflicts = Conflicts(self.stage.core.membership)

    def refused_by_a(self, holder: bytes) -> list[ConflictSeen]:
        """A datagram says so."""
        refusal = self.stage.packet("a", PacketKind.REFUSAL, about=holder, flags=PacketFlag.CONFLICT)
        return [self.seen(each) for each in of(refusal, ConflictSeen)]

    def seen(self, seen: ConflictSeen) -> ConflictSeen:
        return self.conflicts.seen(self.stage.now, seen)

    def about_me(self) -> ConflictSeen | None:
        return self.conflicts.about_me(self.stage.now)

    def is_let_in(self) -> bool:
        return self.conflicts.is_let_in(self.stage.now)

    def probed(self) -> None:
        self.stage.packet("b", PacketKind.PING, sequence=1, about=short("me"))

    def changed(self, change: MemberChanged) -> None:
        self.conflicts.changed(change)


def told_apart(newcomer: Profile, holder: Profile) -> ConflictSeen:
    return ConflictSeen(holder, newcomer)


def test_a_refusal_says_who_refuses_and_who_is_there_instead() -> None:
    watched = Watched()
    assert watched.refused_by_a(OTHER.short) == [ConflictSeen(ME, ME, SAYS_A)]
    assert not watched.is_let_in()


def test_once_others_have_refused_it_a_newcomer_no_longer_calls_the_name_its_own() -> None:
    watched = Watched()
    watched.seen(ConflictSeen(ME, ME, SAYS_A))
    assert watched.seen(ConflictSeen(ME, OTHER)) == ConflictSeen(OTHER, ME, SAYS_A)
    assert watched.seen(ConflictSeen(ME, ME, SAYS_A)) == ConflictSeen(OTHER, ME, SAYS_A)


def test_of_two_of_whom_nobody_else_has_said_anything_neither_is_called_first() -> None:
    watched = Watched()
    contested = ConflictSeen(ME, OTHER, is_contested=True)
    assert watched.seen(ConflictSeen(ME, OTHER)) == contested
    assert watched.seen(ConflictSeen(ME, ME, SAYS_OTHER)) == contested


def test_a_rival_s_own_word_puts_nobody_out_whom_others_probe() -> None:
    watched = Watched()
    watched.seen(ConflictSeen(ME, ME, SAYS_OTHER))
    assert not watched.is_let_in()  # as far as is known: nobody has ever asked for this agent
    watched.probed()
    assert watched.is_let_in()
    assert watched.about_me() is not None


def test_who_is_probed_after_a_refusal_was_taken_in_and_a_new_refusal_counts_again() -> None:
    watched = Watched()
    watched.seen(ConflictSeen(ME, ME, SAYS_A))
    watched.probed()
    assert watched.about_me() is None
    assert watched.is_let_in()
    watched.seen(ConflictSeen(ME, ME, SAYS_A))
    assert not watched.is_let_in()


def test_probes_meant_for_whoever_had_the_address_before_are_no_welcome() -> None:
    watched = Watched()
    watched.seen(ConflictSeen(ME, ME, SAYS_A))
    watched.stage.packet("b", PacketKind.PING, sequence=1, about=OTHER.short)
    assert not watched.is_let_in()


def test_what_is_not_said_again_is_over() -> None:
    watched = Watched()
    watched.seen(ConflictSeen(ME, ME, SAYS_A))
    watched.seen(told_apart(profile("web", node="two"), profile("web")))
    watched.stage.stand_still(STANDS_NS - SECOND)
    assert watched.about_me() is not None
    assert len(watched.conflicts.of_others(watched.stage.now)) == 1
    watched.stage.stand_still(SECOND)
    assert watched.about_me() is None
    assert watched.conflicts.of_others(watched.stage.now) == []


def test_a_conflict_of_others_ends_when_the_holder_is_gone_or_the_newcomer_is_in() -> None:
    second = claims.alive(profile("b", node="two"), GENERATION, 0)
    for told in (dead("b", "a"), second):
        watched = Watched()
        watched.seen(told_apart(second.profile, profile("b")))
        if told is second:
            watched.stage.tell("a", dead("b", "a"))
        (*_, change) = of(watched.stage.tell("a", told), MemberChanged)
        watched.changed(change)
        assert watched.conflicts.of_others(watched.stage.now) == []


def test_news_of_a_holder_that_stays_ends_nothing() -> None:
    watched = Watched()
    watched.seen(told_apart(profile("b", node="two"), profile("b")))
    (change,) = of(watched.stage.tell("b", alive("b", incarnation=4)), MemberChanged)
    watched.changed(change)
    assert len(watched.conflicts.of_others(watched.stage.now)) == 1

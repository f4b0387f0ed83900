from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from adsum.consensus import effects, reports
from adsum.consensus.bootstrap import AliveServer, ServerStanding, cluster_id_of
from adsum.consensus.effects import (
    AnswerStanding,
    AskStanding,
    FoundingEffect,
    StoreFirstSnapshot,
    WriteClusterId,
    WriteConsent,
)
from adsum.consensus.founding import INTERVAL_NS, FoundingCore
from adsum.consensus.settings import ServerSettings
from adsum.effects import LogLine, Severity
from adsum.now import MILLISECOND, SECOND, Now
from adsum.raft.messages import Heartbeat, MessageStamp, VoteRequest
from adsum.raft.types import Configuration, MemberId, Restored, SnapshotMeta, Term, bootstrap
from tests.consensus.support import Echo

A, B = MemberId("a", "log-a"), MemberId("b", "log-b")
ALIVE = [AliveServer("a", "dc1", 2), AliveServer("b", "dc1", 2)]
EMPTY_B = ServerStanding(B, "dc1", 2, "", True, sees=("a", "b"))
FOUNDED = bootstrap(Configuration(voters=(A, B)))


def at(ms: int) -> Now:
    return Now(ms * MILLISECOND, ms)


def founding(
    *,
    restored: Restored | None = None,
    cluster_id: str = "",
    epoch: int = 0,
    is_in_doubt: bool = False,
    expect: int = 2,
    consent: tuple[str, ...] | None = (),
    has_tried_to_join: bool = True,
) -> FoundingCore:
    core = FoundingCore(
        A,
        cluster_id,
        epoch,
        restored or Restored(),
        Echo(),
        ServerSettings(expect=expect),
        is_in_doubt=is_in_doubt,
        consent=consent,
    )
    if has_tried_to_join:
        core.report(at(0), reports.JoinTried())
    return core


def asked_round(core: FoundingCore, now: Now, answer: ServerStanding | None) -> list[FoundingEffect]:
    """The other one is asked, and answers; what comes of it."""
    (asked,) = core.tick(now, ALIVE)
    assert isinstance(asked, AskStanding)
    assert asked.node == "b"
    return answered(core, now, asked, answer)


def answered(
    core: FoundingCore, now: Now, asked: FoundingEffect, answer: ServerStanding | None
) -> list[FoundingEffect]:
    assert isinstance(asked, AskStanding)
    assert core.deadline() is None
    core.report(now, reports.StandingAnswered(asked.ticket, answer))
    return list(core.tick(now, ALIVE))


def test_who_hears_that_all_others_are_empty_founds_a_cluster_snapshot_first() -> None:
    core = founding()
    (storing,) = asked_round(core, at(0), EMPTY_B)
    assert isinstance(storing, StoreFirstSnapshot)
    assert storing.meta == FOUNDED
    assert core.standing(ALIVE) == replace(EMPTY_B, member=A, is_empty=False)
    core.report(at(2), reports.FirstSnapshotStored(FOUNDED))
    (naming,) = core.tick(at(2), ALIVE)
    assert isinstance(naming, WriteClusterId)
    (said,) = core.report(at(3), reports.ClusterIdWritten(naming.cluster_id))
    assert said == LogLine(Severity.INFO, f"cluster {naming.cluster_id} was founded by a, b")
    assert (core.is_member, core.deadline(), core.restored) == (True, None, Restored(snapshot=FOUNDED))


def test_who_expects_nothing_is_asked_who_it_is_and_not_whether_it_founds() -> None:
    core, alive = founding(), [*ALIVE, AliveServer("z", "dc1", 0)]
    asked = core.tick(at(0), alive)
    assert [(each.node, each.founders) for each in asked if isinstance(each, AskStanding)] == [
        ("b", AB),
        ("z", ()),
    ]
    empty_z = ServerStanding(MemberId("z", "log-z"), "dc1", 0, "", True, sees=AB)
    for each, answer in zip(asked, (EMPTY_B, empty_z), strict=True):
        assert isinstance(each, AskStanding)
        core.report(at(1), reports.StandingAnswered(each.ticket, answer))
    (storing,) = core.tick(at(1), alive)
    assert isinstance(storing, StoreFirstSnapshot)
    assert storing.meta == FOUNDED


def test_who_expects_nothing_sees_those_that_may_found_and_consents_to_nobody() -> None:
    core = founding(expect=0)
    assert core.standing([*ALIVE_C, AliveServer("z", "dc1", 0)]).sees == ("c",)
    assert core.answer(1, AC, ALIVE_C) == [AnswerStanding(1, core.standing(ALIVE_C))]


def test_answers_that_a_pause_has_made_old_found_nothing() -> None:
    core = founding()
    (asked,) = core.tick(at(0), ALIVE)
    assert isinstance(asked, AskStanding)
    core.report(at(1), reports.StandingAnswered(asked.ticket, EMPTY_B))
    (said,) = core.tick(at(501), ALIVE)
    assert said == LogLine(Severity.INFO, "no cluster yet: the answers of the others took too long")
    assert [type(each) for each in core.tick(at(1001), ALIVE)] == [AskStanding]


def test_who_sees_other_servers_than_we_do_keeps_us_from_founding() -> None:
    (said,) = asked_round(founding(), at(0), replace(EMPTY_B, sees=("b", "c")))
    assert said == LogLine(Severity.INFO, "no cluster yet: server b sees b, c, and this one a, b")


ALIVE_C = [AliveServer("a", "dc1", 2), AliveServer("c", "dc1", 2)]


AB, AC = ("a", "b"), ("a", "c")
EMPTY_A = ServerStanding(A, "dc1", 2, "", True, sees=AB)
IS_BOUND = AnswerStanding(7, replace(EMPTY_A, is_empty=False))


def consenting() -> FoundingCore:
    """To found with b."""
    core = founding()
    assert core.answer(1, AB, ALIVE) == [WriteConsent(AB)]
    assert core.report(at(0), reports.ConsentWritten(AB)) == [AnswerStanding(1, EMPTY_A)]
    return core


def taken_back(core: FoundingCore, answer: ServerStanding | None) -> list[FoundingEffect]:
    """A round in which b is asked whether a consent can be taken back."""
    (asked,) = core.tick(at(0), ALIVE_C)
    assert isinstance(asked, AskStanding)
    assert (asked.node, asked.founders) == ("b", ())
    core.report(at(0), reports.StandingAnswered(asked.ticket, answer))
    return list(core.tick(at(0), ALIVE_C))


def test_a_consent_is_given_when_it_is_on_disk() -> None:
    core = founding()
    assert core.answer(1, AB, ALIVE) == [WriteConsent(AB)]
    assert core.answer(2, AB, ALIVE) == ()
    assert core.answer(3, AC, ALIVE_C) == ()
    assert core.deadline() is None
    assert core.report(at(5), reports.ConsentWritten(AB)) == [
        AnswerStanding(1, EMPTY_A),
        AnswerStanding(2, EMPTY_A),
        AnswerStanding(3, replace(EMPTY_A, is_empty=False, sees=AC)),
    ]
    assert core.answer(4, AB, ALIVE) == [AnswerStanding(4, EMPTY_A)]


def test_who_asks_for_another_reason_does_not_wait_for_the_write_of_a_consent() -> None:
    core = founding()
    core.answer(1, AB, ALIVE)
    assert core.answer(2, (), ALIVE) == [AnswerStanding(2, EMPTY_A)]


def test_no_more_than_64_wait_for_one_write() -> None:
    core = founding()
    assert core.answer(0, AB, ALIVE) == [WriteConsent(AB)]
    assert [core.answer(ticket, AB, ALIVE) for ticket in range(1, 64)] == [()] * 63
    assert core.answer(7, AB, ALIVE) == [IS_BOUND]


def test_a_consent_binds_for_good_and_over_a_restart() -> None:
    for core in (consenting(), founding(consent=AB)):
        (refusal,) = core.answer(7, AC, ALIVE_C)
        assert refusal == AnswerStanding(7, replace(EMPTY_A, is_empty=False, sees=AC))


def test_a_consent_that_was_read_at_the_start_is_written_again_before_it_is_given() -> None:
    """The sync of the one that wrote it may have failed: then the next start reads what the power takes."""
    core = founding(consent=AB)
    assert core.answer(1, AB, ALIVE) == [WriteConsent(AB)]
    core.report(at(0), reports.FoundingFoundNoRoom("the disk is full"))
    (refusal,) = core.answer(7, AC, ALIVE_C)
    assert refusal == AnswerStanding(7, replace(EMPTY_A, is_empty=False, sees=AC))


def test_a_consent_that_finds_no_room_is_not_given() -> None:
    core = founding()
    core.answer(7, AB, ALIVE)
    assert core.report(at(0), reports.FoundingFoundNoRoom("the disk is full")) == [
        IS_BOUND,
        LogLine(Severity.ERROR, "no cluster yet: the disk is full; free some space"),
    ]
    assert core.deadline() == INTERVAL_NS
    assert core.answer(8, AB, ALIVE) == [WriteConsent(AB)]


def test_a_consent_is_taken_back_when_all_of_its_set_have_said_twice_that_nothing_came_of_it() -> None:
    core = consenting()
    assert taken_back(core, EMPTY_B) == []
    assert taken_back(core, EMPTY_B) == [WriteConsent(())]
    assert core.report(at(0), reports.ConsentWritten(())) == []
    (asked,) = core.tick(at(0), ALIVE_C)
    assert isinstance(asked, AskStanding)
    assert (asked.node, asked.founders) == ("c", AC)


def test_a_consent_that_the_disk_has_no_room_to_forget_is_taken_back_all_the_same() -> None:
    core = consenting()
    taken_back(core, EMPTY_B)
    taken_back(core, EMPTY_B)
    core.report(at(0), reports.FoundingFoundNoRoom("the disk is full"))
    assert core.answer(1, AC, ALIVE_C) == [WriteConsent(AC)]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            None,
            (
                "b, which may have done so, does not answer: start it again, or, if it is gone for good, "
                "stop this server and remove the file `consent` beside its log"
            ),
        ),
        (replace(EMPTY_B, is_asking=True), "b is just asking the others"),
        (replace(EMPTY_B, is_empty=False), "b has founded one or is about to: this server waits for it"),
        (
            ServerStanding(B, "dc1", 2, "xyz", False, (B,)),
            "b has founded one or is about to: this server waits for it",
        ),
    ],
    ids=["silent", "asking", "has a log", "has a cluster"],
)
def test_one_of_the_set_who_may_have_founded_keeps_a_consent_in_force(
    answer: ServerStanding | None, reason: str
) -> None:
    core = consenting()
    assert taken_back(core, EMPTY_B) == []
    sentence = f"no cluster yet: this server agreed to found a cluster with a, b, and {reason}"
    assert taken_back(core, answer) == [LogLine(Severity.INFO, sentence)]
    assert core.deadline() == INTERVAL_NS


def test_a_consent_that_is_given_again_meanwhile_is_not_taken_back() -> None:
    core = consenting()
    assert taken_back(core, EMPTY_B) == []
    (asked,) = core.tick(at(0), ALIVE_C)
    assert isinstance(asked, AskStanding)
    assert core.answer(2, AB, ALIVE) == [AnswerStanding(2, EMPTY_A)]
    core.report(at(0), reports.StandingAnswered(asked.ticket, EMPTY_B))
    assert taken_back(core, EMPTY_B) == []
    assert taken_back(core, EMPTY_B) == [WriteConsent(())]


def test_who_takes_a_consent_back_may_do_so_beside_another_who_does() -> None:
    core = consenting()
    core.tick(at(0), ALIVE_C)
    assert not core.standing(ALIVE_C).is_asking


def test_who_asks_to_found_says_so_and_consents_to_nobody_else() -> None:
    core = founding()
    core.tick(at(0), ALIVE)
    assert core.standing(ALIVE).is_asking
    (refusal,) = core.answer(7, AC, ALIVE_C)
    assert isinstance(refusal, AnswerStanding)
    assert not refusal.standing.is_empty
    assert core.answer(8, AB, ALIVE) == [WriteConsent(AB)]


def test_an_answer_to_who_founds_nothing_or_sees_others_binds_nobody() -> None:
    core = founding()
    assert core.answer(1, (), ALIVE) == [AnswerStanding(1, EMPTY_A)]
    assert core.answer(2, AB, ALIVE_C) == [AnswerStanding(2, replace(EMPTY_A, sees=AC))]
    assert core.answer(3, AC, ALIVE_C) == [WriteConsent(AC)]


def test_a_consent_that_cannot_be_read_founds_nothing() -> None:
    core = founding(consent=None)
    (refusal,) = core.answer(7, AB, ALIVE)
    assert refusal == IS_BOUND
    assert core.tick(at(0), ALIVE) == [
        LogLine(
            Severity.INFO,
            "no cluster yet: with whom this server agreed to found one cannot be read: it waits to be taken "
            "in; where there is no cluster, stop it and remove the file `consent` beside its log",
        )
    ]


def test_nothing_is_founded_before_the_first_attempt_to_join_has_ended() -> None:
    core = founding(expect=1, has_tried_to_join=False)
    (said,) = core.tick(at(0), [])
    assert said == LogLine(Severity.INFO, "no cluster yet: the first attempt to join is still under way")
    core.report(at(1), reports.JoinTried())
    assert core.tick(at(500), []) == []
    (storing,) = core.tick(at(500), [])
    assert isinstance(storing, StoreFirstSnapshot)


def test_a_candidate_that_was_wiped_before_it_answers_has_consented_to_nothing() -> None:
    """It is as empty as we are, and sees the same; but nobody asked it to found."""
    core = founding()
    core.receive(at(0), candidacy())
    (asked,) = core.tick(at(0), ALIVE)
    (said,) = answered(core, at(1), asked, EMPTY_B)
    assert said == LogLine(
        Severity.INFO, "no cluster yet: gossip knows of other servers than before the others were asked"
    )


def test_who_was_taken_in_and_has_not_written_it_yet_consents_to_nothing() -> None:
    core = founding()
    core.receive(at(0), message(A, "right"))
    core.tick(at(0), ALIVE)
    core.report(at(0), reports.FoundingFoundNoRoom("the disk is full"))
    assert core.answer(7, AB, ALIVE) == [IS_BOUND]


def test_a_reason_to_wait_is_said_once_and_looked_at_again_half_a_second_later() -> None:
    core = founding()
    (said,) = core.tick(at(0), ALIVE[:1])
    assert said == LogLine(Severity.INFO, "no cluster yet: 1 servers are alive in dc1, and 2 are expected")
    assert core.deadline() == INTERVAL_NS
    assert core.tick(at(499), ALIVE) == ()
    assert core.tick(at(500), ALIVE[:1]) == ()
    assert core.deadline() == SECOND
    assert asked_round(core, at(1000), None)[0] == LogLine(
        Severity.INFO, "no cluster yet: server b does not answer"
    )


def message(target: MemberId, cluster_id: str) -> Heartbeat:
    return Heartbeat(MessageStamp(cluster_id, 3), B, target, Term(1), 0, 1)


def test_only_a_message_to_this_very_log_takes_a_server_in() -> None:
    core = founding(expect=0)
    core.receive(at(0), message(MemberId("a", "of a former life"), "wrong"))
    core.receive(at(0), message(A, ""))
    assert [type(each) for each in core.tick(at(0), ALIVE)] == [LogLine]
    core.receive(at(1), message(A, "right"))
    assert core.tick(at(1), ALIVE) == [WriteClusterId("right", 3)]
    core.report(at(2), reports.ClusterIdWritten("right"))
    assert core.standing([]).cluster_id == "right"
    assert core.restored == Restored()


FOUNDED_B = ServerStanding(B, "dc1", 2, cluster_id_of(FOUNDED.configuration), False, (A, B))


def candidacy() -> VoteRequest:
    return VoteRequest(
        MessageStamp(FOUNDED_B.cluster_id, 0), B, A, Term(2), 1, Term(1), is_prevote=True, is_transfer=False
    )


def test_a_candidate_is_asked_who_founded_with_it_and_the_same_is_founded_here() -> None:
    core = founding(expect=0)  # whatever else would speak against it
    core.receive(at(0), candidacy())
    (asked,) = core.tick(at(0), [])
    assert isinstance(asked, AskStanding)
    (storing,) = answered(core, at(1), asked, FOUNDED_B)
    assert isinstance(storing, StoreFirstSnapshot)
    assert storing.meta == FOUNDED


@pytest.mark.parametrize(
    "answer",
    [
        None,
        replace(FOUNDED_B, voters=()),
        replace(FOUNDED_B, voters=(B,)),
        replace(FOUNDED_B, voters=(A._replace(log="another"), B)),
        replace(FOUNDED_B, voters=(B, A)),
    ],
    ids=["silent", "has forgotten", "without us", "another log of ours", "no membership"],
)
def test_a_candidate_whose_cluster_does_not_count_on_this_log_is_not_followed(
    answer: ServerStanding | None,
) -> None:
    core = founding()
    core.receive(at(0), candidacy())
    (asked,) = core.tick(at(0), ALIVE)
    assert [type(each) for each in answered(core, at(1), asked, answer)] == [LogLine]
    assert core.deadline() == INTERVAL_NS + MILLISECOND


def test_who_has_founded_tells_the_others_with_whom() -> None:
    core = founding(restored=Restored(snapshot=FOUNDED), cluster_id=FOUNDED_B.cluster_id)
    assert core.standing([]) == replace(FOUNDED_B, member=A, sees=("a",))


@pytest.mark.parametrize(
    ("voters", "cluster_id"),
    [((A, B, MemberId("c", "log-c")), FOUNDED_B.cluster_id), ((A, B), "of three founders")],
    ids=["grown", "shrunk"],
)
def test_where_the_voters_are_no_longer_the_founders_the_clusters_name_is_enough(
    voters: tuple[MemberId, ...], cluster_id: str
) -> None:
    core = founding()
    core.receive(at(0), candidacy())
    (asked,) = core.tick(at(0), ALIVE)
    now_b = replace(FOUNDED_B, voters=voters, cluster_id=cluster_id)
    assert answered(core, at(1), asked, now_b) == [WriteClusterId(cluster_id, 0)]
    (line,) = core.report(at(2), reports.ClusterIdWritten(cluster_id))
    assert isinstance(line, LogLine)
    assert line.sentence == f"this server has a vote in cluster {cluster_id}"
    assert core.is_member


def test_who_is_in_a_cluster_names_those_who_vote_in_it_now() -> None:
    later = replace(FOUNDED, index=40, term=Term(3))
    core = founding(restored=Restored(snapshot=later), cluster_id=FOUNDED_B.cluster_id)
    assert core.standing([]).voters == (A, B)
    c = MemberId("c", "log-c")
    core.follow(lambda: Configuration(voters=(B, c), voters_outgoing=(A, B)))
    assert core.standing([]).voters == (A, B, c)


def test_after_a_quorum_recovery_nobody_is_told_whom_the_cluster_was_founded_with() -> None:
    core = founding(restored=Restored(snapshot=FOUNDED), cluster_id=FOUNDED_B.cluster_id, epoch=1)
    assert core.standing([]).voters == ()


def test_who_is_taken_in_while_it_asks_waits_for_no_answer() -> None:
    core = founding()
    (asked,) = core.tick(at(0), ALIVE)
    core.receive(at(1), message(A, "right"))
    assert core.tick(at(1), ALIVE) == [WriteClusterId("right", 3)]
    assert isinstance(asked, AskStanding)
    core.report(at(2), reports.StandingAnswered(asked.ticket, EMPTY_B))
    assert core.tick(at(2), ALIVE) == ()


def test_a_start_between_snapshot_and_cluster_id_finishes_the_founding() -> None:
    core = founding(restored=Restored(snapshot=FOUNDED))
    core.receive(at(0), message(A, "another"))
    (naming,) = core.tick(at(0), [])
    assert isinstance(naming, WriteClusterId)
    assert naming.cluster_id != "another"


def test_no_room_is_said_and_tried_again() -> None:
    core = founding(restored=Restored(snapshot=FOUNDED))
    (naming,) = core.tick(at(0), [])
    (said,) = core.report(at(0), reports.FoundingFoundNoRoom("the disk is full"))
    assert said == LogLine(Severity.ERROR, "no cluster yet: the disk is full; free some space")
    assert core.tick(at(499), []) == ()
    assert core.tick(at(500), []) == [naming]


def test_a_server_whose_log_was_damaged_founds_nothing_and_can_be_taken_in() -> None:
    core = founding(is_in_doubt=True)
    assert core.standing([]).is_empty is False
    (said,) = core.tick(at(0), ALIVE)
    assert said == LogLine(Severity.INFO, "no cluster yet: this server has a log already")
    core.receive(at(1), message(A, "right"))
    assert core.tick(at(1), ALIVE) == [WriteClusterId("right", 3)]


LATER = Restored(snapshot=SnapshotMeta(7, Term(2), Configuration(voters=(MemberId("a", "before"), B))))


def test_a_damaged_log_that_has_forgotten_its_cluster_is_taken_in_by_a_leader_that_it_knows() -> None:
    core = founding(restored=LATER, is_in_doubt=True)
    core.receive(at(1), structs.replace(message(A, "wrong"), source=MemberId("b", "of another cluster")))
    core.receive(at(1), candidacy())
    assert [type(each) for each in core.tick(at(1), ALIVE)] == [LogLine]
    core.receive(at(2), message(A, "right"))
    assert core.tick(at(2), ALIVE) == [WriteClusterId("right", 3)]
    (said,) = core.report(at(3), reports.ClusterIdWritten("right"))
    assert said == LogLine(Severity.INFO, "this server was taken in by cluster right")
    assert core.restored == LATER


def test_a_log_that_is_not_damaged_and_has_no_cluster_is_left_alone() -> None:
    core = founding(restored=LATER)
    core.receive(at(1), message(A, "right"))
    assert [type(each) for each in core.tick(at(1), ALIVE)] == [LogLine]


def test_a_disk_that_fails_ends_the_process() -> None:
    core = founding(restored=Restored(snapshot=FOUNDED))
    core.tick(at(0), [])
    assert core.report(at(0), reports.StoringFailed("no sync")) == [
        effects.ServerBroken("no sync, while this server came into a cluster; this process ends")
    ]

from __future__ import annotations

from dataclasses import replace

import pytest

from adsum.consensus import effects, reports
from adsum.consensus.bootstrap import AliveServer, ServerStanding, cluster_id_of
from adsum.consensus.effects import AskStanding, FoundingEffect, StoreFirstSnapshot, WriteClusterId
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
) -> FoundingCore:
    return FoundingCore(
        A,
        cluster_id,
        epoch,
        restored or Restored(),
        Echo(),
        ServerSettings(expect=expect),
        is_in_doubt=is_in_doubt,
    )


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


def test_who_has_called_itself_empty_founds_with_nobody_else_for_a_second() -> None:
    core = founding()
    assert core.answer(at(0), ("a", "b"), ALIVE).is_empty
    assert not core.answer(at(999), ("a", "c"), ALIVE_C).is_empty
    (said,) = core.tick(at(999), ALIVE_C)
    assert said == LogLine(Severity.INFO, "no cluster yet: this server may be about to found one with a, b")
    assert core.answer(at(1000), ("a", "c"), ALIVE_C).is_empty
    assert not core.answer(at(1001), ("a", "b"), ALIVE).is_empty


def test_who_asks_to_found_is_bound_as_well() -> None:
    core = founding()
    core.tick(at(0), ALIVE)
    assert not core.answer(at(1), ("a", "c"), ALIVE_C).is_empty


def test_an_answer_to_who_founds_nothing_or_sees_others_binds_nobody() -> None:
    core = founding()
    assert core.answer(at(0), (), ALIVE).is_empty
    assert core.answer(at(0), ("a", "b"), ALIVE_C).sees == ("a", "c")
    assert core.answer(at(0), ("a", "c"), ALIVE_C).is_empty


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
    core.receive(at(1), replace(message(A, "wrong"), source=MemberId("b", "of another cluster")))
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

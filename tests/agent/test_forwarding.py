"""A client agent's requests for keys: which server is asked what, again, and until when."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from adsum import forwarded, kv
from adsum.address import Address
from adsum.agent import saved_servers, tags
from adsum.agent.asking import (
    AnswerForwarded,
    AskServer,
    CancelAsk,
    ForwardCommand,
    ForwardEffect,
    ForwardRead,
    ForwardReport,
    ForwardWrite,
    GiveUpForwarded,
    ServerAnswered,
    ServerRefused,
    ServersChanged,
    ServerUnreached,
)
from adsum.agent.forwarding import REQUESTS_MAX, Forwarding
from adsum.agent.known_servers import KnownServers
from adsum.agent.tags import Tags
from adsum.dedup import DedupKey, WriteNumbers
from adsum.effects import Save, WriteFile
from adsum.forwarded import ForwardedWrite, KeysPiece
from adsum.gossip.claims import Profile
from adsum.gossip.effects import MemberChanged
from adsum.gossip.evidence import ChangeCause, Evidence
from adsum.gossip.order import Departure, Rank, Standing
from adsum.kv import (
    KeyCause,
    KeyRead,
    KeyRecord,
    KeyRefusal,
    KeysFound,
    KeyVerb,
    KeyWrite,
    ReadMode,
    ReadShape,
    StoreAnswer,
    StoreOutcome,
)
from adsum.now import Now
from adsum.store_requests import ConsensusRead, KeyHistoryRead

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
ALIVE = Standing(1, Departure.NONE, 0, Rank.ALIVE)
DEAD = Standing(1, Departure.NONE, 0, Rank.DEAD)
SERVER = Tags(is_server=True, server_port=8300)
LEADER = replace(SERVER, leads_in_epoch=1, leads_in_term=3)
PUT = KeyWrite(KeyVerb.PUT, b"k", b"v")
READ = KeyRead(ReadShape.KEY, b"k")
STALE = KeyRead(ReadShape.KEY, b"k", mode=ReadMode.STALE)
BLOCKED = KeyRead(ReadShape.KEY, b"k", since=7)
RECORD = KeyRecord(b"v", 9, 9, 0, 0)
FOUND = KeysFound(9, [b"k"], [RECORD])
DONE = kv.encode(StoreAnswer(StoreOutcome.DONE, 9, 9, 1))
WALL_MS = 1_800_000_000_000


class Road:
    """A client agent, at a time that a test moves."""

    def __init__(self, *servers: bytes, leader: bytes | None = None, saved: bytes | None = None) -> None:
        self.servers = KnownServers()
        self.core = Forwarding(
            self.servers, saved_servers.decode(saved), WriteNumbers("me", 5), Random(1), hold_ns=7_000_000_000
        )
        self.ms = 0
        for node_id in servers:
            self.knows(node_id, LEADER if node_id == leader else SERVER)

    def knows(self, node_id: bytes, described: Tags, standing: Standing = ALIVE) -> list[ForwardEffect]:
        host = f"10.0.0.{node_id[0]}"
        profile = Profile(node_id, chr(node_id[0]), Address(host, 8301), tags.encode(described))
        self.servers.changed(MemberChanged(profile, None, standing, Evidence(ChangeCause.JOINED)))
        return self.told(ServersChanged())

    def at(self, ms: int) -> list[ForwardEffect]:
        self.ms = ms
        return self.core.tick(self._now)

    def asked(self, command: ForwardCommand) -> list[ForwardEffect]:
        return self.core.command(self._now, command)

    def told(self, report: ForwardReport) -> list[ForwardEffect]:
        return self.core.receive(self._now, report)

    @property
    def _now(self) -> Now:
        return Now(self.ms * 1_000_000, WALL_MS + self.ms)


def writes(ticket: int, server: bytes, *, attempt: int = 0, sequence: int = 1, seen: int = 0) -> AskServer:
    """For as long as a server is given that is not known to lead."""
    key = DedupKey("me", 5, sequence, sequence, attempt)
    body = forwarded.encode(ForwardedWrite(PUT, key, WALL_MS, seen))
    return AskServer(ticket, server, "key.write", body, 1_000_000_000)


def at_leader(asked: AskServer, timeout_ms: int = 3_000) -> AskServer:
    return replace(asked, timeout_ns=timeout_ms * 1_000_000)


def reads(ticket: int, server: bytes, read: KeyRead, timeout_ms: int) -> AskServer:
    return AskServer(ticket, server, "key.read", kv.encode(read), timeout_ms * 1_000_000)


def piece(found: KeysFound, more: int = 0) -> bytes:
    return forwarded.encode(KeysPiece(found, more))


def test_a_write_is_named_and_sent_to_the_leader_and_its_answer_is_the_logs() -> None:
    road = Road(A, B, C, leader=B)
    assert road.asked(ForwardWrite(PUT, "w")) == [at_leader(writes(1, B))]
    answer = StoreAnswer(StoreOutcome.DONE, 9, 9, 1)
    assert road.told(ServerAnswered(1, DONE)) == [AnswerForwarded("w", answer)]
    assert road.core.deadline() is None


def test_each_write_has_a_name_of_its_own_and_shows_the_newest_revision_in_any_answer() -> None:
    road = Road(A, leader=A)
    road.asked(ForwardWrite(PUT, "w"))
    road.told(ServerAnswered(1, DONE))
    assert road.asked(ForwardWrite(PUT, "x")) == [at_leader(writes(2, A, sequence=2, seen=9))]
    road.asked(ForwardRead(READ, "r"))
    road.told(ServerAnswered(3, piece(KeysFound(12, [], []))))
    asked = road.asked(ForwardWrite(PUT, "y"))
    low_water_is_the_oldest_that_is_open = DedupKey("me", 5, 3, 2)
    body = forwarded.encode(ForwardedWrite(PUT, low_water_is_the_oldest_that_is_open, WALL_MS, 12))
    assert asked == [AskServer(4, A, "key.write", body, 3_000_000_000)]


def test_what_was_not_sent_is_tried_again_a_moment_later_at_another_server_under_the_same_name() -> None:
    road = Road(A, B, leader=B)
    road.asked(ForwardWrite(PUT, "w"))
    assert road.told(ServerUnreached(1, is_sent=False, sentence="nobody is there")) == []
    assert road.core.deadline() == 50_000_000
    assert road.at(50) == [writes(2, A)]


def test_what_may_have_been_done_is_tried_again_as_a_later_attempt() -> None:
    road = Road(A, B, leader=B)
    road.asked(ForwardWrite(PUT, "w"))
    road.told(ServerUnreached(1, is_sent=True, sentence="the line broke"))
    assert road.at(50) == [writes(2, A, attempt=1)]
    road.told(ServerRefused(2, KeyCause.UNKNOWN, "not committed in time"))
    assert road.at(1_100) == [at_leader(writes(3, B, attempt=2))]
    answer = StoreAnswer(StoreOutcome.DONE, 9, 9, 1)
    assert road.told(ServerAnswered(3, DONE)) == [AnswerForwarded("w", answer)]


def test_a_server_that_could_not_be_reached_is_avoided_for_a_second_while_there_are_others() -> None:
    road = Road(A, B, leader=B)
    road.asked(ForwardRead(READ, "r"))
    road.told(ServerUnreached(1, is_sent=False, sentence="nobody is there"))
    road.at(50)
    road.told(ServerAnswered(2, piece(FOUND)))
    assert road.asked(ForwardRead(READ, "s")) == [reads(3, A, READ, 1_000)]
    road.at(1_000)
    assert road.asked(ForwardRead(READ, "t")) == [reads(4, B, READ, 3_000)]


def test_a_refusal_that_names_the_leader_is_followed() -> None:
    road = Road(A, B, C)
    assert road.asked(ForwardWrite(PUT, "w")) == [writes(1, B)]
    assert road.told(ServerRefused(1, KeyCause.NO_LEADER, "another leads", leader=C)) == []
    assert road.at(50) == [at_leader(writes(2, C))]


def test_while_nobody_leads_a_write_is_held_for_seven_seconds_and_the_last_reason_is_said() -> None:
    road = Road(A, B, C)
    road.asked(ForwardWrite(PUT, "w"))
    ticket = 1
    answers: list[ForwardEffect] = []
    while not answers:
        road.told(ServerRefused(ticket, KeyCause.NO_LEADER, "an election is on"))
        assert road.core.waits_for == "an election is on"
        due_ns = road.core.deadline()
        assert due_ns is not None
        for effect in road.at(due_ns // 1_000_000):
            if isinstance(effect, AskServer):
                ticket = effect.ticket
            else:
                answers.append(effect)
    sentence = "it was held for 7 s, and at last: an election is on"
    refusal = answers[0]
    assert isinstance(refusal, AnswerForwarded)
    assert isinstance(refusal.outcome, KeyRefusal)
    assert (refusal.outcome.cause, refusal.outcome.sentence) == (KeyCause.NO_LEADER, sentence)
    assert (road.ms, ticket) == (7_000, 140)


def test_what_may_have_been_done_is_unknown_when_its_time_is_up() -> None:
    road = Road(A)
    road.asked(ForwardWrite(PUT, "w"))
    road.told(ServerUnreached(1, is_sent=True, sentence="the line broke"))
    road.at(6_990)
    [answer] = road.told(ServerRefused(2, KeyCause.NO_LEADER, "no leader")) + road.at(7_000)
    assert refused(answer) == (
        KeyCause.UNKNOWN,
        "it may have been done: it was held for 7 s, and at last: no leader; read the key to find out",
    )


def test_an_agent_that_knows_no_server_says_so_after_holding() -> None:
    road = Road()
    assert road.asked(ForwardRead(STALE, "r")) == []
    assert [refused(each) for each in through(road, 7_000)] == [
        (KeyCause.NO_SERVERS, "this agent knows no server")
    ]


def test_who_waits_for_a_server_is_sent_on_when_there_is_one() -> None:
    road = Road()
    road.asked(ForwardRead(STALE, "r"))
    address = Address("10.0.0.97", 8300)
    content = saved_servers.encode({A: address})
    assert road.knows(A, SERVER) == [Save((WriteFile("servers", content),), is_synced=False)]
    assert road.at(50) == [reads(1, A, STALE, 1_000)]


def test_the_servers_of_the_last_run_are_asked_until_gossip_knows_some() -> None:
    saved = saved_servers.encode({C: Address("10.0.0.3", 8300)})
    road = Road(saved=saved)
    assert road.asked(ForwardWrite(PUT, "w")) == [writes(1, C)]
    road.told(ServerAnswered(1, DONE))
    road.knows(A, LEADER)
    assert road.asked(ForwardWrite(PUT, "x")) == [at_leader(writes(2, A, sequence=2, seen=9))]
    assert road.core.address_of(C) is None


def test_errors_that_another_server_would_give_as_well_are_answered_as_they_came() -> None:
    road = Road(A)
    for number, cause in enumerate((KeyCause.TOO_LARGE, KeyCause.NO_ROOM, KeyCause.FAILED), 1):
        road.asked(ForwardWrite(PUT, number))
        [answer] = road.told(ServerRefused(number, cause, "as the server said it"))
        assert refused(answer) == (cause, "as the server said it")


def test_a_busy_server_is_not_the_last_word_until_the_time_is_up() -> None:
    road = Road(A)
    road.asked(ForwardRead(READ, "r"))
    assert road.told(ServerRefused(1, KeyCause.BUSY, "full")) == []
    road.at(6_999)
    [answer] = road.told(ServerRefused(2, KeyCause.BUSY, "full")) + road.at(7_000)
    assert refused(answer) == (KeyCause.BUSY, "full")


def test_for_a_write_it_is_unless_an_earlier_try_may_have_been_done() -> None:
    road = Road(A)
    road.asked(ForwardWrite(PUT, "w"))
    [answer] = road.told(ServerRefused(1, KeyCause.BUSY, "full"))
    assert refused(answer) == (KeyCause.BUSY, "full")
    road.asked(ForwardWrite(PUT, "v"))
    road.told(ServerUnreached(2, is_sent=True, sentence="the line broke"))
    road.at(100)
    assert road.told(ServerRefused(3, KeyCause.BUSY, "full")) == []


def test_a_write_that_nobody_remembers_is_begun_anew_and_knows_the_revision_of_now() -> None:
    road = Road(A)
    road.asked(ForwardWrite(PUT, "w"))
    forgotten = kv.encode(StoreAnswer(StoreOutcome.NOT_DONE, 40, 30))
    assert road.told(ServerAnswered(1, forgotten)) == [writes(2, A, sequence=2, seen=40)]


def test_a_write_that_a_later_run_of_the_agent_has_overtaken_is_begun_anew_under_its_generation() -> None:
    """Of a try that was not the first the store says that it is unknown."""
    road = Road(A)
    road.asked(ForwardWrite(PUT, "x"))
    overtaken = kv.encode(StoreAnswer(StoreOutcome.OLD_GENERATION, 8, 30))
    body = forwarded.encode(ForwardedWrite(PUT, DedupKey("me", 9, 1, 1), WALL_MS, 0))
    assert road.told(ServerAnswered(1, overtaken)) == [AskServer(2, A, "key.write", body, 1_000_000_000)]


def test_what_any_server_can_tell_is_asked_of_the_leader_and_of_another_while_there_is_none() -> None:
    road = Road(A, B, C, leader=B)
    for question in (KeyHistoryRead(b"k"), ConsensusRead()):
        [asked] = road.asked(ForwardRead(question, object()))
        assert isinstance(asked, AskServer)
        assert asked == AskServer(asked.ticket, B, "store.read", forwarded.encode(question), 3_000_000_000)
        [] = road.told(ServerUnreached(asked.ticket, is_sent=True, sentence="the line broke"))
        [elsewhere] = road.at(road.ms + 50)
        assert isinstance(elsewhere, AskServer)
        assert elsewhere.node_id != B
        [] = road.told(ServerRefused(elsewhere.ticket, KeyCause.NO_LEADER, "none"))
        road = Road(A, B, C, leader=B)


def test_stale_and_blocked_reads_are_spread_over_all_servers_and_one_key_stays_where_it_is() -> None:
    road = Road(A, B, C, leader=B)
    for mode, since in ((ReadMode.STALE, 0), (ReadMode.DEFAULT, 7)):
        asked = [
            effect.node_id
            for number in range(300)
            for effect in road.asked(
                ForwardRead(KeyRead(ReadShape.KEY, b"%d" % (number % 30), b"", mode, since), object())
            )
            if isinstance(effect, AskServer)
        ]
        assert min(asked.count(each) for each in (A, B, C)) >= len(asked) // 5


def test_equal_blocked_reads_are_asked_once_and_all_are_answered() -> None:
    road = Road(A)
    assert road.asked(ForwardRead(BLOCKED, "r")) == [reads(1, A, BLOCKED, 3_600_000)]
    assert road.asked(ForwardRead(BLOCKED, "s")) == []
    assert road.told(ServerAnswered(1, piece(FOUND))) == [
        AnswerForwarded("r", FOUND),
        AnswerForwarded("s", FOUND),
    ]
    assert road.asked(ForwardRead(BLOCKED, "t")) == [reads(2, A, BLOCKED, 3_600_000)]


def test_a_blocked_read_is_cancelled_when_the_last_who_waits_hangs_up() -> None:
    road = Road(A)
    road.asked(ForwardRead(BLOCKED, "r"))
    road.asked(ForwardRead(BLOCKED, "s"))
    assert road.asked(GiveUpForwarded("r")) == []
    assert road.asked(GiveUpForwarded("s")) == [CancelAsk(1)]
    assert road.told(ServerAnswered(1, piece(FOUND))) == []
    assert len(road.core) == 0


def test_a_blocked_read_moves_to_another_server_when_its_connection_falls_however_long_it_waited() -> None:
    road = Road(A, B)
    [asked] = road.asked(ForwardRead(BLOCKED, "r"))
    assert isinstance(asked, AskServer)
    other = B if asked.node_id == A else A
    road.at(60_000)
    assert road.told(ServerUnreached(1, is_sent=True, sentence="the line broke")) == []
    assert road.at(60_050) == [reads(2, other, BLOCKED, 3_600_000)]


def test_a_blocked_read_that_finds_no_server_to_wait_at_is_held_and_then_refused() -> None:
    road = Road(A)
    road.asked(ForwardRead(BLOCKED, "r"))
    road.at(60_000)
    road.told(ServerUnreached(1, is_sent=True, sentence="the line broke"))
    ticket, answers = 2, []
    for ms in range(60_050, 70_000, 50):
        effects = road.at(ms)
        if any(isinstance(effect, AskServer) for effect in effects):
            effects = road.told(ServerUnreached(ticket, is_sent=False, sentence="nobody is there"))
            ticket += 1
        answers += [(ms, *refused(each)) for each in effects]
    sentence = "it was held for 7 s, and at last: nobody is there"
    assert answers == [(67_000, KeyCause.NO_LEADER, sentence)]


def test_a_server_that_gossip_loses_is_given_up_at_once() -> None:
    road = Road(A, B)
    [asked] = road.asked(ForwardRead(BLOCKED, "r"))
    assert isinstance(asked, AskServer)
    lost, other = (A, B) if asked.node_id == A else (B, A)
    effects = road.knows(lost, SERVER, DEAD)
    assert CancelAsk(1) in effects
    assert road.at(50) == [reads(2, other, BLOCKED, 3_600_000)]


def test_what_an_old_leader_has_not_answered_goes_to_the_new_one_as_a_later_attempt() -> None:
    road = Road(A, B, leader=A)
    road.asked(ForwardWrite(PUT, "w"))
    assert road.knows(B, replace(LEADER, leads_in_term=4))[-1:] == [CancelAsk(1)]
    assert road.at(50) == [at_leader(writes(2, B, attempt=1))]
    assert road.told(ServerAnswered(1, DONE)) == []


def test_a_large_answer_comes_in_pieces_from_one_server() -> None:
    road = Road(A, B, leader=B)
    tree = KeyRead(ReadShape.TREE, b"")
    road.asked(ForwardRead(tree, "r"))
    first = KeysFound(9, [b"a"], [RECORD])
    [more] = road.told(ServerAnswered(1, piece(first, more=17)))
    assert more == AskServer(2, B, "key.more", b"\x11", 3_000_000_000)
    [answer] = road.told(ServerAnswered(2, piece(KeysFound(9, [b"b"], [RECORD]))))
    assert answer == AnswerForwarded("r", KeysFound(9, [b"a", b"b"], [RECORD, RECORD]))


def test_an_answer_of_which_a_piece_is_missing_is_asked_for_anew() -> None:
    road = Road(A, B, leader=B)
    tree = KeyRead(ReadShape.TREE, b"")
    road.asked(ForwardRead(tree, "r"))
    road.told(ServerAnswered(1, piece(KeysFound(9, [b"a"], [RECORD]), more=17)))
    assert road.told(ServerRefused(2, KeyCause.FAILED, "it is not kept any more")) == []
    assert road.at(50) == [reads(3, A, tree, 1_000)]
    whole = KeysFound(11, [b"c"], [RECORD])
    assert road.told(ServerAnswered(3, piece(whole))) == [AnswerForwarded("r", whole)]


def test_while_nobody_leads_few_of_many_try_and_all_go_when_one_finds_a_leader() -> None:
    road = Road(A)
    for number in range(100):
        road.asked(ForwardWrite(PUT, number))
    for ticket in range(1, 101):
        road.told(ServerRefused(ticket, KeyCause.NO_LEADER, "no leader"))
    tried = [effect.ticket for effect in road.at(50) if isinstance(effect, AskServer)]
    assert len(tried) == 16
    for ticket in tried[1:]:
        road.told(ServerRefused(ticket, KeyCause.NO_LEADER, "no leader"))
    released = road.told(ServerAnswered(tried[0], DONE))
    assert len([effect for effect in released if isinstance(effect, AskServer)]) == 84


def test_reads_that_need_no_leader_do_not_wait_for_one() -> None:
    road = Road(A)
    for number in range(40):
        road.asked(ForwardWrite(PUT, number))
        road.told(ServerRefused(number + 1, KeyCause.NO_LEADER, "no leader"))
    road.at(50)
    assert len(road.asked(ForwardRead(STALE, "r"))) == 1


def test_past_so_many_requests_the_next_is_told_that_it_is_busy_here() -> None:
    road = Road(A)
    for number in range(REQUESTS_MAX):
        road.asked(ForwardRead(BLOCKED, number))
    [answer] = road.asked(ForwardRead(BLOCKED, "r"))
    assert refused(answer)[0] is KeyCause.BUSY
    assert road.core.counters.refused == 1


def test_an_answer_that_makes_no_sense_may_stand_for_one_that_was_done() -> None:
    road = Road(A, B, leader=A)
    road.asked(ForwardWrite(PUT, "w"))
    assert road.told(ServerAnswered(1, b"\xc1")) == []
    assert road.at(50) == [writes(2, B, attempt=1)]


def refused(effect: ForwardEffect) -> tuple[KeyCause, str]:
    assert isinstance(effect, AnswerForwarded)
    assert isinstance(effect.outcome, KeyRefusal)
    return effect.outcome.cause, effect.outcome.sentence


def through(road: Road, ms: int) -> list[ForwardEffect]:
    """Until then, whenever something is due."""
    effects = []
    while (due_ns := road.core.deadline()) is not None and due_ns <= ms * 1_000_000:
        effects += road.at(due_ns // 1_000_000)
    return effects

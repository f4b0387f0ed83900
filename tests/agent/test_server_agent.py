"""What a server does with consensus behind its four verbs, with literal effects."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from adsum.address import Address
from adsum.agent.client_agent import client_agent
from adsum.agent.commands import RegisterService
from adsum.agent.local_catalog import LocalCatalog
from adsum.agent.presence import uuid_bytes
from adsum.agent.server_agent import (
    AnswerServer,
    ConsensusPart,
    ConsistentRead,
    LeaderAsked,
    Proposal,
    ServerAgent,
    ServerEffect,
    ServerMessage,
)
from adsum.catalog.saved import Saved
from adsum.consensus.effects import AnswerRequests, AskLeader, HandedOver, SendMessage, StoreGroup
from adsum.consensus.errors import OutcomeUnknown, Unavailable
from adsum.consensus.reports import GroupStored, LeaderAnswered
from adsum.dedup import DedupKey
from adsum.effects import AnyCommand, Persist, Persisted, Refusal, RefusalCause, Reply, WriteFile
from adsum.gossip.claims import Profile
from adsum.gossip.settings import GossipSettings, MemberIdentity
from adsum.now import SECOND, Now
from adsum.raft.messages import Heartbeat, HeartbeatReply
from adsum.raft.types import Term
from adsum.testing.samples import SETTINGS, WEB
from tests.consensus.support import STAMP, A, B, Bench, C, leading

Kind = TypeVar("Kind")
KEY = DedupKey("client", 1, 1, 1)


class Stage:
    """A server on a bench: time stands still, and the disk does what the test says."""

    def __init__(self, bench: Bench) -> None:
        self.now = bench.now
        local = LocalCatalog(self.now, SETTINGS, Random(1))
        local.restore(self.now, Saved())
        me = Profile(uuid_bytes(SETTINGS.node.node_id), "n1", Address("127.0.0.1", 8301))
        agent = client_agent(self.now, local, MemberIdentity(me, 1), GossipSettings(), Random(1))
        self.server = ServerAgent(agent, ConsensusPart(bench.core))
        self.effects: list[ServerEffect] = [*self.server.start(self.now)]

    def command(self, request: int, command: AnyCommand) -> None:
        self.effects += self.server.command(self.now, request, command)

    def receive(self, message: ServerMessage) -> None:
        self.effects += self.server.receive(self.now, message)

    def tick(self) -> None:
        self.effects += self.server.tick(self.now)

    def store(self) -> None:
        for group in self.taken(StoreGroup):
            self.receive(GroupStored(group.ticket, needs_segment=False))

    def settle(self) -> None:
        for _turn in range(5):
            self.tick()
            self.store()

    def pass_s(self, duration_s: float) -> None:
        end_ns = self.now.monotonic_ns + int(duration_s * SECOND)
        while (due_ns := self.server.deadline()) is not None and due_ns <= end_ns:
            self.now = Now(max(due_ns, self.now.monotonic_ns), 0)
            self.tick()
        self.now = Now(end_ns, 0)

    def taken(self, kind: type[Kind]) -> Sequence[Kind]:
        found = [effect for effect in self.effects if isinstance(effect, kind)]
        self.effects = [effect for effect in self.effects if not isinstance(effect, kind)]
        return found


def following() -> Stage:
    """One of three, which has heard from its leader B."""
    stage = Stage(Bench((A, B, C)))
    stage.receive(Heartbeat(STAMP, B, A, Term(1), commit=1, round=1))
    stage.settle()
    stage.effects.clear()
    return stage


def test_a_proposal_is_replied_to_with_what_the_state_machine_said() -> None:
    stage = Stage(leading())
    stage.command(7, Proposal(b"a"))
    stage.tick()
    assert stage.taken(Reply) == []
    stage.store()
    stage.settle()
    assert stage.taken(Reply) == [Reply(7, None, b"heard a")]
    assert stage.taken(AnswerRequests) == []


def test_a_read_is_replied_to_with_the_index_that_was_confirmed() -> None:
    stage = Stage(leading())
    stage.command(8, ConsistentRead())
    stage.settle()
    assert stage.taken(Reply) == [Reply(8, None, 2)]


def test_after_a_proposal_the_next_tick_is_due_now() -> None:
    stage = Stage(leading())
    stage.settle()
    assert stage.server.deadline() != stage.now.monotonic_ns
    stage.command(7, Proposal(b"a"))
    assert stage.server.deadline() == stage.now.monotonic_ns


def test_a_message_of_another_server_is_answered_by_one() -> None:
    stage = Stage(Bench((A, B, C)))
    stage.receive(Heartbeat(STAMP, B, A, Term(1), commit=1, round=3))
    stage.settle()
    assert stage.taken(SendMessage) == [
        SendMessage(HeartbeatReply(STAMP, A, B, Term(1), round=3, apply_level_max=2))
    ]


def test_a_follower_asks_the_leader_and_replies_with_its_answer() -> None:
    stage = following()
    stage.command(7, Proposal(b"a", KEY))
    assert stage.taken(AskLeader) == [AskLeader(1, "b", b"a", KEY, 7 * SECOND)]
    stage.receive(LeaderAnswered(1, b"heard a"))
    assert stage.taken(Reply) == [Reply(7, None, b"heard a")]


def test_what_nobody_can_tell_is_a_refusal_that_says_so() -> None:
    stage = following()
    stage.command(7, Proposal(b"a"))
    stage.receive(LeaderAnswered(1, OutcomeUnknown("the line broke")))
    assert stage.taken(Reply) == [Reply(7, Refusal(RefusalCause.UNCERTAIN, "the line broke"))]


def test_without_a_leader_a_proposal_is_held_and_then_refused() -> None:
    stage = Stage(Bench((A, B, C)))
    stage.command(7, Proposal(b"a"))
    stage.pass_s(6.9)
    assert stage.taken(Reply) == []
    stage.pass_s(0.2)
    (reply,) = stage.taken(Reply)
    assert reply == Reply(
        7, Refusal(RefusalCause.FAILED, "it was held for 7 s, and at last: no leader is known")
    )


def test_when_its_end_has_begun_nothing_new_is_stored_and_leadership_is_given_away() -> None:
    stage = Stage(leading())
    stage.effects += stage.server.stop(stage.now)
    stage.command(7, Proposal(b"a"))
    stage.settle()
    assert stage.taken(HandedOver) == [HandedOver()]  # to nobody, for there is no other voter
    stage.pass_s(7.1)
    sentence = "it was held for 7 s, and at last: this server is stopping"
    assert stage.taken(Reply) == [Reply(7, Refusal(RefusalCause.FAILED, sentence))]


def test_a_question_to_the_leader_is_answered_to_the_server_that_asked() -> None:
    stage = Stage(leading())
    stage.receive(LeaderAsked(40, b"a", KEY))
    stage.receive(LeaderAsked(41, None))
    stage.settle()
    assert stage.taken(AnswerServer) == [AnswerServer(41, 2), AnswerServer(40, b"heard a")]


def test_a_question_to_who_does_not_lead_may_be_asked_again_elsewhere() -> None:
    stage = following()
    stage.receive(LeaderAsked(40, b"a"))
    (answer,) = stage.taken(AnswerServer)
    assert (answer.ticket, type(answer.outcome)) == (40, Unavailable)


def test_a_registration_goes_its_way_beside_consensus() -> None:
    stage = Stage(leading())
    stage.command(9, RegisterService(WEB))
    (persist,) = stage.taken(Persist)
    assert [type(change) for change in persist.changes] == [WriteFile, WriteFile]
    stage.receive(Persisted(persist.ticket))
    assert stage.taken(Reply) == [Reply(9, None)]
    assert len(stage.server.agent.view.instances("web")) == 1

"""A server that leads, with one voter and one learner, as a scraper finds it: the shipped core on a log in
memory, with nothing around it. What the disk and the other server do, the test does."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from adsum.consensus.carrying import CarryCounters
from adsum.consensus.core import ConsensusCore
from adsum.consensus.effects import AskLeader, ConsensusEffect, Turned
from adsum.consensus.settings import ServerSettings
from adsum.net.introduction import Peer
from adsum.net.places import PlaceCounters
from adsum.now import MILLISECOND, Now
from adsum.observe.server_source import ServerSource
from adsum.raft.batch import LogChange
from adsum.raft.core import RaftCore
from adsum.raft.messages import HeartbeatReply, Message, MessageStamp, SnapshotOffer
from adsum.raft.types import Configuration, MemberId, Restored, SnapshotRef, bootstrap
from adsum.servers.agent_calls import AgentCalls
from adsum.servers.agent_questions import AgentQuestions
from adsum.servers.driver import Driver, NobodyFollows
from adsum.servers.links import LinkCounters
from adsum.sessions.keeper import SessionKeeper
from adsum.sessions.kept import KeptSessions
from adsum.storage import log_jobs
from adsum.storage.log_jobs import DiskJob
from adsum.storage.memory_folder import MemoryFolder
from adsum.storage.opening import open_log
from tests.api.memory_keys import InstantConsensus
from tests.sessions.support import Clock, SeenHosts

LEARNER = MemberId("n2", "log")
STAMP = MessageStamp("here", 0)
SEGMENT_BYTES = 256 << 10
TURNS = 10


class Nobody:
    """What it sends is lost, and it knows no agent."""

    def is_agent(self, _caller: Peer) -> bool:
        return False

    def send(self, _message: Message) -> None:
        pass

    async def ask_leader(self, _asked: AskLeader) -> bytes | int | Exception:
        raise AssertionError("it leads")

    def carry(self, _offer: SnapshotOffer, _ref: SnapshotRef) -> None:
        pass


class LeadingServer:
    def __init__(self) -> None:
        self.now = Now(0, 0)
        self.keys = InstantConsensus()
        self.agents = AgentCalls(AgentQuestions(self.keys, self.keys.keys, lambda: 0.0), Nobody())
        self.agent_places = PlaceCounters()
        kept = KeptSessions(self.keys.machine)
        self.sessions = SessionKeeper("n1", kept, SeenHosts(), Clock(), lambda: ["n1"], str.upper)
        opened = open_log(
            MemoryFolder(),
            node="n1",
            mint_log_id=lambda: "log",
            mint_salt=lambda: bytes(16),
            segment_bytes=SEGMENT_BYTES,
        )
        self.log, me = opened.log, opened.log.identity.member
        first = bootstrap(Configuration((me,), learners=(LEARNER,)))
        self.log.append([LogChange(install=self.log.snapshots.make(first).finish())])
        settings = ServerSettings()
        raft = RaftCore(
            me=me,
            stamp=STAMP,
            settings=settings.raft,
            restored=Restored(snapshot=first),
            random=Random(1),
            now=self.now,
        )
        self.core = ConsensusCore(raft, self.keys.machine, settings, newest=self.log.snapshot, now=self.now)
        self.driver = Driver(self.core, self.log, Nobody(), lambda: self.now, NobodyFollows())
        self.go_on()
        assert self.core.is_leader

    @property
    def source(self) -> ServerSource:
        return ServerSource(
            driver=lambda: self.driver,
            log=self.log,
            machine=self.keys.machine,
            keys=self.keys.keys,
            sessions=self.sessions,
            links=LinkCounters(),
            carrying=CarryCounters(),
            agents=self.agents,
            agent_places=self.agent_places,
            name_of=lambda node: f"name of {node}",
        )

    def go_on(self) -> None:
        """Until everything is done that needs no time."""
        for _ in range(TURNS):
            self._do(self.core.tick(self.now))

    def pass_ms(self, duration_ms: int) -> None:
        now_ns = self.now.monotonic_ns + duration_ms * MILLISECOND
        self.now = Now(now_ns, now_ns // MILLISECOND)

    def hear(self) -> None:
        """The learner answers a heartbeat."""
        me, term = self.core.raft.replica.me, self.core.raft.replica.term
        self.driver.step(HeartbeatReply(STAMP, LEARNER, me, term, 0, 1))

    def _do(self, wanted: Sequence[ConsensusEffect]) -> None:
        for effect in wanted:
            if isinstance(effect, DiskJob):
                report = log_jobs.done(effect, self.log, self.keys.machine.read)
                self._do(self.core.report(self.now, report))
            elif isinstance(effect, Turned):
                self.driver._tell_turn(effect)


def not_of_a_cluster_yet() -> ServerSource:
    server = LeadingServer()
    return ServerSource(
        driver=lambda: None,
        log=server.log,
        machine=server.keys.machine,
        keys=server.keys.keys,
        sessions=server.sessions,
        links=LinkCounters(),
        carrying=CarryCounters(),
        agents=server.agents,
        agent_places=server.agent_places,
        name_of=str,
    )

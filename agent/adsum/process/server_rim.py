"""What a server has beside what every agent has: consensus on the servers' port, and the store on it.

It is loaded on servers only. Gossip says which servers there are and where; that this one leads, or follows
whom, is told to the core, which tells everybody.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from uuid import UUID

import trio

from adsum import forwarded
from adsum.agent import tags
from adsum.agent.known_servers import LeadershipSeen
from adsum.agent.store_publishing import StorePublishing, outdoing, standing_of
from adsum.config.config import Config
from adsum.consensus.effects import StateDoubted, Turned
from adsum.consensus.errors import StoreBroken, Unavailable
from adsum.consensus.settings import ServerSettings
from adsum.dedup import WriteNumbers
from adsum.net.gate import Security
from adsum.net.introduction import Peer
from adsum.net.streams import AgentLines, StreamLimits
from adsum.now import SECOND
from adsum.observe.server_source import ServerSource
from adsum.process.file_limit import ServerShares
from adsum.process.leadership_log import LeadershipLog
from adsum.process.node import AgentRim
from adsum.process.old_log import RAFT_FOLDER
from adsum.process.seen_hosts import SeenHosts, tell_of_hosts
from adsum.process.sockets import CannotStart
from adsum.raft.errors import RaftRefused
from adsum.raft.settings import RaftSettings
from adsum.raft.types import NO_TERM, Configuration, Role, Turn, TurnCause
from adsum.servers.agent_calls import AgentCalls
from adsum.servers.agent_questions import AgentQuestions
from adsum.servers.collector import KeptFromCollector
from adsum.servers.directory import KnownServer
from adsum.servers.keys import ServerKeys
from adsum.servers.renewals import ServerRenewals
from adsum.servers.server import ConsensusServer, loop_now, open_server
from adsum.servers.session_rim import VERDICT, SessionRim
from adsum.sessions.settings import KeeperSettings
from adsum.storage.failures import StorageFailed
from adsum.storage.files import DiskFull, OsFolder
from adsum.storage.log_jobs import StateUnreadable
from adsum.storage.memory_folder import MemoryFolder
from adsum.storage.opening import SEGMENT_BYTES, ForeignLog
from adsum.storage.quorum_recovery import QuorumRecoveryRefused
from adsum.store.commands import CONSUL, StoreRequest, encode_request
from adsum.store.machine import SESSIONS_LEVEL, StoreMachine

SEGMENT_IN_MEMORY_BYTES = 2 << 20  # there are three, counting the ballast

OUTDO_EVERY_S = 5.0  # two clusters of servers among the same agents would never be done with it
OUTDONE = (
    "an agent has nodes without an agent of generation %d, version %d, and these servers are at %d, %d: its "
    "copy is of another cluster, or of one that was recovered; all of them are told anew"
)

log = logging.getLogger("raft")


class ServerRim:
    """It `FollowsServer`, and is its `Directory`."""

    def __init__(
        self, node: AgentRim, config: Config, security: Security, random: Random, shares: ServerShares
    ) -> None:
        """Reads and repairs the log, so it is made in a thread."""
        self._node = node
        self._config = config
        self._kept = KeptFromCollector()
        self._shares = shares
        self._membership = node.core.cluster.membership
        self._turned = Turned(Role.FOLLOWER, None, NO_TERM, Turn(TurnCause.STARTED))
        self._configuration = Configuration()  # as it was told last
        self._machine = machine = StoreMachine()
        self._publishing = StorePublishing()
        try:
            path = Path(config.data_dir) / RAFT_FOLDER
            self._folder = OsFolder(path) if config.data_dir else MemoryFolder()
        except StorageFailed as problem:
            raise CannotStart(f"the log of this server cannot be used: {problem}") from None
        try:
            self.server = open_server(
                self._folder,
                node=str(UUID(bytes=self._membership.me.node_id)),
                machine=machine,
                directory=self,
                security=security,
                settings=server_settings(config),
                random=random,
                segment_bytes=SEGMENT_BYTES if config.data_dir else SEGMENT_IN_MEMORY_BYTES,
                follower=self,
                agents=partial(self._agents, machine),
                streams=stream_limits(shares),
                links_max=shares.links,
            )
        except (ForeignLog, QuorumRecoveryRefused, StateUnreadable, StorageFailed) as problem:
            raise CannotStart(f"the log of this server cannot be used: {problem}") from None
        except DiskFull:
            self._folder.close()
            raise
        self._log = LeadershipLog(lambda member: self._name_of(member.node))

        self.source = ServerSource(
            driver=lambda: self.server.driver,
            log=self.server.log,
            machine=machine,
            keys=self.keys,
            sessions=self.sessions.keeping.keeper,
            agents=self.agent_calls,
            agent_places=self.server.streams.counters.agents,
            links=self.server.links.counters,
            carrying=self.server.carry_counters,
            name_of=self._name_of,
        )

    async def run(self, listener: trio.SocketListener) -> None:
        """Until cancelled; raises `StorageFailed` when the disk fails."""
        try:
            await self.server.run(listener)
        except StoreBroken as broken:
            raise StorageFailed(str(broken)) from broken
        finally:
            self._folder.close()

    async def keep_sessions(self) -> None:
        """Until cancelled."""
        tell_of_hosts(self._node.performers, self._sees, self.sessions.keeping)
        await self.sessions.run()

    async def keep_store_newest(self) -> None:
        """Until cancelled: nobody else shall have later nodes without an agent than the servers have."""
        while True:
            await trio.sleep(OUTDO_EVERY_S)
            self._outdo_others()

    async def found_after(self, join_was_tried: trio.Event) -> None:
        """No cluster of its own before it has looked for one."""
        await join_was_tried.wait()
        self.server.join_was_tried()

    # For the server.

    def servers(self) -> Sequence[KnownServer]:
        config, me = self._config, self.server.me.node
        address = self._membership.me.address._replace(port=config.ports.server)
        own = KnownServer(me, address, config.datacenter, expected(config))
        others = [
            KnownServer(str(UUID(bytes=each.node_id)), each.address, each.datacenter, each.expect)
            for each in self._node.core.cluster.servers.present
        ]
        return [own, *others]

    def left(self) -> Collection[str]:
        """Of the members of consensus, whom gossip says to have left."""
        found = set()
        for member in self._membership.members():
            if member.standing.departure and tags.decode(member.profile.meta).is_server:
                found.add(str(UUID(bytes=member.profile.node_id)))
        return found

    def name_of(self, node: str) -> str:
        return self._name_of(node)

    def applied(self) -> None:
        self.keys.applied()
        table = self._machine.keyspaces[CONSUL].table
        self._kept.changed(self._machine.applied, len(table), table.blocks_made)
        self.sessions.keeping.applied()
        assert self.server.driver is not None, "it has applied something"
        machine = self._machine
        is_leader = self.server.driver.is_leader
        news = self._publishing.news(machine.external, machine.offset, is_leader=is_leader)
        if news is not None:
            self._node.receive(news)
        if self.server.driver.core.raft.replica.configuration is not self._configuration:
            self._tell()

    def turned(self, turned: Turned) -> None:
        self.keys.turned(turned)
        self._log.log(turned)
        self._turned = turned
        self._tell()
        self.sessions.keeping.turned(turned)

    def doubted(self, doubted: StateDoubted) -> None:
        self.keys.doubted(doubted)

    def _name_of(self, node: str) -> str:
        """Its node id where gossip does not know it."""
        node_id = UUID(node).bytes
        if node_id == self._membership.me.node_id:
            return self._membership.me.name
        known = self._membership.member_by_id(node_id)
        return known.profile.name if known is not None else node

    def _outdo_others(self) -> None:
        driver, machine = self.server.driver, self._machine
        if driver is None or not machine.knows_sessions or not self.sessions.keeping.keeper.is_proven:
            return
        told = self._node.core.cluster.sharing.replication.store_told
        renewal = outdoing(machine.external, machine.offset, told)
        if renewal is None:
            return
        log.warning(OUTDONE, *told, *standing_of(machine.external, machine.offset))
        data = encode_request(StoreRequest(renewal, self._node.now().wall_ms))
        with suppress(RaftRefused, Unavailable):
            self.sessions.propose(data, lambda _outcome: None, driver.core.raft.replica.term)

    def _tell(self) -> None:
        """The core, and so everybody."""
        turned, driver = self._turned, self.server.driver
        assert driver is not None, "it has turned"
        self._configuration = driver.core.raft.replica.configuration
        voters = tuple(sorted(UUID(member.node).bytes for member in self._configuration.voters))
        leader = UUID(turned.leader.node).bytes if turned.leader is not None else None
        leads_in = None
        if turned.role is Role.LEADER:
            leads_in = self.server.log.identity.epoch, turned.term
        cause = turned.turn.cause.value
        self._node.receive(LeadershipSeen(leader, leads_in, voters, turned.term, cause))

    # For agents that are no servers.

    def is_agent(self, caller: Peer) -> bool:
        member = self._membership.member_by_id(caller.identity.node_id)
        return (
            member is not None
            and member.standing.is_present
            and member.profile.address.host == caller.address.host
        )

    def _agents(self, machine: StoreMachine, server: ConsensusServer) -> AgentLines:
        node = self._node
        numbers = WriteNumbers(server.me.node, self._membership.own_standing.generation)
        hold_s = server.settings.rpc_hold_timeout_s
        sees = SeenHosts(node.core.cluster, node.core.view, loop_now)
        self.sessions = SessionRim(
            server.me.node,
            machine,
            sees,
            lambda: server.driver,
            server.links,
            self._name_of,
            loop_now,
            KeeperSettings(self._config.consensus.session_node_grace_ns),
            node.faults,
        )
        self._sees = sees
        server.also_answers(VERDICT, self.sessions.answer_verdict)
        self.renewals = ServerRenewals(server, self.sessions.keeping, server.links, hold_s)
        server.also_answers(forwarded.RENEW, self.renewals.answer)
        self.keys = ServerKeys(
            *(server, machine, numbers, lambda: node.now().wall_ms, node.watches.wake_all),
            renewals=self.renewals,
        )
        self.agent_calls = AgentCalls(AgentQuestions(server, self.keys, trio.current_time), self)
        return self.agent_calls.lines(self._shares.agent_lines)


def expected(config: Config) -> int:
    return config.bootstrap_expect or int(config.bootstrap)


def stream_limits(shares: ServerShares) -> StreamLimits:
    """Of what other servers open here. One host has half at most."""
    usual = StreamLimits()
    return StreamLimits(
        openings_max=shares.openings,
        openings_per_host_max=min(usual.openings_per_host_max, shares.openings // 2),
        streams_max=shares.streams,
        streams_per_host_max=min(usual.streams_per_host_max, shares.streams // 2),
        callers_max=shares.streams,
    )


def server_settings(config: Config) -> ServerSettings:
    wanted = config.consensus
    return ServerSettings(
        datacenter=config.datacenter,
        expect=expected(config),
        raft_multiplier=wanted.raft_multiplier,
        stable_s=wanted.stabilization_time_ns / SECOND,
        removes_dead=wanted.removes_dead,
        voters_min=wanted.voters_min,
        rpc_hold_timeout_s=wanted.rpc_hold_timeout_ns / SECOND,
        snapshot_entries=wanted.snapshot_threshold,
        snapshot_interval_s=wanted.snapshot_interval_ns / SECOND,
        entries_kept=wanted.trailing_logs,
        raft=RaftSettings(promotion_trailing_max=wanted.trailing_logs_max, apply_level_max=SESSIONS_LEVEL),
    )

"""A server of consensus: the log, the core's driver, and the calls on the servers' port, put together.

    server = open_server(folder, node=…, machine=…, directory=…, security=…, settings=…, random=…)
    server.join_was_tried()                     # the directory is worth something; founds no cluster before
    await nursery.start(server.run, listener)
    answer = await server.propose(data)         # on any server; held while there is no leader
    index = await server.read()                 # what was acknowledged before is in the state here
    await server.stop()                         # leadership is handed over, the log is closed

`run` raises `StoreBroken` when the disk fails; the process must end then. `open_server` raises what an
operator has to mend: `ForeignLog`, `QuorumRecoveryRefused`, `StateUnreadable`, `StorageFailed`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from random import Random
from secrets import token_bytes
from uuid import UUID, uuid4

import cbor2
import trio

from adsum.consensus.bootstrap import AliveServer
from adsum.consensus.carrying import CarryCounters
from adsum.consensus.core import ConsensusCore
from adsum.consensus.errors import NoCluster, StoreBroken
from adsum.consensus.founding import FoundingCore
from adsum.consensus.machine import StateMachine
from adsum.consensus.reports import NodeUnreachable, SnapshotArrived
from adsum.consensus.settings import ServerSettings
from adsum.leading import ConsensusFigures
from adsum.net.call_server import CallServer
from adsum.net.calls import CallError
from adsum.net.gate import Gate, Security
from adsum.net.introduction import PeerIdentity
from adsum.net.streams import AgentLines, StreamLimits, StreamServer
from adsum.net.unread import UnreadBytes
from adsum.now import MILLISECOND, SECOND, Now
from adsum.raft.core import RaftCore
from adsum.raft.messages import Message, MessageStamp, SnapshotOffer
from adsum.raft.types import MemberId, SnapshotRef
from adsum.servers import carrying, requests, standing
from adsum.servers.answering import RAFT, Answering
from adsum.servers.carrying import Carrier, Receiver
from adsum.servers.directory import Directory
from adsum.servers.driver import Driver, FollowsServer, NobodyFollows
from adsum.servers.figures import figures_of
from adsum.servers.founding import Founding
from adsum.servers.last_addresses import LastAddresses
from adsum.servers.links import LINES_MAX, Links
from adsum.servers.missing import without_majority
from adsum.servers.requests import LeaderLine, Requests
from adsum.servers.taking_in import TakingIn
from adsum.servers.wire import Encoder
from adsum.servers.writer import LogWriter
from adsum.storage import log_jobs
from adsum.storage.consent import read_consent
from adsum.storage.failures import StorageFailed
from adsum.storage.files import Folder
from adsum.storage.opening import SEGMENT_BYTES, OpenedLog, open_log, vouch
from adsum.storage.quorum_recovery import recover_quorum
from adsum.storage.recovery import LogVerdict
from adsum.storage.segment import SALT_BYTES

MISSING_S = 5.0  # several election timeouts; the multiplier stretches it with them
LEAVE_S, LEAVE_RETRY_S = 3.0, 0.1
# Of what other servers sent and has not come whole, or is not answered: a frame may have 9 MiB.
UNREAD_BYTES_MAX = 128 * 1024 * 1024

log = logging.getLogger("raft")


def loop_now() -> Now:
    return Now(int(trio.current_time() * SECOND), time.time_ns() // 1_000_000)


def open_server(
    folder: Folder,
    *,
    node: str,
    machine: StateMachine,
    directory: Directory,
    security: Security,
    settings: ServerSettings,
    random: Random,
    mint_log_id: Callable[[], str] = lambda: str(uuid4()),
    mint_salt: Callable[[], bytes] = lambda: token_bytes(SALT_BYTES),
    now: Callable[[], Now] = loop_now,
    segment_bytes: int = SEGMENT_BYTES,
    follower: FollowsServer | None = None,
    agents: Callable[[ConsensusServer], AgentLines | None] = lambda _server: None,
    streams: StreamLimits | None = None,
    links_max: int = LINES_MAX,
) -> ConsensusServer:
    """Reads and repairs the log; it may take seconds, so it is no work for the loop. `agents` makes what
    answers those that are no servers. `streams` are those of other servers, and links our own to them."""
    opened = open_log(
        folder, node=node, mint_log_id=mint_log_id, mint_salt=mint_salt, segment_bytes=segment_bytes
    )
    _tell_findings(opened)
    founding = _founding_core(folder, opened, machine, settings)
    return ConsensusServer(
        *(folder, opened, founding, machine, directory, security, settings, random, now),
        *(follower or NobodyFollows(), agents, streams or StreamLimits(), links_max),
    )


class ConsensusServer:
    def __init__(
        self,
        folder: Folder,
        opened: OpenedLog,
        founding: FoundingCore,
        machine: StateMachine,
        directory: Directory,
        security: Security,
        settings: ServerSettings,
        random: Random,
        now: Callable[[], Now],
        follower: FollowsServer,
        agents: Callable[[ConsensusServer], AgentLines | None],
        streams: StreamLimits,
        links_max: int,
    ) -> None:
        self.log = opened.log
        self.machine = machine
        self.settings = settings
        self.driver: Driver | None = None  # once there is a cluster
        self.carry_counters = CarryCounters()
        self._driven_since_ns = 0
        self._folder = folder
        self._is_in_doubt = bool(opened.doubt)
        self._directory = directory
        self._random = random
        self._now = now
        self._follower = follower
        self._encoder = Encoder()
        unread = UnreadBytes(bytes_max=UNREAD_BYTES_MAX, per_host_bytes_max=UNREAD_BYTES_MAX)
        self.gate = Gate(self._identity, security, unread=unread)
        self._addresses = LastAddresses(folder, directory, self._nodes)
        self.known, self.addresses_of = self._addresses.known, self._addresses.addresses_of
        self.links = Links(
            *(self.gate, self._addresses, Random(random.getrandbits(64)), self._unreachable, self._nodes),
            links_max,
        )
        self._founding = Founding(founding, opened.log, self.links, self._alive, now)
        self.join_was_tried = self._founding.join_was_tried
        self._carrier = Carrier(
            self.links, opened.log.snapshots, self.carry_counters, self._encoder.encode, self._examine
        )
        self._receiver = Receiver(opened.log.snapshots, self.carry_counters, self)
        self._requests = Requests(self._running, settings)
        self.ask_leader = LeaderLine(self.links).ask
        self._answers = self._methods()
        self.answering = Answering(self, self._answers, self._hear)
        self._scope = trio.CancelScope()
        self._carrying: trio.Nursery | None = None
        self.submit = self._requests.submit
        self.give_up = self._requests.give_up
        self.propose = self._requests.propose
        self.read = self._requests.read
        self.change = self._requests.change
        self.streams = StreamServer(
            self.gate, calls=CallServer(self.answering), agents=agents(self), limits=streams
        )

    @property
    def me(self) -> MemberId:
        return self.log.identity.member

    @property
    def leader(self) -> MemberId | None:
        return None if self.driver is None else self.driver.leader

    @property
    def read_turn(self) -> int | None:
        """Reads that come while it stands are asked about together; None while there is no cluster."""
        return None if self.driver is None else self.driver.core.reads.turn

    @property
    def apply_level(self) -> int:
        """That is in force here; 0 while there is no cluster."""
        return 0 if self.driver is None else self.driver.core.level.in_force

    @property
    def level_waits_for(self) -> list[str]:
        """The servers of an earlier version, by their names, as the leader knows them."""
        if self.driver is None:
            return []
        return [self._directory.name_of(member.node) for member in self.driver.core.level.waits_for()]

    @property
    def waits_for(self) -> str:
        """Why it knows no leader; empty if it knows one."""
        if self.driver is None:
            return f"this server belongs to no cluster yet: {self._founding.core.waits_for}"
        if self.driver.leader is not None:
            return ""
        missing = self._missing(self.driver)
        return missing or f"no leader is known in term {self.driver.core.soft.term}, and an election is on"

    @property
    def figures(self) -> ConsensusFigures | None:
        return None if self.driver is None else figures_of(self.driver, self.behind_ms)

    @property
    def behind_ms(self) -> int:
        """How long ago the leader was heard; 0 on the leader itself."""
        if self.driver is None or self.driver.is_leader:
            return 0
        return int(self.driver.core.raft.ticks_since_leader * self.settings.tick_s * 1_000)

    async def run(
        self, listener: trio.SocketListener, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Until stopped, cancelled, or the disk fails."""
        writer = LogWriter()
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._carrying = nursery
                    await nursery.start(self.links.run)
                    await nursery.start(self.streams.run, listener)
                    task_status.started()
                    await self._found()
                    self.driver = self._driven()
                    self._requests.founded()
                    nursery.start_soon(self._vouch, self.driver)
                    nursery.start_soon(self._addresses.run)
                    taking_in = TakingIn(
                        self.driver, self.links, self._alive, self._directory.left, self._now
                    )
                    nursery.start_soon(taking_in.run)
                    await self.driver.run(writer)
        except BaseExceptionGroup as group:
            broken = _disk_error(group)
            if broken is None:
                raise
            raise StoreBroken(str(broken)) from group
        finally:
            if self.driver is not None:
                self.driver.close()
            else:
                writer.close()

    async def stop(self, *, leaves: bool = False) -> None:
        """Leadership first, then everything. Who leaves for good gives its vote back while it can still vote
        for that: later the others would have to do it without it."""
        if self.driver is not None:
            await self.driver.stop()
            if leaves and self.me.node in self._nodes():
                with trio.move_on_after(LEAVE_S):
                    await self._leave(self.driver)
        self._scope.cancel()

    def also_answers(self, method: str, answer: requests.Method) -> None:
        """To other servers, for what stands on this one."""
        self._answers[method] = answer

    # For `Answering`.

    def is_member(self, node: str) -> bool:
        return node in self._nodes()

    # For `Receiver`.

    def commit(self) -> int:
        return 0 if self.driver is None else self.driver.core.raft.replica.log.commit

    def arrived(self, offer: SnapshotOffer, ref: SnapshotRef) -> None:
        if self.driver is not None:
            self.driver.report(SnapshotArrived(offer, ref))

    def overtaken(self, offer: SnapshotOffer) -> None:
        if self.driver is not None:
            self.driver.step(offer)

    def broken(self, error: StorageFailed) -> None:
        if self.driver is not None:
            self.driver.fail(error)

    # For the driver.

    def send(self, message: Message) -> None:
        if not self.links.tell(message.target.node, RAFT, self._encoder.encode(message)):
            self._unreachable(message.target.node)

    def carry(self, offer: SnapshotOffer, ref: SnapshotRef) -> None:
        assert self._carrying is not None, "the driver runs within"
        self._carrying.start_soon(self._carrier.carry, offer, ref, self._carried)

    # Inside.

    async def _leave(self, driver: Driver) -> None:
        while len(driver.core.raft.replica.configuration.members()) > 1:
            leader = driver.leader
            if leader is not None and leader != self.me:
                try:
                    await self.links.ask_once(
                        leader.node, requests.LEAVE, leaving(self.me), timeout_s=LEAVE_S
                    )
                except CallError as error:
                    log.info("%s did not take our vote back: %s", leader.node, error)
                else:
                    return
            await trio.sleep(LEAVE_RETRY_S)

    async def _found(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._requests.until_founded)
            await self._founding.until_member()
            nursery.cancel_scope.cancel()

    def _nodes(self) -> list[str]:
        if self.driver is None:
            return []
        return [member.node for member in self.driver.core.raft.replica.configuration.members()]

    def _missing(self, driver: Driver) -> str:
        now = self._now()
        return without_majority(
            driver.core.raft.replica.configuration,
            self.me,
            {node: silence_ns // MILLISECOND for node, silence_ns in driver.silences_ns().items()},
            running_ms=(now.monotonic_ns - self._driven_since_ns) // MILLISECOND,
            silent_ms=int(MISSING_S * 1_000 * self.settings.raft_multiplier),
            wall_ms=now.wall_ms,
            name_of=self._directory.name_of,
        )

    def _methods(self) -> dict[str, requests.Method]:
        return {
            standing.STANDING: self._answer_standing,
            carrying.BEGIN: self._receiver.begin,
            carrying.PIECE: self._receiver.piece,
            requests.PROPOSE: self._requests.answer_propose,
            requests.READ: self._requests.answer_read,
            requests.LEAVE: self._requests.answer_leave,
        }

    async def _answer_standing(self, body: bytes) -> bytes:
        founders = standing.founders_in(body)
        return standing.encoded(await self._founding.standing_for(founders))

    def _hear(self, message: Message) -> None:
        if self.driver is not None:
            self.driver.step(message)
        else:
            self._founding.hear(message)

    def _carried(self, member: MemberId, *, is_ok: bool) -> None:
        if self.driver is not None:
            self.driver.report_snapshot(member, is_ok=is_ok)

    def _unreachable(self, node: str) -> None:
        if self.driver is not None:
            self.driver.report(NodeUnreachable(node))

    async def _examine(self, ref: SnapshotRef) -> None:
        if self.driver is not None:
            await self.driver.examine_snapshot(ref)

    def _running(self) -> Driver:
        if self.driver is None:
            raise NoCluster("this server belongs to no cluster yet")
        return self.driver

    def _identity(self) -> PeerIdentity:
        identity = self.log.identity
        return PeerIdentity(UUID(identity.node).bytes, identity.cluster, identity.epoch)

    def _alive(self) -> Sequence[AliveServer]:
        return [AliveServer(each.node, each.datacenter, each.expect) for each in self._directory.servers()]

    def _driven(self) -> Driver:
        identity = self.log.identity
        now = self._now()
        self._driven_since_ns = now.monotonic_ns
        raft = RaftCore(
            me=identity.member,
            stamp=MessageStamp(identity.cluster, identity.epoch),
            settings=self.settings.raft,
            restored=self._founding.core.restored,
            random=Random(self._random.getrandbits(64)),
            now=now,
        )
        self._founding.core.follow(lambda: raft.replica.configuration)
        core = ConsensusCore(raft, self.machine, self.settings, newest=self.log.snapshot, now=now)
        return Driver(core, self.log, self, self._now, self._follower)

    async def _vouch(self, driver: Driver) -> None:
        """A voter again, under the new log id: what was lost here can do no harm any more."""
        while self._is_in_doubt:
            if driver.core.raft.replica.configuration.is_voter(self.me):
                await trio.to_thread.run_sync(vouch, self._folder)
                self._is_in_doubt = False
                log.warning(
                    "this server is a voter again, as %s; the damage found before is history", self.me
                )
            else:
                await driver.changed()


def leaving(member: MemberId) -> bytes:
    return cbor2.dumps(list(member))


def _disk_error(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Whatever else went wrong then, went wrong because of it."""
    found: BaseException | None = group.subgroup((StoreBroken, StorageFailed))
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _tell_findings(opened: OpenedLog) -> None:
    level = logging.ERROR if opened.verdict is LogVerdict.CORRUPT else logging.WARNING
    for finding in opened.findings:
        log.log(level, "the log of consensus: %s", finding)
    if opened.doubt:
        log.error(
            "the log of this server was damaged, so it goes on under another id, %s, and votes only when the "
            "leader has made it a voter again. What was found: %s",
            opened.log.identity.log,
            "; ".join(opened.doubt),
        )


def _founding_core(
    folder: Folder, opened: OpenedLog, machine: StateMachine, settings: ServerSettings
) -> FoundingCore:
    """Of what the disk has; the state machine holds it afterwards."""
    restored = recover_quorum(folder, opened) or opened.restored
    if opened.log.snapshot is not None:
        machine.restore(log_jobs.read_state(opened.log.snapshots, opened.log.snapshot, machine.read))
    identity = opened.log.identity
    return FoundingCore(
        *(identity.member, identity.cluster, identity.epoch, restored, machine, settings),
        is_in_doubt=bool(opened.doubt),
        consent=read_consent(folder),
    )

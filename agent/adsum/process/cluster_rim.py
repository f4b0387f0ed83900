"""The cluster on the network: gossip's sockets, calls between agents, the journal, the search for others.

It carries out what the core asks of the network, and reports what comes in. It is loaded while DNS answers
already: an agent must first answer for what it knows, and whom it meets comes a moment later.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import trio

from adsum.address import Address
from adsum.agent import tags
from adsum.agent.commands import CommandRefused, MemberAnswered, MemberAsked
from adsum.agent.presence import uuid_bytes
from adsum.agent.saved_catalog import OtherFormat, SavedCopy
from adsum.agent.saved_catalog import decode as decode_copy
from adsum.agent.saved_files import COPY
from adsum.catalog.model import Node as CatalogNode
from adsum.catalog.replication.bodies import COMPARE, CONFIRM, FETCH, ITEMS
from adsum.catalog.saved import DamagedFile
from adsum.config.config import Config
from adsum.effects import AnswerMember, AskMember, LeaderChanged
from adsum.gossip.claims import SHORT, Profile
from adsum.gossip.commands import Join, Leave, Restart
from adsum.gossip.effects import (
    AnswerSync,
    ClockCompared,
    CloseSync,
    ConflictSeen,
    IsolationChanged,
    MemberChanged,
    Noted,
    OpenSync,
    Paused,
    PingStream,
    Send,
)
from adsum.journal import clash, journal
from adsum.journal.journal import Journal
from adsum.net import introduction, keyring, listening
from adsum.net.calls import CallError
from adsum.net.gate import Security
from adsum.net.gossiping import Allowed, Gossiping, GossipingLimits
from adsum.net.introduction import Peer
from adsum.net.keyring import Keyring
from adsum.net.streams import StreamLimits
from adsum.peers.key_following import KeyFollowing
from adsum.peers.peer_rpc import PeerRpc
from adsum.peers.peers import Peers
from adsum.process.file_limit import MOST, Shares
from adsum.process.joining import Joining, NotJoined
from adsum.process.membership_log import MembershipLog
from adsum.process.node import AgentRim
from adsum.process.sockets import CannotStart
from adsum.storage.disk import Disk
from adsum.storage.memory import MemoryDisk
from adsum.storage.owed import Owed
from adsum.storage.reading import read_if_readable
from adsum.version import ADSUM_VERSION, CONSUL_API_VERSION

log = logging.getLogger("agent.members")

OBJECTION_S = 1.0
NETWORK_EFFECTS = (Send, PingStream, OpenSync, AnswerSync, CloseSync)
RESTART_MS = 30_000  # how long others wait for one that said it comes back; they take no more


class ClusterRim:
    """Performs what the core asks of the network, and has what it says about members kept and logged."""

    def __init__(
        self,
        node: AgentRim,
        config: Config,
        owed: Owed,
        keyring: Keyring,
        known: Sequence[Address],
        random: Random,
        nursery: trio.Nursery,
        shares: Shares = MOST,
    ) -> None:
        """`known`: the peers of the last run."""
        self.cluster = node.core.cluster
        self._node = node
        self._config = config
        self._owed = owed
        self._keyring = keyring
        self._nursery = nursery
        self.security = Security(
            keyring, config.datacenter, config.encrypt_verify_outgoing, config.encrypt_verify_incoming
        )
        self._tickets = 0
        self._conflict_came = trio.Event()
        self._answers: dict[int, bytes] = {}  # of the questions in hand
        membership = self.cluster.membership
        self.joining = Joining(
            *(config, known, self._join, random),
            is_forgotten=lambda: membership.is_forgotten(node.now()),
            misses_others=membership.misses_others,
        )
        file = Path(config.data_dir) / journal.FILE_NAME if config.data_dir else None
        self.journal = Journal(file, membership.me, membership.name_of, node.now().wall_ms)
        self._log = MembershipLog(membership.name_of)
        self.rpc = PeerRpc(membership, random, faults=node.faults, calls_max=shares.calls)
        self.peers = Peers(
            *(node.core, self.rpc, keyring, node.watches, node.submit, node.now),
            seals_outgoing=config.encrypt_verify_outgoing,
        )
        self._key_following = KeyFollowing(keyring, membership, self.rpc, random, node.faults)
        for method in (COMPARE, CONFIRM, FETCH, ITEMS):
            self.rpc.register(method, partial(self._answer, method))
        has_gossip = config.ports.serf_lan >= 0
        self.network = (
            self._listen(introduction.PeerIdentity(membership.me.node_id), shares) if has_gossip else None
        )
        self.performers: dict[type, Callable[[Any], None]] = {
            **dict.fromkeys((MemberChanged, Noted, IsolationChanged), self._tell),
            ConflictSeen: self._tell_conflict,
            LeaderChanged: lambda effect: self.journal.record(node.now(), effect),
            Paused: self._log.log,
            ClockCompared: self._log.log,
            AskMember: lambda effect: nursery.start_soon(self._ask, effect),
            AnswerMember: self._keep_answer,
            **(dict.fromkeys(NETWORK_EFFECTS, _ignore) if self.network is None else self.network.performers),
        }

    @property
    def is_sealed(self) -> bool:
        """While a cluster moves to encryption there is a key, and nothing is sealed with it yet."""
        return bool(self._keyring) and self._config.encrypt_verify_outgoing

    async def begin(self) -> None:
        """The core is started before: what was sent to us meanwhile waits in the sockets, and is heard as
        soon as they are looked at."""
        self._nursery.start_soon(self.journal.run)
        self._nursery.start_soon(self._log.run)
        if self.network is None:
            self.joining.was_tried.set()
        else:
            await self._nursery.start(self.network.run)
            self._nursery.start_soon(self._key_following.run, self.network.gate)
            self._nursery.start_soon(self.joining.run)

    def write_anew(self) -> None:
        """What the core does not keep itself, in a data folder that has lost it."""
        if self._keyring and not self._config.disable_keyring_file:
            self._owed.do(keyring.PATH, self._keyring.save)
        self.journal.file_is_gone()

    async def announce_end(self, *, leaves: bool) -> None:
        """Tells the others; returns when they have had the time to hear it."""
        with contextlib.suppress(CommandRefused):
            await self._node.submit(Leave() if leaves else Restart(RESTART_MS))

    # Effects.

    def _tell(self, effect: MemberChanged | Noted | ConflictSeen | IsolationChanged) -> None:
        self._log.log(effect)
        self.journal.record(self._node.now(), effect)

    def _tell_conflict(self, effect: ConflictSeen) -> None:
        self._conflict_came.set()
        self._tell(effect)

    def _keep_answer(self, effect: AnswerMember) -> None:
        self._answers[effect.ticket] = effect.body

    async def _answer(self, method: str, caller: Peer, body: bytes) -> bytes:
        """The core answers at once: what it says is here when it returns."""
        self._tickets += 1
        ticket = self._tickets
        self._node.receive(MemberAsked(ticket, caller.identity.node_id[:SHORT], method, body))
        return self._answers.pop(ticket)

    async def _ask(self, effect: AskMember) -> None:
        """What the other answered is taken in here, and may be anything."""
        answer = None
        try:
            if effect.to is not None:
                with contextlib.suppress(CallError):
                    answer = await self.rpc.ask(effect.to, effect.method, effect.body)
            self._node.receive(MemberAnswered(effect.ticket, answer))
        except Exception as error:
            self._node.faults.dropped("call", error)

    # The network.

    def _listen(self, identity: introduction.PeerIdentity, shares: Shares) -> Gossiping:
        config = self._config
        host, port = config.serf_lan_address, config.ports.serf_lan
        try:
            ears = listening.bind_both(host, port)
        except OSError as problem:
            raise CannotStart(f"Can't listen for gossip on {host} port {port}: {problem.strerror}") from None
        network = Gossiping(
            *(ears, self.security, lambda: identity, self._node.receive, self.rpc.server),
            allowed=Allowed(config.serf_lan_allowed_cidrs),
            is_member=self.rpc.is_member,
            faults=self._node.faults,
            limits=gossiping_limits(shares),
        )
        self.rpc.gate = network.gate
        if not self._keyring and not ipaddress.ip_address(host).is_loopback:
            log.warning(
                "gossip is not encrypted, and every host that reaches %s port %d can take part in it: "
                "set encrypt to a key of `adsum keygen`",
                *(host, port),
            )
        return network

    async def _join(self, addresses: tuple[Address, ...]) -> str:
        """What is against us comes a moment later: whoever has our id is asked first whether it lives."""
        self._conflict_came = trio.Event()
        try:
            await self._node.submit(Join(addresses))
        except CommandRefused as refused:
            raise NotJoined(refused.refusal.sentence) from None
        with trio.move_on_after(OBJECTION_S):
            await self._conflict_came.wait()
        seen = self.cluster.conflicts.about_me(self._node.now())
        if seen is None:
            return ""
        return clash.sentence(clash.standing(seen, self.cluster.membership.name_of))


def _ignore(_effect: object) -> None:
    """An agent without gossip has no network for it."""


def gossiping_limits(shares: Shares) -> GossipingLimits:
    """Of streams half are for exchanges and pings, whoever holds lines for calls; and one host has half at
    most of everything."""
    usual = StreamLimits()
    callers = min(usual.callers_max, shares.streams // 2)
    streams = StreamLimits(
        openings_max=shares.stream_openings,
        openings_per_host_max=min(usual.openings_per_host_max, shares.stream_openings // 2),
        streams_max=shares.streams,
        streams_per_host_max=min(usual.streams_per_host_max, shares.streams // 2),
        syncs_max=min(usual.syncs_max, shares.streams // 2),
        callers_max=callers,
        callers_of_strangers_max=min(usual.callers_of_strangers_max, callers // 2),
    )
    return GossipingLimits(shares.stream_pings, shares.syncs, streams)


def own_profile(config: Config, own: CatalogNode) -> Profile:
    described = tags.Tags(
        datacenter=config.datacenter,
        build=CONSUL_API_VERSION,
        is_server=config.is_server,
        server_port=config.ports.server,
        is_bootstrap=config.bootstrap or config.is_dev,
        expect=config.bootstrap_expect,
        wan_port=max(config.ports.serf_wan, 0) if config.is_server else 0,
    )
    address = Address(own.address, max(config.ports.serf_lan, 1))
    return Profile(uuid_bytes(own.node_id), own.name, address, tags.encode(described), version=ADSUM_VERSION)


def saved_copy(disk: Disk) -> SavedCopy | None:
    content = read_if_readable(disk, COPY)
    if content is None:
        return None
    try:
        copy = decode_copy(content)
    except OtherFormat as problem:
        log.info("the saved catalog is not used: %s; the next one replaces it", problem)
        return None
    except DamagedFile as problem:
        aside = disk.set_aside(COPY)
        log.error("the saved catalog is damaged (%s); it was set aside as %s and is not used", problem, aside)
        return None
    if copy.unreadable:
        log.error("%d nodes of the saved catalog cannot be read and are left out", copy.unreadable)
    return copy


def open_keyring(config: Config, owed: Owed) -> Keyring:
    disk = MemoryDisk() if config.disable_keyring_file else owed.disk
    try:
        opened = keyring.load(disk, config.encrypt or None)
    except keyring.KeyringDamaged as problem:
        raise CannotStart(str(problem)) from None
    if not opened.is_saved:
        owed.do(keyring.PATH, opened.save)
    if keyring.is_overruled(opened, config.encrypt or None):
        log.warning("encrypt is not used: the keyring on disk has been changed since, and it decides")
    return opened

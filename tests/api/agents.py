"""An agent for endpoints to stand on: the shipped core, with effects performed at once and no disk.

`Asker` asks as the router would be asked, without a socket.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from random import Random
from typing import cast

import msgspec
import trio

from adsum.address import Address
from adsum.agent import tags
from adsum.agent.client_agent import client_agent
from adsum.agent.commands import CommandRefused, RegisterService, ReportTtl
from adsum.agent.effects import Effect
from adsum.agent.known_servers import LeadershipSeen
from adsum.agent.local_catalog import LocalCatalog
from adsum.agent.settings import AgentSettings
from adsum.api.answers import EVERYWHERE
from adsum.api.api_types import Agent
from adsum.api.endpoints import Endpoints
from adsum.api.rendering import ApiCounters
from adsum.catalog.definitions import CheckDefinition, CheckStatus, ServiceDefinition
from adsum.catalog.model import Node, Service
from adsum.catalog.saved import Saved
from adsum.config.config import Config
from adsum.config.errors import ConfigErrors
from adsum.dns.settings import DnsSettings
from adsum.effects import AnsweredWith, Notify, Reply, Value
from adsum.gossip import claims, wire
from adsum.gossip.claims import Alive, Profile, alive
from adsum.gossip.commands import Datagram, SyncFailed
from adsum.gossip.effects import (
    ConflictSeen,
    IsolationChanged,
    MemberChanged,
    Noted,
    OpenSync,
    SyncPart,
)
from adsum.gossip.settings import GossipSettings, MemberIdentity
from adsum.http.request import Headers, Request
from adsum.http.response import Response
from adsum.http.router import HttpRules, Router
from adsum.journal.journal import Journal
from adsum.logs.stream import LogCounters, LogStream
from adsum.net import keyring
from adsum.net.calls import NotSent
from adsum.now import SECOND, Now
from adsum.observe.exposition import Exposition
from adsum.peers.peer_rpc import ASK_TIMEOUT_S, PeerRpc
from adsum.peers.peers import Peers
from adsum.process.cluster_rim import own_profile
from adsum.process.translate import dns_settings
from adsum.process.watches import Watches
from adsum.storage.memory import MemoryDisk
from adsum.testing.introducing import introduce
from tests.api.memory_keys import InstantConsensus
from tests.gossip.support import place
from tests.http.http_support import request_of
from tests.observe.support import sources

NODE_ID = "6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01"
NODE = Node(
    node_id=NODE_ID,
    name="n1",
    address="127.0.0.1",
    datacenter="dc1",
    tagged_addresses={"lan": "127.0.0.1"},
    meta={"rack": "r1"},
)
CONFIG = Config(node_name="n1", is_server=True, bootstrap=True, advertise_address="127.0.0.1")


class Calls(PeerRpc):
    """To other agents, if a test makes a way to them."""

    way: Callable[[Address, str, bytes, float], Awaitable[bytes]] | None = None

    async def ask(self, to: Address, method: str, body: bytes, *, timeout_s: float = ASK_TIMEOUT_S) -> bytes:
        if self.way is None:
            raise NotSent("its host refused the connection")
        return await self.way(to, method, body, timeout_s)


class FakeAgent(Agent):
    watches: Watches
    unsaved_files = 0

    def __init__(self, config: Config = CONFIG, node: Node = NODE) -> None:
        self.has_left = False
        self.gone = trio.Event()  # others were told, and the disk has all
        self.dial_error = ""  # why nobody lets this agent join
        self.reloads: list[tuple[list[str], list[str]] | ConfigErrors] = []
        self.wall_ms = 1_800_000_000_000
        self.keyring = keyring.load(MemoryDisk(), config.encrypt or None)
        now, random, watches = self.now(), Random(0), Watches()
        local = LocalCatalog(now, AgentSettings(node=node, is_persistent=False), random)
        local.restore(now, Saved())
        identity = MemberIdentity(own_profile(config, node), generation=1)
        core = client_agent(now, local, identity, GossipSettings(), Random(0))
        self.calls = Calls(core.cluster.membership, random)
        peers = Peers(core, self.calls, self.keyring, watches, self.give, self.now, seals_outgoing=True)
        journal = Journal(None, identity.profile, core.cluster.membership.name_of, self.wall_ms)
        journal._start = None  # it has said so
        self.consensus = InstantConsensus()
        self.keys = self.consensus.keys
        super().__init__(core, self.give, peers, journal, watches, config, lambda: self.now().monotonic_ns)
        self._perform(core.start(now))
        if config.bootstrap:
            self.see_leader(core.cluster.membership.me.node_id)

    @property
    def dns_settings(self) -> DnsSettings:
        return dns_settings(self.config)

    def now(self) -> Now:
        self.wall_ms += 1
        return Now(self.wall_ms * 1_000_000, self.wall_ms)

    def see_leader(self, leader: bytes | None, voters: tuple[bytes, ...] = ()) -> None:
        """As consensus on this server tells it."""
        me = self.core.cluster.membership.me.node_id
        leads_in = (0, 1) if leader == me else None
        voters = voters or ((leader,) if leader is not None else ())
        self._perform(self.core.receive(self.now(), LeadershipSeen(leader, leads_in, voters, 1, "elected")))

    async def give(self, command: AnsweredWith[Value]) -> Value:
        return self.obey(command)

    def obey(self, command: AnsweredWith[Value]) -> Value:
        effects = self._perform(self.core.command(self.now(), 1, command))
        for opened in [effect for effect in effects if isinstance(effect, OpenSync) and self.dial_error]:
            failed = SyncFailed(opened.ticket, self.dial_error)
            effects += self._perform(self.core.receive(self.now(), failed))
        replies = [effect for effect in effects if isinstance(effect, Reply)]
        for reply in replies:
            if reply.refusal is not None:
                raise CommandRefused(reply.refusal)
        return cast("Value", replies[0].value if replies else None)

    async def reload(self) -> tuple[list[str], list[str]]:
        outcome = self.reloads.pop(0)
        if isinstance(outcome, ConfigErrors):
            raise outcome
        return outcome

    async def leave(self) -> None:
        self.has_left = True
        await self.gone.wait()

    # What tests do to the roll.

    def meet(
        self, name: str, address: str = "127.0.0.2", *, is_server: bool = False, expect: int = 0,
        leads_in_term: int = 0,
    ) -> Alive:  # fmt: skip
        """A member says that it is there."""
        described = tags.encode(
            tags.Tags(
                datacenter="dc1",
                build="1.8.7",
                is_server=is_server,
                server_port=8300 if is_server else 0,
                is_bootstrap=is_server and expect == 0,
                expect=expect,
                wan_port=8302 if is_server else 0,
                leads_in_term=leads_in_term,
            )
        )
        node_id = hashlib.blake2b(name.encode(), digest_size=16).digest()
        port = 8301  # or the next one that no other member has
        others = [each.profile for each in self.cluster.membership.members()]
        taken = [each.address for each in others if each.node_id != node_id]
        while Address(address, port) in taken:
            port += 1
        claim = alive(Profile(node_id, name, Address(address, port), described), 1, 0)
        self.hear(claim.encoded)
        return claim

    def place(self, name: str, x_s: float) -> None:
        """So far from this agent, which is measured too, on a straight line."""
        place(self.cluster.gossip, name, x_s)

    def judge(self, sender: Alive, verdict: bytes) -> None:
        """In a datagram, whose verdicts are believed; those of an exchange are only grounds to ask."""
        message = wire.header(sender.subject, 1) + wire.encode(
            wire.Packet(wire.PacketKind.GOSSIP, claims=[verdict])
        )
        self.hear_datagram(Datagram(sender.profile.address, message, is_authentic=True))

    def fail(self, subject: Alive, accuser: Alive) -> None:
        accusation = claims.suspect(subject.subject, 1, 0, (accuser.subject,))
        self.judge(accuser, claims.dead(accusation, claims.DeathCause.SILENT).encoded)

    def hear(self, alive_claim: bytes, verdict: bytes = b"") -> list[Effect]:
        """In an exchange of rosters: what a member says of itself, and what others say of it."""
        now = self.now()
        command, report = partial(self.core.command, now, 0), partial(self.core.receive, now)
        return self._perform(introduce(command, report, SyncPart(alive_claim, verdict)))

    def hear_datagram(self, datagram: Datagram) -> list[Effect]:
        return self._perform(self.core.receive(self.now(), datagram))

    # What tests do to the catalog.

    def put_service(self, service_id: str, name: str = "", status: str = "passing", **fields: object) -> None:
        """With one TTL check, `service:<id>`."""
        check = CheckDefinition(
            check_id=f"service:{service_id}",
            name="alive",
            service_id=service_id,
            ttl_ns=10 * SECOND,
            status=status,
        )
        bare = ServiceDefinition(service_id=service_id, name=name or service_id, checks=(check,))
        self.obey(RegisterService(replace(bare, **fields)))  # type: ignore[arg-type]  # each names its field

    def put_elsewhere(self, node: str, service_id: str, name: str) -> None:
        """On the node of a member, as its own agent would say."""
        self.view.put_service(self.now(), node, Service(service_id=service_id, name=name))

    def report(self, check_id: str, status: CheckStatus, output: str = "") -> None:
        self.obey(ReportTtl(check_id, status, output))

    def _perform(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, Notify):
                self.watches.notify(effect)
            elif isinstance(effect, MemberChanged | Noted | ConflictSeen | IsolationChanged):
                self.journal.record(self.now(), effect)
        return effects


class Asker:
    def __init__(self, agent: FakeAgent | None = None) -> None:
        self.agent = FakeAgent() if agent is None else agent
        self.counters = ApiCounters()
        self.log_stream = LogStream(logging.INFO, LogCounters())
        self.metrics = Exposition(sources(self.agent), self.agent.config.telemetry)
        endpoints = Endpoints(self.agent, Random(0), self.counters, self.metrics, self.log_stream)
        rules = HttpRules(response_headers=EVERYWHERE)
        self.router = Router(endpoints.routes(), rules, families=endpoints.families())

    async def ask(
        self,
        target: str,
        method: str = "GET",
        body: object = b"",
        headers: Mapping[str, str] | None = None,
        *,
        begun: Callable[[Request], None] | None = None,
    ) -> Response:
        """A body that is not bytes is sent as JSON. `begun` gets the request before it is answered."""
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        pairs = [(key.encode(), value.encode()) for key, value in (headers or {}).items()]
        request = request_of(method, target.encode(), headers=Headers(pairs), body=raw)
        if begun is not None:
            begun(request)
        return await self.router.answer(request)

    async def put(self, target: str, body: object = b"") -> Response:
        return await self.ask(target, "PUT", body)

    async def json(self, target: str) -> object:
        response = await self.ask(target)
        assert response.status == 200, response.body.plain
        return decoded(response)


def decoded(response: Response) -> object:
    assert response.content_type == "application/json"
    return msgspec.json.decode(response.body.plain)


def header(response: Response, name: str) -> str | None:
    return dict(response.headers).get(name)


def index_of(response: Response) -> int:
    return int(dict(response.headers)["X-Consul-Index"])


def refused(response: Response) -> tuple[int, str]:
    assert response.content_type == "text/plain; charset=utf-8"
    return response.status, response.body.plain.decode()

"""Several agents for endpoints to stand on, that hear each other: datagrams arrive at once, calls are
answered directly, and their time is trio's. Whoever is cut off hears nobody and answers nobody, and so does
who is stopped, of whom nothing runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import trio

from adsum.address import Address
from adsum.agent.commands import CommandRefused, MemberAnswered, MemberAsked
from adsum.agent.effects import Effect
from adsum.agent.presence import uuid_text
from adsum.catalog.model import Node
from adsum.effects import AnsweredWith, AnswerMember, AskMember, Reply, Value
from adsum.gossip import claims
from adsum.gossip.claims import Alive
from adsum.gossip.commands import Datagram
from adsum.gossip.effects import Send
from adsum.net.calls import NotSent, Unanswered
from adsum.net.introduction import Peer, PeerIdentity
from adsum.now import MILLISECOND, Now
from tests.api.agents import CONFIG, Asker, FakeAgent

STEP_S = 0.02
WALL_MS = 1_800_000_000_000


class Network:
    def __init__(self) -> None:
        self.agents: dict[Address, LinkedAgent] = {}
        self.cut_off: set[Address] = set()
        self.stopped: set[Address] = set()
        self.silent: set[str] = set()  # methods that nobody answers
        self.are_pushes_lost = False
        self.calls: list[tuple[str, str]] = []  # method, and who was asked
        self.begun_s = trio.current_time()

    def now(self) -> Now:
        since_ms = int((trio.current_time() - self.begun_s) * 1_000)
        return Now((WALL_MS + since_ms) * MILLISECOND, WALL_MS + since_ms)

    def add(self, name: str, *, is_server: bool = False) -> LinkedAgent:
        agent = LinkedAgent(self, name, len(self.agents) + 1, is_server=is_server)
        for other in self.agents.values():
            agent.hear(other.introduction.encoded)
            other.hear(agent.introduction.encoded)
        self.agents[agent.address] = agent
        return agent

    def is_heard(self, one: Address, other: Address) -> bool:
        return other in self.agents and not {one, other} & (self.cut_off | self.stopped)

    async def run(self) -> None:
        while True:
            await trio.sleep(STEP_S)
            for agent in self.agents.values():
                if agent.address not in self.stopped:
                    agent.tick()


class LinkedAgent(FakeAgent):
    def __init__(self, network: Network, name: str, number: int, *, is_server: bool) -> None:
        self.network = network
        self.address = Address(f"10.0.0.{number}", 8301)
        self._replies: dict[int, Reply] = {}
        self._replied: dict[int, trio.Event] = {}
        self._tickets = 0
        self._answers: dict[int, bytes] = {}
        config = replace(
            CONFIG,
            node_name=name,
            is_server=is_server,
            bootstrap=is_server,
            advertise_address=self.address.host,
        )
        node_id = hashlib.blake2b(name.encode(), digest_size=16).digest()
        node = Node(node_id=uuid_text(node_id), name=name, address=self.address.host, datacenter="dc1")
        super().__init__(config, node)
        self.calls.way = self._call

    @property
    def introduction(self) -> Alive:
        return self.cluster.membership.introduction

    def now(self) -> Now:
        return self.network.now()

    def tick(self) -> None:
        deadline_ns = self.core.deadline()
        if deadline_ns is not None and deadline_ns <= self.now().monotonic_ns:
            self._perform(self.core.tick(self.now()))

    async def give(self, command: AnsweredWith[Value]) -> Value:
        self._tickets += 1
        request, replied = self._tickets, trio.Event()
        self._replied[request] = replied
        self._perform(self.core.command(self.now(), request, command))
        await replied.wait()
        reply = self._replies.pop(request)
        if reply.refusal is not None:
            raise CommandRefused(reply.refusal)
        return cast("Value", reply.value)

    def answer(self, sender: bytes, method: str, body: bytes) -> bytes:
        self._tickets += 1
        self._perform(self.core.receive(self.now(), MemberAsked(self._tickets, sender, method, body)))
        return self._answers.pop(self._tickets)

    def _perform(self, effects: list[Effect]) -> list[Effect]:
        super()._perform(effects)
        for effect in effects:
            match effect:
                case Reply(request) if request in self._replied:
                    self._replies[request] = effect
                    self._replied.pop(request).set()
                case AnswerMember(ticket, body):
                    self._answers[ticket] = body
                case AskMember():
                    self._ask(effect)
                case Send() if self.network.are_pushes_lost:
                    pass
                case Send(to, message) if self.network.is_heard(self.address, to):
                    other = self.network.agents[to]
                    other.hear_datagram(Datagram(self.address, message, is_authentic=True))
        return effects

    def _ask(self, asked: AskMember) -> None:
        body = None
        if asked.to is not None and self.network.is_heard(self.address, asked.to):
            short = self.cluster.membership.me.short
            body = self.network.agents[asked.to].answer(short, asked.method, asked.body)
        self._perform(self.core.receive(self.now(), MemberAnswered(asked.ticket, body)))

    async def _call(self, to: Address, method: str, body: bytes, timeout_s: float) -> bytes:
        network = self.network
        if not network.is_heard(self.address, to):
            raise NotSent("its host refused the connection")
        network.calls.append((method, network.agents[to].config.node_name))
        await trio.sleep(0.001)
        if method in network.silent:
            await trio.sleep(timeout_s)
            raise Unanswered("no answer came in time")
        identity = PeerIdentity(self.cluster.membership.me.node_id)
        caller = Peer(self.address, identity, 1, is_authenticated=True)
        return await network.agents[to].calls.answer(caller, method, body)


class Three:
    """Three of them, the first one a server, who know each other; `a`, `b` and `c`."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.a, self.b, self.c = (
            network.add("a", is_server=True),
            network.add("b"),
            network.add("c"),
        )
        self.on_a, self.on_b, self.on_c = Asker(self.a), Asker(self.b), Asker(self.c)
        self.all = (self.a, self.b, self.c)

    def kill(self, name: str) -> None:
        """It is gone, and the others know it."""
        (dead,) = (each for each in self.all if each.config.node_name == name)
        self.network.cut_off.add(dead.address)
        one, other = [each for each in self.all if each is not dead]
        for observer, accuser in ((one, other), (other, one)):
            accusation = claims.suspect(dead.introduction.subject, 1, 0, (accuser.introduction.subject,))
            observer.judge(accuser.introduction, claims.dead(accusation, claims.DeathCause.REFUSED).encoded)


async def formed(nursery: trio.Nursery) -> Three:
    """They have had their first exchange."""
    three = Three(Network())
    nursery.start_soon(three.network.run)
    await until(lambda: all(each.cluster.sharing.replication.agreed_ns is not None for each in three.all))
    return three


async def until(holds: Callable[[], bool], within_s: float = 30.0) -> None:
    with trio.fail_after(within_s):
        while not holds():  # noqa: ASYNC110 - what is waited for is in the cores, which know no events
            await trio.sleep(STEP_S)


def has(agent: FakeAgent, node: str, service_id: str) -> bool:
    host = agent.view.node(node)
    return host is not None and service_id in host.instances

"""A client agent's road to keys over real sockets; the server behind it commits at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from uuid import UUID

import pytest
import trio
import trio.testing

from adsum.address import Address
from adsum.agent import saved_servers, tags
from adsum.agent.forwarding import Forwarding
from adsum.agent.known_servers import KnownServers
from adsum.agent.saved_files import SERVERS
from adsum.agent.tags import Tags
from adsum.dedup import WriteNumbers
from adsum.effects import Save, WriteFile
from adsum.gossip.claims import Profile
from adsum.gossip.effects import MemberChanged
from adsum.gossip.evidence import ChangeCause, Evidence
from adsum.gossip.order import Departure, Rank, Standing
from adsum.kv import (
    KeyCause,
    KeyRead,
    KeyRefusal,
    KeysFound,
    KeyVerb,
    KeyWrite,
    ReadShape,
    StoreAnswer,
)
from adsum.kv_history import KeyChangeKind, KeyHistory
from adsum.leading import ConsensusFigures, PeerFigures
from adsum.logs.faults import Faults
from adsum.net.introduction import Peer
from adsum.net.streams import StreamServer
from adsum.peers.client_keys import ClientKeys
from adsum.process.system_clock import system_now
from adsum.servers.agent_calls import AgentCalls
from adsum.servers.agent_questions import AgentQuestions
from adsum.servers.requests import OneAnswer
from adsum.session import Session, SessionCreate
from adsum.store_requests import (
    ConsensusFound,
    ConsensusRead,
    SessionRead,
    SessionsFound,
    SessionShape,
    StoreFound,
)
from tests.api.memory_keys import WALL_MS, InstantConsensus
from tests.net.support import KEY_A, KEY_B, gate, ring, serving

ME = UUID(int=7).bytes
SERVER_ID = b"s".ljust(16, b"-")
OTHER_ID = b"t".ljust(16, b"-")
HOLD_MS = 300
ALIVE = Standing(1, Departure.NONE, 0, Rank.ALIVE)
READ = KeyRead(ReadShape.KEY, b"k")
FIGURES = ConsensusFigures(
    *("leader", 1, "n1", WALL_MS, 0, 4, 1, 4, 4, 0, 0),
    peers=(
        PeerFigures("n1", is_voter=True, last_index=4),
        PeerFigures("n2", is_voter=False, last_index=None),
    ),
)


class Everybody:
    def is_agent(self, _caller: Peer) -> bool:
        return True


class ServerOfKeys:
    def __init__(self, *keys: str) -> None:
        self.consensus = InstantConsensus()
        self.calls = AgentCalls(
            AgentQuestions(self.consensus, self.consensus.keys, trio.current_time), Everybody()
        )
        self.streams = StreamServer(gate(ring(*keys), name=b"s"), agents=self.calls.lines())


class Client:
    def __init__(self, *keys: str, saved: bytes | None = None, hold_ms: int = HOLD_MS) -> None:
        self.servers = KnownServers()
        self.saves: list[Save] = []
        numbers = WriteNumbers(str(UUID(bytes=ME)), 1)
        core = Forwarding(
            self.servers, saved_servers.decode(saved), numbers, Random(1), hold_ns=hold_ms * 1_000_000
        )
        own_gate = gate(ring(*keys), name=ME)
        self.keys = ClientKeys(core, own_gate, Random(1), system_now, self.saves.append, Faults())

    def meet(self, node_id: bytes, address: Address) -> None:
        described = Tags(is_server=True, server_port=address.port)
        profile = Profile(node_id, "s", Address(address.host, 8301), tags.encode(described))
        self.servers.changed(MemberChanged(profile, None, ALIVE, Evidence(ChangeCause.JOINED)))
        self.keys.member_changed()

    async def put(self, key: bytes, value: bytes) -> StoreAnswer:
        answer = OneAnswer[StoreAnswer]()
        self.keys.write(KeyWrite(KeyVerb.PUT, key, value), answer)
        with trio.fail_after(10):
            return await answer.wait()

    async def get(self, read: KeyRead = READ) -> KeysFound:
        answer = OneAnswer[KeysFound]()
        asked = self.keys.read(read, answer)
        try:
            with trio.fail_after(10):
                return await answer.wait()
        except trio.Cancelled:
            self.keys.give_up(asked)
            raise


@asynccontextmanager
async def running(client: Client) -> AsyncIterator[Client]:
    async with trio.open_nursery() as nursery:
        await nursery.start(client.keys.run)
        yield client
        nursery.cancel_scope.cancel()


async def refused(work: Awaitable[object]) -> tuple[KeyCause, str]:
    with pytest.raises(KeyRefusal) as refusal:
        await work
    return refusal.value.cause, refusal.value.sentence


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(10):
        while not condition():
            await trio.lowlevel.checkpoint()


async def test_what_is_written_through_one_client_is_read_through_another() -> None:
    server = ServerOfKeys(KEY_A)
    async with (
        serving(server.streams) as address,
        running(Client(KEY_A)) as writer,
        running(Client(KEY_A)) as reader,
    ):
        for client in (writer, reader):
            client.meet(SERVER_ID, address)
        assert (await writer.put(b"k", b"v")).revision == 1
        found = await reader.get()
        assert (found.index, found.keys, found.records[0].value) == (1, [b"k"], b"v")
        assert server.streams.counters.agents.open == 2
        assert server.streams.counters.open == 0


async def test_what_became_of_a_key_and_who_takes_part_is_told_by_a_server() -> None:
    server = ServerOfKeys()
    server.consensus.figures = FIGURES
    async with serving(server.streams) as address, running(Client()) as client:
        client.meet(SERVER_ID, address)
        await client.put(b"k", b"secret")
        told = OneAnswer[KeyHistory]()
        client.keys.history(b"k", told)
        seen = OneAnswer[StoreFound]()
        client.keys.ask(ConsensusRead(), seen)
        with trio.fail_after(10):
            [change] = (await told.wait()).changes
            found = await seen.wait()
    assert (change.revision, change.kind, change.via) == (1, KeyChangeKind.CREATED, str(UUID(bytes=ME)))
    assert found == ConsensusFound("n1", (PeerFigures("n1", True, 4), PeerFigures("n2", False, None)))


async def test_an_agent_that_knows_no_server_says_so_and_one_that_meets_it_meanwhile_is_answered() -> None:
    server = ServerOfKeys()
    async with serving(server.streams) as address, running(Client()) as client:
        assert await refused(client.get()) == (KeyCause.NO_SERVERS, "this agent knows no server")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.put, b"k", b"v")
            client.meet(SERVER_ID, address)
        assert server.consensus.machine.applied == 1


async def test_the_servers_that_it_met_are_kept_and_found_again_before_gossip_knows_anybody() -> None:
    server = ServerOfKeys()
    async with serving(server.streams) as address:
        async with running(Client()) as before:
            before.meet(SERVER_ID, address)
            [save] = before.saves
        [change] = save.changes
        assert isinstance(change, WriteFile)
        assert change.path == SERVERS
        async with running(Client(saved=change.content)) as after:
            assert (await after.get()).keys == []


async def test_who_answers_where_a_server_should_be_and_is_another_is_told_nothing() -> None:
    server = ServerOfKeys()
    async with serving(server.streams) as address, running(Client()) as client:
        client.meet(OTHER_ID, address)
        cause, sentence = await refused(client.put(b"k", b"v"))
        assert cause is KeyCause.NO_LEADER
        assert "another node answers at 127.0.0.1" in sentence
        assert server.consensus.machine.applied == 0


async def test_an_agent_of_another_cluster_is_not_let_in() -> None:
    server = ServerOfKeys(KEY_A)
    async with serving(server.streams) as address, running(Client(KEY_B)) as client:
        client.meet(SERVER_ID, address)
        assert (await refused(client.put(b"k", b"v")))[0] is KeyCause.NO_LEADER
        assert server.consensus.machine.applied == 0


def test_a_server_that_does_not_answer_in_time_is_left_for_another() -> None:
    async def main() -> None:
        silent, second = ServerOfKeys(), ServerOfKeys()
        silent.consensus.holds = True
        second.streams = StreamServer(gate(ring(), name=b"t"), agents=second.calls.lines())
        async with (
            serving(silent.streams) as here,
            serving(second.streams) as there,
            running(Client(hold_ms=20_000)) as client,
        ):
            client.meet(SERVER_ID, here)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.put, b"k", b"v")
                await until(lambda: silent.calls.call_counters.in_flight == 1)
                client.meet(OTHER_ID, there)
            assert second.consensus.machine.applied == 1
            told = silent.calls.call_counters
            assert told.overdue + told.cancelled == 1

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.02))


async def test_a_large_tree_comes_whole() -> None:
    server = ServerOfKeys()
    async with serving(server.streams) as address, running(Client()) as client:
        client.meet(SERVER_ID, address)
        for number in range(40):
            await client.put(b"t/%02d" % number, b"%02d" % number * 250_000)
        found = await client.get(KeyRead(ReadShape.TREE, b"t/"))
        assert found.keys == [b"t/%02d" % number for number in range(40)]
        assert [record.value[:2] for record in found.records] == [b"%02d" % number for number in range(40)]
        assert server.calls.questions.counters.pieces == 19


async def test_a_client_that_hangs_up_leaves_nobody_waiting_on_the_server() -> None:
    server = ServerOfKeys()
    blocked = KeyRead(ReadShape.KEY, b"k", since=1)
    async with serving(server.streams) as address, running(Client()) as client:
        client.meet(SERVER_ID, address)
        await client.put(b"k", b"v")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.get, blocked)
            nursery.start_soon(client.get, blocked)
            await until(lambda: len(server.consensus.keys.waiters) == 1)
            nursery.cancel_scope.cancel()
        await until(lambda: len(server.consensus.keys.waiters) == 0)


async def test_an_agent_that_ends_leaves_nobody_waiting_on_the_server() -> None:
    server = ServerOfKeys()
    async with serving(server.streams) as address:
        async with running(Client()) as client, trio.open_nursery() as nursery:
            client.meet(SERVER_ID, address)
            await client.put(b"k", b"v")
            client.keys.read(KeyRead(ReadShape.KEY, b"k", since=1), lambda _outcome: None)
            await until(lambda: len(server.consensus.keys.waiters) == 1)
            nursery.cancel_scope.cancel()
        await until(lambda: len(server.consensus.keys.waiters) == 0)


async def test_a_blocked_read_goes_on_at_another_server_when_the_first_is_gone() -> None:
    first, second = ServerOfKeys(), ServerOfKeys()
    second.streams = StreamServer(gate(ring(), name=b"t"), agents=second.calls.lines())
    blocked = KeyRead(ReadShape.KEY, b"k", since=1)
    for server in (first, second):
        server.consensus.put(b"k", b"v")
    found: list[KeysFound] = []

    async def wait() -> None:
        found.append(await client.get(blocked))

    async with serving(second.streams) as there, running(Client()) as client, trio.open_nursery() as nursery:
        async with serving(first.streams) as here:
            client.meet(SERVER_ID, here)
            nursery.start_soon(wait)
            await until(lambda: len(first.consensus.keys.waiters) == 1)
            client.meet(OTHER_ID, there)
        await until(lambda: len(second.consensus.keys.waiters) == 1)
        second.consensus.put(b"k", b"w")
    assert [each.records[0].value for each in found] == [b"w"]


async def test_a_session_is_created_listed_and_renewed_through_an_agent() -> None:
    server = ServerOfKeys()
    session = Session("s1", "n1", b"n" * 16, 1, 0)
    async with serving(server.streams) as address, running(Client()) as client:
        client.meet(SERVER_ID, address)
        created, listed = OneAnswer[StoreAnswer](), OneAnswer[StoreFound]()
        client.keys.write(SessionCreate(session), created)
        assert (await created.wait()).revision == 1
        client.keys.ask(SessionRead(SessionShape.ALL), listed)
        found = await listed.wait()
        assert isinstance(found, SessionsFound)
        assert [each.id for each in found.sessions] == ["s1"]
        renewed: list[Session | KeyRefusal | None] = []
        for session_id in ("s1", "gone"):
            client.keys.renew(session_id, renewed.append)
        await until(lambda: len(renewed) == 2)
        assert renewed == [found.sessions[0], None]
        assert server.calls.questions.counters.renewals == 2


async def test_whoever_waits_for_sessions_through_an_agent_is_told_of_the_next() -> None:
    server = ServerOfKeys()
    found: list[object] = []
    async with serving(server.streams) as address, running(Client()) as client:
        client.meet(SERVER_ID, address)
        await client.put(b"k", b"v")
        client.keys.ask(SessionRead(SessionShape.ALL, since=1), found.append)
        await until(lambda: server.calls.questions.counters.reads == 1)
        server.consensus.keys.write(SessionCreate(Session("s1", "n1", b"n" * 16, 1, 0)), lambda _answer: None)
        await until(lambda: bool(found))
        assert isinstance(found[0], SessionsFound)
        assert found[0].index == 2

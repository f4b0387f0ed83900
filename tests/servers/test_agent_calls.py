"""What client agents ask of a server: who is answered, and with what."""

from __future__ import annotations

from uuid import UUID

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from adsum import forwarded, kv
from adsum.address import Address
from adsum.consensus.errors import NoLeader, OutcomeUnknown
from adsum.dedup import DedupKey
from adsum.forwarded import ForwardedChange, ForwardedWrite, KeysPiece, RenewSessions
from adsum.kv import (
    KeyRead,
    KeyRefusal,
    KeysFound,
    KeyVerb,
    KeyWrite,
    ReadMode,
    ReadShape,
    StoreAnswer,
    StoreOutcome,
)
from adsum.net.calls import Declined
from adsum.net.introduction import Peer, PeerIdentity
from adsum.raft.errors import TooLarge
from adsum.raft.types import MemberId
from adsum.servers.agent_calls import AgentCalls
from adsum.servers.agent_questions import AgentQuestions
from adsum.servers.requests import OneAnswer
from adsum.session import Session, SessionCreate, SessionDestroy
from adsum.store_requests import SessionRead, SessionsFound, SessionShape, StoreChange
from tests.api.memory_keys import InstantConsensus

NODE_ID = UUID(int=7)
OTHER = MemberId(str(UUID(int=9)), "log")
AGENT = Peer(Address("127.0.0.1", 40_000), PeerIdentity(NODE_ID.bytes), 1, is_authenticated=False)
KEY = DedupKey(str(NODE_ID), 5, 1, 1)
PUT = KeyWrite(KeyVerb.PUT, b"k", b"v", flags=3)
READ = KeyRead(ReadShape.KEY, b"k")
WALL_MS = 1_700_000_000_000


class Known:
    """Who is a member, as a test says."""

    def __init__(self) -> None:
        self.is_member = True

    def is_agent(self, caller: Peer) -> bool:
        return self.is_member and caller.address.host == "127.0.0.1"


class Server:
    def __init__(self) -> None:
        self.consensus = InstantConsensus()
        self.known = Known()
        self.calls = AgentCalls(
            AgentQuestions(self.consensus, self.consensus.keys, trio.current_time), self.known
        )

    async def answer(self, method: str, body: bytes, caller: Peer = AGENT) -> bytes:
        """As whoever asked hears it; given up with the task that waits."""
        answer = OneAnswer[bytes]()
        give_up = self.calls.begin(caller, method, body, answer)
        try:
            return await answer.wait()
        except trio.Cancelled:
            give_up()
            raise

    async def write(self, write: KeyWrite, key: DedupKey = KEY, caller: Peer = AGENT) -> StoreAnswer:
        body = forwarded.encode(ForwardedWrite(write, key, WALL_MS, 0))
        return kv.decode_answer(await self.answer("key.write", body, caller))

    async def read(self, read: KeyRead) -> KeysPiece:
        return forwarded.decode_piece(await self.answer("key.read", kv.encode(read)))

    async def more(self, number: int) -> KeysPiece:
        return forwarded.decode_piece(await self.answer("key.more", forwarded.encode(number)))


async def declined(server: Server, method: str, body: bytes, caller: Peer = AGENT) -> tuple[str, str]:
    with pytest.raises(Declined) as no:
        await server.answer(method, body, caller)
    return no.value.code, no.value.text


async def test_a_write_is_done_under_the_name_that_the_agent_gave_it_and_once() -> None:
    server = Server()
    assert await server.write(PUT) == StoreAnswer(StoreOutcome.DONE, 1, 1, 1)
    await server.write(KeyWrite(KeyVerb.DELETE, b"k"), replace(KEY, sequence=2))
    assert await server.write(PUT, KEY.again()) == StoreAnswer(StoreOutcome.DONE, 1, 1, 1)
    assert (await server.read(READ)).found.keys == []


async def test_a_record_has_the_time_at_which_the_agent_accepted_it() -> None:
    server = Server()
    await server.write(PUT)
    [record] = (await server.read(READ)).found.records
    assert (record.value, record.flags, record.created_ms) == (b"v", 3, WALL_MS)


async def test_strangers_are_told_that_they_are_none_of_ours_and_others_may_know_them() -> None:
    server = Server()
    server.known.is_member = False
    assert await declined(server, "key.read", kv.encode(READ)) == (
        "key.no_leader",
        "this server does not know the agent that asks it as a member",
    )
    assert server.calls.strangers == 1


async def test_who_holds_the_key_of_the_cluster_is_answered_wherever_it_speaks_from() -> None:
    server = Server()
    caller = Peer(Address("10.0.0.9", 1), PeerIdentity(NODE_ID.bytes), 1, is_authenticated=True)
    assert (await server.write(PUT, caller=caller)).outcome is StoreOutcome.DONE


async def test_nobody_writes_in_another_agents_name() -> None:
    server = Server()
    body = forwarded.encode(ForwardedWrite(PUT, DedupKey(str(UUID(int=8)), 5, 1, 1), WALL_MS, 0))
    assert (await declined(server, "key.write", body))[0] == "key.failed"
    assert server.consensus.machine.applied == 0


@pytest.mark.parametrize(
    "key", [replace(KEY, generation=-1), replace(KEY, sequence=1 << 63), replace(KEY, attempt=1 << 32)]
)
async def test_a_name_that_the_log_cannot_keep_is_refused(key: DedupKey) -> None:
    server = Server()
    body = forwarded.encode(ForwardedWrite(PUT, key, WALL_MS, 0))
    assert (await declined(server, "key.write", body))[0] == "key.failed"
    assert server.calls.questions.counters.malformed == 1


@pytest.mark.parametrize("wall_ms", [-1, 1 << 53])
async def test_a_clock_that_no_host_has_is_refused(wall_ms: int) -> None:
    """The first write of nodes without an agent names their generation by it, which others could not read."""
    server = Server()
    for body, method in (
        (forwarded.encode(ForwardedWrite(PUT, KEY, wall_ms, 0)), "key.write"),
        (forwarded.encode(ForwardedChange(SessionDestroy("s"), KEY, wall_ms, 0)), "store.change"),
    ):
        assert (await declined(server, method, body))[0] == "key.failed"
    assert server.calls.questions.counters.malformed == 2
    assert server.consensus.machine.applied == 0


@pytest.mark.parametrize("method", ["key.write", "key.read", "key.more", "key.other"])
async def test_what_makes_no_sense_is_refused(method: str) -> None:
    assert (await declined(Server(), method, b"\xc1"))[0] == "key.failed"


async def test_without_a_leader_only_stale_reads_are_answered_and_others_at_once_refused() -> None:
    server = Server()
    await server.write(PUT)
    server.consensus.leader, server.consensus.waits_for = None, "an election is on"
    body = forwarded.encode(ForwardedWrite(PUT, KEY, WALL_MS, 0))
    assert await declined(server, "key.write", body) == ("key.no_leader", "an election is on")
    assert await declined(server, "key.read", kv.encode(READ)) == ("key.no_leader", "an election is on")
    stale = KeyRead(ReadShape.KEY, b"k", mode=ReadMode.STALE)
    found = (await server.read(stale)).found
    assert (found.keys, found.has_leader) == ([b"k"], False)


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (NoLeader("it was held"), f"key.led-by.{UUID(int=9).hex}", "it was held"),
        (OutcomeUnknown("not committed in time"), "key.unknown", "not committed in time"),
        (TooLarge("an entry of 9 MiB"), "key.too_large", "an entry of 9 MiB"),
    ],
)
async def test_why_a_write_was_not_done_is_told_in_the_words_of_the_server(
    error: Exception, code: str, sentence: str
) -> None:
    server = Server()
    server.consensus.leader, server.consensus.refuses = OTHER, error
    body = forwarded.encode(ForwardedWrite(PUT, KEY, WALL_MS, 0))
    assert await declined(server, "key.write", body) == (code, sentence)


async def test_a_blocked_read_is_answered_by_the_change_and_given_up_with_its_call() -> None:
    server = Server()
    await server.write(PUT)
    blocked = KeyRead(ReadShape.KEY, b"k", since=1)
    found: list[KeysFound] = []

    async def wait() -> None:
        found.append((await server.read(blocked)).found)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert len(server.consensus.keys.waiters) == 1
        await server.write(KeyWrite(KeyVerb.PUT, b"k", b"w"), replace(KEY, sequence=2))
    assert [each.records[0].value for each in found] == [b"w"]
    with trio.move_on_after(0):
        await server.read(KeyRead(ReadShape.KEY, b"k", since=2))
    assert len(server.consensus.keys.waiters) == 0


async def test_an_index_that_another_server_may_have_given_out_is_judged_when_this_one_has_caught_up() -> (
    None
):
    server = Server()
    found: list[KeysFound | KeyRefusal] = []
    stale = KeyRead(ReadShape.KEY, b"k", mode=ReadMode.STALE, since=9)
    server.consensus.holds = True
    server.consensus.keys.read(stale, found.append)
    assert found == []
    server.consensus.holds, server.consensus.refuses = False, NoLeader("no leader")
    server.consensus.keys.read(stale, found.append)
    assert found == [KeysFound(0, [], [], is_foreign=True)]


async def test_a_large_answer_is_told_in_pieces_of_one_moment() -> None:
    server = Server()
    for number in range(5):
        value = b"%d" % number * 300_000
        await server.write(KeyWrite(KeyVerb.PUT, b"t/%d" % number, value), replace(KEY, sequence=number + 1))
    first = await server.read(KeyRead(ReadShape.TREE, b"t/"))
    await server.write(KeyWrite(KeyVerb.DELETE_TREE, b"t/"), replace(KEY, sequence=6))
    second = await server.more(first.more)
    third = await server.more(second.more)
    pieces = [first.found, second.found, third.found]
    assert [each.keys for each in pieces] == [[b"t/0", b"t/1"], [b"t/2", b"t/3"], [b"t/4"]]
    assert [len(each.records) for each in pieces] == [2, 2, 1]
    assert {each.index for each in pieces} == {5}
    assert (third.more, server.calls.questions.counters.rests) == (0, 0)
    assert (await declined(server, "key.more", forwarded.encode(first.more)))[0] == "key.failed"


async def test_the_rest_of_an_answer_is_its_askers_and_kept_for_half_a_minute(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = Server()
    for number in range(3):
        put = KeyWrite(KeyVerb.PUT, b"t/%d" % number, bytes(400_000))
        await server.write(put, replace(KEY, sequence=number + 1))
    tree = KeyRead(ReadShape.TREE, b"t/")
    number = (await server.read(tree)).more
    other = Peer(AGENT.address, PeerIdentity(bytes(16)), 1, is_authenticated=False)
    assert (await declined(server, "key.more", forwarded.encode(number), other))[0] == "key.failed"
    await trio.sleep(30)
    await server.read(tree)
    assert (await declined(server, "key.more", forwarded.encode(number)))[0] == "key.failed"
    assert server.calls.questions.counters.rests_dropped == 1


# Besides keys.


async def change(server: Server, asked: StoreChange, sequence: int) -> StoreAnswer:
    body = forwarded.encode(ForwardedChange(asked, replace(KEY, sequence=sequence), WALL_MS, 0))
    return kv.decode_answer(await server.answer("store.change", body))


def session(number: int) -> Session:
    return Session(f"00000000-0000-0000-0000-{number:012}", "n1", b"n" * 16, 1, 0, name="x" * 200)


async def test_a_session_is_created_under_the_agents_name_and_listed() -> None:
    server = Server()
    created = await change(server, SessionCreate(session(1)), 1)
    assert (created.outcome, created.revision) == (StoreOutcome.DONE, 1)
    body = forwarded.encode(SessionRead(SessionShape.ALL))
    piece = forwarded.decode_found_piece(await server.answer("store.read", body))
    found = forwarded.decode_found(piece.part)
    assert isinstance(found, SessionsFound)
    assert piece.more == 0
    assert [(each.id, each.create) for each in found.sessions] == [(session(1).id, 1)]


async def test_many_sessions_come_in_pieces_of_the_same_moment() -> None:
    server = Server()
    for number in range(1, 4_001):
        await change(server, SessionCreate(session(number)), number)
    body = forwarded.encode(SessionRead(SessionShape.ALL))
    piece = forwarded.decode_found_piece(await server.answer("store.read", body))
    parts = [piece.part]
    await change(server, SessionDestroy(session(4_000).id), 4_001)
    while piece.more:
        asked = forwarded.encode(piece.more)
        piece = forwarded.decode_found_piece(await server.answer("key.more", asked))
        parts.append(piece.part)
    found = forwarded.decode_found(b"".join(parts))
    assert isinstance(found, SessionsFound)
    assert len(parts) > 1
    assert (len(found.sessions), found.index) == (4_000, 4_000)
    assert server.calls.questions.counters.rests == 0


async def test_who_waits_for_sessions_is_answered_by_the_one_that_ends(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    server = Server()
    await change(server, SessionCreate(session(1)), 1)
    bodies: list[bytes] = []

    async def wait() -> None:
        asked = forwarded.encode(SessionRead(SessionShape.ONE, session(1).id, since=1))
        bodies.append(await server.answer("store.read", asked))

    nursery.start_soon(wait)
    await trio.sleep(1)
    await server.write(PUT, replace(KEY, sequence=2))
    await trio.sleep(1)
    assert bodies == [], "a key concerns nobody who waits for a session"
    await change(server, SessionDestroy(session(1).id), 3)
    await trio.sleep(1)
    found = forwarded.decode_found(forwarded.decode_found_piece(bodies[0]).part)
    assert isinstance(found, SessionsFound)
    assert (found.index, found.sessions) == (3, [])


async def test_renewals_are_answered_in_their_order_and_a_batch_has_its_limit() -> None:
    server = Server()
    await change(server, SessionCreate(session(1)), 1)
    asked = forwarded.encode(RenewSessions((session(2).id, session(1).id)))
    renewed = forwarded.decode_renewed(await server.answer("session.renew", asked)).sessions
    assert [each.id if each is not None else None for each in renewed] == [None, session(1).id]
    too_many = forwarded.encode(RenewSessions(tuple("x" for _ in range(1_025))))
    code, sentence = await declined(server, "session.renew", too_many)
    assert (code, sentence) == ("key.failed", "a batch has at most 1024 renewals")


async def test_without_a_leader_changes_questions_and_renewals_are_refused_at_once() -> None:
    server = Server()
    server.consensus.leader, server.consensus.waits_for = None, "an election is on"
    bodies = {
        "store.change": forwarded.encode(ForwardedChange(SessionDestroy("x"), KEY, WALL_MS, 0)),
        "store.read": forwarded.encode(SessionRead(SessionShape.ALL)),
        "session.renew": forwarded.encode(RenewSessions(("x",))),
    }
    for method, body in bodies.items():
        assert await declined(server, method, body) == ("key.no_leader", "an election is on")


@pytest.mark.parametrize("method", ["store.change", "store.read", "session.renew"])
@pytest.mark.parametrize("body", [b"\xc1", b"\x91\x91\xa1\xff"], ids=["none", "not UTF-8"])
async def test_what_makes_no_sense_there_is_refused(method: str, body: bytes) -> None:
    assert (await declined(Server(), method, body))[0] == "key.failed"

"""Everything that agents say to each other or keep for their next life, once: a value, and how it travels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import cbor2

from adsum import forwarded
from adsum.address import Address
from adsum.agent import saved_catalog, saved_servers, tags, user_events
from adsum.agent.saved_catalog import SavedCopy, SavedOwner
from adsum.catalog import records
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import Check, Node, Service
from adsum.catalog.records import CheckState, NodeRecord
from adsum.catalog.replication import bodies, deltas
from adsum.catalog.replication.bodies import OwnerStanding
from adsum.catalog.replication.items import Item
from adsum.dedup import DedupKey
from adsum.external import ExternalItem, ExternalKind
from adsum.forwarded import ForwardedChange, ForwardedWrite, FoundPiece, KeysPiece, Renewed, RenewSessions
from adsum.gossip import claims, wire
from adsum.gossip.effects import SyncMessage, SyncPart
from adsum.gossip.order import Departure
from adsum.gossip.wire import Packet, PacketKind
from adsum.kv import (
    AnswerExtras,
    KeyRead,
    KeyRecord,
    KeysFound,
    KeyVerb,
    KeyWrite,
    ReadMode,
    ReadShape,
    RecordExtras,
    StoreAnswer,
    StoreOutcome,
    decode_answer,
)
from adsum.kv import encode as encode_answer
from adsum.kv_history import KeyChange, KeyChangeKind, KeyHistory
from adsum.leading import PeerFigures
from adsum.net import call_frames, framing, introduction
from adsum.net.introduction import Introduction, PeerIdentity, Purpose, WelcomeRefusal
from adsum.net.syncs import JoiningSync, frames
from adsum.owners import STORE
from adsum.peers import owner_calls
from adsum.peers.owner_calls import OwnerRow
from adsum.raft.batch import LogChange
from adsum.raft.messages import (
    Append,
    AppendRejected,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    Message,
    MessageStamp,
    SnapshotOffer,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from adsum.raft.types import (
    Configuration,
    Entry,
    EntryKind,
    HardState,
    MemberId,
    Restored,
    RevisionOffset,
    SnapshotMeta,
    Term,
)
from adsum.rows import RowCodec
from adsum.servers import wire as servers_wire
from adsum.session import EndCause, EndedSession, Session, SessionBehavior, SessionCreate, SessionKind
from adsum.storage.opening import OpenedLog, open_log
from adsum.storage.segment_files import segment_name
from adsum.storage.snapshots import Snapshots, snapshot_name
from adsum.store.commands import (
    Acquire,
    CreateSession,
    Delete,
    DeleteTree,
    DeregisterExternal,
    EndSessions,
    ExpireSessions,
    LeaseRule,
    NoteRemaining,
    Put,
    RegisterExternal,
    Release,
    RenewExternal,
    RunTransaction,
    StoreCommand,
    StoreRequest,
    decode_request,
    encode_request,
)
from adsum.store.machine import StoreMachine
from adsum.store_requests import (
    ConsensusFound,
    ConsensusRead,
    KeyHistoryRead,
    SessionRead,
    SessionsFound,
    SessionShape,
    SessionStory,
    SessionStoryRead,
    StoreFound,
    StoreRead,
    TransactionFound,
    TransactionRead,
)
from adsum.testing.block_disk import BlockDisk
from adsum.transactions import (
    EntryOperation,
    EntryVerb,
    KeyOperation,
    KeyOperationVerb,
    KeyResult,
    OperationError,
    TransactionAnswer,
)

GENERATION = 1_795_000_000_000
A, B, C = b"AAAAAAAA", b"BBBBBBBB", b"CCCCCCCC"


@dataclass(frozen=True)
class RecordedCase:
    value: object
    encoded: bytes  # as this version says it
    decode: Callable[[bytes], object]


def datagrams() -> dict[str, RecordedCase]:
    """As they travel without a key: header, body, checksum."""
    flip = deltas.push(A, GENERATION, 9, 77, [Item(3, 9, bytes((0x83, 3, 0x18, 41, 0)))])
    packets = {
        "ping": wire.encode(
            wire.Packet(
                PacketKind.PING,
                sequence=7,
                about=B,
                amount=0x01020304,
                beat=9,
                root=b"rootroot",
                carried=[flip],
            )
        ),
        "ack": wire.encode(
            wire.Packet(
                PacketKind.ACK,
                sequence=7,
                amount=0x01020304,
                beat=9,
                root=b"rootroot",
                coordinate=b"coordinate",
                claims=[claims.restarting(A, GENERATION, 5_000).encoded],
                beats=wire.BEAT.pack(C, 1, 2),
                carried=[b"delta"],
                ages=b"\x03",
            )
        ),
        "ping-request": wire.encode(wire.Packet(PacketKind.PING_REQUEST, sequence=8, about=C, amount=500)),
        "nack": wire.encode(
            wire.Packet(PacketKind.NACK, sequence=8, about=C, flags=int(wire.PacketFlag.REFUSED))
        ),
        "gossip": wire.encode(wire.Packet(PacketKind.GOSSIP, beat=9, beats=wire.BEAT.pack(C, 1, 2) * 2)),
        "refusal": wire.encode(wire.Packet(PacketKind.REFUSAL, about=B, flags=int(wire.PacketFlag.CONFLICT))),
    }
    header, seal = wire.header(A, GENERATION), wire.PlainSeal("dc1")

    def opened(datagram: bytes) -> object:
        body = seal.open(datagram[: wire.HEADER_BYTES], datagram[wire.HEADER_BYTES :])
        assert body is not None
        return wire.parse_header(datagram), wire.decode(body)

    nothing = Packet(0, 0, b"", 0, 0, 0, b"", b"", [], b"", [])
    seen = bytes.fromhex("43 43 43 43 43 43 43 43 00 01 00 00 00 02")
    values = {
        "ping": nothing._replace(
            sequence=7, about=B, amount=0x01020304, beat=9, root=b"rootroot", carried=[flip]
        ),
        "ack": Packet(
            *(1, 7, b"", 0x01020304, 0, 9, b"rootroot", b"coordinate"),
            claims=[cbor2.dumps([4, A, GENERATION, 5_000])],
            beats=seen,
            carried=[b"delta"],
            ages=b"\x03",
        ),
        "ping-request": nothing._replace(kind=2, sequence=8, about=C, amount=500),
        "nack": nothing._replace(kind=3, sequence=8, about=C, flags=1),
        "gossip": nothing._replace(kind=4, beat=9, beats=seen * 2),
        "refusal": nothing._replace(kind=5, about=B, flags=4),
    }
    return {
        f"datagram-{name}": RecordedCase(
            ((A, GENERATION), values[name]), header + seal.seal(header, body), opened
        )
        for name, body in packets.items()
    }


def gossiped() -> dict[str, RecordedCase]:
    profile = claims.Profile(b"AAAAAAAAaaaaaaaa", "web-1", Address("10.0.0.1", 8301), b"tags", 1, 1, "0.1.0")
    accusation = claims.suspect(A, GENERATION, 3, (B, C), refusers=(C,), legs=5, phi_tenths=31)
    left = claims.left(A, GENERATION, 3, Departure.PRUNED, B)
    kinds: dict[str, claims.Claim] = {
        "alive": claims.alive(profile, GENERATION, 3),
        "alive-without-version": claims.alive(replace(profile, version=""), GENERATION, 3),
        "suspect": accusation,
        "dead": claims.dead(accusation, claims.DeathCause.REFUSED),
        "left": left,
        "left-signed": replace(
            left,
            encoded=cbor2.dumps([3, A, GENERATION, 3, int(Departure.PRUNED), B, bytes(range(64))]),
            signature=bytes(range(64)),
        ),
        "restarting": claims.restarting(A, GENERATION, 5_000),
        "event": claims.user_event(A, 7, 1, "deploy", b"v2"),
    }
    cases = {f"claim-{name}": RecordedCase(each, each.encoded, claims.decode) for name, each in kinds.items()}
    described = tags.Tags(datacenter="dc1", build="1.8.7", is_server=True, server_port=8300, expect=3)
    cases["tags-server"] = RecordedCase(described, tags.encode(described), tags.decode)
    event = user_events.Event(event_id=A + B, name="deploy", payload=b"v2", service="^web", clock=7)

    def heard(payload: bytes) -> object:
        return user_events.decode(claims.user_event(A, 7, 1, "deploy", payload))

    cases["event-payload"] = RecordedCase(event, user_events.encode(event), heard)
    return cases


def catalog() -> dict[str, RecordedCase]:
    node = Node(node_id="", name="web-1", address="10.0.0.1", datacenter="dc1", meta={"rack": "r1"})
    service = Service(
        service_id="web1",
        name="web",
        kind="connect-proxy",
        tags=("blue", "v2"),
        address="10.0.0.9",
        port=8080,
        tagged_addresses={"lan": ("10.0.0.9", 8080)},
        meta={"zone": "z1"},
        weight_passing=3,
        weight_warning=2,
        enable_tag_override=True,
        proxy={"DestinationServiceName": "db"},
    )
    check = Check(
        check_id="service:web1",
        name="alive",
        status=CheckStatus.CRITICAL,
        notes="why",
        service_id="web1",
        service_name="web",
        service_tags=("blue", "v2"),
        kind="http",
    )
    said = replace(check, output="connection refused")
    passing = records.encode_state(41, replace(check, status=CheckStatus.PASSING))
    there = NodeRecord("dc1", {}, {}, "printer-1", "10.0.0.77")
    kinds: dict[str, tuple[object, bytes]] = {
        "node": (NodeRecord("dc1", {}, {"rack": "r1"}), records.encode_node(node)),
        "node-elsewhere": (there, cbor2.dumps([0, "dc1", {}, {}, "printer-1", "10.0.0.77"])),
        "service": (service, records.encode_service(service)),
        "service-elsewhere": (
            replace(service, node="printer-1"),
            records.encode_service(replace(service, node="printer-1")),
        ),
        "check": (check, records.encode_check(check)),
        "state-passing": (CheckState(41, CheckStatus.PASSING), passing),
        "state-critical": (
            CheckState(41, CheckStatus.CRITICAL, "connection refused"),
            records.encode_state(41, said),
        ),
    }
    cases = {f"record-{name}": RecordedCase(*each, records.decode) for name, each in kinds.items()}
    items = (Item(3, 9, passing), Item(2, 7, None))
    told = {
        "push": (
            (A, GENERATION, 9, 77, items, ((4, 8),), 0, None, 0),
            deltas.push(A, GENERATION, 9, 77, items, [Item(4, 8, None)]),
        ),
        "range": (
            (A, GENERATION, 9, 77, items, (), 5, 9, 2),
            deltas.span(A, GENERATION, 9, 77, items, since=5, through=9, gc_version=2),
        ),
        "push-store": (
            (STORE, 7, 9, 77, items[:1], (), 0, None, 0),
            deltas.push(STORE, 7, 9, 77, items[:1]),
        ),
    }
    return cases | {f"delta-{name}": RecordedCase(*each, _delta) for name, each in told.items()}


def _delta(encoded: bytes) -> object:
    each = deltas.decode(encoded)
    head = each.owner, each.generation, each.version, each.digest, each.items, each.notices
    return *head, each.since, each.through, each.gc_version


def exchanges() -> dict[str, RecordedCase]:
    standing, words = OwnerStanding(A, GENERATION, 9, 2, 0xABCDEF, 7), bytes(range(256)) * 4
    ranges = (b"range one", b"range two")
    return {
        "exchange-compare": RecordedCase((3, words), bodies.compare(3, words), bodies.read_compare),
        "exchange-compared": RecordedCase(
            ([standing], True), bodies.compared([standing], is_more=True), bodies.read_compared
        ),
        "exchange-fetch": RecordedCase(
            ([standing], ranges), bodies.fetch([standing], list(ranges)), bodies.read_fetch
        ),
        "exchange-fetched": RecordedCase(ranges, bodies.fetched(list(ranges)), bodies.read_fetched),
        "exchange-items": RecordedCase((A, 5, (1, 2)), bodies.items(A, 5, [1, 2]), bodies.read_items),
        "exchange-no-time": RecordedCase([1], bodies.BUSY, cbor2.loads),
        "exchange-not-understood": RecordedCase([2], bodies.REFUSED, cbor2.loads),
    }


def streams() -> dict[str, RecordedCase]:
    opening = Introduction(PeerIdentity(A + B, "cluster", 2), Purpose.SYNC)
    parts = (SyncPart(b"claim of itself"), SyncPart(b"claim of itself", b"verdict of others", 90))
    roster = SyncMessage(0xABCDEF, parts, is_join=True, use_generation=5, wall_ms=GENERATION)
    (frame,) = frames(roster)
    frame_kinds: dict[str, tuple[object, bytes]] = {
        "ask": (
            call_frames.AskFrame(7, "catalog.compare", 2_000, b"body"),
            call_frames.ask(7, "catalog.compare", 2.0, b"body"),
        ),
        "answered": (call_frames.Answered(7, b"body"), call_frames.answered(7, b"body")),
        "failed": (call_frames.FailedFrame(7, "busy", "later"), call_frames.failed(7, "busy", "later")),
        "tell": (call_frames.Tell("raft", b"body"), call_frames.tell("raft", b"body")),
        "cancel": (call_frames.Cancel(7), call_frames.cancel(7)),
    }
    hello = framing.hello("dc1", bytes(range(16)))
    return {
        "call-beat": RecordedCase(call_frames.Beat, call_frames.BEAT, _kind_of_frame),
        "call-beat-back": RecordedCase(call_frames.BeatBack, call_frames.BEAT_BACK, _kind_of_frame),
        "stream-hello": RecordedCase(hello, hello.encoded, framing.parse_hello),
        "introduction": RecordedCase(opening, introduction.encode(opening), introduction.decode),
        "introduction-refused": RecordedCase(
            WelcomeRefusal.BUSY, introduction.encode_refusal(WelcomeRefusal.BUSY), introduction.decode
        ),
        "roster": RecordedCase(roster, frame, lambda encoded: JoiningSync().add(encoded)),
        **{f"call-{name}": RecordedCase(*each, call_frames.decode) for name, each in frame_kinds.items()},
    }


def _kind_of_frame(encoded: bytes) -> object:
    return type(call_frames.decode(encoded))


def calls_about_owners() -> dict[str, RecordedCase]:
    row = OwnerRow(A, GENERATION, 9, 8, b"digest..", 4, 500, -1, is_complete=False)
    bodies_of: dict[str, tuple[RowCodec[Any], tuple[object, ...]]] = {
        "deregistration": (owner_calls.DEREGISTRATION, ("web1", "")),
        "retagging": (owner_calls.RETAGGING, ("web1", ("blue", "v2"))),
        "wanted-outputs": (owner_calls.WANTED_OUTPUTS, (("service:web1", "other"),)),
        "told-outputs": (owner_calls.TOLD_OUTPUTS, (["connection refused", None],)),
        "after-owner": (owner_calls.AFTER_OWNER, (A,)),
        "told-owners": (owner_calls.TOLD_OWNERS, ((row,), True)),
    }
    return {
        f"owners-{name}": RecordedCase(value, table.bytes_of(*value), _reader(table))
        for name, (table, value) in bodies_of.items()
    }


def _reader(table: RowCodec[Any]) -> Callable[[bytes], object]:
    return lambda encoded: framing.read(table, encoded)


def servers() -> dict[str, RecordedCase]:
    one, other = MemberId("a", "log-a"), MemberId("b", "log-b")
    head = (MessageStamp("cluster", 3), one, other, Term(7))
    entries = (
        Entry(2, Term(7), EntryKind.COMMAND, 50, 1, None, b"put"),
        Entry(3, Term(7), EntryKind.COMMAND, 51, 1, DedupKey("agent", 1, 2, 0), b""),
    )
    meta = SnapshotMeta(9, Term(2), Configuration(voters=(one, other)), 1_000, 1, 3)
    messages: list[Message] = [
        Append(*head, 2, 1, Term(6), entries),
        AppendReply(*head, 12),
        AppendRejected(*head, 12, 10, Term(3)),
        Heartbeat(*head, 4, 19),
        HeartbeatReply(*head, 19, 1),
        VoteRequest(*head, 12, Term(6), True, False),
        VoteReply(*head, False, True, 4, Term(3)),
        TimeoutNow(*head),
        SnapshotOffer(*head, 9, meta),
    ]
    named = {f"raft-{type(each).__name__}": each for each in messages}
    named["raft-HeartbeatReply-that-cannot-lead"] = HeartbeatReply(*head, 19, 1, can_lead=False)
    encode = servers_wire.Encoder().encode
    return {name: RecordedCase(each, encode(each), servers_wire.decode) for name, each in named.items()}


def logs() -> dict[str, RecordedCase]:
    """A segment of the log of consensus, without the zeros behind it, and a snapshot: as they lie on disk."""
    disk = BlockDisk(Random(0))
    opened = _opened_log(disk)
    me = opened.log.identity.member
    opened.log.join("cluster", 3, RevisionOffset(1 << 41, 4))
    meta = SnapshotMeta(2, Term(7), Configuration((me,)), 1_000, 1, 3, 1 << 40)
    making = opened.log.snapshots.make(meta)
    making.write(b"the state")
    ref = making.finish()
    entries = [
        Entry(3, Term(7), EntryKind.COMMAND, 1_050, 1, DedupKey("agent", 1, 2, 0, 1), b"put"),
        Entry(4, Term(7), EntryKind.COMMAND, 1_051, 1, None, bytes(600)),
    ]
    state = HardState(Term(7), me, 3)
    opened.log.append([LogChange(install=ref, entries=entries, hard_state=state)])
    held = Restored(state, meta, tuple(entries), RevisionOffset(1 << 41, 4))
    segment, snapshot = (_file(disk, name) for name in (segment_name(2), snapshot_name(ref)))

    def from_segment(encoded: bytes) -> object:
        again = BlockDisk(Random(0))
        _put(again, segment_name(2), encoded.ljust(LOG_BYTES, b"\0"))
        _put(again, snapshot_name(ref), snapshot)
        return _opened_log(again).restored

    def from_snapshot(encoded: bytes) -> object:
        again = BlockDisk(Random(0))
        _put(again, snapshot_name(ref), encoded)
        reading = Snapshots(again).open(ref)
        return Snapshots(again).verify(ref), b"".join(reading.body())

    return {
        "log-segment": RecordedCase(held, segment.rstrip(b"\0"), from_segment),
        "log-snapshot": RecordedCase((meta, b"the state"), snapshot, from_snapshot),
    }


LOG_BYTES = 16_384


def _opened_log(disk: BlockDisk) -> OpenedLog:
    return open_log(
        disk,
        node="a",
        mint_log_id=lambda: "log-a",
        mint_salt=lambda: b"a salt of 16 b..",
        segment_bytes=LOG_BYTES,
    )


def _file(disk: BlockDisk, name: str) -> bytes:
    return disk.open(name).read(0, LOG_BYTES)


def _put(disk: BlockDisk, name: str, content: bytes) -> None:
    file = disk.create(name)
    file.write(0, content)
    file.sync()
    disk.sync()


def kept() -> dict[str, RecordedCase]:
    profile = claims.Profile(A + B, "web-1", Address("10.0.0.1", 8301), b"tags", version="0.1.0")
    copy = SavedCopy(GENERATION, (SavedOwner(profile, (b"a range",), is_shown=False),))
    with_store = copy._replace(store=(b"a range", b"another"))
    alone = with_store._replace(store_gone_ms=GENERATION - 5)
    return {
        "saved-copy": RecordedCase(copy, saved_catalog.encode(copy), saved_catalog.decode),
        "saved-copy-store": RecordedCase(with_store, saved_catalog.encode(with_store), saved_catalog.decode),
        "saved-copy-store-alone": RecordedCase(alone, saved_catalog.encode(alone), saved_catalog.decode),
    }


ONE, TWO = "4bd1f6c4-5a5a-4b6b-9c0e-9a39e9a3f6b1", "9f0e7d3c-22aa-4a51-8a8a-0d6b51b7c0aa"


def store_requests() -> dict[str, StoreRequest]:
    put = Put(*(b"a key", b"a value", 0, 1 << 63, 7, LeaseRule.THIS, ONE), skips_equal=True)
    session = Session(
        *(ONE, "n1", A + B, GENERATION, 9, "a name", "30s", 30_000, 15_000_000_000, SessionBehavior.DELETE),
        *(("serfHealth",), ("web",), SessionKind.CONSUL, 1_763_500_000_000, 4, 5, 6, 7),
    )
    item = ExternalItem(ExternalKind.CHECK, "ext", "up", b"a row", "", "web", "passing", "fine", 8, 9)
    operations = (
        KeyOperation(KeyOperationVerb.CAS, b"k", b"v", 1, 2, ONE),
        EntryOperation(EntryVerb.SET, item),
    )
    commands: dict[str, StoreCommand] = {
        "put-plain": Put(b"k", b"v"),
        "put-fenced": Put(b"k", b"v", if_token=77),
        "delete": Delete(b"k", 0, 9),
        "delete-fenced": Delete(b"k", if_token=77),
        "delete-tree": DeleteTree(b"k/"),
        "acquire": Acquire(b"k", b"v", ONE, 5, if_token=77),
        "release": Release(b"k", b"v", ONE, 5, if_token=77),
        "session-create": CreateSession(session),
        "session-end": EndSessions((ONE, TWO), EndCause.CHECK_CRITICAL, "web is critical", 3),
        "session-expire": ExpireSessions(((ONE, 4), (TWO, 0)), 3),
        "session-note": NoteRemaining(((ONE, 40_000), (TWO, None)), 3),
        "transaction": RunTransaction(operations),
        "register": RegisterExternal((item,)),
        "deregister": DeregisterExternal("ext", "web", "up"),
        "renew-external": RenewExternal(1_763_500_000_001),
    }
    return {
        "store-put": StoreRequest(put, 1_763_500_000_000, 5, wants_records=True),
        **{f"store-{name}": StoreRequest(each, 1_763_500_000_000) for name, each in commands.items()},
    }


def state_after(machine: StoreMachine, *commands: StoreCommand, level: int = 1) -> RecordedCase:
    for index, command in enumerate(commands, 1):
        data = encode_request(StoreRequest(command, index))
        dedup = DedupKey("n1", 1, index, 2)
        machine.apply(Entry(index, Term(1), EntryKind.COMMAND, 50, level, dedup, data))

    def told(of: StoreMachine) -> object:
        space = of.keyspaces[0]
        tables = of.sessions.frozen(), space.delays.all(), of.external.rows, of.external.counted()
        return of.hash(), of.applied, of.offset, space.history.after(space.history.floor), *tables

    def state(encoded: bytes) -> object:
        other = StoreMachine()
        other.restore(other.read(iter([encoded])))
        return told(other)

    return RecordedCase(told(machine), b"".join(machine.snapshot()), state)


def store() -> dict[str, RecordedCase]:
    extras = RecordExtras(8, 9, 10, 11, 12, 13)
    record = KeyRecord(b"v", 1, 2, 3, 4, 5, 6, 7, "lease", extras)
    answer = StoreAnswer(StoreOutcome.COMPARE_FAILED, 40, 41, 0, record, record)
    told = AnswerExtras(9, ONE, 14_999, "a sentence", b"of a transaction")
    refused = StoreAnswer(StoreOutcome.HELD, 40, 41, extras=told)
    requests = store_requests().items()
    return {
        **{name: RecordedCase(each, encode_request(each), decode_request) for name, each in requests},
        "store-answer": RecordedCase(answer, encode_answer(answer), decode_answer),
        "store-answer-with-extras": RecordedCase(refused, encode_answer(refused), decode_answer),
        "store-snapshot": state_after(
            StoreMachine(RevisionOffset(100, 3)),
            *(Put(b"a", b"1"), Delete(b"a"), Put(b"b/1", b"2"), DeleteTree(b"b/"), Put(b"c", b"3")),
        ),
        "store-snapshot-with-sessions": state_after(
            StoreMachine(),
            CreateSession(Session(ONE, "n1", A + B, GENERATION, 9, lock_delay_ns=15_000_000_000)),
            CreateSession(Session(TWO, "n2", B + A, GENERATION, 9)),
            *(Acquire(b"a", b"v", ONE), Acquire(b"b", b"v", TWO)),
            EndSessions((ONE,), EndCause.EXPIRED, "it was not renewed", 1),
            level=2,
        ),
        "store-snapshot-with-external-nodes": state_after(
            StoreMachine(),
            RegisterExternal(
                (
                    ExternalItem(ExternalKind.NODE, "ext", "", b"a node", ONE),
                    ExternalItem(ExternalKind.SERVICE, "ext", "web", b"a service"),
                    ExternalItem(ExternalKind.CHECK, "ext", "up", b"a check", "", "web", "critical", "no"),
                )
            ),
            RegisterExternal((ExternalItem(ExternalKind.NODE, "gone", "", b"a node"),)),
            DeregisterExternal("gone"),
            level=2,
        ),
    }


def asked_of_store(read: StoreRead) -> RecordedCase:
    return RecordedCase(read, forwarded.encode(read), forwarded.decode_ask)


def found_in_store(found: StoreFound) -> RecordedCase:
    return RecordedCase(found, forwarded.encode(found), forwarded.decode_found)


def keys() -> dict[str, RecordedCase]:
    put = KeyWrite(KeyVerb.PUT, b"a key", b"a value", 1 << 63, 7)
    write = ForwardedWrite(put, DedupKey("an agent", 7, 8, 9, 1), 1_763_500_000_000, 5)
    read = KeyRead(ReadShape.NAMES, b"a/", b"/", ReadMode.STALE, 40, waits=False)
    record = KeyRecord(b"v", 1, 2, 3, 4)
    piece = KeysPiece(KeysFound(40, [b"a"], [record], is_foreign=True, has_leader=False, behind_ms=9), 17)
    servers = {A + B: Address("10.0.0.1", 8300)}
    changes = [KeyChange(4, KeyChangeKind.CREATED, 1_763_500_000_000, "an agent")]
    history = KeyHistory(changes, True, True, 4, 1, 2, 3)
    members = ConsensusFound("n1", (PeerFigures("n1", True, 9), PeerFigures("n2", False, None)))
    session = Session(ONE, "n1", A + B, GENERATION, 9, "a name", "10s", 10_000, 15_000_000_000)
    key = DedupKey("an agent", 7, 8, 9, 1)
    change = ForwardedChange(SessionCreate(session), key, 1_763_500_000_000, 5)
    part, renewals, renewed = FoundPiece(b"a part", 17), RenewSessions((ONE, TWO)), Renewed([session, None])
    operation = KeyOperation(KeyOperationVerb.CHECK_INDEX, b"a key", index=7)
    answer = TransactionAnswer([KeyResult(b"a", record)], [OperationError(1, "a sentence")])
    ended = EndedSession(session, EndCause.EXPIRED, "it was not renewed", 41, 1_763_500_000_000, 2)
    return {
        "keys-history-read": asked_of_store(KeyHistoryRead(b"a key")),
        "keys-history": found_in_store(history),
        "consensus-read": asked_of_store(ConsensusRead()),
        "consensus-found": found_in_store(members),
        "sessions-change": RecordedCase(change, forwarded.encode(change), forwarded.decode_change),
        "sessions-read": asked_of_store(SessionRead(SessionShape.OF_NODE, "n1", ReadMode.STALE, 40, False)),
        "sessions-found": found_in_store(SessionsFound(40, [session], True, False, 9)),
        "sessions-piece": RecordedCase(part, forwarded.encode(part), forwarded.decode_found_piece),
        "sessions-renew": RecordedCase(renewals, forwarded.encode(renewals), forwarded.decode_renewals),
        "sessions-renewed": RecordedCase(renewed, forwarded.encode(renewed), forwarded.decode_renewed),
        "transaction-read": asked_of_store(TransactionRead((operation,), ReadMode.CONSISTENT)),
        "transaction-found": found_in_store(TransactionFound(40, answer, False, 9)),
        "session-story-read": asked_of_store(SessionStoryRead(ONE)),
        "session-story": found_in_store(SessionStory(None, ended, [b"a key"], 1)),
        "keys-write": RecordedCase(write, forwarded.encode(write), forwarded.decode_write),
        "keys-read": RecordedCase(read, forwarded.encode(read), forwarded.decode_read),
        "keys-piece": RecordedCase(piece, forwarded.encode(piece), forwarded.decode_piece),
        "saved-servers": RecordedCase(servers, saved_servers.encode(servers), saved_servers.decode),
    }


CASES = {
    **datagrams(),
    **gossiped(),
    **catalog(),
    **exchanges(),
    **streams(),
    **calls_about_owners(),
    **logs(),
    **servers(),
    **kept(),
    **store(),
    **keys(),
}

"""The sending and the receiving side with a line between them that breaks where the test says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cbor2
import msgspec
import pytest
from trio.testing import MockClock

from adsum.consensus.carrying import CarryCounters
from adsum.net.calls import Declined, NotSent, Unanswered
from adsum.raft.messages import MessageStamp, SnapshotOffer
from adsum.raft.types import Configuration, MemberId, SnapshotMeta, SnapshotRef, Term
from adsum.servers import wire
from adsum.servers.carrying import BEGIN, PIECE, Carrier, Receiver
from adsum.storage.failures import StorageFailed
from adsum.storage.snapshots import PIECE_BYTES, Snapshots
from tests.servers.faults import Faults, FaultyFolder

A, B = MemberId("a", "log-a"), MemberId("b", "log-b")
META = SnapshotMeta(40, Term(3), Configuration(voters=(A, B)), 1_000, 1, 0)
OFFER = SnapshotOffer(MessageStamp("cluster", 0), A, B, Term(5), 44, META)
PIECES = 4
CALLS = 1 + PIECES  # to begin, and each piece

Break = Callable[[int, str], str]  # of the number of a call and its method: "", "before" or "after"


class Line:
    """Calls the receiver, or loses the call, or its answer."""

    def __init__(self, receiver: Receiver, breaks: Break) -> None:
        self.receiver = receiver
        self.calls = 0
        self.bytes = 0
        self._breaks = breaks

    async def ask(self, node: str, method: str, body: bytes, *, timeout_s: float) -> bytes:
        self.calls += 1
        fate = self._breaks(self.calls, method)
        if fate == "before":
            raise NotSent("no connection")
        answers = {BEGIN: self.receiver.begin, PIECE: self.receiver.piece}
        self.bytes += len(body)
        answer = await answers[method](self.damaged(body) if fate == "damaged" else body)
        if fate == "after":
            raise Unanswered("the line broke before the answer came")
        return answer

    def damaged(self, body: bytes) -> bytes:
        sha256, offset, crc, content = cbor2.loads(body)
        return cbor2.dumps([sha256, offset, crc, bytes([content[0] ^ 1]) + content[1:]])


class There:
    """The server that the file is for."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self.committed = 0
        self.overtaken_offers: list[SnapshotOffer] = []

    def commit(self) -> int:
        return self.committed

    def arrived(self, offer: SnapshotOffer, ref: SnapshotRef) -> None:
        assert ref == self._ends.ref
        assert self._ends.there.verify(ref) == META
        self._ends.arrived.append(offer)

    def overtaken(self, offer: SnapshotOffer) -> None:
        self.overtaken_offers.append(offer)

    def broken(self, error: StorageFailed) -> None:
        self._ends.broken.append(error)


class Ends:
    """Two folders, and what became of the transfer."""

    def __init__(self, path: Path, breaks: Break = lambda _call, _method: "") -> None:
        self.counters = CarryCounters()
        self.offer = OFFER
        self.arrived: list[SnapshotOffer] = []
        self.broken: list[StorageFailed] = []
        self.ended: list[tuple[MemberId, bool]] = []
        self.examined: list[SnapshotRef] = []
        self.hands = There(self)
        self.faults = Faults()
        self.there = Snapshots(FaultyFolder(path / "there", self.faults), synced_bytes=PIECE_BYTES)
        self.faults_here = Faults()
        here = Snapshots(FaultyFolder(path / "here", self.faults_here))
        making = here.make(META)
        for number in range(PIECES - 1):
            making.write(bytes([number]) * PIECE_BYTES)
        making.write(b"the end")
        self.ref = making.finish()
        self.line = Line(self.new_receiver(), breaks)
        self.carrier = Carrier(self.line, here, self.counters, wire.Encoder().encode, self.examine)

    def new_receiver(self) -> Receiver:
        return Receiver(self.there, self.counters, self.hands)

    async def examine(self, ref: SnapshotRef) -> None:
        assert self.ended == [], "the core is told afterwards, or it offers the same file again"
        self.examined.append(ref)

    async def carry(self) -> None:
        def ended(member: MemberId, *, is_ok: bool) -> None:
            self.ended.append((member, is_ok))

        await self.carrier.carry(self.offer, self.ref, ended)


async def test_a_snapshot_arrives_whole_and_is_offered_once(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    await ends.carry()
    assert ends.arrived == [OFFER]
    assert ends.ended == [(B, True)]
    assert ends.line.calls == CALLS


@pytest.mark.parametrize("fate", ["before", "after"])
@pytest.mark.parametrize("cut", range(1, CALLS + 1))
async def test_b5_a_transfer_that_is_cut_at_any_call_goes_on_from_there(
    cut: int, fate: str, tmp_path: Path, autojump_clock: MockClock
) -> None:
    ends = Ends(tmp_path, lambda call, _method: fate if call == cut else "")
    await ends.carry()
    assert ends.ended == [(B, True)]
    assert set(ends.arrived) == {OFFER}
    assert ends.line.bytes < (PIECES + 1) * PIECE_BYTES  # nothing was sent twice that had arrived


@pytest.mark.parametrize("cut", range(2, CALLS + 1))
async def test_a_receiver_that_was_restarted_goes_on_from_what_it_has_on_disk(
    cut: int, tmp_path: Path, autojump_clock: MockClock
) -> None:
    def restart(call: int, _method: str) -> str:
        if call == cut:
            ends.line.receiver = ends.new_receiver()
        return ""

    ends = Ends(tmp_path, restart)
    await ends.carry()
    assert ends.ended == [(B, True)]
    assert ends.arrived == [OFFER]
    assert ends.counters.pieces_received == PIECES + (cut > 2)  # the last one may not be safe
    assert ends.counters.resumed == (cut > 3)


async def test_a_damaged_piece_is_asked_for_again(tmp_path: Path) -> None:
    ends = Ends(tmp_path, lambda call, _method: "damaged" if call == 3 else "")
    await ends.carry()
    assert ends.ended == [(B, True)]
    assert ends.counters.pieces_refused == 1


async def test_a_line_that_never_gets_further_is_given_up(tmp_path: Path, autojump_clock: MockClock) -> None:
    ends = Ends(tmp_path, lambda _call, method: "before" if method == PIECE else "")
    await ends.carry()
    assert ends.ended == [(B, False)]
    assert ends.counters.given_up == 1
    assert ends.arrived == []


async def test_a_full_disk_declines_and_a_broken_one_ends_the_process(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    ends.faults.is_full = True
    await ends.carry()
    assert ends.ended == [(B, False)]
    assert ends.broken == []
    ends.faults.is_full, ends.faults.syncs_fail = False, True
    await ends.carry()
    assert ends.ended == [(B, False)] * 2
    assert [str(error) for error in ends.broken] == ["could not sync: input/output error"]


async def test_a_file_of_another_membership_than_was_offered_is_not_installed(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    other = replace(META, configuration=Configuration(voters=(B,)))
    ends.offer = msgspec.structs.replace(OFFER, snapshot=other)
    await ends.carry()
    assert ends.ended == [(B, False)]
    assert ends.arrived == []
    assert ends.counters.damaged == 1


async def test_a_file_that_went_meanwhile_is_not_sent_and_looked_after(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    for file in (tmp_path / "here").glob("*.snapshot"):
        file.unlink()
    await ends.carry()
    assert ends.ended == [(B, False)]
    assert ends.line.calls == 0
    assert ends.examined == [ends.ref]


async def test_a_file_that_cannot_be_read_is_looked_after(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    ends.faults_here.reads_fail = True
    await ends.carry()
    assert ends.ended == [(B, False)]
    assert ends.examined == [ends.ref]


async def test_a_file_that_arrives_as_another_is_looked_after_by_its_sender(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    (file,) = (tmp_path / "here").glob("*.snapshot")
    with file.open("r+b") as opened:
        opened.seek(PIECE_BYTES)
        opened.write(b"rot")
    await ends.carry()
    assert ends.ended == [(B, False)]
    assert ends.examined == [ends.ref]
    assert ends.arrived == []
    assert ends.counters.damaged == 1


async def test_a_transfer_that_fails_on_the_way_throws_no_doubt_on_the_file(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    ends = Ends(tmp_path, lambda _call, method: "before" if method == PIECE else "")
    await ends.carry()
    assert ends.ended == [(B, False)]
    assert ends.examined == []


@pytest.mark.parametrize("call", range(1, CALLS + 1))
async def test_b5_a_receiver_that_has_committed_as_much_meanwhile_takes_no_more_of_the_file(
    call: int, tmp_path: Path
) -> None:
    def overtake(number: int, _method: str) -> str:
        ends.hands.committed = META.index if number >= call else META.index - 1
        return ""

    ends = Ends(tmp_path, overtake)
    await ends.carry()
    assert ends.hands.overtaken_offers == [OFFER]
    assert ends.arrived == []
    assert ends.ended == [(B, True)]  # the leader asks for what comes behind it
    assert ends.line.calls == call
    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.parametrize(
    "body",
    [b"", b"garbage", cbor2.dumps([]), cbor2.dumps([b"no offer", 9, bytes(32)]), cbor2.dumps([1, 2, 3, 4])],
)
async def test_what_makes_no_sense_is_refused(body: bytes, tmp_path: Path) -> None:
    receiver = Ends(tmp_path).new_receiver()
    for answer in (receiver.begin, receiver.piece):
        with pytest.raises(wire.UnreadableMessage):
            await answer(body)


async def test_a_piece_of_nothing_that_was_begun_is_declined(tmp_path: Path) -> None:
    with pytest.raises(Declined) as declined:
        await Ends(tmp_path).new_receiver().piece(cbor2.dumps([bytes(32), 0, 0, b"content"]))
    assert declined.value.code == "again"

from __future__ import annotations

from adsum.gossip.commands import PingOutcome, StreamPinged
from adsum.gossip.effects import PingStream
from adsum.gossip.relays import RELAYS_MAX
from adsum.gossip.wire import PacketFlag, PacketKind
from adsum.now import MILLISECOND, SECOND
from tests.gossip.support import Stage, of, sent, short


def asked(stage: Stage, budget_ms: int = 1_000) -> int:
    """b asks me to ping a; the number of my ping."""
    effects = stage.packet("b", PacketKind.PING_REQUEST, sequence=77, about=short("a"), amount=budget_ms)
    (ping,) = sent(effects, PacketKind.PING, to="a")
    return ping.sequence


def test_the_targets_answer_is_passed_on_under_the_askers_number() -> None:
    stage = Stage("a", "b")
    ping = asked(stage)
    (ack,) = sent(stage.packet("a", PacketKind.ACK, sequence=ping), PacketKind.ACK, to="b")
    assert (ack.sequence, ack.about) == (77, short("a"))
    assert sent(stage.run_for(2 * SECOND), PacketKind.NACK) == []


def test_without_an_answer_the_nack_leaves_at_four_fifths_of_the_budget() -> None:
    stage = Stage("a", "b")
    asked(stage)
    assert sent(stage.run_for(799 * MILLISECOND), PacketKind.NACK) == []
    (nack,) = sent(stage.run_for(2 * MILLISECOND), PacketKind.NACK, to="b")
    assert (nack.sequence, nack.about, nack.flags) == (77, short("a"), 0)


def test_a_refused_stream_is_told_at_once() -> None:
    stage = Stage("a", "b")
    ping = asked(stage)
    (stream,) = of(stage.run_for(501 * MILLISECOND), PingStream)
    assert stream.probe == ping
    (nack,) = sent(stage.report(StreamPinged(ping, PingOutcome.REFUSED)), PacketKind.NACK, to="b")
    assert nack.flags == PacketFlag.REFUSED


def test_a_stream_that_answers_counts_for_the_target() -> None:
    stage = Stage("a", "b")
    ping = asked(stage)
    stage.run_for(501 * MILLISECOND)
    assert len(sent(stage.report(StreamPinged(ping, PingOutcome.ANSWERED)), PacketKind.ACK, to="b")) == 1


def test_an_unknown_target_is_said_to_be_unknown() -> None:
    stage = Stage("b")
    effects = stage.packet("b", PacketKind.PING_REQUEST, sequence=77, about=short("zz"), amount=1_000)
    assert [nack.flags for nack in sent(effects, PacketKind.NACK, to="b")] == [PacketFlag.UNKNOWN]


def test_relays_are_bounded() -> None:
    stage = Stage("a", "b")
    for _ in range(RELAYS_MAX + 10):
        stage.packet("b", PacketKind.PING_REQUEST, sequence=77, about=short("a"), amount=1_000)
    assert stage.core.tally.relays_refused == 10


def test_nobody_is_pinged_for_a_stranger() -> None:
    stage = Stage("a", "b")
    effects = stage.packet("zz", PacketKind.PING_REQUEST, sequence=77, about=short("a"), amount=1_000)
    assert effects == []

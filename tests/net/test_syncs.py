from __future__ import annotations

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.gossip.effects import SyncMessage, SyncPart
from adsum.net.framing import MalformedFrame
from adsum.net.syncs import PARTS_MAX, PAYLOAD_BYTES_MAX, JoiningSync, frames

PARTS = st.builds(SyncPart, st.binary(max_size=1_024), st.binary(max_size=1_024), st.integers(0, 1 << 32))
MESSAGES = st.builds(
    SyncMessage,
    st.integers(0, (1 << 64) - 1),
    st.lists(PARTS, max_size=40).map(tuple),
    st.booleans(),
    st.integers(0, 1 << 53),
    st.booleans(),
    st.integers(0, (1 << 48) - 1),
)


def joined(sent: list[bytes]) -> SyncMessage | None:
    joining = JoiningSync()
    results = [joining.add(frame) for frame in sent]
    assert results[:-1] == [None] * (len(sent) - 1)
    return results[-1]


@given(MESSAGES)
def test_a_message_is_joined_as_it_was_cut(message: SyncMessage) -> None:
    assert joined(list(frames(message))) == message


def test_a_large_roster_travels_in_bounded_frames() -> None:
    message = SyncMessage(1, tuple(SyncPart(bytes(1_000), bytes(500)) for _ in range(1_000)))
    sent = list(frames(message))
    assert max(map(len, sent)) <= PAYLOAD_BYTES_MAX
    assert len(sent) > 20
    assert joined(sent) == message


def test_ten_thousand_members_fit_and_an_endless_roster_is_cut_off() -> None:
    frame = cbor2.dumps([1, False, 0, True, False, [(b"", b"", 0)] * 256])
    joining = JoiningSync()
    for _ in range(PARTS_MAX // 256):
        assert joining.add(frame) is None
    with pytest.raises(MalformedFrame, match="longer than a cluster"):
        joining.add(frame)


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [1, False, 0, True, True],
        [-1, False, 0, True, True, []],
        [1, 0, 0, True, True, []],
        [1, False, 1 << 64, True, True, []],
        [1, False, 0, True, True, [1]],
        [1, False, 0, True, True, [[b"", b""]]],
        [1, False, 0, True, True, [[b"", b"", -1]]],
        [1, False, 0, True, True, [[bytes(5_000), b"", 0]]],
        [1, False, 0, True, True, [["", b"", 0]]],
        [1, False, 0, True, True, [], -1],
        [1, False, 0, True, True, [], True],
        [1, False, 0, True, True, [], 1 << 48],
    ],
)
def test_what_is_no_roster_is_malformed(fields: list[object]) -> None:
    with pytest.raises(MalformedFrame):
        JoiningSync().add(cbor2.dumps(fields))


def test_fields_of_later_versions_are_ignored() -> None:
    message = JoiningSync().add(cbor2.dumps([1, True, 0, True, True, [[b"a", b"", 0, "new"]], 5, "newer"]))
    assert message == SyncMessage(1, (SyncPart(b"a"),), is_join=True, wall_ms=5)


def test_agents_of_before_did_not_say_their_date() -> None:
    assert JoiningSync().add(cbor2.dumps([1, True, 0, True, True, []])) == SyncMessage(1, is_join=True)

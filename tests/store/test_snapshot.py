"""The state as a file: what is read back goes on as if nothing had been."""

from __future__ import annotations

from random import Random

import pytest

from adsum.dedup import DedupKey
from adsum.store.commands import Put
from adsum.store.machine import StoreMachine
from adsum.store.snapshot import PIECE_BYTES, StoreState, UnreadableState, pieces_of
from tests.store.small_world import whole_of
from tests.store.stores import Store


def used(seed: int, steps: int = 3_000) -> Store:
    store, random = Store.with_history(500), Random(seed)
    for number in range(steps):
        key = b"%d/%d" % (random.randrange(5), random.randrange(200))
        lot = random.random()
        if lot < 0.7:
            store.run(Put(key, b"%d" % number), DedupKey(f"agent-{number % 4}", 1, number, number - 40))
        elif lot < 0.98:
            store.delete(key)
        else:
            store.delete_tree(key[:3])
    return store


def cut(pieces: list[bytes], random: Random) -> list[bytes]:
    whole, found = b"".join(pieces), []
    while whole:
        length = random.choice((1, 3, 7, 1_000, 65_536))
        found.append(whole[:length])
        whole = whole[length:]
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_state_read_back_answers_and_goes_on_alike(seed: int) -> None:
    store = used(seed)
    other = Store(StoreMachine(bounds=store.space.history.bounds), store.index)
    pieces = cut(list(store.machine.snapshot()), Random(seed))
    other.machine.restore(other.machine.read(iter(pieces)))
    assert whole_of(other.machine) == whole_of(store.machine)
    assert other.machine.hash() == store.machine.hash()
    assert (other.machine.applied, other.machine.offset) == (store.index, 0)
    for key in (b"0/1", b"1/7", b"new"):
        assert other.put(key, b"!") == store.put(key, b"!")
    assert other.delete_tree(b"2/") == store.delete_tree(b"2/")
    assert other.machine.hash() == store.machine.hash()


def test_b17_a_snapshot_is_of_the_moment_of_its_call_with_the_index_that_it_stands_for() -> None:
    store = used(9)
    then, applied = store.machine.hash(), store.machine.applied
    pieces = store.machine.snapshot()
    for number in range(500):
        store.put(b"%d/%d" % (number % 5, number), b"later")
    store.delete_tree(b"1/")
    other = StoreMachine(bounds=store.space.history.bounds)
    other.restore(other.read(pieces))
    assert (other.hash(), other.applied) == (then, applied)


def test_what_the_history_has_put_out_meanwhile_is_let_go_of_as_it_is_written() -> None:
    """To free a hundred thousand changes at once holds the interpreter, and so the loop."""
    store = used(9)
    state = StoreState(
        *(store.machine.applied, store.machine.cluster_ms, store.machine.offset, store.machine.keyspaces),
        *(store.machine.results, store.machine.sessions, store.machine.external),
    ).frozen()
    assert len(state.spaces[0].changes) > 1
    for _piece in pieces_of(state):
        pass
    assert not state.spaces[0].changes


def test_pieces_stay_small_whatever_the_values_weigh() -> None:
    store, random = Store(), Random(1)
    for number in range(300):
        store.put(b"small/%d" % number, b"x")
    for number in range(8):
        store.put(b"large/%d" % number, random.randbytes(200_000))
    assert max(map(len, store.machine.snapshot())) < 2 * PIECE_BYTES + 2_000
    other = StoreMachine()
    other.restore(other.read(store.machine.snapshot()))
    assert other.hash() == store.machine.hash()
    assert other.keyspaces[0].table.bytes_total == store.space.table.bytes_total


def test_what_is_cut_off_or_unknown_is_refused() -> None:
    whole = b"".join(used(3, 300).machine.snapshot())
    machine = StoreMachine()
    for length in (0, 1, 5, len(whole) // 2, len(whole) - 1):
        with pytest.raises(UnreadableState):
            machine.read(iter([whole[:length]]))
    with pytest.raises(UnreadableState, match="kind 99"):
        machine.read(iter([whole[:4] + b"\x63" + whole[5:]]))
    with pytest.raises(UnreadableState, match="codec 7"):
        machine.read(iter([whole[:5] + b"\x07" + whole[6:]]))
    assert machine.applied == 0


def test_long_keys_come_in_frames_that_can_be_read() -> None:
    """256 of them stand in one block of a table."""
    store, random = Store.with_history(10_000), Random(1)
    for number in range(250):
        store.put(b"%03d" % number + random.randbytes(300_000), b"")
    lengths = [len(piece) for piece in store.machine.snapshot()]
    assert max(lengths) < 301_000
    assert store.restarted().machine.hash() == store.machine.hash()

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.gossip import wire
from adsum.net.keyring import Keyring
from adsum.net.sealing import (
    GENERATIONS_PER_SENDER_MAX,
    OVERHEAD_BYTES,
    WINDOW,
    Sealing,
    Window,
)
from tests.net import support
from tests.net.support import KEY_A, KEY_B, ring

ROOT = Path(__file__).resolve().parents[2]
BODY = b"a body of some length, as bodies are"


def message(body: bytes = BODY, *, sender: bytes = b"sender-1", generation: int = 7) -> bytes:
    return wire.header(sender, generation) + body


def sealing(*keys: str, label: str = "dc1", verify_out: bool = True, verify_in: bool = True) -> Sealing:
    return Sealing(ring(*keys), label, verify_outgoing=verify_out, verify_incoming=verify_in)


def same(opened: bytes | None, sent: bytes) -> bool:
    """The flags of the header tell how it travelled; the rest comes out as it went in."""
    return opened is not None and opened[:17] + opened[18:] == sent[:17] + sent[18:]


@given(
    body=st.binary(max_size=1_300), sender=st.binary(min_size=8, max_size=8), generation=st.integers(0, 2**53)
)
def test_what_is_sealed_opens_once(body: bytes, sender: bytes, generation: int) -> None:
    one, other = sealing(KEY_A), sealing(KEY_A)
    sent = message(body, sender=sender, generation=generation)
    datagram = one.seal(sent)
    assert len(datagram) == len(sent) + OVERHEAD_BYTES
    assert same(other.open(datagram), sent)
    assert other.open(datagram) is None
    assert (other.counters.opened, other.counters.replayed) == (1, 1)


@given(position=st.integers(0, 10_000), known=st.booleans())
def test_no_flipped_bit_is_accepted(position: int, known: bool) -> None:
    one, other = sealing(KEY_A), sealing(KEY_A)
    if known:
        other.open(one.seal(message()))
    datagram = bytearray(one.seal(message()))
    position %= len(datagram) * 8
    datagram[position // 8] ^= 1 << position % 8
    assert other.open(bytes(datagram)) is None


@given(position=st.integers(0, 10_000))
def test_no_flipped_bit_is_accepted_in_plaintext_either(position: int) -> None:
    datagram = bytearray(sealing().seal(message()))
    position %= len(datagram) * 8
    datagram[position // 8] ^= 1 << position % 8
    assert sealing().open(bytes(datagram)) is None


@given(st.data())
def test_no_cut_datagram_is_accepted(data: st.DataObject) -> None:
    keys = data.draw(st.sampled_from([(), (KEY_A,)]))
    datagram = sealing(*keys).seal(message())
    end = data.draw(st.integers(0, len(datagram) - 1))
    assert sealing(*keys).open(datagram[:end]) is None


@given(st.binary(max_size=1_500))
def test_noise_is_dropped_and_counted(noise: bytes) -> None:
    receiver = sealing(KEY_A)
    assert receiver.open(noise) is None
    counters = receiver.counters
    assert counters.truncated + counters.other_version + counters.unknown_key + counters.plain_refused == 1


def test_plaintext_is_what_the_stand_in_of_the_core_makes() -> None:
    sent = message()
    body = wire.PlainSeal("dc1").seal(sent[: wire.HEADER_BYTES], BODY)
    assert sealing().seal(sent) == sent[: wire.HEADER_BYTES] + body


@pytest.mark.parametrize("keys", [(), (KEY_A,)])
def test_another_label_is_another_cluster(keys: tuple[str, ...]) -> None:
    stranger, receiver = sealing(*keys, label="dc2"), sealing(*keys)
    assert receiver.open(stranger.seal(message())) is None
    assert receiver.counters.forged + receiver.counters.damaged == 1


def test_another_key_is_unknown() -> None:
    receiver = sealing(KEY_A)
    assert receiver.open(sealing(KEY_B).seal(message())) is None
    assert receiver.counters.unknown_key == 1


def test_a_forger_who_knows_the_hint_gains_nothing_and_leaves_nothing_behind() -> None:
    """The first bytes of a key's fingerprint travel in clear; anyone may write them."""
    receiver = sealing(KEY_A)
    datagram = sealing(KEY_A).seal(message())
    head = datagram[: wire.HEADER_BYTES + 2]
    for number in range(1_000):
        forged = head[:1] + number.to_bytes(8) + head[9:] + bytes(80)
        assert receiver.open(forged) is None
    assert receiver.counters.forged == 1_000
    assert receiver.generations == 0


def test_another_format_is_counted_apart() -> None:
    datagram = sealing(KEY_A).seal(message())
    receiver = sealing(KEY_A)
    assert receiver.open(b"\x01" + datagram[1:]) is None
    assert receiver.open(b"\x03" + datagram[1:]) is None
    assert receiver.counters.other_version == 2


def test_reordering_within_the_window_is_let_in_and_beyond_it_not() -> None:
    one, other = sealing(KEY_A), sealing(KEY_A)
    sent = [one.seal(message(str(number).encode())) for number in range(WINDOW + 1)]
    late, *others = sent
    Random(1).shuffle(others)
    assert all(other.open(datagram) for datagram in others)
    assert other.open(late) is None
    assert other.counters.replayed == 1


def test_a_datagram_sent_back_to_its_sender_is_dropped() -> None:
    one = sealing(KEY_A)
    assert one.open(one.seal(message())) is None
    assert one.counters.reflected == 1


def test_a_flood_of_replays_is_dropped_before_the_cipher() -> None:
    one, other = sealing(KEY_A), sealing(KEY_A)
    datagram = one.seal(message())
    other.open(datagram)
    damaged = datagram[:-1] + bytes((datagram[-1] ^ 1,))
    for _ in range(1_000):
        other.open(damaged)
    assert (other.counters.replayed, other.counters.forged) == (1_000, 0)


def test_no_nonce_returns_within_a_life_or_after_a_restart() -> None:
    def nonces(salt: bytes, *generations: int) -> list[tuple[bytes, bytes]]:
        sender = Sealing(ring(KEY_A), "dc1", random_bytes=lambda _: salt)
        sealed = [sender.seal(message(generation=generation)) for generation in generations]
        return [(datagram[9:17], datagram[20:32]) for datagram in sealed]

    # One process that raises its generation, its next start with the same luck, and a clone with other luck.
    used = nonces(b"salt-1", 7, 7, 8, 7) + nonces(b"salt-1", 9, 9) + nonces(b"salt-2", 7, 7)
    assert len(set(used)) == len(used)


def test_each_generation_has_a_key_of_its_own() -> None:
    """Else an agent that drew an old salt again would seal two messages with one nonce."""

    def first_sealed(generation: int) -> bytes:
        sender = Sealing(ring(KEY_A), "dc1", random_bytes=bytes)
        return sender.seal(message(generation=generation))[32 : 32 + len(BODY)]

    assert first_sealed(7) == first_sealed(7) != first_sealed(8)


def test_lives_of_one_sender_are_bounded_and_recordings_of_old_ones_refused() -> None:
    receiver = sealing(KEY_A)
    first = sealing(KEY_A).seal(message(generation=1))
    receiver.open(first)
    for generation in range(2, GENERATIONS_PER_SENDER_MAX + 2):
        assert receiver.open(sealing(KEY_A).seal(message(generation=generation)))
    assert receiver.generations == GENERATIONS_PER_SENDER_MAX
    assert receiver.open(first) is None
    assert receiver.counters.stale_generation == 1


def test_lives_of_all_senders_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adsum.net.sealing.GENERATIONS_MAX", 10)
    receiver = sealing(KEY_A)
    for number in range(25):
        assert receiver.open(sealing(KEY_A).seal(message(sender=number.to_bytes(8))))
    assert (receiver.generations, receiver.counters.generations_evicted) == (10, 15)


class Moving:
    """Two agents on the way from one setting to another."""

    def __init__(self, one: Sealing, other: Sealing) -> None:
        self.one, self.other = one, other

    def understand_each_other(self) -> bool:
        there = self.other.open(self.one.seal(message()))
        back = self.one.open(self.other.seal(message(sender=b"sender-2")))
        return same(there, message()) and same(back, message(sender=b"sender-2"))


STEPS = [
    lambda: sealing(),
    lambda: sealing(KEY_A, verify_out=False, verify_in=False),
    lambda: sealing(KEY_A, verify_out=True, verify_in=False),
    lambda: sealing(KEY_A, verify_out=True, verify_in=True),
]


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_live_cluster_moves_to_encryption_by_consul_s_steps_and_back(step: int) -> None:
    assert Moving(STEPS[step](), STEPS[step]()).understand_each_other()
    assert Moving(STEPS[step](), STEPS[step + 1]()).understand_each_other()


def test_skipping_a_step_parts_the_cluster() -> None:
    assert not Moving(STEPS[0](), STEPS[2]()).understand_each_other()
    assert not Moving(STEPS[1](), STEPS[3]()).understand_each_other()


def test_plaintext_is_refused_and_counted_once_encryption_is_required() -> None:
    receiver = sealing(KEY_A)
    assert receiver.open(sealing().seal(message())) is None
    assert receiver.counters.plain_refused == 1


def test_how_a_message_travelled_can_be_told() -> None:
    receiver = sealing(KEY_A, verify_in=False)
    plain, sealed = receiver.open(sealing().seal(message())), receiver.open(sealing(KEY_A).seal(message()))
    assert plain is not None
    assert sealed is not None
    assert (receiver.is_authentic(plain), receiver.is_authentic(sealed)) == (False, True)
    assert sealing().is_authentic(plain), "without a key all are alike"


def test_complaint_13_keys_rotate_without_a_lost_datagram_and_each_counts_its_use() -> None:
    rings = [ring(KEY_A), ring(KEY_A)]
    pair = Moving(*(Sealing(keyring, "dc1") for keyring in rings))
    assert pair.understand_each_other()
    for change in (Keyring.install, Keyring.use):
        for keyring in rings:
            change(keyring, KEY_B)
            assert pair.understand_each_other()
    new, old = rings[0].keys
    assert (old.sealed, old.opened, new.sealed, new.opened) == (3, 4, 2, 1)
    for keyring in rings:
        keyring.remove(KEY_A)
        assert pair.understand_each_other()


def test_what_a_removed_key_sealed_no_longer_opens() -> None:
    keyring = ring(KEY_B, KEY_A)
    receiver, sender = Sealing(keyring, "dc1"), support.ring(KEY_A)
    old = Sealing(sender, "dc1")
    assert receiver.open(old.seal(message()))
    keyring.remove(KEY_A)
    assert receiver.generations == 0
    assert receiver.open(old.seal(message())) is None
    assert receiver.counters.unknown_key == 1


def test_each_number_in_a_window_is_new_once() -> None:
    window = Window()
    for number in (5, 3, 4, 2_000, 1_999):
        assert window.is_new(number)
        window.add(number)
        assert not window.is_new(number)


def test_what_is_far_behind_is_never_new() -> None:
    window = Window()
    window.add(WINDOW)
    assert not window.is_new(0)
    assert window.is_new(1)


def test_a_jump_of_any_width_costs_nothing() -> None:
    window = Window()
    window.add(1)
    window.add(1 << 47)
    assert not window.is_new(1 << 47)
    assert window.is_new((1 << 47) - 1)


@given(st.lists(st.integers(0, 3 * WINDOW) | st.integers(0, 1 << 48), max_size=200))
def test_a_window_agrees_with_a_set(numbers: list[int]) -> None:
    window, seen, highest = Window(), set[int](), -1
    for number in numbers:
        expected = number not in seen and number > highest - WINDOW
        assert window.is_new(number) == expected
        if expected:
            window.add(number)
            seen.add(number)
            highest = max(highest, number)


def test_an_agent_without_a_key_never_loads_the_ciphers() -> None:
    program = """
import pkgutil, sys
import adsum.net
for module in pkgutil.iter_modules(adsum.net.__path__, "adsum.net."):
    __import__(module.name)
from tests.net.test_sealing import message, sealing
assert sealing().open(sealing().seal(message()))
sys.exit("cryptography" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60).returncode == 0

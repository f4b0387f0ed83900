"""Which key is taken up from what others say they hold, with a fake for the way to them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import partial
from random import Random

import cbor2
import pytest
import trio

from adsum.address import Address
from adsum.gossip import core as gossip_core
from adsum.gossip.claims import Profile, alive
from adsum.gossip.effects import SyncPart
from adsum.gossip.settings import GossipSettings, MemberIdentity
from adsum.logs.faults import Faults
from adsum.net.calls import NotSent
from adsum.net.keyring import GossipKey, Keyring
from adsum.now import SECOND, Now
from adsum.peers.key_following import ASKED_MAX, KeyFollowing, followed
from adsum.peers.keyrings import LIST, HeldKeys
from adsum.peers.peer_rpc import ASK_TIMEOUT_S
from adsum.storage.failures import StorageFailed
from adsum.storage.memory import MemoryDisk
from adsum.testing.introducing import introduce

NOW = Now(1_000 * SECOND, 1_800_000_000_000)
OLD, NEW, NEWEST = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2, 3))


def key_taken(mine: tuple[str, ...], *others: tuple[str, ...]) -> str | None:
    taken = followed([GossipKey.from_text(text) for text in mine], [HeldKeys(keys) for keys in others])
    return taken.text if taken is not None else None


def test_the_key_of_those_who_removed_ours_is_taken() -> None:
    assert key_taken((OLD, NEW), (NEW,), (NEW,)) == NEW


def test_two_who_were_away_together_both_take_it_though_they_hear_each_other() -> None:
    assert key_taken((OLD, NEW), (NEW,), (OLD, NEW)) == NEW


@pytest.mark.parametrize("mine", [(OLD, NEW), (NEW, OLD)])
def test_in_a_rotation_under_way_nobody_moves_to_or_fro(mine: tuple[str, ...]) -> None:
    assert key_taken(mine, (OLD, NEW), (NEW, OLD)) is None
    assert key_taken(mine, (NEW, OLD)) is None
    assert key_taken(mine, (OLD, NEW)) is None


def test_a_newcomer_that_holds_only_a_key_which_some_lack_leads_nobody() -> None:
    assert key_taken((OLD, NEW), (NEW,), (OLD,)) is None


def test_a_key_that_is_ours_but_not_theirs_to_seal_with_is_not_taken() -> None:
    assert key_taken((OLD, NEW), (NEWEST, NEW)) is None


def test_who_knows_nobody_stays() -> None:
    assert key_taken((OLD, NEW)) is None


def test_who_says_nothing_sensible_leads_nobody() -> None:
    assert key_taken((OLD, NEW), ()) is None


class Others:
    def __init__(self, held: Mapping[int, tuple[str, ...]]) -> None:
        self.held = held
        self.asked: list[Address] = []

    async def ask(self, to: Address, method: str, body: bytes, *, timeout_s: float = ASK_TIMEOUT_S) -> bytes:
        assert (method, body) == (LIST, b"")
        self.asked.append(to)
        await trio.lowlevel.checkpoint()
        if to.port not in self.held:
            raise NotSent("its host refused the connection")
        return cbor2.dumps(list(self.held[to.port]))


def profile_of(number: int) -> Profile:
    return Profile(number.to_bytes(16), f"m{number}", Address("10.0.0.1", number))


def following(keyring: Keyring, others: Others, members: int) -> KeyFollowing:
    core = gossip_core.GossipCore(NOW, GossipSettings(), MemberIdentity(profile_of(1), 1), Random(0))
    profiles = [Profile(n.to_bytes(8) * 2, f"m{n}", Address("10.0.0.1", n)) for n in range(2, members + 2)]
    parts = tuple(SyncPart(alive(profile, 1, 0).encoded) for profile in profiles)
    introduce(partial(core.command, NOW), partial(core.report, NOW), *parts)
    assert len(core.membership.members()) == members
    return KeyFollowing(keyring, core.membership, others, Random(0), Faults())


def ring(*keys: str, disk: MemoryDisk | None = None) -> Keyring:
    return Keyring(disk or MemoryDisk(), map(GossipKey.from_text, keys))


def texts(keyring: Keyring) -> list[str]:
    return [key.text for key in keyring.keys]


async def test_the_key_is_on_disk_and_told_without_showing_it(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    keyring = ring(OLD, NEW, disk=disk)
    await following(keyring, Others({2: (NEW,), 3: (NEW,)}), 2).look()
    assert texts(keyring) == [NEW, OLD]
    assert disk.read("keyring") is not None
    assert "missed a change of keys" in caplog.text
    assert OLD not in caplog.text
    assert NEW not in caplog.text


async def test_nothing_changes_while_a_present_member_cannot_be_asked() -> None:
    keyring = ring(OLD, NEW)
    await following(keyring, Others({2: (NEW,)}), 2).look()
    assert texts(keyring) == [OLD, NEW]


async def test_a_change_by_an_operator_meanwhile_outdates_what_was_answered() -> None:
    keyring = ring(OLD, NEW)

    class Late(Others):
        async def ask(
            self, to: Address, method: str, body: bytes, *, timeout_s: float = ASK_TIMEOUT_S
        ) -> bytes:
            answer = await super().ask(to, method, body)
            keyring.install(NEWEST)
            return answer

    await following(keyring, Late({2: (NEW,)}), 1).look()
    assert texts(keyring) == [OLD, NEW, NEWEST]


async def test_of_thousands_only_some_are_asked() -> None:
    others = Others(dict.fromkeys(range(2, 42), (NEW,)))
    keyring = ring(OLD, NEW)
    await following(keyring, others, 40).look()
    assert len(others.asked) == ASKED_MAX
    assert texts(keyring) == [NEW, OLD]


async def test_who_lacks_the_key_in_use_says_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    await following(ring(OLD, NEW), Others({2: (NEWEST, NEW)}), 1).look()
    assert "adsum keyring -install" in caplog.text


class FullDisk(MemoryDisk):
    def write_durably(self, path: str, content: bytes) -> None:
        raise OSError(28, "No space left on device")


async def test_a_full_disk_is_told_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    keyring = ring(OLD, NEW, disk=FullDisk())
    await following(keyring, Others({2: (NEW,)}), 1).look()
    assert texts(keyring) == [OLD, NEW]
    assert "No space left on device" in caplog.text


class FailingDisk(MemoryDisk):
    def write_durably(self, path: str, content: bytes) -> None:
        raise StorageFailed(f"could not sync {path}: input/output error")


async def test_a_failed_sync_of_the_keys_ends_the_process() -> None:
    with pytest.raises(StorageFailed):
        await following(ring(OLD, NEW, disk=FailingDisk()), Others({2: (NEW,)}), 1).look()

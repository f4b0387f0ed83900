"""One key changed on many keyrings, with fakes for the way between them."""

from __future__ import annotations

import base64
import logging
from dataclasses import dataclass, field
from functools import partial
from random import Random

import pytest

from adsum.address import Address
from adsum.gossip import core as gossip_core
from adsum.gossip import wire
from adsum.gossip.claims import DeathCause as DeadCause
from adsum.gossip.claims import Profile, alive, dead, suspect
from adsum.gossip.effects import SyncPart
from adsum.gossip.settings import GossipSettings, MemberIdentity
from adsum.net.calls import Declined, NotSent
from adsum.net.introduction import Peer
from adsum.net.introduction import PeerIdentity as PeerIdentity
from adsum.net.keyring import BadKey, GossipKey, Keyring, KeyringError
from adsum.now import SECOND, Now
from adsum.peers.keyrings import (
    INSTALL,
    IS_PRIMARY,
    LACKS,
    OUTGOING_OFF,
    REMOVE,
    USE,
    Keyrings,
    RoundFailed,
)
from adsum.peers.peer_rpc import ASK_TIMEOUT_S
from adsum.storage.failures import StorageFailed
from adsum.storage.memory import MemoryDisk
from adsum.testing.introducing import introduce

NOW = Now(1_000 * SECOND, 1_800_000_000_000)
OLD, NEW = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
NAMES = ("m0", "m1", "m2")


def address_of(name: str) -> Address:
    return Address("10.0.0.1", 8301 + int(name[1:]))


def profile_of(name: str) -> Profile:
    return Profile(name.encode() * 8, name, address_of(name))


@dataclass
class Network:
    """Calls the keyrings of others directly, as an authenticated caller."""

    members: dict[Address, Keyrings] = field(default_factory=dict)
    cut_off: set[str] = field(default_factory=set)
    asked: list[tuple[str, str]] = field(default_factory=list)  # method, and of whom
    is_sealed: bool = True

    async def ask(self, to: Address, method: str, body: bytes, *, timeout_s: float = ASK_TIMEOUT_S) -> bytes:
        name = f"m{to.port - 8301}"
        self.asked.append((method, name))
        if name in self.cut_off:
            raise NotSent("its host refused the connection")
        caller = Peer(to, PeerIdentity(b"\0" * 16), 1, is_authenticated=self.is_sealed)
        return await self.members[to].answer(method, caller, body)


@dataclass
class Cluster:
    network: Network
    gossip: dict[str, gossip_core.GossipCore]
    keyrings: dict[str, Keyrings]
    held: dict[str, Keyring]

    def keys(self) -> dict[str, list[str]]:
        short = {OLD: "old", NEW: "new"}
        return {name: [short[key.text] for key in keyring.keys] for name, keyring in self.held.items()}


def everywhere(*keys: str) -> dict[str, list[str]]:
    return {name: list(keys) for name in NAMES}


def gossip_of(name: str) -> gossip_core.GossipCore:
    core = gossip_core.GossipCore(NOW, GossipSettings(), MemberIdentity(profile_of(name), 1), Random(0))
    parts = tuple(SyncPart(alive(profile_of(other), 1, 0).encoded) for other in NAMES if other != name)
    introduce(partial(core.command, NOW), partial(core.report, NOW), *parts)
    return core


def cluster(*, keys: tuple[str, ...] = (OLD,), seals_outgoing: bool = True) -> Cluster:
    network, keyrings, held = Network(), {}, {}
    gossip = {name: gossip_of(name) for name in NAMES}
    for name in NAMES:
        held[name] = Keyring(MemoryDisk(), map(GossipKey.from_text, keys))
        keyrings[name] = Keyrings(held[name], gossip[name].membership, network, seals_outgoing=seals_outgoing)
        network.members[address_of(name)] = keyrings[name]
    return Cluster(network, gossip, keyrings, held)


async def test_a_key_is_changed_on_every_member_in_three_steps() -> None:
    three = cluster()
    asked = three.keyrings["m1"]
    await asked.change(INSTALL, NEW)
    assert three.keys() == everywhere("old", "new")
    await asked.change(USE, NEW)
    assert three.keys() == everywhere("new", "old")
    await asked.change(REMOVE, OLD)
    assert three.keys() == everywhere("new")


async def test_each_step_may_be_done_twice() -> None:
    three = cluster()
    for step in (INSTALL, INSTALL, USE, USE):
        await three.keyrings["m0"].change(step, NEW)
    await three.keyrings["m0"].change(REMOVE, OLD)
    await three.keyrings["m0"].change(REMOVE, OLD)
    assert three.keys() == everywhere("new")


async def test_a_key_that_one_member_lacks_is_used_by_nobody_and_the_member_is_named() -> None:
    three = cluster()
    await three.keyrings["m0"].change(INSTALL, NEW)
    three.held["m2"].remove(NEW)
    with pytest.raises(RoundFailed) as failed:
        await three.keyrings["m0"].change(USE, NEW)
    assert (failed.value.failures, failed.value.members) == ({"m2": LACKS}, 3)
    assert three.keys() == {"m0": ["old", "new"], "m1": ["old", "new"], "m2": ["old"]}


async def test_a_key_is_not_used_while_a_present_member_cannot_be_asked() -> None:
    three = cluster()
    await three.keyrings["m0"].change(INSTALL, NEW)
    three.network.cut_off.add("m1")
    with pytest.raises(RoundFailed) as failed:
        await three.keyrings["m0"].change(USE, NEW)
    assert failed.value.failures == {"m1": "its host refused the connection"}
    assert three.keys() == everywhere("old", "new")


async def test_a_key_that_is_primary_anywhere_is_removed_nowhere() -> None:
    three = cluster()
    for name in NAMES[:2]:
        three.held[name].install(NEW)
        three.held[name].use(NEW)
    with pytest.raises(RoundFailed) as failed:
        await three.keyrings["m0"].change(REMOVE, OLD)
    assert failed.value.failures == {"m2": IS_PRIMARY}
    assert three.keys() == {"m0": ["new", "old"], "m1": ["new", "old"], "m2": ["old"]}


async def test_an_installation_that_fails_somewhere_says_where_and_is_repeated() -> None:
    three = cluster()
    three.network.cut_off.add("m2")
    with pytest.raises(RoundFailed) as failed:
        await three.keyrings["m0"].change(INSTALL, NEW)
    assert list(failed.value.failures) == ["m2"]
    three.network.cut_off.clear()
    await three.keyrings["m0"].change(INSTALL, NEW)
    assert three.keys() == everywhere("old", "new")


async def test_members_that_failed_are_not_asked() -> None:
    three = cluster()
    m0, m1 = three.gossip["m0"], profile_of("m1")
    accused = suspect(profile_of("m2").short, 1, 0, (profile_of("m1").short,))
    verdict = dead(accused, DeadCause.SILENT)
    message = wire.header(m1.short, 1) + wire.encode(
        wire.Packet(wire.PacketKind.GOSSIP, claims=[verdict.encoded])
    )
    m0.receive(NOW, m1.address, message)
    three.network.cut_off.add("m2")
    assert set(await three.keyrings["m0"].gather()) == {"m0", "m1"}


async def test_without_encryption_nobody_is_asked() -> None:
    three = cluster(keys=())
    with pytest.raises(KeyringError, match="Keyring is empty"):
        await three.keyrings["m0"].gather()
    for step in (INSTALL, USE, REMOVE):
        with pytest.raises(KeyringError, match="No keyring to modify"):
            await three.keyrings["m0"].change(step, NEW)
    assert three.network.asked == []


async def test_keys_do_not_travel_while_outgoing_traffic_may_be_plain() -> None:
    three = cluster(seals_outgoing=False)
    with pytest.raises(KeyringError, match=OUTGOING_OFF[:30]):
        await three.keyrings["m0"].change(INSTALL, NEW)
    assert three.network.asked == []


async def test_a_caller_without_a_key_learns_and_changes_nothing() -> None:
    three = cluster()
    three.network.is_sealed = False
    for method, body in (("keyring.list", b""), ("keyring.install", NEW.encode())):
        with pytest.raises(Declined, match="not"):
            await three.network.ask(address_of("m1"), method, body)
    assert three.keys() == everywhere("old")


async def test_what_is_no_key_is_refused_before_anybody_is_asked() -> None:
    three = cluster()
    for text in ("xx", "eHg=", ""):
        with pytest.raises(BadKey, match="adsum keygen"):
            await three.keyrings["m0"].change(INSTALL, text)
    assert three.network.asked == []


async def test_keys_show_in_no_error_no_repr_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    three = cluster()
    three.network.cut_off.add("m2")
    with caplog.at_level(logging.DEBUG), pytest.raises(RoundFailed) as failed:
        await three.keyrings["m0"].change(INSTALL, NEW)
    held = await cluster().keyrings["m0"].gather()
    shown = f"{failed.value!r} {failed.value.failures} {caplog.text} {held!r} {three.held!r}"
    assert NEW not in shown
    assert OLD not in shown


class FullDisk(MemoryDisk):
    def write_durably(self, path: str, content: bytes) -> None:
        raise OSError(28, "No space left on device")


async def test_a_disk_that_is_full_is_that_member_s_failure() -> None:
    three = cluster()
    three.held["m2"]._disk = FullDisk()
    with pytest.raises(RoundFailed) as failed:
        await three.keyrings["m0"].change(INSTALL, NEW)
    assert failed.value.failures == {
        "m2": "its keyring could not be written: no space left on device: make room on its disk"
    }


class FailingDisk(MemoryDisk):
    def write_durably(self, path: str, content: bytes) -> None:
        raise StorageFailed(f"could not sync {path}: input/output error")


@pytest.mark.parametrize("asked", ["m0", "m2"])
async def test_a_failed_sync_of_the_keys_ends_the_process_whoever_asked(asked: str) -> None:
    three = cluster()
    three.held[asked]._disk = FailingDisk()
    with pytest.RaisesGroup(StorageFailed, allow_unwrapped=True, flatten_subgroups=True):
        await three.keyrings["m0"].change(INSTALL, NEW)

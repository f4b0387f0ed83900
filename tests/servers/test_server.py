"""Whole servers on real sockets: founded, asked, encrypted, lied to, killed, taken in, stopped."""

from __future__ import annotations

import logging
import math
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from uuid import UUID

import cbor2
import pytest
import trio
import trustme

from adsum.consensus.errors import NoLeader, OutcomeUnknown, StoreBroken
from adsum.consensus.settings import ServerSettings
from adsum.net.calls import CallConnection, CallError, Declined, dial_for_calls
from adsum.net.gate import Gate, Security
from adsum.net.introduction import PeerIdentity
from adsum.net.tls import TlsSettings, tls
from adsum.raft.messages import PROTOCOL_VERSION, Heartbeat, MessageStamp, SnapshotOffer
from adsum.raft.types import Configuration, MemberId, SnapshotMeta, Term
from adsum.servers.wire import Encoder
from adsum.storage import quorum_recovery
from adsum.storage.files import OsFolder, write_whole
from adsum.storage.opening import open_log
from tests.servers.faults import Faults, FaultyFolder
from tests.servers.support import (
    KEY,
    QUICK,
    SEGMENT_BYTES,
    Cluster,
    Site,
    cluster,
    node,
    on_disk,
    ring,
    term_of,
    until,
)

SETTINGS = ServerSettings(raft=QUICK)


def certified(folder: Path) -> Security:
    authority = trustme.CA()
    made = authority.issue_cert("server.dc1.consul")
    files = {name: str(folder / name) for name in ("ca", "cert", "key")}
    authority.cert_pem.write_to_path(files["ca"])
    made.cert_chain_pems[0].write_to_path(files["cert"])
    made.private_key_pem.write_to_path(files["key"])
    settings = TlsSettings(
        ca_file=files["ca"],
        cert_file=files["cert"],
        key_file=files["key"],
        verify_incoming=True,
        verify_outgoing=True,
        verify_server_hostname=True,
    )
    return Security(ring(), "dc1", tls=tls(settings))


@pytest.mark.parametrize("how", ["plain", "sealed", "certified"])
async def test_three_empty_servers_found_one_cluster_and_each_takes_proposals(
    how: str, tmp_path: Path
) -> None:
    security = {
        "plain": lambda: Security(ring(), "dc1"),
        "sealed": lambda: Security(ring(KEY), "dc1"),
        "certified": lambda: certified(tmp_path),
    }[how]()
    async with cluster(tmp_path, security=security) as made:
        words = [site.node.encode() for site in made.sites]
        for site in made.sites:
            assert await site.server.propose(site.node.encode()) == b"heard " + site.node.encode()
            await site.server.read()
            assert site.machine.words == words[: site.number]
        await until(lambda: all(site.machine.words == words for site in made.sites))
        assert len({site.server.log.identity.cluster for site in made.sites}) == 1
        assert len({site.machine.hash() for site in made.sites}) == 1


async def test_a_server_alone_is_a_cluster_when_it_expects_one(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as made:
        (site,) = made.sites
        assert await site.server.propose(b"a") == b"heard a"
        assert await site.server.read() >= 3


async def test_what_was_acknowledged_survives_the_leader_and_its_return(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        first = await made.leader()
        for number in range(20):
            await first.server.propose(b"%d" % number)
        await first.kill()
        second = await made.leader(besides=first)
        assert await second.server.propose(b"after") == b"heard after"
        made.start(first)
        expected = [*(b"%d" % number for number in range(20)), b"after"]
        await until(lambda: first.machine.words == expected)
        assert second.machine.words == expected


async def test_all_three_killed_come_back_unaided_with_everything(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        leader = await made.leader()
        for number in range(20):
            await leader.server.propose(b"%d" % number)
        for site in made.sites:
            await site.kill()
        for site in made.sites:
            made.start(site)
        again = await made.leader()
        await again.server.read()
        assert again.machine.words == [b"%d" % number for number in range(20)]


async def test_who_leaves_for_good_gives_its_vote_back_while_it_can_vote_for_that(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        for staying in (2, 1):
            leader = await made.leader()
            await leader.server.propose(b"%d" % staying)
            await leader.server.stop(leaves=True)
            await leader.ended.wait()
            next_one = await made.leader(besides=leader)
            assert next_one.server.driver is not None
            configuration = next_one.server.driver.core.raft.replica.configuration
            assert len(configuration.members()) == staying
            assert leader.server.me not in configuration.members()
        await next_one.server.propose(b"alone")
        assert next_one.machine.words == [b"2", b"1", b"alone"]


async def test_an_orderly_stop_hands_leadership_over_without_an_election_timeout(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        leader = await made.leader()
        await leader.server.propose(b"a")
        before = term_of(leader)
        await leader.server.stop()
        assert not leader.server.driver or not leader.server.driver.is_leader
        heir = await made.leader(besides=leader)
        assert term_of(heir) == before + 1
        await leader.ended.wait()
        assert leader.error is None


async def test_without_a_quorum_a_proposal_is_held_and_then_refused(tmp_path: Path) -> None:
    settings = replace(SETTINGS, rpc_hold_timeout_s=1.0)
    async with cluster(tmp_path, settings=settings) as made:
        leader = await made.leader()
        others = [site for site in made.sites if site is not leader]
        for site in others:
            await site.kill()
        survivor = leader
        await until(lambda: not survivor.server.driver or not survivor.server.driver.is_leader)
        with pytest.raises(NoLeader, match="held for 1 s"):
            await survivor.server.propose(b"a")


async def test_what_waits_when_a_server_stops_or_loses_its_quorum_is_told_so(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        leader = await made.leader()
        driver = leader.server.driver
        assert driver is not None
        await leader.server.propose(b"a")
        for site in made.sites:
            if site is not leader:
                await site.kill()
        proposed, read = list[bytes | Exception](), list[int | Exception]()
        driver.propose(b"who knows", proposed.append)
        driver.read(read.append)
        await until(lambda: read)
        assert [type(each) for each in read] == [NoLeader]
        assert proposed == []
        await leader.kill()
        assert [type(each) for each in proposed] == [OutcomeUnknown]


# Joining.


async def test_a_newcomer_is_taken_in_brought_the_state_and_made_a_voter(tmp_path: Path) -> None:
    settings = replace(SETTINGS, snapshot_entries=10, snapshot_interval_s=0.1, entries_kept=5, stable_s=0.1)
    async with cluster(tmp_path, settings=settings) as made:
        leader = await made.leader()
        for number in range(50):
            await leader.server.propose(b"%d" % number)
        driver = leader.server.driver
        assert driver is not None
        await until(lambda: driver.counters.snapshots_made)
        newcomer = made.add(on_disk(tmp_path / "new"), replace(settings, expect=0))
        await until(lambda: newcomer.machine.words == leader.machine.words)
        assert newcomer.server.driver is not None
        assert newcomer.server.driver.counters.snapshots_installed == 1
        await until(lambda: newcomer.server.me in voters_of(leader))
        assert newcomer.server.log.identity.cluster == leader.server.log.identity.cluster
        await leader.kill()
        another = await made.leader(besides=leader)
        assert await another.server.propose(b"four of four") == b"heard four of four"


async def test_a_wiped_founder_founds_nothing_and_takes_the_place_of_its_former_self(tmp_path: Path) -> None:
    async with cluster(tmp_path, settings=replace(SETTINGS, stable_s=0.1)) as made:
        leader = await made.leader()
        await leader.server.propose(b"a")
        victim = next(site for site in made.sites if site is not leader)
        before = victim.server.me
        await victim.kill()
        for file in (tmp_path / str(victim.number)).iterdir():
            file.unlink()
        made.start(victim, replace(made.settings, expect=3))
        after = victim.server.me
        assert after != before
        await until(lambda: after in voters_of(leader))
        assert before not in voters_of(leader)
        assert len(voters_of(leader)) == 3
        assert victim.server.log.identity.cluster == leader.server.log.identity.cluster
        await until(lambda: victim.machine.words == [b"a"])


async def test_a_server_with_a_damaged_log_says_so_and_votes_again_under_another_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path, settings=replace(SETTINGS, stable_s=0.1)) as made:
        leader = await made.leader()
        for number in range(20):
            await leader.server.propose(b"%d" % number * 400)
        victim = next(site for site in made.sites if site is not leader)
        before = victim.server.me
        await until(lambda: len(victim.machine.words) == 20)
        await victim.kill()
        damage(tmp_path / str(victim.number))
        made.start(victim)
        after = victim.server.me
        assert after != before
        assert "goes on under another id" in caplog.text
        assert (tmp_path / str(victim.number) / "doubt").exists()
        await until(lambda: after in voters_of(leader) and before not in voters_of(leader))
        await until(lambda: not (tmp_path / str(victim.number) / "doubt").exists())
        await until(lambda: victim.machine.words == leader.machine.words)


def damage(folder: Path) -> None:
    """One bit of an entry that was acknowledged, with others behind it."""
    segment = next(each for each in folder.glob("*.segment") if b"3" * 400 in each.read_bytes())
    content = bytearray(segment.read_bytes())
    content[content.index(b"3" * 400)] ^= 1
    segment.write_bytes(content)


def voters_of(site: Site) -> tuple[MemberId, ...]:
    assert site.server.driver is not None
    return site.server.driver.core.raft.replica.configuration.voters


async def test_a_cluster_is_not_founded_while_one_server_is_missing_or_expects_another_number(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "raft")
    async with trio.open_nursery() as nursery:
        made = Cluster(nursery, replace(SETTINGS, expect=3), Security(ring(), "dc1"))
        for number in (1, 2):
            made.add(on_disk(tmp_path / str(number)))
        await until(lambda: "2 servers are alive in dc1, and 3 are expected" in caplog.text)
        third = made.add(on_disk(tmp_path / "3"), replace(SETTINGS, expect=5))
        await until(lambda: f"server {third.node} has bootstrap_expect 5" in caplog.text)
        assert all(site.server.driver is None for site in made.sites)
        await third.kill()
        made.start(third, replace(SETTINGS, expect=3))
        await made.leader()
        nursery.cancel_scope.cancel()


async def test_b25_one_survivor_goes_on_in_a_new_epoch_and_takes_wiped_ones_in(tmp_path: Path) -> None:
    async with cluster(tmp_path, settings=replace(SETTINGS, stable_s=0.1)) as made:
        survivor = await made.leader()
        others = [site for site in made.sites if site is not survivor]
        await survivor.server.propose(b"a")
        for site in made.sites:
            await site.kill()
        folder = OsFolder(tmp_path / str(survivor.number))
        opened = open_log(
            folder, node=survivor.node, mint_log_id=str, mint_salt=bytes, segment_bytes=SEGMENT_BYTES
        )
        write_whole(
            folder,
            quorum_recovery.FILE,
            quorum_recovery.encode(quorum_recovery.describe(opened.log, 1_800_000_000)),
        )
        opened.log.close()
        folder.close()
        made.start(survivor)
        assert await survivor.server.propose(b"alone") == b"heard alone"
        old, wiped = others
        for file in (tmp_path / str(wiped.number)).iterdir():
            file.unlink()
        made.start(old)
        made.start(wiped)
        await until(lambda: len(voters_of(survivor)) == 2)
        assert {member.node for member in voters_of(survivor)} == {survivor.node, wiped.node}
        await until(lambda: wiped.machine.words == [b"a", b"alone"])
        assert old.machine.words != survivor.machine.words  # the epoch it knows is over
        assert old.server.gate.counters.dials_failed["TurnedAway"] > 0


# Lies.


class Liar:
    """Speaks the protocol, under any name."""

    def __init__(self, name: str, *, cluster_id: str = "", security: Security | None = None) -> None:
        identity = PeerIdentity(UUID(name).bytes, cluster_id, 0)
        self.gate = Gate(lambda: identity, security or Security(ring(), "dc1"))

    def line(self, site: Site) -> CallConnection:
        return CallConnection(dial_for_calls(self.gate, site.address), Random(1))


async def tell(site: Site, liar: Liar, *bodies: bytes) -> None:
    """And wait until the server has seen them: an answer comes after what was told before it."""
    line = liar.line(site)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.run)
        for body in bodies:
            line.tell("raft", body)
        with suppress(Declined):
            await line.ask("standing", cbor2.dumps([]), timeout_s=5)
        nursery.cancel_scope.cancel()


def heartbeat(site: Site, source: str, *, cluster_id: str = "", version: int = PROTOCOL_VERSION) -> bytes:
    stamp = MessageStamp(cluster_id or site.server.log.identity.cluster, 0, version)
    return Encoder().encode(Heartbeat(stamp, MemberId(source, "log"), site.server.me, Term(1_000), 0, 1))


async def test_who_is_no_server_of_ours_is_refused_and_counted(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as made:
        (site,) = made.sites
        await made.leader()
        stranger = node(99)
        await tell(site, Liar(stranger), heartbeat(site, stranger))
        assert site.server.answering.counters.strangers == 2
        assert site.server.answering.counters.messages == 0
        assert term_of(site) < 1_000


async def test_a_message_in_another_server_s_name_is_counted_and_dropped(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        leader = await made.leader()
        others = [site for site in made.sites if site is not leader]
        await tell(leader, Liar(others[0].node), heartbeat(leader, others[1].node))
        assert leader.server.answering.counters.impostors == 1
        assert term_of(leader) < 1_000


async def test_a_snapshot_in_another_server_s_name_is_counted_and_declined(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        leader = await made.leader()
        liar, named = [site for site in made.sites if site is not leader]
        stamp = MessageStamp(leader.server.log.identity.cluster, 0)
        me = leader.server.me
        meta = SnapshotMeta(1_000, Term(1_000), Configuration(voters=(me,)))
        offer = SnapshotOffer(stamp, named.server.me, me, Term(1_000), 1, meta)
        body = cbor2.dumps([Encoder().encode(offer), 1, bytes(32)])
        line = Liar(liar.node).line(leader)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(line.run)
            with pytest.raises(Declined, match="in another server's name"):
                await line.ask("snapshot-begin", body, timeout_s=5)
            nursery.cancel_scope.cancel()
        assert leader.server.answering.counters.impostors == 1


async def test_other_clusters_other_versions_and_garbage_are_counted_each(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        leader = await made.leader()
        assert leader.server.driver is not None
        peer = next(site.node for site in made.sites if site is not leader)
        await tell(
            leader,
            Liar(peer),
            heartbeat(leader, peer, cluster_id="another"),
            heartbeat(leader, peer, version=PROTOCOL_VERSION + 1),
            b"garbage",
        )
        assert leader.server.driver.core.raft.counts.foreign == 1
        assert leader.server.answering.counters.other_version == 1
        assert leader.server.answering.counters.malformed == 1
        assert term_of(leader) < 1_000
        assert await leader.server.propose(b"a") == b"heard a"


async def test_a_server_of_another_cluster_is_turned_away_at_the_door(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as made:
        (site,) = made.sites
        await made.leader()
        with pytest.raises(CallError, match="it belongs to another cluster"):
            await asked(Liar(site.node, cluster_id="another").line(site), "standing")
        assert site.server.gate.counters.welcomes_failed["Unwelcome"] >= 1


async def test_with_a_key_plaintext_is_not_heard(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, security=Security(ring(KEY), "dc1")) as made:
        (site,) = made.sites
        await made.leader()
        with pytest.raises(CallError, match="accepts only encrypted traffic"):
            await asked(Liar(site.node).line(site), "standing")


@pytest.mark.parametrize("body", [b"", b"garbage", cbor2.dumps([1, 2]), cbor2.dumps([b"x", ["", 1, 2, 3]])])
async def test_a_proposal_that_makes_no_sense_is_declined(body: bytes, tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as made:
        (site,) = made.sites
        await made.leader()
        with pytest.raises(Declined) as declined:
            await asked(Liar(site.node).line(site), "propose", body)
        assert declined.value.code == "malformed"


async def asked(line: CallConnection, method: str, body: bytes = b"") -> bytes:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.run)
        try:
            return await line.ask(method, body, timeout_s=5)
        except CallError as error:
            failed = error
        finally:
            nursery.cancel_scope.cancel()
    raise failed


# Disks.


async def on_faulty_disk(made: Cluster, tmp_path: Path) -> tuple[Site, Faults]:
    """The leader, when all have gone over to disks that can fail."""
    await made.leader()
    for site in made.sites:
        await site.kill()
    for site in made.sites:
        site.make_folder = partial(FaultyFolder, tmp_path / str(site.number), site.faults)
        made.start(site)
    leader = await made.leader()
    await leader.server.propose(b"first")
    return leader, leader.faults


async def test_b21_a_failed_sync_ends_the_process_and_never_acknowledges(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        leader, faults = await on_faulty_disk(made, tmp_path)
        faults.syncs_fail = True
        follower = next(site for site in made.sites if site is not leader)
        with pytest.raises(OutcomeUnknown):
            await leader.server.propose(b"never acknowledged")
        await leader.ended.wait()
        assert await follower.server.propose(b"second") == b"heard second"
        assert isinstance(leader.error, StoreBroken)
        assert "could not sync: input/output error" in str(leader.error)
        assert "the next start reads what is truly there" in str(leader.error)
        faults.syncs_fail = False
        made.start(leader)
        await until(lambda: leader.machine.words[-1:] == [b"second"])


async def test_b24_a_leader_whose_disk_is_silent_gives_way(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        leader, faults = await on_faulty_disk(made, tmp_path)
        faults.flowing.clear()
        try:
            follower = next(site for site in made.sites if site is not leader)
            with trio.move_on_after(0):
                await leader.server.propose(b"never stored here")
            another = await made.leader(besides=leader)
            assert await another.server.propose(b"second") == b"heard second"
            assert await follower.server.read() > 0
        finally:
            faults.flowing.set()
        await until(lambda: b"second" in leader.machine.words)


async def test_a_full_disk_gives_leadership_away_and_takes_part_again_when_there_is_room(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as made:
        leader, faults = await on_faulty_disk(made, tmp_path)
        faults.is_full = True
        assert leader.server.driver is not None
        storing, count = leader.server.driver.core.storing, 1
        while storing.has_room:
            await leader.server.propose(b"x" * 20_000)
            count += 1
        another = await made.leader(besides=leader)
        await another.server.propose(b"elsewhere")
        faults.is_full = False
        await until(lambda: storing.has_room)
        await until(lambda: leader.machine.words[-1] == b"elsewhere")
        assert len(leader.machine.words) == count + 1


async def test_while_a_segment_is_filled_the_loop_is_not_woken_for_each_of_its_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(tmp_path) as made:
        driver = (await made.leader()).server.driver
        assert driver is not None
        heard: list[str] = []
        progressed = driver.core.raft.disk_progressed
        filling = driver.raft_log._files

        def hear() -> None:
            heard.append("disk")
            progressed()

        def fill() -> None:
            for _ in range(64):
                filling.progressed()

        monkeypatch.setattr(driver.core.raft, "disk_progressed", hear)
        monkeypatch.setattr(driver, "_progress_told_s", -math.inf)  # of the segment that was filled before
        await trio.to_thread.run_sync(fill)
        await until(lambda: heard)
        assert len(heard) == 1

"""Who is kept out of a cluster whose servers know each other by key or by certificate; the same server with
the right ones is taken in each time, so that nothing else can have been the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trustme

from adsum.consensus.settings import ServerSettings
from adsum.net.calls import CallError
from adsum.net.gate import Security
from adsum.net.tls import Tls, TlsSettings, tls
from tests.net.certificates import Folder
from tests.net.support import KEY_A, KEY_B
from tests.servers.support import QUICK, Cluster, Site, on_disk, ring, until

SERVER_NAME = "server.dc1.consul"
SETTINGS = ServerSettings(raft=QUICK, stable_s=0.1)
ATTEMPTS = 3  # of the leader to speak with a newcomer, all in vain


def strict(files: Folder) -> TlsSettings:
    return replace(files.settings, verify_incoming=True, verify_outgoing=True, verify_server_hostname=True)


def certified(settings: TlsSettings) -> Security:
    return Security(ring(), "dc1", tls=tls(settings))


def keyed(*keys: str) -> Security:
    return Security(ring(*keys), "dc1")


class Papers:
    """What servers, and who would like to be one, have in their folders."""

    def __init__(self, path: Path) -> None:
        self.authority = trustme.CA()
        self._path = path

    def server(self, name: str = "server") -> TlsSettings:
        return strict(Folder(self._path / name, self.authority, SERVER_NAME))

    def of_another_authority(self) -> Security:
        return certified(strict(Folder(self._path / "other", trustme.CA(), SERVER_NAME)))

    def of_another_authority_trusting_ours(self) -> Security:
        other = strict(Folder(self._path / "trusting", trustme.CA(), SERVER_NAME))
        return certified(replace(other, ca_file=self.server().ca_file))

    def without_certificate(self) -> Security:
        bare = replace(self.server(), cert_file="", key_file="", verify_incoming=False)
        return certified(bare)

    def without_tls(self) -> Security:
        return keyed()

    def of_a_client(self) -> Security:
        return certified(strict(Folder(self._path / "client", self.authority, "client.dc1.consul")))


async def stays_out(made: Cluster, leader: Site, newcomer: Site) -> None:
    """The leader knows of it and asks it in, again and again, and never hears a word that counts."""
    failed = leader.server.gate.counters.dials_failed
    before = failed.total()
    await until(lambda: failed.total() >= before + ATTEMPTS)
    assert newcomer.server.driver is None
    assert leader.server.driver is not None
    assert newcomer.server.me not in leader.server.driver.core.raft.replica.configuration.members()
    assert await leader.server.propose(b"without it") == b"heard without it"


async def is_taken_in_with(security: Security, made: Cluster, leader: Site, newcomer: Site) -> None:
    await newcomer.kill()
    made.start(newcomer, replace(SETTINGS, expect=0), security)
    await until(lambda: newcomer.machine.words == [b"without it"])


async def is_not_heard(leader: Site, newcomer: Site) -> None:
    with pytest.raises(CallError):
        await newcomer.server.links.ask_once(leader.node, "standing", b"", timeout_s=5)


@pytest.mark.parametrize("key", ["", KEY_B], ids=["no key", "another key"])
async def test_a_server_without_the_key_is_kept_out(key: str, tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        made = Cluster(nursery, replace(SETTINGS, expect=1), keyed(KEY_A))
        leader = made.add(on_disk(tmp_path / "1"))
        await made.leader()
        keys = [key] if key else []
        newcomer = made.add(on_disk(tmp_path / "2"), replace(SETTINGS, expect=0), keyed(*keys))
        await stays_out(made, leader, newcomer)
        await is_not_heard(leader, newcomer)
        assert leader.server.gate.counters.welcomes_failed["Unwelcome"] >= 1
        await is_taken_in_with(keyed(KEY_A), made, leader, newcomer)
        nursery.cancel_scope.cancel()


async def test_three_servers_found_nothing_with_one_that_lacks_the_key(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        made = Cluster(nursery, replace(SETTINGS, expect=3), keyed(KEY_A))
        sites = [made.add(on_disk(tmp_path / str(number))) for number in (1, 2)]
        third = made.add(on_disk(tmp_path / "3"), security=keyed())
        for site in sites:
            turned_away = site.server.gate.counters.dials_failed
            await until(lambda counts=turned_away: counts["TurnedAway"] >= ATTEMPTS)  # type: ignore[misc]
        assert all(site.server.driver is None for site in made.sites)
        await third.kill()
        made.start(third)
        leader = await made.leader()
        assert await leader.server.propose(b"a") == b"heard a"
        nursery.cancel_scope.cancel()


Lacking = Callable[[Papers], Security]


@pytest.mark.parametrize(
    ("lacking", "is_heard"),
    [
        (Papers.of_another_authority, False),
        (Papers.of_another_authority_trusting_ours, False),
        (Papers.without_certificate, False),
        (Papers.without_tls, False),
        # Clients of the cluster call servers, too; what they cannot do is answer as one.
        (Papers.of_a_client, True),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_server_without_a_server_s_certificate_is_kept_out(
    lacking: Lacking, *, is_heard: bool, tmp_path: Path
) -> None:
    papers = Papers(tmp_path)
    async with trio.open_nursery() as nursery:
        made = Cluster(nursery, replace(SETTINGS, expect=1), certified(papers.server()))
        leader = made.add(on_disk(tmp_path / "1"))
        await made.leader()
        newcomer = made.add(on_disk(tmp_path / "2"), replace(SETTINGS, expect=0), lacking(papers))
        await stays_out(made, leader, newcomer)
        if not is_heard:
            await is_not_heard(leader, newcomer)
        await is_taken_in_with(certified(papers.server()), made, leader, newcomer)
        nursery.cancel_scope.cancel()


# Three servers, each with a certificate of its own.


class Certificates:
    """Of three servers, in the files that each of them reads."""

    def __init__(self, path: Path) -> None:
        self.authority = trustme.CA()
        self.folders = [Folder(path / f"tls{number}", self.authority, SERVER_NAME) for number in range(3)]
        self.securities = [certified(strict(folder)) for folder in self.folders]

    def reload(self) -> None:
        """As a reload of the agent does, on each."""
        for folder, security in zip(self.folders, self.securities, strict=True):
            in_force: Tls | None = security.tls
            assert in_force is not None
            in_force.renew(tls(strict(folder)))

    def trust(self, *authorities: trustme.CA) -> None:
        both = b"".join(authority.cert_pem.bytes() for authority in authorities)
        for folder in self.folders:
            Path(folder.ca_file).write_bytes(both)
        self.reload()

    def issue(self, authority: trustme.CA) -> None:
        for folder in self.folders:
            folder.authority = authority
            folder.issue(SERVER_NAME)
        self.reload()


async def certified_cluster(nursery: trio.Nursery, tmp_path: Path, certificates: Certificates) -> Cluster:
    made = Cluster(nursery, replace(SETTINGS, expect=3), keyed())
    for number, security in enumerate(certificates.securities, 1):
        made.add(on_disk(tmp_path / str(number)), security=security)
    return made


async def test_three_servers_with_certificates_of_their_own_elect_and_commit(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        made = await certified_cluster(nursery, tmp_path, Certificates(tmp_path))
        for site in made.sites:
            await site.server.propose(b"from %d" % site.number)
        await until(lambda: all(len(site.machine.words) == 3 for site in made.sites))
        first = await made.leader()
        await first.kill()
        second = await made.leader(besides=first)
        assert await second.server.propose(b"after") == b"heard after"
        nursery.cancel_scope.cancel()


async def test_an_authority_is_replaced_under_a_running_cluster(tmp_path: Path) -> None:
    certificates, fresh = Certificates(tmp_path), trustme.CA()
    async with trio.open_nursery() as nursery:
        made = await certified_cluster(nursery, tmp_path, certificates)
        steps: list[Callable[[], None]] = [
            lambda: certificates.trust(certificates.authority, fresh),
            lambda: certificates.issue(fresh),
            lambda: certificates.trust(fresh),
        ]
        leader = await made.leader()
        for number, step in enumerate(steps):
            step()
            assert (
                await leader.server.propose(b"%d" % number) == b"heard %d" % number
            )  # lines that stood stay
            for site, security in zip(made.sites, certificates.securities, strict=True):
                await site.kill()  # and every one that is made anew works, too
                made.start(site, security=security)
                leader = await made.leader()
                await leader.server.propose(b"%d after %d" % (number, site.number))
        words = leader.machine.words
        await until(lambda: all(site.machine.words == words for site in made.sites))
        assert len(words) == len(steps) * (1 + len(made.sites))
        late = certified(strict(Folder(tmp_path / "late", certificates.authority, SERVER_NAME)))
        newcomer = made.add(on_disk(tmp_path / "4"), replace(SETTINGS, expect=0), late)
        await stays_out(made, leader, newcomer)
        nursery.cancel_scope.cancel()

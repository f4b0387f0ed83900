from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from adsum.net.errors import BadPeer, NetError
from adsum.net.gate import Gate, Security
from adsum.net.introduction import Purpose
from adsum.net.streams import StreamServer, ping
from adsum.net.tls import BadTls, TlsSettings, tls
from tests.net.support import KEY_A, gate, ring, serving

SERVER_NAME = "server.dc1.consul"
Files = Callable[[str], TlsSettings]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Settings with every file, for a certificate made out to a name; "stranger" has another authority."""
    folder = tmp_path_factory.mktemp("tls")
    authorities = {"ours": trustme.CA(), "stranger": trustme.CA()}

    def make(name: str) -> TlsSettings:
        authority = authorities["stranger" if name == "stranger" else "ours"]
        paths = [folder / f"{name}.{kind}" for kind in ("ca", "cert", "key")]
        if not paths[0].exists():
            certificate = authority.issue_cert(name if "." in name else f"{name}.example")
            authority.cert_pem.write_to_path(paths[0])
            certificate.private_key_pem.write_to_path(paths[2])
            certificate.cert_chain_pems[0].write_to_path(paths[1])
        ca_file, cert_file, key_file = map(str, paths)
        return TlsSettings(
            ca_file=ca_file,
            cert_file=cert_file,
            key_file=key_file,
            verify_incoming=True,
            verify_outgoing=True,
            verify_server_hostname=True,
        )

    return make


def tls_gate(settings: TlsSettings, *keys: str) -> Gate:
    return gate(security=Security(ring(*keys), "dc1", tls=tls(settings)))


async def is_let_in(client: Gate, server: Gate) -> bool:
    async with serving(StreamServer(server)) as address:
        try:
            await ping(client, address, timeout_s=5)
        except NetError:
            return False
        return True


@pytest.mark.parametrize("keys", [(), (KEY_A,)], ids=["TLS alone", "TLS and the keyring"])
async def test_servers_know_each_other_by_certificate(files: Files, keys: tuple[str, ...]) -> None:
    mine = tls_gate(files(SERVER_NAME), *keys)
    async with serving(StreamServer(tls_gate(files(SERVER_NAME), *keys))) as address:
        opened = await mine.dial(address, Purpose.PING, payload_bytes_max=0)
        async with opened.channel:
            assert opened.peer.is_authenticated


async def test_a_stranger_s_certificate_is_accepted_by_nobody(files: Files) -> None:
    ours, stranger = tls_gate(files(SERVER_NAME)), tls_gate(files("stranger"))
    assert not await is_let_in(ours, stranger)
    # The stranger would trust us, and shows a certificate of its own authority.
    trusting = replace(files("stranger"), ca_file=files(SERVER_NAME).ca_file, verify_server_hostname=False)
    assert not await is_let_in(tls_gate(trusting), ours)


async def test_a_client_s_certificate_does_not_pass_for_a_server_s(files: Files) -> None:
    posing = tls_gate(files("client"))
    assert not await is_let_in(tls_gate(files(SERVER_NAME)), posing)
    lenient = replace(files(SERVER_NAME), verify_server_hostname=False)
    assert await is_let_in(tls_gate(lenient), posing)


async def test_without_a_certificate_nobody_gets_in(files: Files) -> None:
    bare = replace(files(SERVER_NAME), cert_file=None, key_file=None, verify_incoming=False)
    assert not await is_let_in(tls_gate(bare), tls_gate(files(SERVER_NAME)))


async def test_plaintext_is_turned_away_only_where_verify_incoming_is_set(files: Files) -> None:
    strict, lenient = files(SERVER_NAME), replace(files(SERVER_NAME), verify_incoming=False)
    server = tls_gate(strict)
    assert not await is_let_in(gate(), server)
    assert server.counters.welcomes_failed == {"BadPeer": 1}
    assert await is_let_in(gate(), tls_gate(lenient))
    assert await is_let_in(tls_gate(strict), tls_gate(lenient))


async def test_tls_to_a_server_without_it_says_so(files: Files) -> None:
    async with serving(StreamServer(gate())) as address:
        with pytest.raises(BadPeer, match="TLS"):
            await ping(tls_gate(files(SERVER_NAME)), address, timeout_s=5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (TlsSettings(cert_file="c"), "go together"),
        (TlsSettings(verify_incoming=True), "verify_incoming needs"),
        (TlsSettings(verify_outgoing=True), "verify_outgoing needs"),
        (TlsSettings(verify_server_hostname=True), "checks nothing unless"),
        (TlsSettings(cert_file="/nonexistent/c", key_file="/nonexistent/k"), "/nonexistent/c"),
        (TlsSettings(ca_file="/nonexistent/a", verify_outgoing=True), "/nonexistent/a"),
    ],
)
def test_settings_that_would_leave_us_unprotected_stop_the_start(settings: TlsSettings, message: str) -> None:
    with pytest.raises(BadTls, match=message):
        tls(settings)


def test_files_that_are_no_certificates_are_named(files: Files, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    with pytest.raises(BadTls, match=r"broken\.pem"):
        tls(replace(files(SERVER_NAME), ca_file=str(broken)))
    with pytest.raises(BadTls, match=r"broken\.pem"):
        tls(replace(files(SERVER_NAME), cert_file=str(broken)))


def test_the_server_s_name_is_consul_s() -> None:
    assert TlsSettings(datacenter="east", domain="consul.").server_name == "server.east.consul"

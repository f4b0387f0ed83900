from __future__ import annotations

import re
import shutil
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from adsum.net.errors import BadPeer, NetError
from adsum.net.gate import Gate, Security
from adsum.net.introduction import Purpose
from adsum.net.streams import StreamServer, ping
from adsum.net.tls import CIPHER_SUITES, BadTls, TlsSettings, tls
from adsum.net.tls_files import FILE_BYTES_MAX
from tests.net.certificates import Folder
from tests.net.support import KEY_A, gate, ring, serving

SERVER_NAME = "server.dc1.consul"
Files = Callable[[str], TlsSettings]


def strict(folder: Folder) -> TlsSettings:
    return replace(folder.settings, verify_incoming=True, verify_outgoing=True, verify_server_hostname=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Settings with every file, for a certificate made out to a name; "stranger" has another authority."""
    authorities = {"ours": trustme.CA(), "stranger": trustme.CA()}
    made: dict[str, TlsSettings] = {}

    def make(name: str) -> TlsSettings:
        if name not in made:
            authority = authorities["stranger" if name == "stranger" else "ours"]
            made[name] = strict(
                Folder(tmp_path_factory.mktemp("tls"), authority, name if "." in name else f"{name}.example")
            )
        return made[name]

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
    bare = replace(files(SERVER_NAME), cert_file="", key_file="", verify_incoming=False)
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
        (TlsSettings(cert_file="c"), "cert_file needs key_file"),
        (TlsSettings(key_file="k"), "key_file needs cert_file"),
        (
            TlsSettings(verify_incoming=True),
            r"verify_incoming needs ca_file \(or ca_path\), cert_file, key_file",
        ),
        (TlsSettings(verify_incoming_https=True, ca_file="a"), "verify_incoming_https needs cert_file"),
        (TlsSettings(verify_incoming_rpc=True), "verify_incoming_rpc needs"),
        (TlsSettings(verify_outgoing=True), "verify_outgoing needs ca_file"),
        (TlsSettings(verify_server_hostname=True), "verify_server_hostname needs ca_file"),
        (TlsSettings(min_version="ssl3"), 'tls_min_version must be tls12 or tls13 .* not "ssl3"'),
        (TlsSettings(cipher_suites=("TLS_RSA_WITH_RC4_128_SHA",)), 'knows no "TLS_RSA_WITH_RC4_128_SHA"'),
        (TlsSettings(cert_file="/nonexistent/c", key_file="/nonexistent/k"), "/nonexistent/c"),
        (TlsSettings(ca_file="/nonexistent/a", verify_outgoing=True), "/nonexistent/a"),
    ],
)
def test_settings_that_would_leave_us_unprotected_stop_the_start(settings: TlsSettings, message: str) -> None:
    with pytest.raises(BadTls, match=message):
        tls(settings)


def test_all_that_is_wrong_is_said_at_once_and_each_once(tmp_path: Path) -> None:
    settings = TlsSettings(
        ca_file=str(tmp_path / "ca"),
        cert_file=str(tmp_path / "cert"),
        key_file=str(tmp_path / "key"),
        verify_outgoing=True,
        min_version="ssl3",
    )
    with pytest.raises(BadTls) as refusal:
        tls(settings)
    found = [(problem.key, problem.sentence) for problem in refusal.value.problems]
    missing = "cannot be read: No such file or directory"
    assert [key for key, _ in found] == ["tls_min_version", "cert_file", "key_file", "ca_file"]
    assert found[1:] == [(f"{key}_file", f"{tmp_path}/{key} {missing}") for key in ("cert", "key", "ca")]


def test_each_file_is_told_by_what_is_wrong_with_it(files: Files, tmp_path: Path) -> None:
    good, text, locked = files(SERVER_NAME), tmp_path / "text.pem", tmp_path / "locked.pem"
    text.write_text("no certificate")
    locked.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    hollow = tmp_path / "hollow.pem"
    hollow.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    secret = tmp_path / "secret.pem"
    secret.write_text("x" * (FILE_BYTES_MAX + 1))
    for changed, sentence in (
        ({"ca_file": str(text)}, f"ca_file {text} holds no certificate in PEM form"),
        ({"ca_file": str(hollow)}, f"ca_file {hollow} holds no certificate that OpenSSL can read"),
        ({"ca_file": str(tmp_path)}, f"ca_file {tmp_path} is no regular file"),
        ({"ca_file": str(secret)}, f"ca_file {secret} is larger than {FILE_BYTES_MAX} bytes"),
        ({"cert_file": str(text)}, f"cert_file {text} holds no certificate in PEM form"),
        ({"cert_file": str(hollow)}, f"cert_file {hollow} with the key {good.key_file} cannot be used"),
        ({"key_file": str(text)}, f"key_file {text} holds no private key in PEM form"),
        ({"key_file": str(locked)}, f"key_file {locked} is locked with a passphrase"),
        (
            {"key_file": files("client").key_file},
            f"key_file {files('client').key_file} is not the key of the certificate in {good.cert_file}",
        ),
    ):
        with pytest.raises(BadTls, match=re.escape(sentence)):
            tls(replace(good, **changed))  # type: ignore[arg-type]  # each is a text


async def test_a_folder_of_authorities_is_read_to_its_depth(files: Files, tmp_path: Path) -> None:
    good = files(SERVER_NAME)
    (tmp_path / "old").mkdir()
    shutil.copy(files("stranger").ca_file, tmp_path / "a.txt")
    shutil.copy(good.ca_file, tmp_path / "old" / "b.crt")
    from_folder = replace(good, ca_file="", ca_path=str(tmp_path))
    assert await is_let_in(tls_gate(good), tls_gate(from_folder))
    (tmp_path / "old" / "README").write_text("no certificate")
    with pytest.raises(BadTls, match="old/README holds no certificate"):
        tls(from_folder)


def test_a_folder_of_authorities_that_holds_none_is_a_mistake(tmp_path: Path) -> None:
    for folder, sentence in (
        (tmp_path, "holds no file"),
        (tmp_path / "none", "cannot be read: No such file"),
    ):
        with pytest.raises(BadTls, match=f"ca_path {folder} {sentence}"):
            tls(TlsSettings(ca_path=str(folder), verify_outgoing=True))


async def test_an_expired_certificate_is_accepted_by_nobody(tmp_path: Path) -> None:
    authority = trustme.CA()
    fresh = strict(Folder(tmp_path / "fresh", authority, SERVER_NAME))
    expired = strict(Folder(tmp_path / "old", authority, SERVER_NAME, has_expired=True))
    assert await is_let_in(tls_gate(fresh), tls_gate(fresh))
    assert not await is_let_in(tls_gate(expired), tls_gate(fresh))
    assert not await is_let_in(tls_gate(fresh), tls_gate(expired))


async def test_verify_server_hostname_alone_is_enough_to_speak_tls(files: Files) -> None:
    """Speaking in clear for want of verify_outgoing was Consul's CVE-2018-19653."""
    alone = tls_gate(replace(files(SERVER_NAME), verify_outgoing=False))
    assert await is_let_in(alone, tls_gate(files(SERVER_NAME)))
    assert not await is_let_in(alone, gate())


async def test_verify_incoming_is_for_servers_and_for_https_and_each_has_its_own(files: Files) -> None:
    bare = replace(files(SERVER_NAME), verify_incoming=False)
    both, rpc, https = (
        tls(replace(bare, **{key: True}))  # type: ignore[arg-type]  # each is a truth value
        for key in ("verify_incoming", "verify_incoming_rpc", "verify_incoming_https")
    )
    assert [made.is_incoming_required for made in (both, rpc, https)] == [True, True, False]
    wanted = [made.https.verify_mode for made in (both, rpc, https) if made.https is not None]
    assert wanted == [ssl.CERT_REQUIRED, ssl.CERT_NONE, ssl.CERT_REQUIRED]


async def test_renewed_certificates_are_shown_to_the_next_who_connects(files: Files, tmp_path: Path) -> None:
    settings = replace(files("client"), verify_incoming=False)
    security = Security(ring(), "dc1", tls=tls(settings))
    server, client = gate(security=security), tls_gate(files(SERVER_NAME))
    assert security.tls is not None
    assert not await is_let_in(client, server)
    security.tls.renew(tls(files(SERVER_NAME)))
    assert await is_let_in(client, server)


def test_a_listener_keeps_its_last_certificate_when_the_keys_are_taken_away(files: Files) -> None:
    made = tls(files(SERVER_NAME))
    before = made.https
    made.renew(None)
    assert before is not None
    assert (made.https, made.incoming, made.outgoing) == (before, None, None)
    assert made.server_name == SERVER_NAME


@pytest.mark.parametrize("name", ["tls10", "tls11", "tls12", "TLSv1_2", "tls13", "TLSv1_3"])
def test_nothing_below_tls_1_2_is_spoken(files: Files, name: str) -> None:
    made = tls(replace(files(SERVER_NAME), min_version=name))
    assert made.https is not None
    assert made.outgoing is not None
    lowest = ssl.TLSVersion.TLSv1_3 if "3" in name else ssl.TLSVersion.TLSv1_2
    assert made.https.minimum_version == made.outgoing.minimum_version == lowest


def test_cipher_suites_go_by_consul_s_names(files: Files) -> None:
    chosen = ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA")
    made = tls(replace(files(SERVER_NAME), cipher_suites=chosen))
    assert made.https is not None
    names = [cipher["name"] for cipher in made.https.get_ciphers() if cipher["protocol"] != "TLSv1.3"]
    assert names == ["ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-SHA"]


@pytest.mark.parametrize("is_ours", [True, False])
def test_whose_choice_of_a_cipher_suite_goes_first_is_a_setting(files: Files, *, is_ours: bool) -> None:
    made = tls(replace(files(SERVER_NAME), prefer_server_cipher_suites=is_ours))
    assert made.https is not None
    assert bool(made.https.options & ssl.OP_CIPHER_SERVER_PREFERENCE) is is_ours


async def test_an_authority_between_may_be_trusted_without_the_one_above(tmp_path: Path) -> None:
    """As Go does: every certificate of ca_file is an anchor."""
    between = trustme.CA().create_child_ca()
    settings = strict(Folder(tmp_path, between, SERVER_NAME))
    assert await is_let_in(tls_gate(settings), tls_gate(settings))


def test_nobody_renegotiates(files: Files) -> None:
    made = tls(files(SERVER_NAME))
    assert made.https is not None
    assert made.incoming is not None
    assert made.https.options & made.incoming.options & ssl.OP_NO_RENEGOTIATION


def test_every_cipher_suite_consul_takes_is_one_that_openssl_has(files: Files) -> None:
    for suite in CIPHER_SUITES:
        tls(replace(files(SERVER_NAME), cipher_suites=(suite,)))


def test_the_server_s_name_is_consul_s() -> None:
    assert TlsSettings(datacenter="east", domain="consul.").server_name == "server.east.consul"

from __future__ import annotations

import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from adsum.cli.certificates import about
from adsum.net.tls import tls
from tests.cli.conftest import Adsum
from tests.cli.fake_agent import FakeAgent, fake_agent
from tests.net.certificates import Folder

DATACENTERS = ("catalog", "datacenters")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """The same for the agent, to which it is made out, and for us."""
    return Folder(tmp_path_factory.mktemp("tls"), trustme.CA(), "server.dc1.consul", "127.0.0.1")


@contextmanager
def https(folder: Folder, *, wants_certificate: bool = False) -> Iterator[FakeAgent]:
    context = tls(folder.settings).https
    assert context is not None
    if wants_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
    with fake_agent(tls=context) as agent:
        agent.answers["GET /v1/catalog/datacenters"] = ["dc1"]
        agent.address = f"https://{agent.address}"
        yield agent


def test_an_agent_is_trusted_by_its_authority_alone(adsum: Adsum, certificates: Folder) -> None:
    with https(certificates) as agent:
        status, _, err = adsum(*DATACENTERS, f"-http-addr={agent.address}")
        assert status == 4
        assert "is not trusted" in err
        assert "-ca-file" in err
        trusting = [*DATACENTERS, f"-http-addr={agent.address}", f"-ca-file={certificates.ca_file}"]
        assert adsum(*trusting) == (0, "dc1\n", "")


def test_a_folder_of_authorities_is_read_as_consul_reads_it(
    adsum: Adsum, certificates: Folder, tmp_path: Path
) -> None:
    (tmp_path / "below").mkdir()
    shutil.copy(certificates.ca_file, tmp_path / "below" / "any name")
    with https(certificates) as agent:
        words = [*DATACENTERS, f"-http-addr={agent.address}"]
        assert adsum(*words, f"-ca-path={tmp_path}").status == 0


def test_a_name_is_checked_and_can_be_given(adsum: Adsum, tmp_path: Path) -> None:
    folder = Folder(tmp_path, trustme.CA(), "server.dc1.consul")
    with https(folder) as agent:
        trusting = [*DATACENTERS, f"-http-addr={agent.address}", f"-ca-file={folder.ca_file}"]
        assert "IP address mismatch" in adsum(*trusting).err
        assert "Hostname mismatch" in adsum(*trusting, "-tls-server-name=server.dc2.consul").err
        assert adsum(*trusting, "-tls-server-name=server.dc1.consul").status == 0


def test_an_expired_certificate_is_not_trusted(adsum: Adsum, certificates: Folder, tmp_path: Path) -> None:
    expired = Folder(tmp_path, certificates.authority, "127.0.0.1", has_expired=True)
    with https(expired) as agent:
        err = adsum(*DATACENTERS, f"-http-addr={agent.address}", f"-ca-file={expired.ca_file}").err
    assert "certificate has expired" in err


def test_consul_s_variables_are_honoured(
    adsum: Adsum, certificates: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with https(certificates, wants_certificate=True) as agent:
        monkeypatch.setenv("CONSUL_HTTP_ADDR", agent.address.removeprefix("https://"))
        monkeypatch.setenv("CONSUL_HTTP_SSL", "true")
        monkeypatch.setenv("CONSUL_CACERT", certificates.ca_file)
        monkeypatch.setenv("CONSUL_CLIENT_CERT", certificates.cert_file)
        monkeypatch.setenv("CONSUL_CLIENT_KEY", certificates.key_file)
        monkeypatch.setenv("CONSUL_TLS_SERVER_NAME", "server.dc1.consul")
        assert adsum(*DATACENTERS) == (0, "dc1\n", "")
        monkeypatch.setenv("CONSUL_HTTP_SSL", "false")
        assert adsum(*DATACENTERS).status == 4


def test_verification_can_be_switched_off(
    adsum: Adsum, certificates: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONSUL_HTTP_SSL_VERIFY", "false")
    with https(certificates) as agent:
        assert adsum(*DATACENTERS, f"-http-addr={agent.address}").status == 0


def test_an_agent_that_wants_a_certificate_says_so(
    adsum: Adsum, certificates: Folder, tmp_path: Path
) -> None:
    other = Folder(tmp_path, trustme.CA(), "client.example")
    with https(certificates, wants_certificate=True) as agent:
        words = [*DATACENTERS, f"-http-addr={agent.address}", f"-ca-file={certificates.ca_file}"]
        status, _, err = adsum(*words)
        assert status == 4
        assert "give one with -client-cert and -client-key" in err
        status, _, err = adsum(*words, f"-client-cert={other.cert_file}", f"-client-key={other.key_file}")
        assert status == 4
        assert "accept the certificate of -client-cert" in err
        ours = [f"-client-cert={certificates.cert_file}", f"-client-key={certificates.key_file}"]
        assert adsum(*words, *ours).status == 0


@pytest.mark.parametrize(
    ("reason", "shows_certificate", "sentence"),
    [
        (
            "TLSV13_ALERT_CERTIFICATE_REQUIRED",
            False,
            "the agent at a:1 wants to see a certificate (tlsv13 alert",
        ),
        ("SSLV3_ALERT_BAD_CERTIFICATE", False, "the agent at a:1 wants to see a certificate (sslv3 alert"),
        ("TLSV1_ALERT_UNKNOWN_CA", True, "the agent at a:1 does not accept the certificate of -client-cert"),
        (
            "WRONG_VERSION_NUMBER",
            False,
            "no TLS with what listens at a:1 (wrong version number); plain HTTP is",
        ),
    ],
)
def test_what_openssl_says_is_said_in_words(*, reason: str, shows_certificate: bool, sentence: str) -> None:
    problem = ssl.SSLError(1, "text")
    problem.reason = reason
    assert about(problem, "a:1", shows_certificate=shows_certificate).startswith(sentence)


def test_a_mere_hang_up_may_be_about_our_certificate() -> None:
    for problem in (ssl.SSLEOFError(8, "text"), ConnectionResetError(), BrokenPipeError()):
        assert "if it wants to see a certificate" in about(problem, "a:1", shows_certificate=False)
        assert "does it accept the certificate" in about(problem, "a:1", shows_certificate=True)
    assert about(ConnectionRefusedError(), "a:1", shows_certificate=False) == ""


def test_one_file_may_hold_certificate_and_key(adsum: Adsum, certificates: Folder, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_text(Path(certificates.cert_file).read_text() + Path(certificates.key_file).read_text())
    with https(certificates, wants_certificate=True) as agent:
        words = [*DATACENTERS, f"-http-addr={agent.address}", f"-ca-file={certificates.ca_file}"]
        assert adsum(*words, f"-client-cert={both}").status == 0


def test_files_that_cannot_be_used_are_told_by_their_flags(
    adsum: Adsum, certificates: Folder, tmp_path: Path
) -> None:
    cert_file, key_file = certificates.cert_file, certificates.key_file
    other = Folder(tmp_path, certificates.authority, "client.example")
    for flags, sentence in (
        (["-ca-file=/nosuch"], "-ca-file: /nosuch cannot be read: No such file or directory"),
        (["-ca-path=/nosuch"], "-ca-path: /nosuch cannot be read: No such file or directory"),
        ([f"-client-key={key_file}"], "-client-key needs -client-cert"),
        ([f"-client-cert={cert_file}"], f"-client-key: {cert_file} holds no private key"),
        (
            [f"-client-cert={cert_file}", f"-client-key={other.key_file}"],
            f"-client-key: {other.key_file} is not the key of the certificate in {cert_file}",
        ),
    ):
        status, out, err = adsum(*DATACENTERS, "-http-addr=https://127.0.0.1:1", *flags)
        assert (status, out) == (2, "")
        assert sentence in err


def test_tls_brings_no_trio(certificates: Folder) -> None:
    program = (
        "import sys; from adsum.cli.main import main\n"
        f"main(['members', '-http-addr=https://127.0.0.1:1', '-ca-file={certificates.ca_file}'])\n"
        "print({'trio', 'cryptography'} & set(sys.modules), 'adsum.net.tls_files' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set() True\n"

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trustme

from adsum.config.build import ConfigErrors, Loaded
from adsum.config.keys import TLS_KEYS
from adsum.config.load import load
from adsum.config.reload import applied, diff
from adsum.net.tls import TlsSettings
from adsum.now import SECOND
from tests.net.certificates import LONG_AGO, Folder

SUITES = ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("tls"), trustme.CA(), "server.dc1.consul")


def load_tree(tmp_path: Path, tree: dict[str, object], **flags: object) -> Loaded:
    path = tmp_path / "0.json"
    path.write_text(json.dumps(tree))
    return load([str(path)], {"data_dir": "/data", **flags}, hostname=lambda: "host1")


def errors_of(tmp_path: Path, tree: dict[str, object]) -> list[str]:
    with pytest.raises(ConfigErrors) as refusal:
        load_tree(tmp_path, tree)
    return [str(error).removeprefix(f"{tmp_path}/0.json: ") for error in refusal.value.errors]


def test_without_a_key_of_it_there_is_no_tls_and_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    assert load_tree(tmp_path, {}).config.tls is None
    program = (
        "import sys; from adsum.config.load import load; load([], {'dev': True})\n"
        "print({'ssl', 'cryptography', 'adsum.net.tls', 'adsum.config.tls'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_all_keys_of_tls_arrive(tmp_path: Path, certificates: Folder) -> None:
    loaded = load_tree(
        tmp_path,
        {
            **certificates.keys,
            "datacenter": "East",
            "domain": "example.org",
            "verify_incoming": True,
            "verify_incoming_rpc": True,
            "verify_incoming_https": True,
            "verify_outgoing": True,
            "verify_server_hostname": True,
            "tls_min_version": "tls13",
            "tls_cipher_suites": ", ".join(SUITES),
            "tls_prefer_server_cipher_suites": True,
            "ports": {"https": 8501},
            "addresses": {"https": "0.0.0.0 unix:///run/adsum.sock"},
            "limits": {"https_handshake_timeout": "3s"},
        },
    )
    assert loaded.warnings == []
    config = loaded.config
    assert config.tls == TlsSettings(
        ca_file=certificates.ca_file,
        cert_file=certificates.cert_file,
        key_file=certificates.key_file,
        verify_incoming=True,
        verify_incoming_rpc=True,
        verify_incoming_https=True,
        verify_outgoing=True,
        verify_server_hostname=True,
        min_version="tls13",
        cipher_suites=SUITES,
        prefer_server_cipher_suites=True,
        datacenter="east",
        domain="example.org.",
    )
    assert config.tls.server_name == "server.east.example.org"
    assert config.ports.https == 8501
    assert config.addresses.https == ("0.0.0.0", "unix:///run/adsum.sock")
    assert config.limits.https_handshake_timeout_ns == 3 * SECOND


def test_every_bad_file_is_an_error_at_its_key_beside_all_other_mistakes(tmp_path: Path) -> None:
    tree = {
        "ca_path": f"{tmp_path}/ca",
        "cert_file": f"{tmp_path}/cert",
        "key_file": f"{tmp_path}/key",
        "verify_outgoing": True,
        "ports": {"http": 8500, "https": 8500},
        "log_level": "loud",
    }
    missing = "cannot be read: No such file or directory"
    assert errors_of(tmp_path, tree) == [
        f"cert_file: {tmp_path}/cert {missing}",
        f"key_file: {tmp_path}/key {missing}",
        f"ca_path: {tmp_path}/ca {missing}",
        'log_level: must be trace, debug, info, warn or error, not "loud"',
        "ports.https: is the port of HTTP as well, 8500 on 127.0.0.1",
    ]


@pytest.mark.parametrize(
    ("tree", "error"),
    [
        ({"cert_file": "c"}, "cert_file: needs key_file"),
        ({"ports": {"https": 8501}, "key_file": "k"}, "key_file: needs cert_file"),
        ({"verify_incoming": True}, "verify_incoming: needs ca_file (or ca_path), cert_file, key_file"),
        (
            {"ports": {"https": 8501}, "verify_incoming_https": True},
            "verify_incoming_https: needs ca_file (or ca_path), cert_file, key_file",
        ),
        (
            {"ports": {"https": 8501}, "tls": {"https": {"verify_incoming": True}}},
            "tls.https.verify_incoming: needs ca_file (or ca_path), cert_file, key_file",
        ),
        ({"verify_server_hostname": True}, "verify_server_hostname: needs ca_file or ca_path"),
        ({"tls_cipher_suites": "TLS_BOGUS"}, 'tls_cipher_suites: knows no "TLS_BOGUS"'),
        ({"tls_min_version": "tls9"}, "tls_min_version: must be tls12 or tls13"),
    ],
)
def test_a_half_of_tls_does_not_start(tmp_path: Path, tree: dict[str, object], error: str) -> None:
    assert errors_of(tmp_path, tree)[0].startswith(error)


@pytest.mark.parametrize("has_authority", [False, True])
def test_https_without_a_certificate_is_not_served_and_warned_of(
    tmp_path: Path, certificates: Folder, *, has_authority: bool
) -> None:
    given = {"ca_file": certificates.ca_file, "verify_outgoing": True} if has_authority else {}
    loaded = load_tree(tmp_path, {"ports": {"https": 8501}, **given})
    (warning,) = loaded.warnings
    assert warning == (
        "ports.https is 8501, but an agent that starts without cert_file and key_file has no certificate to "
        "show and serves no HTTPS; when they are added, it takes a restart: a reload opens no listener"
    )
    assert loaded.config.ports.https == -1
    assert loaded.config.raw["ports"] == {"https": 8501}


def test_a_certificate_that_comes_or_goes_with_a_reload_opens_and_closes_no_listener(
    tmp_path: Path, certificates: Folder
) -> None:
    mute: dict[str, object] = {"ports": {"https": 8501}, "ca_file": certificates.ca_file}
    without, with_it = load_tree(tmp_path, mute).config, load_tree(tmp_path, mute | certificates.keys).config
    for old, new in ((without, with_it), (with_it, without)):
        assert diff(old, new).needs_restart == ["ports.https"]
        assert diff(old, new).applied == ["cert_file", "key_file"]
        assert applied(old, new).ports == old.ports


def test_the_key_of_another_certificate_is_told(tmp_path: Path, certificates: Folder) -> None:
    other = Folder(tmp_path / "other", certificates.authority, "client.example")
    (error,) = errors_of(tmp_path, {**certificates.keys, "key_file": other.key_file})
    assert error == (
        f"key_file: {other.key_file} is not the key of the certificate in {certificates.cert_file}"
    )


def test_an_expired_certificate_starts_with_a_warning(tmp_path: Path, certificates: Folder) -> None:
    expired = Folder(tmp_path / "old", certificates.authority, "x.example", has_expired=True)
    loaded = load_tree(tmp_path, expired.keys)
    (warning,) = loaded.warnings
    assert warning.startswith(f"cert_file {expired.cert_file} expired at 20")
    assert loaded.tls is not None
    assert LONG_AGO.timestamp() < loaded.tls.certificate_end_s < time.time()


def test_versions_of_tls_that_nobody_should_speak_are_taken_as_1_2(
    tmp_path: Path, certificates: Folder
) -> None:
    (warning,) = load_tree(tmp_path, certificates.keys | {"tls_min_version": "tls10"}).warnings
    assert warning == "tls_min_version = tls10: the lowest that is spoken here is TLS 1.2"


OTHER_VALUES: dict[str, object] = {
    "tls_min_version": "tls13",
    "tls_cipher_suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
}


@pytest.mark.parametrize("name", sorted(TLS_KEYS))
def test_every_key_of_tls_arrives_with_a_reload(tmp_path: Path, certificates: Folder, name: str) -> None:
    section, _, leaf = name.rpartition(".")
    old = load_tree(tmp_path, certificates.keys).config
    renewed = Folder(tmp_path / "new", certificates.authority, "server.dc1.consul")
    ca_path = tmp_path / "authorities"
    ca_path.mkdir()
    Path(renewed.ca_file).rename(ca_path / "ca.pem")
    values = renewed.keys | {"ca_file": str(ca_path / "ca.pem"), "ca_path": str(ca_path)} | OTHER_VALUES
    leaves = ["cert_file", "key_file"] if leaf in {"cert_file", "key_file"} else [leaf]
    tree: object = {each: values.get(each, True) for each in leaves}
    for part in reversed(section.split(".") if section else []):
        tree = {part: tree}
    assert isinstance(tree, dict)
    new = load_tree(tmp_path, certificates.keys | tree).config
    assert diff(old, new).applied == [f"{section}.{each}".lstrip(".") for each in leaves]
    assert new.tls != old.tls
    assert applied(old, new) == new


def test_the_section_of_later_versions_goes_before_the_old_keys(tmp_path: Path, certificates: Folder) -> None:
    other = Folder(tmp_path / "other", certificates.authority, "https.example")
    tree: dict[str, object] = {
        "tls_min_version": "tls12",
        "tls": {
            "defaults": {**certificates.keys, "verify_incoming": True, "tls_min_version": "TLSv1_3"},
            "https": {"cert_file": other.cert_file, "key_file": other.key_file, "verify_incoming": False},
            "internal_rpc": {"verify_server_hostname": True},
        },
        "ports": {"https": 8501},
    }
    loaded = load_tree(tmp_path, tree)
    assert loaded.warnings == []
    servers = loaded.config.tls
    assert servers is not None
    assert (servers.cert_file, servers.min_version) == (certificates.cert_file, "TLSv1_3")
    assert (servers.is_required_of_servers, servers.is_verified_out) == (True, True)
    clients = servers.for_https
    assert (clients.cert_file, clients.ca_file) == (other.cert_file, certificates.ca_file)
    assert (clients.min_version, clients.is_required_of_clients) == ("TLSv1_3", False)
    made = loaded.tls
    assert made is not None
    assert made.https is not None
    assert (made.https.verify_mode, made.is_incoming_required) == (ssl.CERT_NONE, True)
    assert made.outgoing is not None
    assert made.outgoing.check_hostname


def test_defaults_alone_are_the_old_keys_by_another_name(tmp_path: Path, certificates: Folder) -> None:
    old = load_tree(tmp_path, {**certificates.keys, "verify_incoming": True}).config.tls
    assert old is not None
    section = {"defaults": {**certificates.keys, "verify_incoming": True}}
    assert load_tree(tmp_path, {"tls": section}).config.tls == old


def test_what_is_wrong_in_the_section_is_told_by_its_own_key(tmp_path: Path) -> None:
    tree: dict[str, object] = {
        "tls": {"defaults": {"ca_file": "/ca"}, "https": {"cert_file": "/c", "key_file": "/k"}}
    }
    assert [error.partition(" ")[0] for error in errors_of(tmp_path, tree)] == [
        "tls.https.cert_file:",
        "tls.https.key_file:",
        "tls.defaults.ca_file:",
    ]


def test_tls_is_switched_on_by_a_restart_and_off_by_a_reload(tmp_path: Path, certificates: Folder) -> None:
    without, with_it = load_tree(tmp_path, {}).config, load_tree(tmp_path, certificates.keys).config
    assert diff(without, with_it).needs_restart == ["ca_file", "cert_file", "key_file"]
    assert applied(without, with_it) == without
    assert diff(with_it, without).applied == ["ca_file", "cert_file", "key_file"]
    assert applied(with_it, without).tls == TlsSettings(domain="consul.")


def test_a_reload_keeps_the_name_by_which_servers_are_checked(tmp_path: Path, certificates: Folder) -> None:
    old = load_tree(tmp_path, certificates.keys).config
    new = load_tree(tmp_path, {**certificates.keys, "datacenter": "east", "verify_outgoing": True}).config
    running = applied(old, new).tls
    assert running is not None
    assert (running.server_name, running.verify_outgoing) == ("server.dc1.consul", True)

"""The keys of TLS, with the files they name: loaded only where one of them is given.

The files are opened when the configuration is read, so that a start, a reload and `adsum validate` name every
bad one at once, beside all other mistakes. What was made of them then is what comes into force: nobody reads
them a second time.

Consul 1.12 moved the keys into a section, `tls`, where those of `https` and `internal_rpc` go before
`defaults`. Both ways of writing are taken, also side by side; the section goes before the old keys.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from adsum.config.keys import TLS_KEYS
from adsum.config.values import Values
from adsum.net.tls import OLD_VERSIONS, BadTls, Tls, TlsSettings, tls

SIDES = ("tls.https.", "tls.internal_rpc.")


def read_tls(values: Values, *, domain: str) -> tuple[TlsSettings, Tls | None, list[str]]:
    """The settings, what was made of them, and warnings. What is wrong is refused at its key."""
    servers = _Side(values, "internal_rpc", domain)
    if not any(values.is_given(name) for name in TLS_KEYS if name.startswith(SIDES)):
        return servers.settings, *_made(values, servers)
    servers.settings = replace(servers.settings, verify_incoming_https=False)
    clients = _Side(values, "https", domain)
    clients.settings = replace(
        clients.settings, verify_incoming_rpc=False, verify_outgoing=False, verify_server_hostname=False
    )
    return replace(servers.settings, https=clients.settings), *_made(values, servers, clients)


class _Side:
    """What is set for one of the two sides, and under which key."""

    def __init__(self, values: Values, section: str, domain: str) -> None:
        self._values = values
        self._section = section
        self.settings = TlsSettings(
            ca_file=self._text("ca_file"),
            ca_path=self._text("ca_path"),
            cert_file=self._text("cert_file"),
            key_file=self._text("key_file"),
            verify_incoming=self._boolean("verify_incoming"),
            verify_incoming_rpc=self._boolean("verify_incoming_rpc"),
            verify_incoming_https=self._boolean("verify_incoming_https"),
            verify_outgoing=self._boolean("verify_outgoing"),
            verify_server_hostname=self._boolean("verify_server_hostname"),
            min_version=self._text("tls_min_version") or TlsSettings().min_version,
            cipher_suites=tuple(filter(None, map(str.strip, self._text("tls_cipher_suites").split(",")))),
            prefer_server_cipher_suites=self._boolean("tls_prefer_server_cipher_suites"),
            datacenter=values.text("datacenter").lower(),
            domain=domain,
        )

    def key(self, name: str) -> str:
        for key in (f"tls.{self._section}.{name}", f"tls.defaults.{name}"):
            if self._values.is_given(key):
                return key
        return name

    def _text(self, name: str) -> str:
        return self._values.text(self.key(name))

    def _boolean(self, name: str) -> bool:
        return self._values.boolean(self.key(name))


def _made(values: Values, servers: _Side, clients: _Side | None = None) -> tuple[Tls | None, list[str]]:
    made: list[Tls] = []
    refused: dict[tuple[str, str], None] = {}  # what both sides share is wrong once
    warnings: dict[str, None] = {}
    ends: list[int] = []
    for side in filter(None, (servers, clients)):
        try:
            made.append(tls(side.settings))
            end = _end(side.settings.cert_file)
            warnings |= dict.fromkeys(_warnings(side, end))
            ends += [] if end is None else [int(end.timestamp())]
        except BadTls as bad:
            refused |= dict.fromkeys((side.key(problem.key), problem.sentence) for problem in bad.problems)
    for key, sentence in refused:
        values.refuse(key, sentence)
    if refused:
        return None, []
    return replace(made[0], https=made[-1].https, certificate_end_s=min(ends, default=0)), list(warnings)


def _warnings(side: _Side, end: datetime | None) -> list[str]:
    warnings, settings = [], side.settings
    if settings.min_version.lower() in OLD_VERSIONS:
        key = side.key("tls_min_version")
        warnings.append(f"{key} = {settings.min_version}: the lowest that is spoken here is TLS 1.2")
    if end is not None and end < datetime.now(UTC):
        key = f"{side.key('cert_file')} {settings.cert_file}"
        warnings.append(f"{key} expired at {end:%Y-%m-%d %H:%M} UTC: clients refuse it")
    return warnings


def _end(cert_file: str) -> datetime | None:
    if not cert_file:
        return None
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(Path(cert_file).read_bytes())
    except (ValueError, OSError):  # OpenSSL took it a moment ago: it is the stricter reader who says no
        return None
    return certificate.not_valid_after_utc

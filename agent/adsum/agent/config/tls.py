"""The keys of TLS, with the files they name: loaded only where one of them is given.

The files are opened when the configuration is read, so that a start, a reload and `adsum validate` name every
bad one at once, beside all other mistakes. What was made of them then is what comes into force: nobody reads
them a second time.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from adsum.agent.config.values import Values
from adsum.net.tls import OLD_VERSIONS, BadTls, Tls, TlsSettings, tls


def read_tls(values: Values, *, domain: str) -> tuple[TlsSettings, Tls | None, list[str]]:
    """The settings, what was made of them, and warnings. What is wrong is refused at its key."""
    settings = TlsSettings(
        ca_file=values.text("ca_file"),
        ca_path=values.text("ca_path"),
        cert_file=values.text("cert_file"),
        key_file=values.text("key_file"),
        verify_incoming=values.boolean("verify_incoming"),
        verify_incoming_rpc=values.boolean("verify_incoming_rpc"),
        verify_incoming_https=values.boolean("verify_incoming_https"),
        verify_outgoing=values.boolean("verify_outgoing"),
        verify_server_hostname=values.boolean("verify_server_hostname"),
        min_version=values.text("tls_min_version") or TlsSettings().min_version,
        cipher_suites=tuple(
            name.strip() for name in values.text("tls_cipher_suites").split(",") if name.strip()
        ),
        prefer_server_cipher_suites=values.boolean("tls_prefer_server_cipher_suites"),
        datacenter=values.text("datacenter").lower(),
        domain=domain,
    )
    try:
        return settings, tls(settings), _warnings(settings)
    except BadTls as bad:
        for problem in bad.problems:
            values.refuse(problem.key, problem.sentence)
        return settings, None, []


def _warnings(settings: TlsSettings) -> list[str]:
    warnings = []
    if settings.min_version.lower() in OLD_VERSIONS:
        warnings.append(
            f"tls_min_version = {settings.min_version}: the lowest that is spoken here is TLS 1.2"
        )
    if settings.cert_file and (ended := _ended(settings.cert_file)):
        warnings.append(
            f"cert_file {settings.cert_file} expired at {ended:%Y-%m-%d %H:%M} UTC: clients refuse it"
        )
    return warnings


def _ended(cert_file: str) -> datetime | None:
    """When the certificate ended, if it has."""
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(Path(cert_file).read_bytes())
    except (ValueError, OSError):  # OpenSSL took it a moment ago: it is the stricter reader who says no
        return None
    ended = certificate.not_valid_after_utc
    return ended if ended < datetime.now(UTC) else None

"""TLS between servers, by Consul's settings.

`verify_outgoing`: we speak TLS to other servers and check their certificates; `verify_server_hostname`: also
that they are made out to `server.<datacenter>.<domain>`, which is what keeps a client's certificate from
passing for a server's. `verify_incoming`: others must speak TLS and show a certificate of our authority.
Without it a server that has a certificate accepts both TLS and none, which is how a live cluster is moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl  # some two megabytes that an agent without TLS never loads


class BadTls(Exception):
    """A setting or a file; the agent must not start, for it would speak in clear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify_incoming: bool = False
    verify_outgoing: bool = False
    verify_server_hostname: bool = False
    datacenter: str = "dc1"
    domain: str = "consul"

    @property
    def server_name(self) -> str:
        return f"server.{self.datacenter}.{self.domain.strip('.')}"


@dataclass(frozen=True, slots=True)
class Tls:
    incoming: ssl.SSLContext | None  # none: nobody can speak TLS to us
    outgoing: ssl.SSLContext | None  # none: we speak in clear
    is_incoming_required: bool
    server_name: str


def tls(settings: TlsSettings) -> Tls:
    _check(settings)
    return Tls(
        _incoming(settings) if settings.cert_file else None,
        _outgoing(settings) if settings.verify_outgoing else None,
        settings.verify_incoming,
        settings.server_name,
    )


def _check(settings: TlsSettings) -> None:
    has_pair = settings.cert_file is not None and settings.key_file is not None
    if (settings.cert_file is None) != (settings.key_file is None):
        raise BadTls("cert_file and key_file go together; one of them is not set")
    if settings.verify_incoming and not (settings.ca_file and has_pair):
        raise BadTls("verify_incoming needs ca_file, cert_file and key_file")
    if settings.verify_outgoing and not settings.ca_file:
        raise BadTls("verify_outgoing needs ca_file")
    if settings.verify_server_hostname and not settings.verify_outgoing:
        raise BadTls("verify_server_hostname checks nothing unless verify_outgoing is set")


def _incoming(settings: TlsSettings) -> ssl.SSLContext:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_pair(context, settings)
    if settings.verify_incoming:
        _load_authority(context, settings)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _outgoing(settings: TlsSettings) -> ssl.SSLContext:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which checks names and certificates
    context.check_hostname = settings.verify_server_hostname
    _load_authority(context, settings)
    if settings.cert_file:
        _load_pair(context, settings)
    return context


def _load_pair(context: ssl.SSLContext, settings: TlsSettings) -> None:
    assert settings.cert_file is not None, "checked with the settings"
    try:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    except OSError as error:  # SSLError is one
        raise BadTls(
            f"cert_file {settings.cert_file!r} with key_file {settings.key_file!r}: {error}"
        ) from error


def _load_authority(context: ssl.SSLContext, settings: TlsSettings) -> None:
    try:
        context.load_verify_locations(settings.ca_file)
    except OSError as error:
        raise BadTls(f"ca_file {settings.ca_file!r}: {error}") from error

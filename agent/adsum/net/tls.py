"""TLS by Consul's settings: between servers, and for the HTTPS listener.

`verify_outgoing`: we speak TLS to other servers and check their certificates; `verify_server_hostname`: also
that they are made out to `server.<datacenter>.<domain>`, which is what keeps a client's certificate from
passing for a server's. It implies the former, as in Consul. `verify_incoming_rpc`: other servers must speak
TLS and show a certificate of our authority; `verify_incoming_https`: so must clients of HTTPS;
`verify_incoming` is both. Without it a server that has a certificate accepts both TLS and none, which is how
a live cluster is moved.

TLS 1.0 and 1.1 are never spoken, whatever `tls_min_version` allows: no distribution's OpenSSL does so by
default any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adsum import frozen, mutable
from adsum.net.tls_files import BadTls, Problem, load_authorities, load_pair

if TYPE_CHECKING:
    import ssl  # some two megabytes that an agent without TLS has no contexts of

__all__ = ["BadTls", "Problem", "Tls", "TlsSettings", "tls"]

# Consul's spelling, and what it stands for here. Later versions write TLSv1_2.
OLD_VERSIONS = frozenset({"tls10", "tls11", "tlsv1_0", "tlsv1_1"})
MIN_VERSIONS = {"tls12": "TLSv1_2", "tls13": "TLSv1_3", "tlsv1_2": "TLSv1_2", "tlsv1_3": "TLSv1_3"}
MIN_VERSIONS |= dict.fromkeys([*OLD_VERSIONS, "tls_auto"], "TLSv1_2")

# Go's names, of which Consul takes these, and OpenSSL's. Those of TLS 1.3 are not chosen, there as here.
CIPHER_SUITES = {
    f"TLS_ECDHE_{sign}_WITH_{name}": f"ECDHE-{sign}-{openssl}"
    for sign in ("RSA", "ECDSA")
    for name, openssl in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305", "CHACHA20-POLY1305"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("AES_128_CBC_SHA256", "AES128-SHA256"),
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
    )
}


@frozen.dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    ca_file: str = ""
    ca_path: str = ""
    cert_file: str = ""
    key_file: str = ""
    verify_incoming: bool = False
    verify_incoming_rpc: bool = False
    verify_incoming_https: bool = False
    verify_outgoing: bool = False
    verify_server_hostname: bool = False
    min_version: str = "tls12"
    cipher_suites: tuple[str, ...] = ()
    prefer_server_cipher_suites: bool = False
    datacenter: str = "dc1"
    domain: str = "consul"
    https: TlsSettings | None = None  # HTTPS's, where they are others

    @property
    def for_https(self) -> TlsSettings:
        return self.https or self

    @property
    def server_name(self) -> str:
        return f"server.{self.datacenter}.{self.domain.strip('.')}"

    @property
    def has_authority(self) -> bool:
        return bool(self.ca_file or self.ca_path)

    @property
    def is_verified_out(self) -> bool:
        return self.verify_outgoing or self.verify_server_hostname

    @property
    def is_required_of_servers(self) -> bool:
        return self.verify_incoming or self.verify_incoming_rpc

    @property
    def is_required_of_clients(self) -> bool:
        return self.verify_incoming or self.verify_incoming_https


@mutable.dataclass(slots=True)
class Tls:
    """What is in force, for connections to come; those that stand keep what they were opened with."""

    https: ssl.SSLContext | None  # none: there is no certificate to show
    incoming: ssl.SSLContext | None  # none: no server can speak TLS to us
    outgoing: ssl.SSLContext | None  # none: we speak to servers in clear
    is_incoming_required: bool
    server_name: str
    certificate_end_s: int = 0  # in seconds since 1970, for whoever reads certificates to say; 0: not known

    def renew(self, fresh: Tls | None) -> None:
        """None: no key of it is given any more.

        An HTTPS listener stands until the agent is started again, and so does the last certificate it had;
        the server's name is made of what takes a restart as well.
        """
        fresh = fresh or tls(TlsSettings())
        self.https = fresh.https or self.https
        self.incoming = fresh.incoming
        self.outgoing = fresh.outgoing
        self.is_incoming_required = fresh.is_incoming_required
        self.certificate_end_s = fresh.certificate_end_s


def tls(settings: TlsSettings) -> Tls:
    """Raises BadTls with everything that is wrong."""
    problems = _mistakes(settings)
    has_pair = bool(settings.cert_file and settings.key_file)
    https = incoming = outgoing = None
    if has_pair:
        https = _server(settings, problems, is_required=settings.is_required_of_clients)
        https.set_alpn_protocols(["http/1.1"])
        incoming = _server(settings, problems, is_required=settings.is_required_of_servers)
    if settings.is_verified_out:
        import ssl

        outgoing = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which checks names and certificates
        outgoing.check_hostname = settings.verify_server_hostname
        _fill(outgoing, settings, problems, has_pair=has_pair)
    if problems:
        raise BadTls(problems)
    return Tls(https, incoming, outgoing, settings.is_required_of_servers, settings.server_name)


def _server(settings: TlsSettings, problems: list[Problem], *, is_required: bool) -> ssl.SSLContext:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION  # it would let a client make us sign without end
    _fill(context, settings, problems, has_pair=True)
    if is_required:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _fill(context: ssl.SSLContext, settings: TlsSettings, problems: list[Problem], *, has_pair: bool) -> None:
    """A file that several contexts need is complained of once."""
    import ssl

    if version := MIN_VERSIONS.get(settings.min_version.lower()):
        context.minimum_version = ssl.TLSVersion[version]
    names = [CIPHER_SUITES[name] for name in settings.cipher_suites if name in CIPHER_SUITES]
    if names:
        context.set_ciphers(":".join(names))
    if settings.prefer_server_cipher_suites:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    for load, is_given, first, second in (
        (load_pair, has_pair, settings.cert_file, settings.key_file),
        (load_authorities, settings.has_authority, settings.ca_file, settings.ca_path),
    ):
        try:
            if is_given:
                load(context, first, second)
        except BadTls as bad:
            problems += [problem for problem in bad.problems if problem not in problems]


def _mistakes(settings: TlsSettings) -> list[Problem]:
    found = []
    if settings.cert_file and not settings.key_file:
        found.append(Problem("cert_file", "needs key_file: the private key of that certificate"))
    if settings.key_file and not settings.cert_file:
        found.append(Problem("key_file", "needs cert_file: the certificate of that key"))
    lacking = [
        *([] if settings.has_authority else ["ca_file (or ca_path)"]),
        *([] if settings.cert_file else ["cert_file"]),
        *([] if settings.key_file else ["key_file"]),
    ]
    if lacking:
        asked = ("verify_incoming", "verify_incoming_rpc", "verify_incoming_https")
        found += [Problem(key, f"needs {', '.join(lacking)}") for key in asked if getattr(settings, key)]
    if not settings.has_authority:
        sentence = "needs ca_file or ca_path: the authority that others are checked by"
        asked_of_others = ("verify_outgoing", "verify_server_hostname")
        found += [Problem(key, sentence) for key in asked_of_others if getattr(settings, key)]
    if settings.min_version.lower() not in MIN_VERSIONS:
        wanted = "tls12 or tls13 (tls10 and tls11 are taken as tls12)"
        found.append(Problem("tls_min_version", f'must be {wanted}, not "{settings.min_version}"'))
    known = ", ".join(CIPHER_SUITES)
    unknown = [name for name in settings.cipher_suites if name not in CIPHER_SUITES]
    sentence = 'knows no "{}"; it may hold {}'
    return found + [Problem("tls_cipher_suites", sentence.format(name, known)) for name in unknown]

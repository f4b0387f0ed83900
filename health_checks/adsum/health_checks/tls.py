"""TLS contexts for checks, one per set of options, and TLS errors in the words of Go's crypto/tls.

Reading the system's certificates takes longer than a hundred checks, so a context is made once, in a
thread, and kept; there are at most four (verify or not, HTTP/2 or not). The ssl module is imported on first
use: an agent without TLS checks never pays for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    import ssl

# OpenSSL's X509_V_ERR_* numbers for a chain that does not end in a certificate we trust.
UNKNOWN_AUTHORITY = frozenset((2, 18, 19, 20, 21))
OUTSIDE_ITS_DATES = frozenset((9, 10))
WRONG_NAME = frozenset((62, 64))
NOT_TLS = frozenset(
    ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
)


class TlsContexts:
    def __init__(self) -> None:
        self._contexts: dict[tuple[bool, bool], ssl.SSLContext] = {}
        self._making = trio.Lock()

    async def get(self, *, skip_verify: bool, http2: bool) -> ssl.SSLContext:
        key = (skip_verify, http2)
        if key not in self._contexts:
            async with self._making:
                if key not in self._contexts:
                    self._contexts[key] = await trio.to_thread.run_sync(_make, *key)
        return self._contexts[key]


def _make(skip_verify: bool, http2: bool) -> ssl.SSLContext:  # noqa: FBT001 - called by a thread, which passes no keywords
    import ssl

    context = ssl.create_default_context()
    if skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if http2:
        context.set_alpn_protocols(["h2"])
    return context


def describe_tls_error(error: BaseException | None, name: str) -> str:
    """The reason of a failed handshake with `name`, in a form that doesn't vary from run to run."""
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return _describe_verification(error, name)
    if isinstance(error, ssl.SSLError):
        if error.reason in NOT_TLS:
            return "tls: first record does not look like a TLS handshake"
        return f"tls: {(error.reason or 'handshake failure').replace('_', ' ').lower()}"
    return "EOF"


def _describe_verification(error: ssl.SSLCertVerificationError, name: str) -> str:
    if error.verify_code in UNKNOWN_AUTHORITY:
        return "x509: certificate signed by unknown authority"
    if error.verify_code in OUTSIDE_ITS_DATES:
        return "x509: certificate has expired or is not yet valid"
    if error.verify_code in WRONG_NAME:
        return f"x509: certificate is not valid for {name}"
    return f"x509: {error.verify_message}"

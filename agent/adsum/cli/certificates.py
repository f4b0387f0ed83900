"""TLS towards the agent: files into a context, and what a person is told when the agent will have none of it.

Loaded only when an address says https.
"""

from __future__ import annotations

import ssl

from adsum.cli.command import UsageError
from adsum.net.tls_files import BadTls, load_authorities, load_pair

# By the configuration keys that such files go by in an agent.
FLAGS = {"ca_file": "-ca-file", "ca_path": "-ca-path", "cert_file": "-client-cert", "key_file": "-client-key"}
ADVICE = "give one with -client-cert and -client-key"
# Parts of OpenSSL's names for what servers say of a client's certificate, or of there being none.
ALERTS = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE", "ACCESS_DENIED")


def context_of(ca_file: str, ca_path: str, certificate: str, key: str, *, verifies: bool) -> ssl.SSLContext:
    """Empty ones are not given. Without a key, it stands in the certificate's file."""
    if key and not certificate:
        raise UsageError("-client-key needs -client-cert: the certificate of that key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which checks names and certificates
    try:
        if ca_file or ca_path:
            load_authorities(context, ca_file, ca_path)
        else:
            context.load_default_certs()
        if certificate:
            load_pair(context, certificate, key or certificate)
    except BadTls as bad:
        told = "; ".join(f"{FLAGS[problem.key]}: {problem.sentence}" for problem in bad.problems)
        raise UsageError(f"the TLS files cannot be used: {told}") from None
    if not verifies:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def about(problem: Exception, shown: str, *, shows_certificate: bool) -> str:
    """ "" where it has nothing to do with certificates."""
    if detail := getattr(problem, "verify_message", ""):
        return (
            f"the certificate of the agent at {shown} is not trusted ({detail}): "
            "name its authority with -ca-file"
        )
    reason = getattr(problem, "reason", None) or ""
    told = reason.replace("_", " ").lower()
    if "ALERT" in reason and any(word in reason for word in ALERTS):
        if shows_certificate:
            return f"the agent at {shown} does not accept the certificate of -client-cert ({told})"
        return f"the agent at {shown} wants to see a certificate ({told}): {ADVICE}"
    # With TLS 1.3 ours is refused only after we have asked, and what we sent meanwhile can hide the reason.
    if isinstance(problem, ssl.SSLEOFError | ConnectionResetError | BrokenPipeError):
        if shows_certificate:
            return f"what listens at {shown} hung up; does it accept the certificate of -client-cert?"
        return f"what listens at {shown} hung up; if it wants to see a certificate, {ADVICE}"
    return f"no TLS with what listens at {shown} ({told}); plain HTTP is http://…" if reason else ""

"""Certificate files as an operator would have them, made by an authority of the test's own."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

from adsum.net.tls import TlsSettings

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Folder:
    """Of one certificate: ca.pem, cert.pem and key.pem."""

    def __init__(self, folder: Path, authority: trustme.CA, *names: str, has_expired: bool = False) -> None:
        folder.mkdir(exist_ok=True)
        self.authority = authority
        self.ca_file, self.cert_file, self.key_file = (
            str(folder / f"{name}.pem") for name in ("ca", "cert", "key")
        )
        authority.cert_pem.write_to_path(self.ca_file)
        self.issue(*names, has_expired=has_expired)

    def issue(self, *names: str, has_expired: bool = False) -> None:
        """Another certificate in the same files."""
        yesterday = datetime.now(UTC) - timedelta(days=1)
        certificate = self.authority.issue_cert(
            *names, not_before=LONG_AGO, not_after=yesterday if has_expired else None
        )
        certificate.cert_chain_pems[0].write_to_path(self.cert_file)
        certificate.private_key_pem.write_to_path(self.key_file)

    @property
    def keys(self) -> dict[str, object]:
        """Of the configuration."""
        return {"ca_file": self.ca_file, "cert_file": self.cert_file, "key_file": self.key_file}

    @property
    def settings(self) -> TlsSettings:
        return TlsSettings(ca_file=self.ca_file, cert_file=self.cert_file, key_file=self.key_file)

    def client(self) -> ssl.SSLContext:
        """Trusts our authority, and shows this certificate to who asks."""
        context = self.stranger()
        context.load_cert_chain(self.cert_file, self.key_file)
        return context

    def stranger(self) -> ssl.SSLContext:
        """Trusts our authority, and shows nothing."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context

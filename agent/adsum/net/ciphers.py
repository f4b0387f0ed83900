"""AES-GCM, and the derivation of keys from keys.

`cryptography` costs some 20 ms and a few megabytes to import: an agent without `encrypt` never loads it. HKDF
(RFC 5869) is two lines with the standard library, and faster so; no key here is longer than one block of
SHA-256.
"""

from __future__ import annotations

import hmac
from functools import cache
from typing import TYPE_CHECKING

from adsum.named import NamedTuple

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

TAG_BYTES = 16
NONCE_BYTES = 12


class Ciphers(NamedTuple):
    aes_gcm: type[AESGCM]
    bad_tag: type[Exception]  # what `decrypt` raises for anything that was not sealed with this key


@cache
def ciphers() -> Ciphers:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return Ciphers(AESGCM, InvalidTag)


def derive(secret: bytes, *, salt: bytes, info: bytes, length: int) -> bytes:
    assert length <= 32, "one block of SHA-256"
    extracted = hmac.digest(salt, secret, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")[:length]

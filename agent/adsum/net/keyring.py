"""The keys that seal the traffic between agents, as Consul's operators know them: several may be installed,
each opens what arrives, the primary seals what leaves.

So a key is changed on a running cluster: install the new one everywhere, use it, remove the old one. Each
step is on disk before it takes effect. The file wins over the `encrypt` setting, as in Consul: else a restart
after a change of keys would bring back the key that the operator removed. A file that cannot be read is an
error at start, because going on without it would mean plaintext.

Secrets are never shown: not in a log, not by `repr`. Where people or agents compare keys they compare
fingerprints, which tell nothing about the key.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Lock

import msgspec

from adsum.net.ciphers import derive
from adsum.storage.disk import Disk

PATH = "keyring"
KEY_SIZES = (16, 24, 32)  # AES-128, AES-192, AES-256
KEYS_MAX = 8  # a rotation needs two; more only cost memory with every sender
FINGERPRINT_BYTES = 8
HINT_BYTES = 2


class KeyringError(Exception):
    """The operator's request cannot be met; nothing was changed."""


class BadKey(KeyringError):
    pass


class UnknownKey(KeyringError):
    pass


class KeyringDamaged(Exception):
    """The file cannot be trusted; the agent must not start, for it would speak in plaintext."""


class GossipKey:
    """One secret, with what it was used for: when nothing opens with an old key any more, it can go."""

    __slots__ = ("fingerprint", "hint", "opened", "sealed", "secret")

    def __init__(self, secret: bytes) -> None:
        if len(secret) not in KEY_SIZES:
            raise BadKey("a key has 16, 24 or 32 bytes, in base64: `adsum keygen` makes one")
        self.secret = secret
        self.fingerprint = derive(secret, salt=b"", info=b"adsum fingerprint", length=FINGERPRINT_BYTES)
        self.hint = self.fingerprint[:HINT_BYTES]  # travels in clear, so that nobody tries all its keys
        self.sealed = 0
        self.opened = 0

    @classmethod
    def from_text(cls, text: str) -> GossipKey:
        try:
            return cls(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError) as error:
            raise BadKey("the key is not base64: `adsum keygen` makes one") from error

    @property
    def text(self) -> str:
        return base64.b64encode(self.secret).decode()

    def __repr__(self) -> str:
        return f"<key {self.fingerprint.hex()}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GossipKey) and self.secret == other.secret

    def __hash__(self) -> int:
        return hash(self.fingerprint)


class _File(msgspec.Struct):
    generation: int
    keys: list[str]  # the primary first


class Keyring:
    """Empty means that encryption is off: nothing can be installed, as in Consul. `generation` counts
    changes.
    """

    def __init__(self, disk: Disk, keys: Iterable[GossipKey] = (), generation: int = 0) -> None:
        self._disk = disk
        self._keys = list(keys)
        self._listeners: list[Callable[[], None]] = []
        self._one_at_a_time = Lock()  # the loop changes it, and the thread that writes may save it
        self.generation = generation
        self.is_saved = True

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    @property
    def keys(self) -> tuple[GossipKey, ...]:
        """The primary first."""
        return tuple(self._keys)

    @property
    def primary(self) -> GossipKey | None:
        return self._keys[0] if self._keys else None

    def with_hint(self, hint: bytes) -> GossipKey | None:
        return next((key for key in self._keys if key.hint == hint), None)

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def install(self, text: str) -> None:
        self._require_encryption()
        key = GossipKey.from_text(text)
        if key in self._keys:
            return
        if len(self._keys) >= KEYS_MAX:
            raise KeyringError(f"{KEYS_MAX} keys are installed already; remove one that is not used any more")
        if self.with_hint(key.hint):
            raise BadKey("this key looks like an installed one on the wire (1 in 65,536 does); make another")
        self._change([*self._keys, key])

    def use(self, text: str) -> None:
        key = self._installed(text)
        if key != self.primary:
            self._change([key, *(each for each in self._keys if each != key)])

    def remove(self, text: str) -> None:
        key = self._installed(text)
        if key == self.primary:
            raise KeyringError("this is the primary key; use another one first")
        self._change([each for each in self._keys if each != key])

    def _installed(self, text: str) -> GossipKey:
        self._require_encryption()
        key = GossipKey.from_text(text)
        for installed in self._keys:
            if installed == key:
                return installed
        raise UnknownKey("this key is not in the keyring; install it first")

    def _require_encryption(self) -> None:
        if not self._keys:
            raise KeyringError("keyring is empty (encryption not enabled)")

    def save(self) -> None:
        """As it is, in a file that lacks it."""
        with self._one_at_a_time:
            write(self._disk, self._keys, self.generation)
            self.is_saved = True

    def _change(self, keys: list[GossipKey]) -> None:
        with self._one_at_a_time:
            write(self._disk, keys, self.generation + 1)
            self.generation += 1
            self._keys = keys
            self.is_saved = True
        for listener in self._listeners:
            listener()


def write(disk: Disk, keys: list[GossipKey], generation: int) -> None:
    disk.write_durably(PATH, msgspec.json.encode(_File(generation, [key.text for key in keys])))


def load(disk: Disk, configured: str | None) -> Keyring:
    """From the file; without one from the `encrypt` setting, which the file then remembers. If it cannot be
    written, the setting is as good until it is: `is_saved` tells."""
    content = disk.read(PATH)
    if content is not None:
        return _read(disk, content)
    if configured is None:
        return Keyring(disk)
    keys = [GossipKey.from_text(configured)]
    keyring = Keyring(disk, keys, generation=1)
    keyring.is_saved = False
    with suppress(OSError):
        keyring.save()
    return keyring


def is_overruled(keyring: Keyring, configured: str | None) -> bool:
    """The setting names a key that the file does not hold: worth a warning, for it has no effect."""
    return configured is not None and GossipKey.from_text(configured) not in keyring


def _read(disk: Disk, content: bytes) -> Keyring:
    try:
        file = msgspec.json.decode(content, type=_File)
        keys = [GossipKey.from_text(text) for text in file.keys]
    except (msgspec.DecodeError, UnicodeDecodeError, BadKey):
        # Without the cause: its text could quote a key.
        raise KeyringDamaged(f"the file {PATH!r} in the data folder is no keyring: {_REMEDY}") from None
    if not 0 < len(keys) <= KEYS_MAX or len({key.hint for key in keys}) < len(keys):
        raise KeyringDamaged(f"the file {PATH!r} in the data folder holds no usable set of keys: {_REMEDY}")
    return Keyring(disk, keys, file.generation)


_REMEDY = "restore it, or remove it and set `encrypt` to a key that the cluster uses"

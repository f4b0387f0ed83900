"""Datagrams sealed with AES-GCM, one key per generation of a sender, each datagram let in once.

    plain    clear header · body · CRC-32 of label, header and body
    sealed   clear header · hint of the key (2 bytes) · salt (6) · counter (6) · ciphertext and tag

The last byte of the clear header (its flags, see `gossip.wire`) says which of the two it is. Authenticated
with the body are the header, the hint and the label; the label itself never travels.

No nonce is ever used twice with a key: the key is derived from the keyring's, the sender and its generation,
which rises with every start; the counter rises with every datagram; and the salt, drawn at every start, keeps
apart two processes that were given one identity and one generation by a copied data folder.

What a receiver remembers is a window of counters for each generation of a sender (under one key and salt),
made only for what was authenticated. Of one sender the newest few are kept and older ones refused, so that
recordings of former ones do not come back; a receiver that restarts has forgotten its windows, and leaves
what is stale to the order of claims.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable

from adsum.gossip.wire import FORMAT_VERSION, HEADER_BYTES
from adsum.mutable import dataclass
from adsum.net.ciphers import NONCE_BYTES, TAG_BYTES, ciphers, derive
from adsum.net.keyring import HINT_BYTES, GossipKey, Keyring

SEALED = 1  # in the flags of the clear header
SALT_BYTES = 6
COUNTER_BYTES = NONCE_BYTES - SALT_BYTES  # 2^48 datagrams: at 1,000 a second that is 8,900 years
CRC_BYTES = 4
GENERATIONS_MAX = 32_768  # twice the members a cluster may have
GENERATIONS_PER_SENDER_MAX = 8
WINDOW = 1_024  # how far the network may reorder what one sender sent; IPsec's is of this order

_SENDER = slice(1, 9)
_GENERATION = slice(9, 17)
_FLAGS = HEADER_BYTES - 1
_HINT = slice(HEADER_BYTES, HEADER_BYTES + HINT_BYTES)
_NONCE = slice(_HINT.stop, _HINT.stop + NONCE_BYTES)
_BODY = slice(_NONCE.stop, None)
_NAME = slice(0, _NONCE.start + SALT_BYTES)  # what stays the same from one datagram of a sender to the next
_COUNTER = slice(_NAME.stop, _NONCE.stop)
_WINDOW_MASK = (1 << WINDOW) - 1
OVERHEAD_BYTES = _BODY.start - HEADER_BYTES + TAG_BYTES


@dataclass(slots=True)
class SealingCounters:
    sent_sealed: int = 0
    sent_plain: int = 0
    opened: int = 0
    opened_plain: int = 0
    # dropped, by cause
    truncated: int = 0
    other_version: int = 0
    unknown_key: int = 0
    forged: int = 0  # or damaged, or of another label
    damaged: int = 0  # plain ones; or of another label
    plain_refused: int = 0
    replayed: int = 0
    reflected: int = 0
    stale_generation: int = 0
    # limits
    generations_evicted: int = 0


class Window:
    """Which numbers of a counter have been seen: each is let in once, and those too far behind never."""

    __slots__ = ("_highest", "_seen")

    def __init__(self) -> None:
        self._highest = -1
        self._seen = 0  # bit n is the number `highest - n`

    def is_new(self, number: int) -> bool:
        behind = self._highest - number
        return behind < 0 or (behind < WINDOW and not self._seen >> behind & 1)

    def add(self, number: int) -> None:
        ahead = number - self._highest
        if ahead <= 0:
            self._seen |= 1 << -ahead
            return
        # A jump is as wide as the sender likes; the shift must not be.
        self._seen = (self._seen << ahead & _WINDOW_MASK) | 1 if ahead < WINDOW else 1
        self._highest = number


class _SenderGeneration:
    """One sender between two starts, as far as one key goes."""

    __slots__ = ("associated", "decrypt", "key", "sender", "standing", "window")

    def __init__(self, datagram: bytes, key: GossipKey, label: bytes) -> None:
        self.key = key
        self.sender = datagram[_SENDER]
        self.standing = datagram[_GENERATION]  # big-endian: compares as the number does
        self.associated = datagram[: _HINT.stop] + label
        self.decrypt = ciphers().aes_gcm(_sender_key(key, datagram)).decrypt
        self.window = Window()


class Sealing:
    """Between the core's messages (clear header and body) and what travels.

    `verify_outgoing` and `verify_incoming` are Consul's steps for moving a live cluster to encryption and
    back: with a key but without the first, plaintext is sent; without the second, plaintext is let in. Sealed
    datagrams are always let in.
    """

    def __init__(
        self,
        keyring: Keyring,
        label: str,
        *,
        verify_outgoing: bool = True,
        verify_incoming: bool = True,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.counters = SealingCounters()
        self._keyring = keyring
        self._label = label.encode()
        self._crc_seed = zlib.crc32(self._label)
        self._verify_outgoing = verify_outgoing
        self._verify_incoming = verify_incoming
        self._salt = random_bytes(SALT_BYTES)
        self._sent = 0  # never starts again while the process runs, whatever keys come and go
        self._generations: dict[bytes, _SenderGeneration] = {}
        self._by_sender: dict[bytes, list[bytes]] = {}
        self._own_name = b""
        self._use_keys()
        keyring.on_change(self._use_keys)

    @property
    def generations(self) -> int:
        return len(self._generations)

    def seal(self, message: bytes) -> bytes:
        """About half a microsecond beside the cipher."""
        if not self._is_sealing:
            self.counters.sent_plain += 1
            return message + zlib.crc32(message, self._crc_seed).to_bytes(CRC_BYTES)
        if message[:HEADER_BYTES] != self._own_header:
            self._begin_generation(message[:HEADER_BYTES])
        self._sent += 1
        self.counters.sent_sealed += 1
        self._own_key.sealed += 1
        counter = self._sent.to_bytes(COUNTER_BYTES)
        sealed = self._encrypt(self._salt + counter, message[HEADER_BYTES:], self._own_associated)
        return self._own_name + counter + sealed

    def open(self, datagram: bytes) -> bytes | None:
        """The message, or None for what was dropped and counted. About a microsecond beside the cipher."""
        generation = self._generations.get(datagram[_NAME])
        if generation is None:
            return self._open_unknown(datagram)
        number = int.from_bytes(datagram[_COUNTER])
        if not generation.window.is_new(number):
            self.counters.replayed += 1
            return None
        try:
            body = generation.decrypt(datagram[_NONCE], datagram[_BODY], generation.associated)
        except self._bad_tag:
            self.counters.forged += 1
            return None
        generation.window.add(number)
        generation.key.opened += 1
        self.counters.opened += 1
        return datagram[:HEADER_BYTES] + body

    def is_authentic(self, message: bytes) -> bool:
        """Of an opened message: its sender held a key of ours, or we have none."""
        return bool(message[_FLAGS] & SEALED) or not self._keyring

    def _use_keys(self) -> None:
        primary = self._keyring.primary
        self._own_header = b""  # the next datagram begins with a key of its own
        self._is_sealing = primary is not None and self._verify_outgoing
        if primary is not None:
            self._bad_tag = ciphers().bad_tag
            self._own_key = primary
        for name, generation in list(self._generations.items()):
            if generation.key not in self._keyring:
                self._forget(name)

    def _begin_generation(self, header: bytes) -> None:
        """At the first datagram, and when the generation was raised or another key became primary."""
        flags = header[_FLAGS] | SEALED
        head = header[:_FLAGS] + bytes((flags,)) + self._own_key.hint
        self._own_header = header
        self._own_name = head + self._salt
        self._own_associated = head + self._label
        self._encrypt = ciphers().aes_gcm(_sender_key(self._own_key, header)).encrypt

    def _open_unknown(self, datagram: bytes) -> bytes | None:
        """Plain, of a generation not met before, or nothing of ours."""
        counters = self.counters
        if len(datagram) < HEADER_BYTES + CRC_BYTES:
            counters.truncated += 1
        elif datagram[0] != FORMAT_VERSION:
            counters.other_version += 1
        elif not datagram[_FLAGS] & SEALED:
            return self._open_plain(datagram)
        elif len(datagram) < HEADER_BYTES + OVERHEAD_BYTES:
            counters.truncated += 1
        elif (key := self._keyring.with_hint(datagram[_HINT])) is None:
            counters.unknown_key += 1
        elif datagram[_NAME] == self._own_name:
            counters.reflected += 1
        else:
            return self._open_first(datagram, key)
        return None

    def _open_plain(self, datagram: bytes) -> bytes | None:
        if self._keyring and self._verify_incoming:
            self.counters.plain_refused += 1
            return None
        message, given = datagram[:-CRC_BYTES], datagram[-CRC_BYTES:]
        if zlib.crc32(message, self._crc_seed).to_bytes(CRC_BYTES) != given:
            self.counters.damaged += 1
            return None
        self.counters.opened_plain += 1
        return message

    def _open_first(self, datagram: bytes, key: GossipKey) -> bytes | None:
        """Nothing is remembered of a stranger before its first datagram proved the key."""
        generation = _SenderGeneration(datagram, key, self._label)
        try:
            generation.decrypt(datagram[_NONCE], datagram[_BODY], generation.associated)
        except self._bad_tag:
            self.counters.forged += 1
            return None
        if not self._admit(datagram[_NAME], generation):
            self.counters.stale_generation += 1
            return None
        return self.open(datagram)

    def _admit(self, name: bytes, generation: _SenderGeneration) -> bool:
        known = self._by_sender.setdefault(generation.sender, [])
        if len(known) >= GENERATIONS_PER_SENDER_MAX:
            oldest = min(known, key=lambda each: self._generations[each].standing)
            if generation.standing < self._generations[oldest].standing:
                return False
            self._forget(oldest)
        if len(self._generations) >= GENERATIONS_MAX:
            self.counters.generations_evicted += 1
            self._forget(next(iter(self._generations)))
        self._generations[name] = generation
        self._by_sender.setdefault(generation.sender, []).append(name)
        return True

    def _forget(self, name: bytes) -> None:
        generation = self._generations.pop(name)
        names = self._by_sender[generation.sender]
        names.remove(name)
        if not names:
            del self._by_sender[generation.sender]


def _sender_key(key: GossipKey, header: bytes) -> bytes:
    info = b"adsum datagram" + header[_SENDER] + header[_GENERATION]
    return derive(key.secret, salt=b"", info=info, length=len(key.secret))

"""What the tests of this room share: keys, gates, and a server on loopback."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from adsum.address import Address
from adsum.net import framing
from adsum.net.framing import FrameReader, FrameWriter, hello
from adsum.net.gate import Gate, Security
from adsum.net.introduction import PeerIdentity
from adsum.net.keyring import GossipKey, Keyring, load
from adsum.net.listening import bind_tcp
from adsum.net.streams import StreamServer
from adsum.storage.memory import MemoryDisk

KEY_A = base64.b64encode(b"a" * 32).decode()
KEY_B = base64.b64encode(b"b" * 16).decode()
KEY_C = base64.b64encode(b"c" * 32).decode()


def ring(*keys: str) -> Keyring:
    """The first is the primary."""
    keyring = load(MemoryDisk(), keys[0] if keys else None)
    for key in keys[1:]:
        keyring.install(key)
    return keyring


def gate(
    keyring: Keyring | None = None,
    *,
    name: bytes = b"n",
    label: str = "dc1",
    cluster_id: str = "",
    epoch: int = 0,
    security: Security | None = None,
) -> Gate:
    identity = PeerIdentity(name.ljust(16, b"-"), cluster_id, epoch)
    return Gate(lambda: identity, security or Security(keyring or ring(), label))


@asynccontextmanager
async def serving(server: StreamServer) -> AsyncIterator[Address]:
    listener = bind_tcp("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run, listener)
        yield Address(*listener.socket.getsockname())
        nursery.cancel_scope.cancel()


class Wire:
    """A client written out by hand, to say what ours would not."""

    def __init__(self, stream: trio.SocketStream, key: GossipKey | None) -> None:
        self.stream = stream
        self._key = key

    async def greet(self) -> None:
        mine = hello("dc1", b"n" * 16, hint=self._key.hint if self._key else framing.NO_HINT)
        await self.stream.send_all(mine.encoded)
        theirs = framing.parse_hello(await reply(self.stream))
        keys = framing.directions(self._key, "dc1", mine, theirs)
        self.writer = FrameWriter(keys.from_client, payload_bytes_max=1 << 20)
        self.reader = FrameReader(keys.from_server, payload_bytes_max=1 << 20)

    async def say(self, payload: bytes) -> None:
        await self.stream.send_all(self.writer.pack(payload))

    async def heard(self) -> bytes | None:
        self.reader.feed(await reply(self.stream))
        return self.reader.next()


async def reply(stream: trio.SocketStream) -> bytes:
    try:
        return bytes(await stream.receive_some(1_000))
    except trio.BrokenResourceError:
        return b""  # closed with our bytes unread

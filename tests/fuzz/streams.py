"""Both ends of a stream between agents, on blocking sockets, with the product's own frames and seals."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Self

from adsum.net import framing
from adsum.net.errors import NetError
from adsum.net.framing import HELLO_BYTES, HELLO_NONCE_BYTES, FrameReader, FrameWriter, Hello
from adsum.net.keyring import GossipKey

LABEL = "dc1"
PAYLOAD_BYTES_MAX = 16 * 1024 * 1024  # of what is read and written here; agents take less
CHUNK_BYTES = 65_536


class Ended(Exception):
    """The other side closed the stream, said nothing in time, or something we cannot read."""


@dataclass(slots=True)
class Stream:
    sock: socket.socket
    writer: FrameWriter
    reader: FrameReader

    @classmethod
    def opened(cls, port: int, key: GossipKey | None, *, patience_s: float) -> Self:
        try:
            sock = socket.create_connection(("127.0.0.1", port), timeout=patience_s)
        except OSError as error:
            raise Ended(str(error)) from error
        try:
            mine = _hello(key)
            sock.sendall(mine.encoded)
            theirs = framing.parse_hello(_exactly(sock, HELLO_BYTES))
        except (OSError, NetError) as error:
            sock.close()
            raise Ended(str(error)) from error
        seals = framing.directions(key, LABEL, mine, theirs)
        return cls._of(sock, seals.from_client, seals.from_server)

    @classmethod
    def accepted(cls, sock: socket.socket, key: GossipKey | None) -> Self:
        try:
            theirs = framing.parse_hello(_exactly(sock, HELLO_BYTES))
            mine = _hello(key)
            sock.sendall(mine.encoded)
        except (OSError, NetError) as error:
            raise Ended(str(error)) from error
        seals = framing.directions(key, LABEL, theirs, mine)
        return cls._of(sock, seals.from_server, seals.from_client)

    @classmethod
    def _of(cls, sock: socket.socket, sending: framing.FrameSeal, receiving: framing.FrameSeal) -> Self:
        writer = FrameWriter(sending, payload_bytes_max=PAYLOAD_BYTES_MAX)
        return cls(sock, writer, FrameReader(receiving, payload_bytes_max=PAYLOAD_BYTES_MAX))

    def send(self, payload: bytes, *, share: float = 1.0) -> None:
        """Or only the first part of the frame."""
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise Ended("it is longer than any frame")
        frame = self.writer.pack(payload)
        try:
            self.sock.sendall(frame[: int(len(frame) * share)])
        except OSError as error:
            raise Ended(str(error)) from error

    def receive(self) -> bytes:
        payload: bytes | None = None
        while payload is None:
            try:
                payload = self.reader.next()
                if payload is None:
                    self.reader.feed(_some(self.sock))
            except (OSError, NetError) as error:
                raise Ended(str(error)) from error
        return payload

    def close(self) -> None:
        self.sock.close()


def _hello(key: GossipKey | None) -> Hello:
    hint = framing.NO_HINT if key is None else key.hint
    return framing.hello(LABEL, os.urandom(HELLO_NONCE_BYTES), hint=hint)


def _exactly(sock: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        data += _some(sock, length - len(data))
    return data


def _some(sock: socket.socket, bytes_max: int = CHUNK_BYTES) -> bytes:
    data = sock.recv(bytes_max)
    if not data:
        raise Ended("it closed the stream")
    return data

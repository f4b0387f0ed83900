"""The fuzzer as a member: it answers pings and streams, so agents keep it as a member and ask it things.

What it answers to those who ask is put here beforehand; with nothing put, it answers as a member does that
knows nobody. Runs in threads of its own, because agents do not wait for the rest of the fuzzer.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

import cbor2

from adsum.address import Address
from adsum.gossip import claims, wire
from adsum.gossip.claims import Profile
from adsum.gossip.effects import SyncMessage, SyncPart
from adsum.gossip.wire import HEADER_BYTES, PacketKind
from adsum.net import call_frames, introduction, syncs
from adsum.net.errors import NetError
from adsum.net.introduction import Introduction, PeerIdentity, Purpose
from adsum.net.keyring import GossipKey, Keyring
from adsum.net.sealing import Sealing
from adsum.storage.memory import MemoryDisk
from tests.fuzz.participants import FUZZER
from tests.fuzz.streams import LABEL, Ended, Stream
from tests.fuzz.trees import built

ANSWERS_MAX = 256  # put and not asked for yet
CONVERSATIONS_MAX = 8
PATIENCE_S = 2.0
DATAGRAM_BYTES_MAX = 2_048


class Member:
    def __init__(self, key: GossipKey | None) -> None:
        self.key = key
        self.answered = 0
        self.known: Mapping[str, int] = {}  # for answers, as `trees.built` wants it
        self.generation = time.time_ns() // 1_000_000
        self._sealing = Sealing(Keyring(MemoryDisk(), [key] if key else []), LABEL)
        self._lock = threading.Lock()  # around what seals: a counter that two took would be refused
        self._answers: dict[str, deque[object]] = {to: deque(maxlen=ANSWERS_MAX) for to in ("sync", "call")}
        self._udp, self._tcp = _both()
        self._is_over = False
        self._threads = ThreadPoolExecutor(2)
        self._conversing = ThreadPoolExecutor(CONVERSATIONS_MAX)
        self._work: list[Future[None]] = []

    @property
    def port(self) -> int:
        return int(self._udp.getsockname()[1])

    def __enter__(self) -> Self:
        self._work = [self._threads.submit(each) for each in (self._hear, self._accept)]
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._threads.shutdown()
        self._conversing.shutdown()
        self._udp.close()
        self._tcp.close()
        for each in self._work:
            each.result()

    def send(self, port: int, header: bytes, body: bytes) -> None:
        with self._lock:
            datagram = self._sealing.seal(header + body)
        with contextlib.suppress(OSError):  # longer than a datagram can be, or an error of an earlier one
            self._udp.sendto(datagram, ("127.0.0.1", port))

    def put(self, to: str, frames: object) -> None:
        self._answers[to].append(frames)

    def join(self, port: int) -> None:
        """With a later life, for whatever was said of the last one: agents take it back."""
        self.generation = max(self.generation + 1, time.time_ns() // 1_000_000)
        with contextlib.suppress(Ended):
            stream = Stream.opened(port, self.key, patience_s=PATIENCE_S)
            with contextlib.closing(stream):
                stream.send(self._introduction(Purpose.SYNC))
                for frame in syncs.frames(SyncMessage(1, (self._part(),), is_join=True)):
                    stream.send(frame)
                stream.receive()
                stream.receive()

    # Datagrams.

    def _hear(self) -> None:
        self._udp.settimeout(0.1)
        while not self._is_over:
            try:
                datagram, (_host, port) = self._udp.recvfrom(DATAGRAM_BYTES_MAX)
            except OSError:  # nothing came, or nobody listens where we sent something
                continue
            with self._lock:
                message = self._sealing.open(datagram)
            if message is not None:
                self._answer_ping(port, message)

    def _answer_ping(self, port: int, message: bytes) -> None:
        try:
            packet = wire.decode(message[HEADER_BYTES:])
        except wire.MalformedPacket:
            return
        if packet.kind == PacketKind.PING and packet.about == FUZZER.short:
            ack = wire.encode(wire.Packet(PacketKind.ACK, sequence=packet.sequence))
            self.send(port, wire.header(FUZZER.short, self.generation), ack)

    # Streams.

    def _accept(self) -> None:
        conversations: deque[Future[None]] = deque()
        self._tcp.settimeout(0.1)
        while not self._is_over:
            try:
                sock, _origin = self._tcp.accept()
            except TimeoutError:
                continue
            conversations.append(self._conversing.submit(self._converse, sock))
            while conversations and conversations[0].done():
                conversations.popleft().result()  # raises what went wrong here, and not there
        for each in conversations:
            each.result()

    def _converse(self, sock: socket.socket) -> None:
        sock.settimeout(PATIENCE_S)
        with sock, contextlib.suppress(Ended, NetError, OSError):
            self._answer_stream(Stream.accepted(sock, self.key))

    def _answer_stream(self, stream: Stream) -> None:
        theirs = introduction.decode(stream.receive())
        if not isinstance(theirs, Introduction):
            return
        stream.send(self._introduction(theirs.purpose))
        match theirs.purpose:
            case Purpose.SYNC:
                self._answer_sync(stream)
            case Purpose.CALLS:
                self._answer_call(stream)

    def _answer_sync(self, stream: Stream) -> None:
        joining = syncs.JoiningSync()
        while (asked := joining.add(stream.receive())) is None:
            pass
        if not asked.wants_answer:
            return
        if not self._answer(stream, "sync", {}):
            for frame in syncs.frames(SyncMessage(1, (self._part(),))):
                stream.send(frame)
        stream.receive()

    def _answer_call(self, stream: Stream) -> None:
        asked = call_frames.decode(stream.receive())
        if not isinstance(asked, call_frames.AskFrame):
            return
        if not self._answer(stream, "call", {"ask": asked.number}):
            stream.send(call_frames.failed(asked.number, "busy", "not now"))
        stream.receive()

    def _answer(self, stream: Stream, to: str, known: Mapping[str, int]) -> bool:
        if not self._answers[to]:
            return False
        frames = self._answers[to].popleft()
        self.answered += 1
        for frame in built(frames, {**self.known, "life": self.generation, "now": self.generation, **known}):
            stream.send(frame if isinstance(frame, bytes) else cbor2.dumps(frame))
        return True

    def _introduction(self, purpose: Purpose) -> bytes:
        return introduction.encode(Introduction(PeerIdentity(FUZZER.node_id), purpose))

    def _part(self) -> SyncPart:
        profile = Profile(FUZZER.node_id, FUZZER.name, Address("127.0.0.1", self.port))
        return SyncPart(claims.alive(profile, self.generation, 0).encoded)


def _both() -> tuple[socket.socket, socket.socket]:
    """One port for both, as an agent has it."""
    while True:
        tcp = socket.create_server(("127.0.0.1", 0))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            udp.bind(tcp.getsockname())
        except OSError:
            udp.close()
            tcp.close()
            continue
        return udp, tcp

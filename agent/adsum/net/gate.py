"""How channels come to be: connect, TLS where it is set, a hello and an introduction from each side.

`Gate` holds what both sides need for that: who we are at the moment, the keyring, TLS, and the budget for
what comes in. Opening a channel has one deadline in all; whoever connects to us must say its hello sooner,
for it has it ready. Whoever dials learns what happened as one of the classes in `errors`; whoever is dialled
tells a peer that speaks our protocol why it is turned away, and says nothing at all to anyone else.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, NoReturn

import trio

from adsum.address import Address
from adsum.logs.complaints import Complaints
from adsum.logs.system_errors import is_shortage, told
from adsum.mutable import dataclass
from adsum.named import NamedTuple
from adsum.net import framing, introduction
from adsum.net.addresses import BadAddress, address_of, socket_address
from adsum.net.channel import CHUNK_BYTES_MIN, Channel, is_always_good, receive_some, send_all
from adsum.net.errors import (
    BadPeer,
    Lost,
    NetError,
    PeerRefused,
    PeerUnreachable,
    TimedOut,
    TurnedAway,
    Untried,
    Unwelcome,
)
from adsum.net.framing import FrameReader, FrameWriter, HandshakeAnswer, Hello
from adsum.net.introduction import Introduction, Peer, PeerIdentity, Purpose, WelcomeRefusal
from adsum.net.keyring import GossipKey, Keyring
from adsum.net.unread import UnreadBytes

if TYPE_CHECKING:
    from adsum.net.tls import Tls

IP_BIND_ADDRESS_NO_PORT = 24  # of Linux's ip(7); Python has no name for it
OPENING_TIMEOUT_S = 5.0
HELLO_TIMEOUT_S = 1.0  # a TLS handshake and a hello: three round trips of an agent that is not waited for
INTRODUCTION_BYTES_MAX = 1_024  # what a stranger may send in one frame
TLS_FIRST_BYTE = b"\x16"  # a hello begins with a letter
UNKNOWN_KEY_REASON = framing.REASONS[HandshakeAnswer.UNKNOWN_KEY]

log = logging.getLogger("net")


@dataclass(slots=True)
class GateCounters:
    """Failures are counted by the name of their class."""

    dialled: int = 0
    welcomed: int = 0
    dials_failed: Counter[str] = field(default_factory=Counter)
    welcomes_failed: Counter[str] = field(default_factory=Counter)


class Security(NamedTuple):
    """`verify_outgoing` and `verify_incoming` are those of `encrypt`; TLS has its own."""

    keyring: Keyring
    label: str
    verify_outgoing: bool = True
    verify_incoming: bool = True
    tls: Tls | None = None
    from_host: str = ""  # our end of what we dial, for who is looked for there; empty: as the kernel chooses


class OpenedChannel(NamedTuple):
    channel: Channel
    peer: Peer
    purpose: Purpose


Serves = Callable[[Purpose, Peer], WelcomeRefusal | None]


class Gate:
    def __init__(
        self, identity: Callable[[], PeerIdentity], security: Security, *, unread: UnreadBytes | None = None
    ) -> None:
        self.counters = GateCounters()
        self.unread = unread or UnreadBytes()
        self._identity = identity
        self._security = security
        self._primary_refused = trio.Event()
        self._complaints = Complaints(log)

    async def primary_refused(self) -> None:
        """Returns when a peer lets us in with another key of ours, for it does not hold the primary."""
        await self._primary_refused.wait()
        self._primary_refused = trio.Event()

    async def dial(
        self, to: Address, purpose: Purpose, *, payload_bytes_max: int, timeout_s: float = OPENING_TIMEOUT_S
    ) -> OpenedChannel:
        try:
            opened = await self._dial(to, purpose, timeout_s)
        except NetError as error:
            self.counters.dials_failed[type(error).__name__] += 1
            if isinstance(error, Untried):
                self._complaints.say("untried", "other agents cannot be called: %s", error)
            raise
        self.counters.dialled += 1
        return self._widened(opened, payload_bytes_max)

    async def welcome(
        self, stream: trio.SocketStream, serves: Serves, *, payload_bytes_max: int
    ) -> OpenedChannel:
        """Closes the stream when it raises; afterwards the channel is the caller's to close."""
        try:
            opened = await self._welcome(stream, serves)
        except BaseException as error:
            if isinstance(error, NetError):
                self.counters.welcomes_failed[type(error).__name__] += 1
            await trio.aclose_forcefully(stream)
            raise
        self.counters.welcomed += 1
        return self._widened(opened, payload_bytes_max)

    def _widened(self, opened: OpenedChannel, payload_bytes_max: int) -> OpenedChannel:
        opened.channel.count_in(self.unread.share(opened.peer.address.host))
        opened.channel.widen(payload_bytes_max)
        return opened

    async def _dial(self, to: Address, purpose: Purpose, timeout_s: float) -> OpenedChannel:
        """Keys may have been changed while we were away: a peer that lacks our primary is offered the others.
        Whoever tells us so is not known yet; that it holds another key, it proves.
        """
        deadline_s = trio.current_time() + timeout_s
        security = self._security
        # The primary first.
        keys = (security.keyring.keys if security.verify_outgoing else ()) or (None,)
        for key in keys:
            try:
                opened = await self._dial_with(key, to, purpose, deadline_s)
            except TurnedAway as refusal:
                if refusal.reason != UNKNOWN_KEY_REASON or key is keys[-1]:
                    raise
                continue
            if key is not keys[0]:
                self._primary_refused.set()
            return opened
        raise AssertionError("at least plaintext is offered")

    async def _dial_with(
        self, key: GossipKey | None, to: Address, purpose: Purpose, deadline_s: float
    ) -> OpenedChannel:
        stream: trio.abc.Stream | None = None
        try:
            with trio.move_on_at(deadline_s):
                stream = await connect(to, self._security.from_host)
                stream, is_verified = await self._outgoing_tls(stream)
                channel = await self._greet(stream, key)
                return await self._introduce(channel, to, purpose, is_verified=is_verified or key is not None)
        except BaseException:
            if stream is not None:
                await trio.aclose_forcefully(stream)
            raise
        if stream is None:
            raise PeerUnreachable("nothing answered the attempt to connect")
        await trio.aclose_forcefully(stream)
        raise TimedOut("its host accepted the connection, but it says nothing")

    async def _greet(self, stream: trio.abc.Stream, key: GossipKey | None) -> Channel:
        security = self._security
        hint = key.hint if key is not None else framing.NO_HINT
        mine = framing.hello(security.label, os.urandom(framing.HELLO_NONCE_BYTES), hint=hint)
        await send_all(stream, mine.encoded)
        theirs, rest = await _receive_hello(stream)
        if theirs.answer != HandshakeAnswer.YES:
            raise framing.turned_away(theirs)
        if theirs.version != framing.FORMAT_VERSION or theirs.hint != mine.hint:
            raise BadPeer("it answered what we did not ask")
        keys = framing.directions(key, security.label, mine, theirs)
        return self._channel(stream, key, keys.from_client, keys.from_server, rest)

    async def _introduce(
        self, channel: Channel, to: Address, purpose: Purpose, *, is_verified: bool
    ) -> OpenedChannel:
        mine = self._identity()
        await channel.send(introduction.encode(Introduction(mine, purpose)))
        theirs = introduction.decode(await channel.receive(idle_s=OPENING_TIMEOUT_S))
        if not isinstance(theirs, Introduction):
            raise introduction.turned_away(theirs)
        objection = introduction.objection(mine, theirs)
        if objection is not None:
            raise introduction.turned_away(objection)
        return OpenedChannel(channel, introduction.met(theirs, to, is_authenticated=is_verified), purpose)

    async def _welcome(self, stream: trio.SocketStream, serves: Serves) -> OpenedChannel:
        try:
            address = address_of(stream.socket.getpeername())
        except OSError as error:
            raise Lost("it went away before it was let in") from error
        channel: Channel | None = None
        with trio.move_on_after(HELLO_TIMEOUT_S):
            inner, is_verified = await self._incoming_tls(stream)
            channel, key = await self._answer_hello(inner)
        if channel is not None:
            is_verified = is_verified or key is not None
            with trio.move_on_after(OPENING_TIMEOUT_S - HELLO_TIMEOUT_S):
                return await self._answer_introduction(channel, address, serves, is_verified=is_verified)
        raise TimedOut("it connected and did not say in time who it is")

    async def _answer_hello(self, stream: trio.abc.Stream) -> tuple[Channel, GossipKey | None]:
        security = self._security
        theirs, rest = await _receive_hello(stream)
        key = security.keyring.with_hint(theirs.hint)
        answer = self._judge(theirs, key)
        mine = framing.hello(
            security.label, os.urandom(framing.HELLO_NONCE_BYTES), hint=theirs.hint, answer=answer
        )
        await send_all(stream, mine.encoded)
        if answer is not HandshakeAnswer.YES:
            raise Unwelcome(_UNWELCOME[answer])
        keys = framing.directions(key, security.label, theirs, mine)
        return self._channel(stream, key, keys.from_server, keys.from_client, rest), key

    def _judge(self, theirs: Hello, key: GossipKey | None) -> HandshakeAnswer:
        security = self._security
        if theirs.version != framing.FORMAT_VERSION:
            return HandshakeAnswer.OTHER_VERSION
        if theirs.label_check != framing.label_check(security.label):
            return HandshakeAnswer.OTHER_LABEL
        if theirs.hint != framing.NO_HINT:
            return HandshakeAnswer.YES if key is not None else HandshakeAnswer.UNKNOWN_KEY
        is_needed = security.keyring and security.verify_incoming
        return HandshakeAnswer.KEY_NEEDED if is_needed else HandshakeAnswer.YES

    async def _answer_introduction(
        self, channel: Channel, address: Address, serves: Serves, *, is_verified: bool
    ) -> OpenedChannel:
        theirs = introduction.decode(await channel.receive(idle_s=OPENING_TIMEOUT_S))
        mine = self._identity()
        if not isinstance(theirs, Introduction):
            return await _refuse(channel, WelcomeRefusal.NOT_SERVED)
        peer = introduction.met(theirs, address, is_authenticated=is_verified)
        refusal = introduction.objection(mine, theirs) or serves(theirs.purpose, peer)
        if refusal is not None:
            return await _refuse(channel, refusal)
        await channel.send(introduction.encode(Introduction(mine, theirs.purpose)))
        return OpenedChannel(channel, peer, theirs.purpose)

    async def _outgoing_tls(self, stream: trio.SocketStream) -> tuple[trio.abc.Stream, bool]:
        tls = self._security.tls
        if tls is None or tls.outgoing is None:
            return stream, False
        wrapped = trio.SSLStream(stream, tls.outgoing, server_hostname=tls.server_name)
        return await _shaken(wrapped), True

    async def _incoming_tls(self, stream: trio.SocketStream) -> tuple[trio.abc.Stream, bool]:
        tls = self._security.tls
        if tls is None:
            return stream, False
        try:
            first = await stream.socket.recv(1, socket.MSG_PEEK)
        except OSError as error:
            raise Lost("it went away before it said anything") from error
        if first != TLS_FIRST_BYTE:
            if tls.is_incoming_required:
                raise BadPeer("it does not speak TLS, and verify_incoming is set")
            return stream, False
        if tls.incoming is None:
            raise BadPeer("it speaks TLS, and we have no certificate")
        wrapped = trio.SSLStream(stream, tls.incoming, server_side=True)
        return await _shaken(wrapped), tls.is_incoming_required

    def _channel(
        self,
        stream: trio.abc.Stream,
        key: GossipKey | None,
        sending: framing.FrameSeal,
        receiving: framing.FrameSeal,
        rest: bytes,
    ) -> Channel:
        keyring = self._security.keyring
        reader = FrameReader(receiving, payload_bytes_max=INTRODUCTION_BYTES_MAX)
        reader.feed(rest)
        writer = FrameWriter(sending, payload_bytes_max=INTRODUCTION_BYTES_MAX)
        is_key_good = is_always_good if key is None else lambda: key in keyring
        return Channel(stream, writer, reader, is_key_good)


_UNWELCOME = framing.REASONS | {
    HandshakeAnswer.UNKNOWN_KEY: "it seals with a key that we do not have",
    HandshakeAnswer.KEY_NEEDED: "it speaks in plaintext, and we accept only what is encrypted",
}


async def connect(to: Address, from_host: str = "") -> trio.SocketStream:
    try:
        family, target = socket_address(to)
    except BadAddress as error:
        raise PeerUnreachable(str(error)) from error
    try:
        sock = trio.socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise Untried(told(error)) from error
    try:
        if from_host and (":" in from_host) == (family == socket.AF_INET6):
            if family == socket.AF_INET:  # the port is chosen with the target known: else there are too few
                sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            await sock.bind((from_host, 0))
        await sock.connect(target)
        _check_not_ourselves(sock)
    except BaseException as error:
        sock.close()
        if is_shortage(error):
            raise Untried(told(error)) from error
        if isinstance(error, ConnectionRefusedError):
            raise PeerRefused("its host refused the connection") from error
        if isinstance(error, OSError):
            # The kernel's reason: trio wraps it in a sentence that begins with the address again.
            reason = os.strerror(error.errno).lower() if error.errno else str(error)
            raise PeerUnreachable(f"no connection: {reason}") from error
        raise
    return trio.SocketStream(sock)


def _check_not_ourselves(sock: trio.socket.SocketType) -> None:
    """On loopback the kernel may give us the very port that we dial, and connect us to ourselves."""
    if sock.getsockname() == sock.getpeername():
        raise PeerUnreachable("nobody listens there but our own end of the connection")


async def _refuse(channel: Channel, refusal: WelcomeRefusal) -> NoReturn:
    await channel.send(introduction.encode_refusal(refusal))
    raise Unwelcome(refusal.name.lower().replace("_", " "))


async def _receive_hello(stream: trio.abc.Stream) -> tuple[Hello, bytes]:
    """And what came with it, which belongs to the frames."""
    received = b""
    while len(received) < framing.HELLO_BYTES:
        received += bytes(await receive_some(stream, CHUNK_BYTES_MIN))
        framing.check_magic(received)
    return framing.parse_hello(received[: framing.HELLO_BYTES]), received[framing.HELLO_BYTES :]


async def _shaken(stream: trio.SSLStream[trio.SocketStream]) -> trio.abc.Stream:
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError as error:
        raise BadPeer(f"no TLS with it: {error.__cause__ or error}") from error
    return stream

"""How an input gets to an agent: one way for each door, on real sockets.

Nobody waits longer than a moment for an answer: what an agent says is not judged here, only whether it lives.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import struct
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import cbor2

from adsum.gossip import wire
from tests.fuzz.member import Member
from tests.fuzz.participants import AGENTS
from tests.fuzz.streams import Ended, Stream
from tests.fuzz.trees import Input, built
from tests.system.agents import Ports

OPENING_S = 1.0
ANSWER_S = 0.1
HELD_MAX = 40
RESET = struct.pack("ii", 1, 0)
ANSWER_BYTES_MAX = 4 * 1024 * 1024


class Doors:
    def __init__(self, agents: Sequence[Ports], member: Member) -> None:
        self._agents = agents
        self._member = member
        self._dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._dns.setblocking(False)
        self._held: deque[Stream] = deque()
        self._ports = {f"port{place}": ports.serf_lan for place, ports in enumerate(agents)}
        self._ports[f"port{AGENTS}"] = member.port
        member.known = self._ports

    def close(self) -> None:
        self._dns.close()
        while self._held:
            self._held.popleft().close()

    def send(self, each: Input) -> None:
        ports = self._agents[each.agent % len(self._agents)]
        content = built(each.content, self._known())
        match each.door:
            case "datagram":
                self._datagram(ports, content)
            case "stream" | "calls":
                with contextlib.suppress(Ended):
                    self._stream(ports, content)
            case "answer":
                self._member.put(content["to"], each.content["frames"])  # type: ignore[index]  # a map by its door
            case "http":
                with contextlib.suppress(OSError):
                    self._request(ports, content)
            case "dns":
                with contextlib.suppress(OSError):
                    self._questions(ports, content)
            case _:
                raise AssertionError(f"no such door: {each.door}")

    def _known(self) -> Mapping[str, int]:
        now = time.time_ns() // 1_000_000
        return {"life": self._member.generation, "now": now, "ask": 0, **self._ports}

    def _datagram(self, ports: Ports, content: dict[str, Any]) -> None:
        body = content["body"]
        whole = body if isinstance(body, bytes) else cbor2.dumps(body)
        self._member.send(ports.serf_lan, wire.header(content["sender"], content["generation"]), whole)

    # Streams.

    def _stream(self, ports: Ports, content: dict[str, Any]) -> None:
        stream = Stream.opened(ports.serf_lan, self._member.key, patience_s=OPENING_S)
        ending = content["ending"]
        try:
            stream.send(_payload(content["introduction"]))
            stream.receive()
            stream.sock.settimeout(ANSWER_S)
            self._converse(stream, [_payload(frame) for frame in content["frames"]], ending)
        finally:
            self._end(stream, ending)

    def _converse(self, stream: Stream, frames: list[bytes], ending: str) -> None:
        for frame in frames:
            stream.send(frame)
        if ending == "half" and frames:
            stream.send(frames[-1], share=0.5)
        for _frame in frames:
            stream.receive()

    def _end(self, stream: Stream, ending: str) -> None:
        if ending == "hold":
            self._held.append(stream)
            if len(self._held) > HELD_MAX:
                self._held.popleft().close()
            return
        if ending == "reset":
            with contextlib.suppress(OSError):
                stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        stream.close()

    # HTTP.

    def _request(self, ports: Ports, content: dict[str, Any]) -> None:
        head, body = request_bytes(content)
        torn, whole = content["torn"], (head + body) * content["times"]
        with socket.create_connection(("127.0.0.1", ports.http), timeout=OPENING_S) as sock:
            sock.sendall(whole[:torn] if torn else whole)
            if torn:
                return
            sock.settimeout(ANSWER_S)
            response = http.client.HTTPResponse(sock, method=content["method"])
            with contextlib.suppress(http.client.HTTPException):
                response.begin()
                response.read(ANSWER_BYTES_MAX)

    # DNS.

    def _questions(self, ports: Ports, content: dict[str, Any]) -> None:
        messages: list[bytes] = content["messages"]
        if content["transport"] == "udp":
            for message in messages:
                self._dns.sendto(message, ("127.0.0.1", ports.dns))
            self._drain_dns()
            return
        framed = [struct.pack(">H", len(message)) + message for message in messages]
        longer = max(0, min(65_535, len(messages[0]) + content["longer"]))
        framed[0] = struct.pack(">H", longer) + messages[0]
        with socket.create_connection(("127.0.0.1", ports.dns), timeout=OPENING_S) as sock:
            sock.sendall(b"".join(framed))
            sock.settimeout(ANSWER_S / 2)
            sock.recv(65_536)

    def _drain_dns(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self._dns.recv(65_536)


def request_bytes(content: dict[str, Any]) -> tuple[bytes, bytes]:
    target = quote(content["path"], safe="/", errors="surrogatepass")
    if content["query"]:
        target += "?" + "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in content["query"])
    body = _body(content["body"])
    head = f"{content['method']} {target} HTTP/1.1\r\nHost: localhost\r\n"
    return f"{head}Content-Length: {len(body) + content['length_off']}\r\n\r\n".encode(), body


def _body(value: object) -> bytes:
    if value is None:
        return b""
    return value if isinstance(value, bytes) else json.dumps(value, default=repr).encode()


def _quoted(value: object) -> str:
    return quote(str(value), safe="", errors="surrogatepass")


def _payload(value: object) -> bytes:
    return value if isinstance(value, bytes) else cbor2.dumps(value)

"""An HTTP server that answers as it is told and remembers what it was asked."""

from __future__ import annotations

import json
import socketserver
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from threading import Thread
from urllib.parse import parse_qsl, unquote, urlsplit


@dataclass(frozen=True)
class Asked:
    line: str  # "GET /v1/agent/members", decoded
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> object:
        return json.loads(self.body)


@dataclass
class FakeAgent:
    address: str = ""
    answers: dict[str, object] = field(default_factory=dict)  # a pair is a status and a text, the rest JSON
    headers: dict[str, dict[str, str]] = field(default_factory=dict)  # beside an answer
    asked: list[Asked] = field(default_factory=list)

    def answer(self, asked: Asked) -> tuple[int, bytes]:
        self.asked.append(asked)
        answer = self.answers.get(asked.line, (404, ""))
        if isinstance(answer, tuple):
            status, text = answer
            return status, text.encode()
        return 200, json.dumps(answer).encode()


def handler_of(agent: FakeAgent) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            line = f"{self.command} {unquote(parts.path)}"
            headers = {name.lower(): value for name, value in self.headers.items()}
            # First, as tests set them last: a new index with an old answer would hide the new one.
            beside = agent.headers.get(line, {})
            status, answer = agent.answer(Asked(line, dict(parse_qsl(parts.query)), headers, body))
            self.send_response(status)
            for name, value in beside.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_POST = do_DELETE = handle_one  # noqa: N815 - the base looks for these names

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base's name for it
            """Says nothing: the command's own output is what is tested."""

    return Handler


class TcpServer(socketserver.ThreadingTCPServer):
    daemon_threads = True


class UnixServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


@contextmanager
def fake_agent(*, tls: ssl.SSLContext | None = None, unix_path: str = "") -> Iterator[FakeAgent]:
    agent = FakeAgent()
    handler = handler_of(agent)
    if unix_path:
        with UnixServer(unix_path, handler) as unix, serving(unix):
            agent.address = f"unix://{unix_path}"
            yield agent
        return
    with TcpServer(("127.0.0.1", 0), handler) as tcp:
        if tls is not None:
            tcp.socket = tls.wrap_socket(tcp.socket, server_side=True)
        agent.address = f"127.0.0.1:{tcp.server_address[1]}"
        with serving(tcp):
            yield agent


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()

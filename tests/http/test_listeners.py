from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest
import trio

from adsum.http.limits import HttpCounters, HttpLimits
from adsum.http.listeners import BindFailed, bind_tcp, bind_unix
from adsum.http.request import Request
from adsum.http.response import Response, text
from adsum.http.server import serve
from tests.http.http_support import Client, get


async def who(request: Request) -> Response:
    return text(200, f"{request.peer} {request.is_on_loopback}")


async def ask_at(listener: socket.socket, address: object) -> bytes:
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, [listener], who, HttpLimits(), HttpCounters())
        client = trio.socket.socket(listener.family, socket.SOCK_STREAM)
        await client.connect(address)
        async with trio.SocketStream(client) as stream:
            body = (await Client(stream).ask(get("/"))).body
        nursery.cancel_scope.cancel()
    return body


async def test_listeners_on_both_families_know_their_clients() -> None:
    listener = bind_tcp("127.0.0.1", 0)
    assert await ask_at(listener, listener.getsockname()) == b"127.0.0.1 True"
    listener = bind_tcp("::1", 0)
    assert await ask_at(listener, listener.getsockname()[:2]) == b"::1 True"


async def test_a_listener_on_all_addresses_is_not_on_loopback_and_takes_both_families() -> None:
    listener = bind_tcp("::", 0)
    port = listener.getsockname()[1]
    client = socket.create_connection(("127.0.0.1", port))
    client.close()
    assert await ask_at(listener, ("::1", port)) == b"::1 False"


async def test_an_ipv4_client_of_an_ipv6_listener_has_its_ipv4_name() -> None:
    listener = bind_tcp("::", 0)
    port = listener.getsockname()[1]
    assert await ask_at(listener, ("::ffff:127.0.0.1", port)) == b"127.0.0.1 False"


async def test_unix_sockets_have_their_mode_and_are_removed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    listener = bind_unix(str(path), mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert await ask_at(listener, str(path)) == b"unix False"
    assert not path.exists()


async def test_the_socket_file_of_a_dead_process_is_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "http.sock")
    bind_unix(path).close()
    assert await ask_at(bind_unix(path), path) == b"unix False"


def test_neither_a_living_socket_nor_a_file_is_replaced(tmp_path: Path) -> None:
    living, file = str(tmp_path / "http.sock"), tmp_path / "file"
    listener = bind_unix(living)
    with pytest.raises(BindFailed, match="another process"):
        bind_unix(living)
    listener.close()
    file.write_text("data")
    with pytest.raises(BindFailed, match="not a socket"):
        bind_unix(str(file))
    assert file.read_text() == "data"


def test_an_address_in_use_is_named() -> None:
    with bind_tcp("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(BindFailed, match=f"127.0.0.1 port {port}"):
            bind_tcp("127.0.0.1", port)

"""How connections to other agents are made."""

from __future__ import annotations

from adsum.address import Address
from adsum.net.gate import connect
from adsum.net.listening import bind_tcp


async def test_what_is_dialled_sees_the_address_that_we_dial_from() -> None:
    listener = bind_tcp("127.0.0.1", 0)
    port = listener.socket.getsockname()[1]
    stream = await connect(Address("127.0.0.1", port), "127.0.0.7")
    async with stream, await listener.accept() as accepted:
        assert accepted.socket.getpeername()[0] == "127.0.0.7"
    await listener.aclose()

"""An HTTP server that says 200 to everything and closes: what health checks are pointed at. Prints its
port.
"""

from __future__ import annotations

from functools import partial

import trio

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"
REQUEST_BYTES_MAX = 16 * 1024


async def serve(stream: trio.SocketStream) -> None:
    received = b""
    try:
        while b"\r\n\r\n" not in received and len(received) < REQUEST_BYTES_MAX:
            if not (chunk := await stream.receive_some(REQUEST_BYTES_MAX)):
                return
            received += chunk
        await stream.send_all(ANSWER)
    except trio.BrokenResourceError:
        return


async def main() -> None:
    async with trio.open_nursery() as nursery:
        start = partial(trio.serve_tcp, serve, 0, host="127.0.0.1", backlog=1024)
        listeners: list[trio.SocketListener] = await nursery.start(start)
        print(listeners[0].socket.getsockname()[1], flush=True)


if __name__ == "__main__":
    trio.run(main)

"""The little of HTTP/2 that gRPC and H2PING checks need: one connection, one ping or one request.

The h2 library is an extra and imported on first use. Everything received is counted: a target that talks
without end is cut off after `RECEIVED_BYTES_MAX`, long before its deadline.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import trio

from adsum.health_checks.attempt import CheckFailed
from adsum.health_checks.dial import Stream
from adsum.mutable import dataclass

if TYPE_CHECKING:
    import h2.connection
    import h2.events

RECEIVED_BYTES_MAX = 64 * 1024  # a health answer has about 100
PING_DATA = b"adsum/hc"  # eight bytes, as the frame wants

Headers = list[tuple[str, str]]


class Closed(CheckFailed):
    """The target closed the connection, or spoke something else than HTTP/2."""


@dataclass(slots=True)
class Http2Response:
    headers: dict[str, str] = field(default_factory=dict)  # trailers included: gRPC may put all in one
    body: bytearray = field(default_factory=bytearray)
    reset_code: int | None = None


def require_h2(kind: str) -> None:
    try:
        import h2.connection  # noqa: F401 - whether it is there is the question
    except ImportError as error:
        raise CheckFailed(
            f"{kind} checks need the h2 library on this agent: pip install adsum[grpc]"
        ) from error


class Http2Client:
    def __init__(self, stream: Stream) -> None:
        import h2.config
        import h2.connection

        self._stream = stream
        self._received_bytes = 0
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self._protocol: h2.connection.H2Connection = h2.connection.H2Connection(config)

    async def ping(self) -> None:
        import h2.events

        self._protocol.initiate_connection()
        self._protocol.ping(PING_DATA)
        await self._flush()
        while True:
            for event in await self._receive():
                if isinstance(event, h2.events.PingAckReceived) and event.ping_data == PING_DATA:
                    return

    async def request(self, headers: Headers, body: bytes) -> Http2Response:
        self._protocol.initiate_connection()
        stream_id = self._protocol.get_next_available_stream_id()
        self._protocol.send_headers(stream_id, headers)
        self._protocol.send_data(stream_id, body, end_stream=True)
        await self._flush()
        response = Http2Response()
        while True:
            for event in await self._receive():
                if self._apply(event, response):
                    return response
            await self._flush()

    def _apply(self, event: h2.events.Event, response: Http2Response) -> bool:
        """Whether the response is complete."""
        import h2.events

        match event:
            case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                response.headers |= {str(name): str(value) for name, value in event.headers}
            case h2.events.DataReceived():
                response.body += event.data
                self._protocol.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.StreamReset():
                response.reset_code = int(event.error_code)
                return True
            case h2.events.StreamEnded():
                return True
            case h2.events.ConnectionTerminated():
                raise Closed("transport is closing")
        return False

    async def _receive(self) -> list[h2.events.Event]:
        import h2.exceptions

        try:
            data = await self._stream.receive_some()
        except (trio.BrokenResourceError, CheckFailed) as error:
            raise Closed("connection closed") from error
        self._received_bytes += len(data)
        if not data or self._received_bytes > RECEIVED_BYTES_MAX:
            raise Closed("connection closed")
        try:
            return list(self._protocol.receive_data(data))
        except (h2.exceptions.ProtocolError, UnicodeDecodeError) as error:
            raise Closed("connection closed") from error

    async def _flush(self) -> None:
        try:
            await self._stream.send_all(self._protocol.data_to_send())
        except (trio.BrokenResourceError, CheckFailed) as error:
            raise Closed("connection closed") from error

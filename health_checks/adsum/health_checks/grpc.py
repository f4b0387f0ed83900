"""A gRPC check asks `grpc.health.v1.Health/Check` and passes on SERVING.

The two messages are so small that they are written by hand: a request with one string, a response with one
enum. Errors read as grpc-go's, `rpc error: code = … desc = …`.
"""

from __future__ import annotations

from contextlib import closing
from urllib.parse import unquote

from adsum.health_checks.attempt import CheckFailed, CheckResult, critical, passing
from adsum.health_checks.dial import SocketStream, Stream, TargetAttempt, split_address
from adsum.health_checks.http2 import Closed, Headers, Http2Client, Http2Response, require_h2
from adsum.now import MILLISECOND

SERVING = 1
TIMEOUT_MS_MAX = 99_999_999  # the header has eight digits
MESSAGE_CHARACTERS_MAX = 1024  # of the target's own error text

# In the order of their numbers.
CODES = (
    "OK Canceled Unknown InvalidArgument DeadlineExceeded NotFound AlreadyExists PermissionDenied "
    "ResourceExhausted FailedPrecondition Aborted OutOfRange Unimplemented Internal Unavailable "
    "DataLoss Unauthenticated"
)
# What grpc-go makes of a reply that isn't gRPC at all.
CODES_OF_HTTP = {
    400: "Internal",
    401: "Unauthenticated",
    403: "PermissionDenied",
    404: "Unimplemented",
    429: "Unavailable",
    502: "Unavailable",
    503: "Unavailable",
    504: "Unavailable",
}
CODES_OF_RESET = {7: "Unavailable", 8: "Canceled", 11: "ResourceExhausted", 12: "PermissionDenied"}


class GrpcAttempt(TargetAttempt):
    async def run(self) -> CheckResult:
        require_h2("gRPC")
        address, _slash, service = self._definition.grpc.partition("/")
        try:
            stream = await self._dialer.dial(address)
        except CheckFailed as error:
            reason = f'connection error: desc = "transport: Error while dialing {error}"'
            raise rpc_error("Unavailable", reason) from error
        with closing(stream):
            response = await self._ask(stream, address, service)
        if serving_status(message_of(response)) != SERVING:
            raise CheckFailed("gRPC application didn't report service healthy")
        return passing(f"gRPC check {self._definition.grpc}: success")

    def timed_out(self) -> CheckResult:
        return critical(str(rpc_error("DeadlineExceeded", "context deadline exceeded")))

    async def _ask(self, stream: SocketStream, address: str, service: str) -> Http2Response:
        line: Stream = stream
        try:
            if self._definition.grpc_use_tls:
                line = await self._secured(stream, split_address(address, "tcp")[0], http2=True)
        except CheckFailed as error:
            reason = f'connection error: desc = "transport: authentication handshake failed: {error}"'
            raise rpc_error("Unavailable", reason) from error
        try:
            return await Http2Client(line).request(self._headers(address), frame(encode_request(service)))
        except Closed as error:
            raise rpc_error("Unavailable", str(error)) from error

    def _headers(self, address: str) -> Headers:
        definition = self._definition
        timeout_ms = min(max(1, definition.effective_timeout_ns // MILLISECOND), TIMEOUT_MS_MAX)
        return [
            (":method", "POST"),
            (":scheme", "https" if definition.grpc_use_tls else "http"),
            (":path", "/grpc.health.v1.Health/Check"),
            (":authority", definition.tls_server_name or address),
            ("content-type", "application/grpc"),
            ("user-agent", self._surroundings.options.user_agent),
            ("te", "trailers"),
            ("grpc-timeout", f"{timeout_ms}m"),
        ]


def message_of(response: Http2Response) -> bytes:
    """The reply's one message, or CheckFailed for every way in which it is none."""
    if response.reset_code is not None:
        raise _reset_error(response.reset_code)
    http_status = response.headers.get(":status", "")
    content_type = response.headers.get("content-type", "")
    if not content_type.startswith("application/grpc"):
        raise _not_grpc_error(http_status, content_type)
    code = response.headers.get("grpc-status", "")
    if code != "0":
        message = unquote(response.headers.get("grpc-message", ""))[:MESSAGE_CHARACTERS_MAX]
        codes = CODES.split()
        known = code.isdecimal() and len(code) < 3 and int(code) < len(codes)
        raise rpc_error(codes[int(code)] if known else "Unknown", message)
    body = bytes(response.body)
    if len(body) < 5 or len(body) != 5 + int.from_bytes(body[1:5], "big"):
        raise _garbage()
    if body[0]:
        raise rpc_error("Internal", "grpc: compressed flag set with identity or empty encoding")
    return body[5:]


def rpc_error(code: str, reason: str) -> CheckFailed:
    return CheckFailed(f"rpc error: code = {code} desc = {reason}")


def encode_request(service: str) -> bytes:
    """`message HealthCheckRequest { string service = 1; }`; an empty string isn't sent."""
    name = service.encode()
    return b"\x0a" + _varint(len(name)) + name if name else b""


def serving_status(message: bytes) -> int:
    """`message HealthCheckResponse { ServingStatus status = 1; }`; fields we don't know are skipped."""
    status, position = 0, 0
    while position < len(message):
        tag, position = _take_varint(message, position)
        kind = tag & 7
        if kind == 0:
            value, position = _take_varint(message, position)
            status = value if tag >> 3 == 1 else status
        elif kind == 2:
            length, position = _take_varint(message, position)
            position += length
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
        else:
            raise _garbage()
    if position != len(message):
        raise _garbage()
    return status


def frame(message: bytes) -> bytes:
    return b"\x00" + len(message).to_bytes(4, "big") + message


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _take_varint(message: bytes, position: int) -> tuple[int, int]:
    number = 0
    for offset, byte in enumerate(message[position : position + 10]):  # ten bytes hold 64 bits
        number |= (byte & 0x7F) << (7 * offset)
        if byte < 0x80:
            return number, position + offset + 1
    raise _garbage()


def _garbage() -> CheckFailed:
    return rpc_error("Internal", "grpc: failed to unmarshal the received message")


def _reset_error(reset_code: int) -> CheckFailed:
    from h2.errors import ErrorCodes

    name = ErrorCodes(reset_code).name if reset_code in set(ErrorCodes) else str(reset_code)
    code = CODES_OF_RESET.get(reset_code, "Internal")
    return rpc_error(code, f"stream terminated by RST_STREAM with error code: {name}")


def _not_grpc_error(http_status: str, content_type: str) -> CheckFailed:
    from http import HTTPStatus

    number = int(http_status) if http_status.isdecimal() and len(http_status) == 3 else 0
    phrase = HTTPStatus(number).phrase if number in set(HTTPStatus) else ""
    code = CODES_OF_HTTP.get(number, "Unknown")
    kind = f'received the unexpected content-type "{content_type[:MESSAGE_CHARACTERS_MAX]}"'
    return rpc_error(code, f"{phrase}: HTTP status code {number}; transport: {kind}")

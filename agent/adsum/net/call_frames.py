"""What travels on a connection for calls: CBOR arrays, a number first that says what they are.

Bodies are opaque here; whoever calls agrees with whoever answers what is in them.
"""

from __future__ import annotations

from adsum.frozen import dataclass
from adsum.net.framing import read
from adsum.rows import RowCodec, RowField, RowKinds, counter, octets, text

# The largest entry of the log is 8 MiB (raft.settings) and travels alone; the rest is what is around it.
PAYLOAD_BYTES_MAX = 9 * 1024 * 1024
HEAD_BYTES = 512  # of all that is around a body
BODY_BYTES_MAX = PAYLOAD_BYTES_MAX - HEAD_BYTES
WORD_BYTES_MAX = 64  # of a method, a topic, a code
TEXT_CHARACTERS_MAX = 300  # a sentence that says what went wrong; at most three bytes each in practice
NUMBER_MAX = 1 << 53
TIMEOUT_MS_MAX = 3_600_000


@dataclass(frozen=True, slots=True)
class AskFrame:
    number: int
    method: str
    timeout_ms: int  # how long the caller will wait
    body: bytes


@dataclass(frozen=True, slots=True)
class Answered:
    number: int
    body: bytes


@dataclass(frozen=True, slots=True)
class FailedFrame:
    number: int
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Tell:
    topic: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Cancel:
    number: int


class Beat:
    """Are you there?"""


class BeatBack:
    pass


Frame = AskFrame | Answered | FailedFrame | Tell | Cancel | Beat | BeatBack


def ask(number: int, method: str, timeout_s: float, body: bytes) -> bytes:
    timeout_ms = min(TIMEOUT_MS_MAX, max(1, int(timeout_s * 1_000)))
    return _ASK.bytes_of(number, method, timeout_ms, body)


def answered(number: int, body: bytes) -> bytes:
    return _ANSWERED.bytes_of(number, body)


def failed(number: int, code: str, text: str) -> bytes:
    return _FAILED.bytes_of(number, code[:WORD_BYTES_MAX], _shortened(text))


def tell(topic: str, body: bytes) -> bytes:
    return _TELL.bytes_of(topic, body)


def cancel(number: int) -> bytes:
    return _CANCEL.bytes_of(number)


def decode(payload: bytes) -> Frame | None:
    """None is a kind that only a later version knows. Raises `MalformedFrame`."""
    return read(_FRAMES, payload)


def _shortened(text: str) -> str:
    return text[:TEXT_CHARACTERS_MAX]


_NUMBER = counter("number", NUMBER_MAX)
_TIMEOUT = counter("timeout_ms", TIMEOUT_MS_MAX + 1, at_least=1)
_ASK = RowCodec(AskFrame, _NUMBER, text("method", WORD_BYTES_MAX), _TIMEOUT, octets("body"), kind=0)
_ANSWERED = RowCodec(Answered, _NUMBER, octets("body"), kind=1)
_FAILED = RowCodec(
    FailedFrame, _NUMBER, text("code", WORD_BYTES_MAX), RowField("text", str, _shortened), kind=2
)
_TELL = RowCodec(Tell, text("topic", WORD_BYTES_MAX), octets("body"), kind=3)
_CANCEL = RowCodec(Cancel, _NUMBER, kind=4)
_BEAT, _BEAT_BACK = RowCodec(Beat, kind=5), RowCodec(BeatBack, kind=6)
_FRAMES: RowKinds[Frame] = RowKinds(_ASK, _ANSWERED, _FAILED, _TELL, _CANCEL, _BEAT, _BEAT_BACK)
BEAT, BEAT_BACK = _BEAT.bytes_of(), _BEAT_BACK.bytes_of()

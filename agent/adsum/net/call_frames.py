"""What travels on a connection for calls: CBOR arrays, a number first that says what they are.

Bodies are opaque here; whoever calls agrees with whoever answers what is in them.
"""

from __future__ import annotations

import cbor2

from adsum.frozen import dataclass
from adsum.net.framing import MalformedFrame, array

# The largest entry of the log is 8 MiB (raft.settings) and travels alone; the rest is what is around it.
PAYLOAD_BYTES_MAX = 9 * 1024 * 1024
HEAD_BYTES = 512  # of all that is around a body
BODY_BYTES_MAX = PAYLOAD_BYTES_MAX - HEAD_BYTES
WORD_CHARACTERS_MAX = 64  # of a method, a topic, a code
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

BEAT = cbor2.dumps([5])
BEAT_BACK = cbor2.dumps([6])


def ask(number: int, method: str, timeout_s: float, body: bytes) -> bytes:
    timeout_ms = min(TIMEOUT_MS_MAX, max(1, int(timeout_s * 1_000)))
    return cbor2.dumps((0, number, method, timeout_ms, body))


def answered(number: int, body: bytes) -> bytes:
    return cbor2.dumps((1, number, body))


def failed(number: int, code: str, text: str) -> bytes:
    return cbor2.dumps((2, number, code[:WORD_CHARACTERS_MAX], text[:TEXT_CHARACTERS_MAX]))


def tell(topic: str, body: bytes) -> bytes:
    return cbor2.dumps((3, topic, body))


def cancel(number: int) -> bytes:
    return cbor2.dumps((4, number))


def decode(payload: bytes) -> Frame | None:
    """None is a kind that only a later version knows."""
    match array(payload):
        case [0, int(number), str(method), int(timeout_ms), bytes(body), *_]:
            _check(number, method)
            if not 0 < timeout_ms <= TIMEOUT_MS_MAX:
                raise MalformedFrame("a call with an impossible deadline")
            return AskFrame(number, method, timeout_ms, body)
        case [1, int(number), bytes(body), *_]:
            _check(number)
            return Answered(number, body)
        case [2, int(number), str(code), str(text), *_]:
            _check(number, code)
            return FailedFrame(number, code, text[:TEXT_CHARACTERS_MAX])
        case [3, str(topic), bytes(body), *_]:
            _check(0, topic)
            return Tell(topic, body)
        case [4, int(number), *_]:
            _check(number)
            return Cancel(number)
        case [5, *_]:
            return Beat()
        case [6, *_]:
            return BeatBack()
        case [int(kind), *_] if kind > 6:
            return None
    raise MalformedFrame("a frame that no call consists of")


def _check(number: int, word: str = "") -> None:
    if not 0 <= number < NUMBER_MAX or len(word) > WORD_CHARACTERS_MAX:
        raise MalformedFrame("a call that makes no sense")

"""One key, asked for in the same words again and again.

While its record is the same so is all of the answer, but for what is said of whoever answered: whether it
knows a leader, and how long ago it heard it. So the answer is kept without these lines, and they go out
beside the date.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from adsum.api.api_types import Agent
from adsum.http.request import TakesAnswer
from adsum.http.response import Response, encode_headers
from adsum.kv import KeyRead, KeyRecord, KeyRefusal, KeysFound

KEPT_BYTES_MAX = 512  # of key and value
KNOWN_LEADER, LAST_CONTACT = "X-Consul-Knownleader", "X-Consul-Lastcontact"
STANDINGS_MAX = 64


class KeyReader:
    __slots__ = ("_agent", "_read", "_record", "_response", "_show")

    def __init__(
        self, agent: Agent, read: KeyRead, show: Callable[[KeysFound | KeyRefusal], Response]
    ) -> None:
        self._agent = agent
        self._read = read
        self._show = show
        self._record: KeyRecord | None = None
        self._response = Response()  # to that record

    def begin(self, answered: TakesAnswer) -> None:
        self._agent.keys.read(self._read, partial(self._answer, answered))

    def _answer(self, answered: TakesAnswer, found: KeysFound | KeyRefusal) -> None:
        if type(found) is not KeysFound or not found.keys:
            answered(self._show(found))
            return
        record = found.records[0]
        # That of a client agent was decoded anew.
        if record is not self._record and record != self._record:
            if len(self._read.key) + len(record.value) > KEPT_BYTES_MAX:
                answered(self._show(found))
                return
            self._response = without_standing(self._show(found))
        self._record = record
        answered(self._response, standing_lines(found.has_leader, found.behind_ms))


def without_standing(response: Response) -> Response:
    response.headers = tuple(each for each in response.headers if each[0] not in (KNOWN_LEADER, LAST_CONTACT))
    return response


@lru_cache(STANDINGS_MAX)
def standing_lines(has_leader: bool, behind_ms: int) -> bytes:  # noqa: FBT001 - as they are kept
    known_leader = "true" if has_leader else "false"
    return encode_headers(((KNOWN_LEADER, known_leader), (LAST_CONTACT, str(behind_ms))))

"""One key, asked for in the same words again and again.

While its record is the same so is all of the answer, but for what is said of whoever answered: whether it
knows a leader, and how long ago it heard it. So the answer is kept without these lines, and they go out
beside the date.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from adsum.api.api_types import Agent
from adsum.http.request import TakesAnswer
from adsum.http.response import Response, encode_headers
from adsum.kv import KeyRead, KeyRecord, KeyRefusal, KeysFound

KEPT_BYTES_MAX = 512  # of key and value
KNOWN_LEADER, LAST_CONTACT = "X-Consul-Knownleader", "X-Consul-Lastcontact"
STANDINGS_MAX = 64


class KeyReader:
    """It `ReadsKeyAgain`."""

    __slots__ = ("_agent", "_response", "_show", "mode", "read", "record", "revision")

    def __init__(
        self, agent: Agent, read: KeyRead, show: Callable[[KeysFound | KeyRefusal], Response]
    ) -> None:
        self._agent = agent
        self._show = show
        self.read = read
        self.mode = read.mode
        self.record: KeyRecord | None = None
        self.revision = -1
        self._response = Response()  # to that record

    def begin(self, answered: TakesAnswer) -> None:
        self._agent.keys.read_again(self, answered)

    def told(self, answered: TakesAnswer, found: KeysFound | KeyRefusal) -> None:
        if type(found) is not KeysFound or not found.keys:
            answered(self._show(found))
            return
        record = found.records[0]
        # That of a client agent was decoded anew.
        if record is not self.record and record != self.record:
            if len(self.read.key) + len(record.value) > KEPT_BYTES_MAX:
                answered(self._show(found))
                return
            self._response = without_standing(self._show(found))
        self.record = record
        self.told_the_same(answered, (found.has_leader, found.behind_ms))

    def told_the_same(self, answered: TakesAnswer, standing: tuple[bool, int]) -> None:
        answered(self._response, standing_lines(standing))


def without_standing(response: Response) -> Response:
    response.headers = tuple(each for each in response.headers if each[0] not in (KNOWN_LEADER, LAST_CONTACT))
    return response


@lru_cache(STANDINGS_MAX)
def standing_lines(standing: tuple[bool, int]) -> bytes:
    has_leader, behind_ms = standing
    known_leader = "true" if has_leader else "false"
    return encode_headers(((KNOWN_LEADER, known_leader), (LAST_CONTACT, str(behind_ms))))

"""Why a key is as it is: its last changes, when and through which agent each came, and who waits for it.
Ours alone; Consul has nothing like it. Its value is never shown: whoever may ask why may not be one who may
read.

It is what the server that is asked has, also while nobody leads; a client agent asks the leader, or any
server while there is none.
"""

from __future__ import annotations

import math
from urllib.parse import unquote_to_bytes
from uuid import UUID

from adsum.api import leadership, parameters
from adsum.api.answers import json_answer
from adsum.api.api_types import EndpointFamily
from adsum.api.blocking import FAILED_META
from adsum.api.kv import shown_key
from adsum.api.member_rows import Shown, shown_time
from adsum.api.store_access import refused
from adsum.http.request import Request, raw_path
from adsum.http.response import Response
from adsum.http.router import HttpRefusal, Route
from adsum.journal.advice import duration
from adsum.kv import KeyRefusal
from adsum.kv_history import KeyChange, KeyChangeKind, KeyHistory

PATH = "/v1/explain/kv/"
WORDS = {
    KeyChangeKind.CREATED: "created",
    KeyChangeKind.CHANGED: "changed",
    KeyChangeKind.SAME_VALUE: "written with the same value",
    KeyChangeKind.DELETED: "deleted",
    KeyChangeKind.TREE_DELETED: "deleted with all keys that begin like it",
}
NOTHING_KNOWN = (
    "There is no key {}, and nothing is remembered of one; `adsum kv list` shows which keys there are"
)


class KeyStory(EndpointFamily):
    def routes(self) -> list[Route]:
        return [Route(("GET",), PATH, self.explain, rest=True)]

    async def explain(self, request: Request, _rest: str) -> Response:
        parameters.check_namespace(request.query)
        parameters.check_datacenter(request.query, self._agent.config.datacenter, FAILED_META)
        key = unquote_to_bytes(raw_path(request.target)[len(PATH) :])
        if not key:
            raise HttpRefusal(400, "Missing key name")
        history = await self._history(request, key)
        if not history.exists and not history.changes and not history.waiting:
            raise HttpRefusal(404, NOTHING_KNOWN.format(shown_key(key)))
        shown: Shown = {
            "Observer": self._agent.cluster.membership.me.name,
            "Key": shown_key(key),
            "Exists": history.exists,
            "Revision": history.revision,
            "Version": history.version,
            "Waiting": history.waiting,
            "Summary": self._summary(shown_key(key), history),
            "Story": [self._row(change) for change in history.changes],
            "IsCut": history.is_cut,
            "Floor": history.floor,
        }
        return json_answer(self._agent, request, shown)

    async def _history(self, request: Request, key: bytes) -> KeyHistory:
        told = _ToldHistory(request)
        asked = self._agent.keys.history(key, told)
        try:
            while told.outcome is None:
                await request.park(math.inf)
        finally:
            if told.outcome is None:
                self._agent.keys.give_up(asked)
        if isinstance(told.outcome, KeyRefusal):
            raise refused(told.outcome)
        return told.outcome

    def _row(self, change: KeyChange) -> Shown:
        return {
            "Time": shown_time(change.wall_ms),
            "Revision": change.revision,
            "Kind": change.kind.name.lower().replace("_", "-"),
            "Via": self._name(change.via),
            "ViaID": change.via,
            "Sentence": self._sentence(change),
        }

    def _sentence(self, change: KeyChange) -> str:
        through = f" through {self._name(change.via)}" if change.via else ""
        return f"{WORDS[change.kind]}{through}"

    def _summary(self, key: str, history: KeyHistory) -> str:
        last = history.changes[-1] if history.changes else None
        if last is None and not history.exists:
            return f"{key} does not exist, and nothing is remembered of it."
        if last is None:
            return f"{key} exists, at revision {history.revision}, of which nothing more is remembered."
        ago = duration(max(self._agent.now().wall_ms - last.wall_ms, 0))
        happened = f"{self._sentence(last)}, {ago} ago"
        if not history.exists:
            return f"{key} does not exist: {happened}."
        return f"{key} exists, at revision {history.revision}: {happened}."

    def _name(self, node: str) -> str:
        """Of the agent with that id, or the id of one that is not known any more."""
        try:
            node_id = UUID(node).bytes
        except ValueError:
            return node
        return leadership.name_of(self._agent, node_id) or node


class _ToldHistory:
    """What the store calls, and whom that wakes."""

    __slots__ = ("_request", "outcome")

    def __init__(self, request: Request) -> None:
        self.outcome: KeyHistory | KeyRefusal | None = None
        self._request = request

    def __call__(self, outcome: KeyHistory | KeyRefusal) -> None:
        self.outcome = outcome
        self._request.wake()

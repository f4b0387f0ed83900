"""Why a session is as it is: what it holds and when it would end, or when it ended and on what evidence. Ours
alone; Consul forgets a session with its end.

It is what the server that is asked has, also while nobody leads.
"""

from __future__ import annotations

from adsum.api import parameters
from adsum.api.answers import json_answer
from adsum.api.api_types import ApiParts, EndpointFamily
from adsum.api.blocking import FAILED_META
from adsum.api.kv import shown_key
from adsum.api.member_rows import Shown, shown_time
from adsum.api.session import shown as shown_session
from adsum.api.store_access import StoreAccess
from adsum.durations import format_duration
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.http.router import HttpRefusal, Route
from adsum.journal.advice import duration
from adsum.now import MILLISECOND
from adsum.session import EndCause, EndedSession, Session, SessionBehavior
from adsum.store_requests import SessionStory

PATH = "/v1/explain/session/"
WORDS = {
    EndCause.DESTROYED: "a client destroyed it",
    EndCause.EXPIRED: "its TTL ran out",
    EndCause.NODE_FAILED: "its node failed",
    EndCause.NODE_GONE: "its node is gone",
    EndCause.CHECK_CRITICAL: "one of its checks was critical",
    EndCause.CHECK_GONE: "one of its checks is gone",
}
NOTHING_KNOWN = (
    "There is no session {}, and nobody remembers one: what became of the newest 1,024 that ended is kept"
)


class SessionStories(EndpointFamily):
    def __init__(self, parts: ApiParts) -> None:
        super().__init__(parts)
        self._access = StoreAccess(parts.agent, parts.random)

    def routes(self) -> list[Route]:
        return [Route(("GET",), PATH, self.explain, rest=True)]

    async def explain(self, request: Request, session_id: str) -> Response:
        parameters.check_namespace(request.query)
        parameters.check_datacenter(request.query, self._agent.config.datacenter, FAILED_META)
        if not session_id:
            raise HttpRefusal(400, "Missing session")
        story = await self._access.story(request, session_id)
        session = story.session or (story.ended.session if story.ended is not None else None)
        if session is None:
            raise HttpRefusal(404, NOTHING_KNOWN.format(session_id))
        shown: Shown = {
            "Observer": self._agent.cluster.membership.me.name,
            "ID": session.id,
            "Status": "alive" if story.session is not None else "ended",
            "Summary": self._summary(session, story),
            "Created": shown_time(session.created_ms),
            "Ends": ends(session) if story.session is not None else [],
            "Ended": ended_row(story.ended) if story.ended is not None else None,
            "Keys": [shown_key(key) for key in story.keys],
            "KeysTotal": story.keys_total,
            "Session": shown_session(session),
        }
        return json_answer(self._agent, request, shown)

    def _summary(self, session: Session, story: SessionStory) -> str:
        name = f" ({session.name})" if session.name else ""
        now_ms = self._agent.now().wall_ms
        told = f"Session {session.id}{name} of node {session.node}"
        if story.ended is None:
            since = duration(max(now_ms - session.created_ms, 0))
            return f"{told} has been alive for {since} and holds {_keys(story.keys_total)}."
        ended = story.ended
        ago = duration(max(now_ms - ended.wall_ms, 0))
        why = ended.evidence or WORDS[ended.cause]
        freed = "deleted" if session.behavior is SessionBehavior.DELETE else "let go of"
        return f"{told} ended {ago} ago: {why}. It {freed} {_keys(ended.keys)}."


def ends(session: Session) -> list[str]:
    """What would end it."""
    when = ["somebody destroys it"]
    if session.ttl_ms:
        ttl = format_duration(session.ttl_ms * MILLISECOND)
        when.append(f"nobody renews it for twice its TTL of {ttl}")
    when.append(f"node {session.node} leaves or is deregistered")
    checks = (*session.node_checks, *session.service_checks)
    when += [f"check {check_id} is critical or is deregistered" for check_id in checks]
    return when


def ended_row(ended: EndedSession) -> Shown:
    return {
        "Time": shown_time(ended.wall_ms),
        "Cause": ended.cause.name.lower().replace("_", "-"),
        "Evidence": ended.evidence,
        "Index": ended.revision,
        "Keys": ended.keys,
    }


def _keys(count: int) -> str:
    return {0: "no key", 1: "one key"}.get(count, f"{count} keys")

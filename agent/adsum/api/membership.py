"""/v1/membership, its timeline, and why one node is as it is. Ours alone; Consul has nothing like it.

The state comes from gossip, the past from this agent's own journal. Another agent may have seen it
otherwise: each tells what it saw, and says that it was it.
"""

from __future__ import annotations

from datetime import UTC, datetime

import trio

from adsum.api import leadership, parameters
from adsum.api.answers import in_turns, json_answer
from adsum.api.api_types import Agent, EndpointFamily
from adsum.api.explanation import explained, own_conflict, standing_conflict
from adsum.api.freshness import stale_header
from adsum.api.member_rows import Shown, entry_row, member_row, own_row, row_of, shown_time
from adsum.api.queries import named
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.http.router import HttpRefusal, Route
from adsum.journal.entry import JournalKind
from adsum.journal.file import WALL_MS_MAX, JournalQuery
from adsum.logs.clock_words import off_by
from adsum.logs.stale_reasons import SENTENCES
from adsum.now import MILLISECOND, SECOND, Now

LIMIT, LIMIT_MAX = 1_000, 5_000
EXPLAINED_ENTRIES_MAX = 200
WAIT_S_MAX = 600.0  # as for blocking queries
SETTLE_S = 0.05  # news comes in groups, and is given so to who follows
SEQUENCE_MAX = 2**62
A_TIME = "90m and 36h count back from now, 2026-11-18T14:00:00Z is a time"

NOBODY = "No member is called {}, and nobody in the journal; see `adsum members`"
A_SERVICE = "No member is called {0}, but a service is: `adsum health {0}` shows where it runs and how it is"


class Membership(EndpointFamily):
    def routes(self) -> list[Route]:
        return [
            Route(("GET",), "/v1/membership", self.members),
            Route(("GET",), "/v1/membership/timeline", self.timeline),
            Route(("GET",), "/v1/membership/explain/", self.explain, rest=True),
        ]

    async def members(self, request: Request, _rest: str) -> Response:
        membership, now = self._agent.cluster.membership, self._agent.now()
        clocks, ahead_ms = membership.clocks, membership.clocks.ahead_ms(now)
        me = own_row(membership)
        rows = [me]
        # What concerns the observer alone costs little, also among thousands.
        listed = [] if request.query.has("observer") else membership.members()
        async for member in in_turns(listed):
            rows.append(member_row(membership, now, member))  # noqa: PERF401 - an async for
        rows.sort(key=lambda row: (row.name.casefold(), row.id))
        shown: Shown = {
            "Observer": me.name,
            "ObserverID": me.id,
            "IsIsolated": membership.is_isolated,
            "HoldsLastKnown": membership.holds_last_known(now),
            "LocalHealth": membership.condition.health_score,
            "Conflict": own_conflict(self._agent, now),
            "Stale": _stale(self._agent, now),
            "Clock": {
                "AheadSeconds": ahead_ms / 1_000,
                "ComparedWith": clocks.others,
                "Sentence": off_by(ahead_ms, clocks.others),  # empty where there is nothing to mend
            },
            "Servers": leadership.server_roles(self._agent),
            "Members": rows,
        }
        return json_answer(self._agent, request, shown, headers=stale_header(self._agent))

    async def timeline(self, request: Request, _rest: str) -> Response:
        wanted = self._wanted(request)
        wait_ns = parameters.duration_ns(request.query, "wait") or 0
        found = await self._agent.journal.entries(wanted)
        if not found.entries and wait_ns > 0 and wanted.after is not None:
            await self._until_news(request, min(wait_ns / SECOND, WAIT_S_MAX))
            found = await self._agent.journal.entries(wanted)
        shown: Shown = {
            "Observer": self._agent.cluster.membership.me.name,
            "HeldSince": shown_time(found.oldest_ms) if found.oldest_ms else None,
            "IsCut": found.is_cut,
            "Entries": [entry_row(entry) async for entry in in_turns(found.entries)],
        }
        return json_answer(self._agent, request, shown)

    async def explain(self, request: Request, rest: str) -> Response:
        name = named(rest, "Missing node name")
        membership, now = self._agent.cluster.membership, self._agent.now()
        row = row_of(membership, now, name)
        names = (row.name, row.id) if row is not None else (name,)
        wanted = JournalQuery(limit=EXPLAINED_ENTRIES_MAX, nodes=names, with_isolation=True)
        entries = (await self._agent.journal.entries(wanted)).entries
        if row is None and all(entry.kind is JournalKind.ISOLATION for entry in entries):
            is_service = bool(self._agent.view.instances(name))
            raise HttpRefusal(404, (A_SERVICE if is_service else NOBODY).format(name))
        now = self._agent.now()
        shown = explained(
            row,
            entries,
            now.wall_ms,
            observer_is_isolated=membership.is_isolated,
            holds_last_known=membership.holds_last_known(now),
            conflict=standing_conflict(self._agent, now, name, row),
        )
        observer: Shown = {"Observer": membership.me.name, "Stale": _stale(self._agent, now)}
        return json_answer(self._agent, request, {**observer, **shown}, headers=stale_header(self._agent))

    def _wanted(self, request: Request) -> JournalQuery:
        query = request.query
        node, after = query.first("node"), query.first("after")
        return JournalQuery(
            limit=_number("limit", query.first("limit") or str(LIMIT), 1, LIMIT_MAX),
            since_ms=self._time_ms(request, "since", 0),
            until_ms=self._time_ms(request, "until", WALL_MS_MAX),
            after=_number("after", after, 0, SEQUENCE_MAX) if after else None,
            nodes=(node,) if node else (),
        )

    def _time_ms(self, request: Request, name: str, default_ms: int) -> int:
        text = request.query.first(name)
        if not text:
            return default_ms
        if (at_ms := _rfc3339_ms(text)) is not None:
            return at_ms
        refusal = f'"{text}" is no value for {name}: {A_TIME}'
        ago_ns = parameters.duration_ns(request.query, name, refusal=refusal) or 0
        return self._agent.now().wall_ms - abs(ago_ns) // MILLISECOND

    async def _until_news(self, request: Request, wait_s: float) -> None:
        journal = self._agent.journal
        journal.watch(request.wake)
        try:
            if await request.park(trio.current_time() + wait_s):
                await trio.sleep(SETTLE_S)
        finally:
            journal.unwatch(request.wake)


def _stale(agent: Agent, now: Now) -> Shown | None:
    reason = agent.cluster.staleness(now)
    return {"Reason": reason, "Sentence": SENTENCES[reason]} if reason else None


def _number(name: str, text: str, least: int, most: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
    if not least <= number <= most:
        raise HttpRefusal(400, f'{name} must be a number from {least} to {most}, not "{text}"')
    return number


def _rfc3339_ms(text: str) -> int | None:
    """None when it is no time, or one that does not say where: an agent's own zone is nobody's business."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int(at.astimezone(UTC).timestamp() * 1_000) if at.tzinfo is not None else None

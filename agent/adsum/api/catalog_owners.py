"""/v1/catalog/owners: of every owner what this agent has and since when that is certain; and
/v1/catalog/diff/<node>: where the copy of that node's agent is another than ours. Ours alone, for support.

Two copies of a busy catalog differ for the moments that changes take; what stays is worth a question.
"""

from __future__ import annotations

from adsum.agent.presence import uuid_text
from adsum.agent.saved_catalog import SavedOwner, recalled
from adsum.api.answers import in_turns, json_answer
from adsum.api.api_types import EndpointFamily
from adsum.api.freshness import stale_header
from adsum.api.queries import named
from adsum.catalog.replication.state import OwnerState
from adsum.gossip.order import MemberStatus
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.http.router import HttpRefusal, Route
from adsum.now import MILLISECOND
from adsum.peers.owner_calls import OwnerRow
from adsum.peers.owner_forwarding import NoOwner, OwnerAway, OwnerRefuses
from adsum.peers.peer_handlers import row_of

Shown = dict[str, object]
OWN, OTHERS, SAVED = "own", "others", "saved copy"


class CatalogOwners(EndpointFamily):
    def routes(self) -> list[Route]:
        return [
            Route(("GET",), "/v1/catalog/owners", self.owners),
            Route(("GET",), "/v1/catalog/diff/", self.diff, rest=True),
        ]

    async def owners(self, request: Request, _rest: str) -> Response:
        agent = self._agent
        me, rows = agent.cluster.membership.me.short, list[Shown]()
        async for row in in_turns(agent.owners.mine.rows(agent.now())):
            source = OWN if row.owner == me else OTHERS
            rows.append({**self._who(row.owner), "Source": source, **_held(row), "SavedMs": None})
        saved_ms = agent.cluster.behind_ns(agent.now()) // MILLISECOND
        rows += [_saved(saved, saved_ms) async for saved in in_turns(agent.cluster.sharing.saved)]
        rows.sort(key=lambda row: str(row["Node"]).casefold())
        return json_answer(agent, request, rows, headers=stale_header(agent))

    async def diff(self, request: Request, rest: str) -> Response:
        agent, node = self._agent, named(rest, "Missing node name")
        there = {row.owner: row for row in await self._rows_of(node)}
        here = {row.owner: row for row in agent.owners.mine.rows(agent.now())}
        found = [
            self._difference(owner, here.get(owner), there.get(owner))
            for owner in here | there
            if _what(here.get(owner), there.get(owner))
        ]
        found.sort(key=lambda row: str(row["Node"]).casefold())
        shown = {
            "Node": agent.cluster.membership.me.name,
            "Other": node,
            "Equal": len(here | there) - len(found),
            "Differences": found,
        }
        return json_answer(agent, request, shown, headers=stale_header(agent))

    async def _rows_of(self, node: str) -> list[OwnerRow]:
        agent = self._agent
        try:
            if agent.owners.is_mine(node):
                return agent.owners.mine.rows(agent.now())
            return await agent.owners.rows_of(node)
        except NoOwner as nobody:
            raise HttpRefusal(404, str(nobody)) from None
        except (OwnerAway, OwnerRefuses) as away:
            raise HttpRefusal(500, str(away)) from None

    def _difference(self, owner: bytes, here: OwnerRow | None, there: OwnerRow | None) -> Shown:
        return {
            **self._who(owner),
            "What": _what(here, there),
            "Here": _held(here) if here is not None else None,
            "There": _held(there) if there is not None else None,
        }

    def _who(self, owner: bytes) -> Shown:
        """One that only the other knows has no name here."""
        membership = self._agent.cluster.membership
        member = membership.member(owner)
        if owner == membership.me.short:
            profile, status = membership.me, MemberStatus.ALIVE
        elif member is not None:
            profile, status = member.profile, member.status
        else:
            return {"ID": f"{owner.hex()}…", "Node": "", "Status": "unknown"}
        return {"ID": uuid_text(profile.node_id), "Node": profile.name, "Status": status.value}


def _held(row: OwnerRow) -> Shown:
    return {
        "Generation": row.generation,
        "Version": row.version,
        "CompleteUpTo": row.complete_up_to,
        "Complete": row.is_complete,
        "Items": row.items,
        "Bytes": row.size_bytes,
        "Digest": row.digest.hex(),
        "ConfirmedMs": row.confirmed_ms if row.confirmed_ms >= 0 else None,
    }


def _saved(saved: SavedOwner, saved_ms: int) -> Shown:
    """As this agent knew it before its start; it has not met it since."""
    profile = saved.profile
    held = _held(row_of(recalled(saved) or OwnerState(profile.short, 0)))
    who = {"ID": uuid_text(profile.node_id), "Node": profile.name, "Status": "unknown", "Source": SAVED}
    return {**who, **held, "SavedMs": saved_ms}


def _what(here: OwnerRow | None, there: OwnerRow | None) -> str:
    """Nothing if they are equal."""
    if here is None:
        return "only there"
    if there is None:
        return "only here"
    if (here.generation, here.digest) == (there.generation, there.digest):
        return ""
    ours, theirs = ((each.generation, each.complete_up_to) for each in (here, there))
    if ours == theirs:
        is_whole = here.is_complete and there.is_complete
        return "same version, other contents" if is_whole else "gaps"
    return "behind here" if ours < theirs else "behind there"

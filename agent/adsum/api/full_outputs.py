"""`?output=full` on /v1/health: the answer as it is, with the whole outputs of checks where others have them.

Made for one asker, from the shared rendering: so few ask for it that nobody else shall wait or pay. It takes
a second at most; X-Adsum-Output says `partial` when something did not come in time, X-Adsum-Output-Missing
from which nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import msgspec

from adsum.api.answers import json_answer
from adsum.api.api_types import Agent
from adsum.catalog.model import SERF_HEALTH
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.http.router import HttpRefusal
from adsum.peers.outputs import WantedOutput

ANSWER_BYTES_MAX = 1024 * 1024  # decoding more would hold the loop
CHECKS_MAX = 2_048
NODES_NAMED_MAX = 16  # in a header; of the others the number is told
TOO_MUCH = (
    f"output=full is for answers of up to {ANSWER_BYTES_MAX} bytes with {CHECKS_MAX} checks: "
    "ask about one service or node, or say which with filter="
)


def wants_full(request: Request) -> bool:
    """Whether it is asked for; another value is a slip."""
    if not request.query.has("output"):
        return False
    value = request.query.first("output")
    if value != "full":
        raise HttpRefusal(400, f'output can only be "full", not "{value}"')
    return True


async def with_full_outputs(agent: Agent, request: Request, response: Response) -> Response:
    if len(response.body.plain) > ANSWER_BYTES_MAX:
        raise HttpRefusal(400, TOO_MUCH, response.headers)
    entries = msgspec.json.decode(response.body.plain)
    checks: list[dict[str, Any]] = [check for entry in entries for check in entry.get("Checks", [entry])]
    if len(checks) > CHECKS_MAX:
        raise HttpRefusal(400, TOO_MUCH, response.headers)
    outputs = await agent.outputs.fetch(
        WantedOutput(check["Node"], check["CheckID"]) for check in checks if _is_elsewhere(agent, check)
    )
    missing: dict[str, None] = {}
    for check in checks:
        whole = outputs.get(WantedOutput(check["Node"], check["CheckID"]))
        if whole is not None:
            check["Output"] = whole
        elif _is_elsewhere(agent, check):
            missing[check["Node"]] = None
    headers = response.headers
    if missing:
        headers = (*headers, ("X-Adsum-Output", "partial"), ("X-Adsum-Output-Missing", named(missing)))
    return json_answer(agent, request, entries, headers=headers)


def named(nodes: Iterable[str]) -> str:
    """As a header can carry it; no name has a comma or a blank left in it."""
    names = [quote(node, safe="") for node in nodes]
    further = len(names) - NODES_NAMED_MAX
    return ", ".join([*names[:NODES_NAMED_MAX], *([f"{further} more"] if further > 0 else [])])


def _is_elsewhere(agent: Agent, check: dict[str, Any]) -> bool:
    host = agent.view.node(check["Node"])
    return check["CheckID"] != SERF_HEALTH and host is not None and not agent.owners.is_mine(check["Node"])

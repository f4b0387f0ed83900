"""`?output=full` on /v1/health: the answer as it is, with the whole outputs of checks where others have them.

Made for one asker, from the shared rendering: so few ask for it that nobody else shall wait or pay. It takes
a second at most; X-Adsum-Output says `partial` when something did not come in time.
"""

from __future__ import annotations

from typing import Any

import msgspec

from adsum.agent.outputs import Wanted
from adsum.api import parameters, shapes
from adsum.api.door import Agent
from adsum.api.request import Request
from adsum.api.response import Response, json_body
from adsum.api.router import Refusal
from adsum.catalog.model import SERF_HEALTH

ANSWER_BYTES_MAX = 1024 * 1024  # decoding more would hold the loop
CHECKS_MAX = 2_048
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
        raise Refusal(400, f'output can only be "full", not "{value}"')
    return True


async def with_full_outputs(agent: Agent, request: Request, response: Response) -> Response:
    if len(response.body.plain) > ANSWER_BYTES_MAX:
        raise Refusal(400, TOO_MUCH, response.headers)
    entries = msgspec.json.decode(response.body.plain)
    checks = [check for entry in entries for check in _checks(entry)]
    if len(checks) > CHECKS_MAX:
        raise Refusal(400, TOO_MUCH, response.headers)
    outputs = await agent.outputs.fetch(
        Wanted(check["Node"], check["CheckID"]) for check in checks if _is_elsewhere(agent, check)
    )
    is_partial = False
    for check in checks:
        whole = outputs.get(Wanted(check["Node"], check["CheckID"]))
        if whole is not None:
            check["Output"] = whole
        elif _is_elsewhere(agent, check):
            is_partial = True
    encoded = shapes.encode(entries)
    if parameters.is_pretty(request.query, always=agent.config.is_dev):
        encoded = shapes.pretty(encoded)
    partial = (("X-Adsum-Output", "partial"),) if is_partial else ()
    return json_body(encoded, (*response.headers, *partial))


def _checks(entry: dict[str, Any]) -> list[dict[str, Any]]:
    checks: list[dict[str, Any]] = entry.get("Checks", [entry])
    return checks


def _is_elsewhere(agent: Agent, check: dict[str, Any]) -> bool:
    host = agent.view.node(check["Node"])
    return check["CheckID"] != SERF_HEALTH and host is not None and not agent.owners.is_mine(check["Node"])

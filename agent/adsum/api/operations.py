"""What operators and the command line ask of an agent: reload, leave, join, maintenance, the log, metrics."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import trio

from adsum.agent.commands import CommandRefused, SetNodeMaintenance
from adsum.api import leadership, parameters
from adsum.api.answers import json_answer, refusing_commands
from adsum.api.api_types import EndpointFamily
from adsum.api.host import describe_host
from adsum.config.errors import ConfigErrors
from adsum.gossip.commands import ForceLeave, Join
from adsum.http.request import Request
from adsum.http.response import Response, empty, text
from adsum.http.router import HttpRefusal, Route
from adsum.logs.lines import UnknownLevel, parse_level
from adsum.logs.stream import TooManyFollowers
from adsum.net import join_names

DEFAULT_LOG_LEVEL = "INFO"
PROMETHEUS_ACCEPTS = ("application/openmetrics-text", "text/plain;version=0.0.4", "text/plain; version=0.0.4")
TAKEN_OFF_HERE = (
    'Only the saved copy knew node "{0}", and it is taken off here. Other agents were not told: if one that '
    "knows it comes back, it is listed again, and `adsum force-leave {0}` then takes it off everywhere."
)
ACL_METHODS = ("GET", "PUT", "POST", "DELETE")


class Operations(EndpointFamily):
    def routes(self) -> list[Route]:
        return [
            Route(("PUT",), "/v1/agent/maintenance", self.maintain),
            Route(("PUT",), "/v1/agent/reload", self.reload),
            Route(("PUT",), "/v1/agent/leave", self.leave),
            Route(("PUT",), "/v1/agent/join/", self.join, rest=True),
            Route(("PUT",), "/v1/agent/force-leave/", self.force_leave, rest=True),
            Route(("PUT",), "/v1/agent/token/", refuse_acls, rest=True),
            Route(ACL_METHODS, "/v1/acl/", refuse_acls, rest=True),
            Route(("GET",), "/v1/agent/host", self.host),
            Route(("GET",), "/v1/agent/monitor", self.monitor),
            Route(("GET",), "/v1/agent/metrics", self.metrics),
            Route(("GET",), "/metrics", self.scrape),
            Route(("GET",), "/", self.front_page),
        ]

    async def maintain(self, request: Request, _rest: str) -> Response:
        is_enabled = parameters.required_boolean(request.query, "enable")
        with refusing_commands():
            await self._agent.submit(SetNodeMaintenance(is_enabled, request.query.first("reason")))
        return empty(200)

    async def reload(self, request: Request, _rest: str) -> Response:
        try:
            applied, needs_restart = await self._agent.reload()
        except ConfigErrors as errors:
            raise HttpRefusal(500, f"Nothing was reloaded:\n{errors}") from None
        return json_answer(self._agent, request, {"Applied": applied, "NeedsRestart": needs_restart})

    async def leave(self, request: Request, _rest: str) -> Response:
        if not request.query.has("force") and (sentence := leadership.why_not_leave(self._agent)):
            raise HttpRefusal(500, sentence)
        await self._agent.leave()
        return empty(200)

    async def join(self, request: Request, address: str) -> Response:
        """Joining oneself is what a script on every host does, and succeeds."""
        if request.query.has("wan"):
            if not leadership.is_server(self._agent):
                raise HttpRefusal(500, "Must be a server to join WAN cluster")
            raise _join_failed("join: this version does not connect datacenters yet")
        node, port = leadership.own_node(self._agent), self._agent.config.ports.serf_lan
        if address in (node.address, leadership.with_port(node.address, port), f"127.0.0.1:{port}"):
            return empty(200)
        try:
            entry = join_names.parse(address, port)
        except join_names.BadEntry as bad:
            raise _join_failed(f"resolve {bad}") from None
        found = await join_names.find([entry])
        if not found.addresses:
            why = found.failures.get(entry.text, "it has no addresses")
            raise _join_failed(f"resolve {address}: {why}")
        try:
            await self._agent.submit(Join(tuple(found.addresses)))
        except CommandRefused as refused:
            raise _join_failed(f"join {refused.refusal.sentence}") from None
        return empty(200)

    async def force_leave(self, request: Request, name: str) -> Response:
        if name.lower() == leadership.own_node(self._agent).name.lower():
            return empty(200)  # it is alive, so there is nothing to force, as in Consul
        leave = ForceLeave(name, is_pruned=request.query.has("prune"))
        listed = (member.profile.name.casefold() for member in self._agent.cluster.membership.members())
        if name.casefold() not in listed and self._agent.cluster.sharing.saved_named(name) is None:
            raise HttpRefusal(500, f"agent: No node found with name '{name}'")
        with refusing_commands():
            taken_off = await self._agent.submit(leave)
        return text(200, TAKEN_OFF_HERE.format(taken_off)) if taken_off else empty(200)

    async def host(self, request: Request, _rest: str) -> Response:
        found = await trio.to_thread.run_sync(describe_host, self._agent.config.data_dir)
        return json_answer(self._agent, request, found)

    async def monitor(self, request: Request, _rest: str) -> Response:
        """The log as it is written, until the client hangs up."""
        try:
            level = parse_level(request.query.first("loglevel") or DEFAULT_LOG_LEVEL)
        except UnknownLevel as unknown:
            raise HttpRefusal(400, f"Bad request: {unknown}") from None
        as_json = request.query.has("logjson")
        return Response(content_type="text/plain", chunks=self._lines(level, as_json=as_json))

    async def _lines(self, level: int, *, as_json: bool) -> AsyncGenerator[bytes, None]:
        try:
            with self._parts.log_stream.follow(level, as_json=as_json) as follower:
                while True:
                    yield "".join(f"{line}\n" for line in await follower.next_lines()).encode()
        except TooManyFollowers as full:
            yield f"{full}\n".encode()

    async def metrics(self, request: Request, rest: str) -> Response:
        accepts = request.headers.first("accept").startswith(PROMETHEUS_ACCEPTS)
        if accepts or request.query.first("format") == "prometheus":
            return await self.scrape(request, rest)
        return json_answer(self._agent, request, self._parts.metrics.consul())

    async def scrape(self, _request: Request, _rest: str) -> Response:
        return Response(
            body=await self._parts.metrics.scraped(), content_type=self._parts.metrics.prometheus_type
        )

    async def front_page(self, _request: Request, _rest: str) -> Response:
        return text(200, "Consul Agent")


async def refuse_acls(_request: Request, _rest: str) -> Response:
    raise HttpRefusal(401, "ACL support disabled")


def _join_failed(what: str) -> HttpRefusal:
    return HttpRefusal(500, f"1 error occurred:\n\t* Failed to {what}\n\n")

"""What is loaded last, while DNS answers already: the HTTP API, and the metrics about all of the agent.

An agent that comes back must first answer for what it knows; its HTTP side brings twice as much code, which
takes as long to load as everything else of the start together.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import ssl
from typing import TYPE_CHECKING

import trio

from adsum.api import leadership
from adsum.api.answers import EVERYWHERE
from adsum.api.api_types import Agent
from adsum.api.endpoints import Endpoints
from adsum.api.rendering import ApiCounters
from adsum.config.config import Config
from adsum.http import server
from adsum.http.browser import BrowserRules
from adsum.http.limits import MEBIBYTE, HttpCounters, HttpLimits
from adsum.http.router import HttpRules, Router
from adsum.now import SECOND
from adsum.observe.exposition import Exposition
from adsum.observe.series import NetSource, Sources
from adsum.observe.tally import CatalogTally
from adsum.process import translate
from adsum.process.configured_watches import keep_watches
from adsum.process.first_phase import FirstPhase
from adsum.process.running import RunningAgent
from adsum.watching.counters import WatchCounters

if TYPE_CHECKING:
    from adsum.http.tls import Secure
    from adsum.net.tls import Tls


FIRST_REMINDER_S = 10.0  # an election takes a second
REMINDER_S = 300.0

log = logging.getLogger("agent")


async def serve_http(first: FirstPhase, agent: RunningAgent, nursery: trio.Nursery) -> None:
    """Answers HTTP in the nursery, until that is cancelled."""
    config = agent.config
    http, api, watches = HttpCounters(), ApiCounters(), WatchCounters()
    sources = Sources(
        agent=agent,
        net=NetSource.of(agent.cluster_rim.network),
        rpc=agent.cluster_rim.rpc,
        catalog=CatalogTally(agent.view),
        api=api,
        http=http,
        dns=first.dns,
        checks=agent.runner.counters,
        storage=first.storage,
        logs=first.stream.counters,
        lag=first.lag,
        gc_pauses=first.gc_pauses,
        faults=first.faults,
        watches=watches,
        certificate_end_s=first.certificate_end_s,
        server=agent.server_source,
        forwarding=agent.forwarding_source,
    )
    metrics = Exposition(sources, config.telemetry)
    nursery.start_soon(metrics.keep_intervals)
    nursery.start_soon(remind_of_no_leader, agent)
    endpoints = Endpoints(agent, first.random, api, metrics, first.stream)
    router = Router(endpoints.routes(), http_rules(config), http, endpoints.families())
    handlers = first.files.shares.watch_handlers
    nursery.start_soon(keep_watches, agent, router.answer, handlers, watches, first.random, first.faults)
    limits = HttpLimits(
        body_bytes_max=max(MEBIBYTE, config.limits.kv_value_bytes_max),
        handshake_timeout_s=config.limits.https_handshake_timeout_ns / SECOND,
        connections_per_client_max=config.limits.http_max_conns_per_client,
        connections_max=first.files.http_connections,
        refusals_lingering_max=first.files.shares.http_refusals,
    )
    secure = secured(first.sockets.https, first.tls)
    await nursery.start(server.serve, first.sockets.http, router.answer, limits, http, secure, router.begin)


def secured(listeners: list[socket.socket], tls: Tls | None) -> Secure | None:
    if not listeners:
        return None
    from adsum.http.tls import Secure

    def context() -> ssl.SSLContext:
        assert tls is not None, "without a certificate nothing listens for HTTPS"
        assert tls.https is not None
        return tls.https

    return Secure(listeners, context)


async def remind_of_no_leader(agent: Agent) -> None:
    """By servers that cannot elect one: who looks for a store finds it in any log."""
    await trio.sleep(FIRST_REMINDER_S)
    while True:
        sentence = leadership.without_leader(agent)
        if sentence and leadership.is_server(agent):
            log.warning("no leader: %s", sentence)
        await trio.sleep(REMINDER_S)


def http_rules(config: Config) -> HttpRules:
    headers = (*EVERYWHERE, *config.http.response_headers.items())
    headers_by_name = {name.lower(): value for name, value in reversed(headers)}
    return HttpRules(
        block_endpoints=config.http.block_endpoints,
        allow_write_http_from=tuple(map(ipaddress.ip_network, config.http.allow_write_http_from)),
        response_headers=headers,
        browser=BrowserRules(
            hosts=frozenset(name.lower() for name in (config.node_name, *config.http.allowed_hosts)),
            domains=translate.dns_settings(config).domains,
            allowed_origin=headers_by_name.get("access-control-allow-origin", ""),
        ),
    )

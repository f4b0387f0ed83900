"""What is loaded while DNS answers already: the HTTP API, the checks, and the metrics about all of it.

An agent that comes back must first answer for what it knows; its HTTP side brings twice as much code, which
takes as long to load as everything else of the start together.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING

import trio

from adsum.api import leadership
from adsum.api.answers import EVERYWHERE
from adsum.api.endpoints import Endpoints
from adsum.api.rendering import ApiCounters
from adsum.config.config import Config
from adsum.dns_server.counters import DnsCounters
from adsum.frozen import dataclass
from adsum.health_checks.runner import Counters as CheckCounters
from adsum.health_checks.runner import Options, Runner
from adsum.http import server
from adsum.http.browser import BrowserRules
from adsum.http.limits import HttpCounters, HttpLimits
from adsum.http.router import HttpRules, Router
from adsum.logs.stream import LogStream
from adsum.now import SECOND
from adsum.observe.exposition import Exposition
from adsum.observe.gc_pauses import GcPauses
from adsum.observe.loop_lag import LoopLag
from adsum.observe.membership_source import MembershipSource
from adsum.observe.replication_source import ReplicationSource
from adsum.observe.series import Sources
from adsum.observe.tally import CatalogTally
from adsum.process import no_leader, translate
from adsum.process.file_limit import Division
from adsum.process.running import RunningAgent
from adsum.storage.writer import WriterCounters
from adsum.version import ADSUM_VERSION

if TYPE_CHECKING:
    import ssl

    from adsum.http.tls import Secure
    from adsum.net.tls import Tls


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What was counted before this side was loaded, and goes on being counted."""

    dns: DnsCounters
    storage: WriterCounters
    stream: LogStream
    lag: LoopLag
    gc_pauses: GcPauses
    cluster: MembershipSource
    certificate_end_s: Callable[[], int]


async def serve(
    nursery: trio.Nursery,
    listeners: list[socket.socket],
    secure: Secure | None,
    agent: RunningAgent,
    random: Random,
    observed: Observed,
    files: Division,
) -> None:
    """Runs checks and answers HTTP in the nursery, until that is cancelled."""
    config = agent.config
    http, api, checks = HttpCounters(), ApiCounters(), CheckCounters()
    options = Options(
        output_bytes_max=config.check_output_bytes_max,
        environ=os.environ,
        network_runs_max=files.shares.network_runs,
        process_runs_max=files.shares.script_runs,
    )
    agent.node.attach_runner(Runner(nursery, agent.node.check_ran, options, checks))
    metrics = Exposition(_sources(agent, observed, http, api, checks), config.telemetry, agent.node.faults)
    nursery.start_soon(metrics.keep_intervals)
    nursery.start_soon(no_leader.remind, agent)
    endpoints = Endpoints(agent, random, api, metrics, observed.stream)
    router = Router(endpoints.routes(), http_rules(config), http, endpoints.families())
    limits = HttpLimits(
        handshake_timeout_s=config.limits.https_handshake_timeout_ns / SECOND,
        connections_per_client_max=config.limits.http_max_conns_per_client,
        connections_max=files.http_connections,
        refusals_lingering_max=files.shares.http_refusals,
    )
    await nursery.start(server.serve, listeners, router.answer, limits, http, secure)


def secured(listeners: list[socket.socket], tls: Tls | None) -> Secure | None:
    if not listeners:
        return None
    from adsum.http.tls import Secure

    def context() -> ssl.SSLContext:
        assert tls is not None, "without a certificate nothing listens for HTTPS"
        assert tls.https is not None
        return tls.https

    return Secure(listeners, context)


def _sources(
    agent: RunningAgent, observed: Observed, http: HttpCounters, api: ApiCounters, checks: CheckCounters
) -> Sources:
    return Sources(
        version=ADSUM_VERSION,
        node_name=agent.config.node_name,
        is_leader=lambda: leadership.leads_alone(agent),
        catalog=CatalogTally(agent.view),
        core=agent.node.core.counters,
        transitions=agent.own.transitions,
        api=api,
        http=http,
        dns=observed.dns,
        checks=checks,
        storage=observed.storage,
        logs=observed.stream.counters,
        lag=observed.lag,
        gc_pauses=observed.gc_pauses,
        certificate_end_s=observed.certificate_end_s,
        cluster=observed.cluster,
        replication=ReplicationSource.of(agent.cluster, agent.owners, agent.outputs, agent.now),
        journal=agent.journal.counters,
        faults=agent.node.faults.counts,
        shortages=agent.node.faults.shortages,
    )


def http_rules(config: Config) -> HttpRules:
    headers = (*EVERYWHERE, *config.http.response_headers.items())
    return HttpRules(
        block_endpoints=config.http.block_endpoints,
        allow_write_http_from=tuple(map(ipaddress.ip_network, config.http.allow_write_http_from)),
        response_headers=headers,
        browser=BrowserRules(
            hosts=frozenset(name.lower() for name in (config.node_name, *config.http.allowed_hosts)),
            domains=translate.dns_settings(config).domains,
            allowed_origin=_allowed_origin(config.http.response_headers),
        ),
    )


def _allowed_origin(headers: Mapping[str, str]) -> str:
    for name, value in headers.items():
        if name.lower() == "access-control-allow-origin":
            return value
    return ""

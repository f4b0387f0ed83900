"""Sources of numbers in which nothing has happened yet."""

from __future__ import annotations

from adsum.agent.core import CoreCounters
from adsum.api.rendering import ApiCounters
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.view import View
from adsum.dns_server.counters import DnsCounters
from adsum.health_checks.runner import Counters as CheckCounters
from adsum.http.limits import HttpCounters
from adsum.logs.stream import LogCounters
from adsum.observe.gc_pauses import GcPauses
from adsum.observe.loop_lag import LoopLag
from adsum.observe.membership_source import MembershipSource
from adsum.observe.series import Sources
from adsum.observe.tally import CatalogTally
from adsum.storage.writer import WriterCounters


def sources(view: View, cluster: MembershipSource | None = None) -> Sources:
    return Sources(
        version="1.2.3",
        node_name="n1",
        is_leader=lambda: True,
        catalog=CatalogTally(view),
        core=CoreCounters(),
        transitions=dict.fromkeys(CheckStatus, 0),
        api=ApiCounters(),
        http=HttpCounters(),
        dns=DnsCounters(),
        checks=CheckCounters(),
        storage=WriterCounters(),
        logs=LogCounters(),
        lag=LoopLag(),
        gc_pauses=GcPauses(),
        cluster=cluster or MembershipSource(),
    )

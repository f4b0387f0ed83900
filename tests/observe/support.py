"""Sources of numbers in which nothing has happened yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adsum.api.rendering import ApiCounters
from adsum.dns_server.counters import DnsCounters
from adsum.health_checks.runner import Counters as CheckCounters
from adsum.http.limits import HttpCounters
from adsum.logs.faults import Faults
from adsum.logs.stream import LogCounters
from adsum.observe.loop_lag import GcPauses, LoopLag
from adsum.observe.series import NetSource, Sources
from adsum.observe.tally import CatalogTally
from adsum.storage.writer import WriterCounters

if TYPE_CHECKING:
    from tests.api.agents import FakeAgent


def sources(agent: FakeAgent) -> Sources:
    return Sources(
        agent=agent,
        net=NetSource(),
        rpc=agent.calls,
        catalog=CatalogTally(agent.view),
        api=ApiCounters(),
        http=HttpCounters(),
        dns=DnsCounters(),
        checks=CheckCounters(),
        storage=WriterCounters(),
        logs=LogCounters(),
        lag=LoopLag(),
        gc_pauses=GcPauses(),
        faults=Faults(),
    )

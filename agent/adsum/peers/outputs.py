"""Whole outputs of checks, which stay with their owners: fetched for those who ask, and for nobody else.

One question at a time to each owner, however many want to know; what came is kept for as long as the check
stays as it was, and five seconds at most, because an output may change while its status does not. Whoever
asks waits a second altogether, and gets what has come by then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import trio

from adsum.catalog.model import SERF_HEALTH
from adsum.catalog.view import NO_AGENT, CatalogHost, View
from adsum.mutable import dataclass
from adsum.named import NamedTuple
from adsum.net.calls import CallError
from adsum.net.framing import MalformedFrame, read
from adsum.peers.owner_calls import CHECKS_MAX, OUTPUT, TOLD_OUTPUTS, WANTED_OUTPUTS
from adsum.peers.owner_forwarding import OwnerAway, OwnerForwarding

BUDGET_S = 1.0
KEPT_S = 5.0
KEPT_BYTES_MAX = 16 * 1024 * 1024
OVERHEAD_BYTES = 200
OWNERS_AT_ONCE_MAX = 16


class WantedOutput(NamedTuple):
    node: str
    check_id: str


@dataclass(slots=True)
class OutputCounters:
    asked: int = 0  # owners, by us
    kept: int = 0  # outputs that were here already
    failed: int = 0  # owners that did not tell


class _Kept(NamedTuple):
    modify_index: int  # of the check in our view
    until_s: float
    output: str | None

    @property
    def size_bytes(self) -> int:
        return OVERHEAD_BYTES + len(self.output or "")


class Outputs:
    def __init__(self, view: View, owners: OwnerForwarding) -> None:
        self.counters = OutputCounters()
        self._view = view
        self._owners = owners
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()  # by owner and check
        self._kept_bytes = 0
        self._asking: dict[str, trio.Event] = {}  # by owner

    async def fetch(self, wanted: Iterable[WantedOutput]) -> dict[WantedOutput, str]:
        """What could be had in time. Own outputs are in the view already, and whole."""
        by_host: dict[str, list[WantedOutput]] = {}
        for each in dict.fromkeys(wanted):
            if each.check_id != SERF_HEALTH:
                by_host.setdefault(each.node, []).append(each)
        found: dict[WantedOutput, str] = {}
        turns = trio.CapacityLimiter(OWNERS_AT_ONCE_MAX)
        with trio.move_on_after(BUDGET_S):
            async with trio.open_nursery() as nursery:
                for node, checks in by_host.items():
                    host = self._view.node(node)
                    has_agent = host is not None and host.owner != NO_AGENT  # else all of it is here
                    if host is not None and has_agent and not self._owners.is_mine(node):
                        nursery.start_soon(self._of_host, host, checks, found, turns)
        return found

    async def _of_host(
        self,
        host: CatalogHost,
        checks: list[WantedOutput],
        found: dict[WantedOutput, str],
        turns: trio.CapacityLimiter,
    ) -> None:
        asked: dict[WantedOutput, None] = {}
        async with turns:
            while missing := [each for each in self._take_kept(host, checks, found) if each not in asked]:
                running = self._asking.get(host.owner)
                if running is not None:
                    await running.wait()
                    continue
                batch = missing[:CHECKS_MAX]
                asked |= dict.fromkeys(batch)
                told = await self._ask(host, [each.check_id for each in batch])
                if told is None:
                    return
                found |= {each: output for each in batch if (output := told[each.check_id]) is not None}

    def _take_kept(
        self, host: CatalogHost, checks: list[WantedOutput], found: dict[WantedOutput, str]
    ) -> list[WantedOutput]:
        """What is not known yet; what its owner does not know, or has no room for, is not asked for again."""
        missing = []
        for each in checks:
            row, kept = host.checks.get(each.check_id), self._kept.get((host.owner, each.check_id))
            if row is None:
                continue
            if kept is None or kept.modify_index != row.modify_index or kept.until_s < trio.current_time():
                missing.append(each)
            elif kept.output is not None:
                self.counters.kept += each not in found
                found[each] = kept.output
        return missing

    async def _ask(self, host: CatalogHost, check_ids: list[str]) -> dict[str, str | None] | None:
        """None: its owner did not tell."""
        done = self._asking[host.owner] = trio.Event()
        self.counters.asked += 1
        rows = {check_id: host.checks.get(check_id) for check_id in check_ids}
        try:
            body = WANTED_OUTPUTS.bytes_of(check_ids)
            outputs = _read(await self._owners.ask(host, OUTPUT, body, timeout_s=BUDGET_S), len(check_ids))
        except (CallError, OwnerAway, MalformedFrame):
            self.counters.failed += 1
            return None
        finally:
            del self._asking[host.owner]
            done.set()
        until_s = trio.current_time() + KEPT_S
        told = dict(zip(check_ids, outputs, strict=True))
        for check_id, row in rows.items():
            if row is not None:
                self._keep((host.owner, check_id), _Kept(row.modify_index, until_s, told[check_id]))
        return told

    def _keep(self, key: tuple[str, str], kept: _Kept) -> None:
        before = self._kept.pop(key, None)
        self._kept_bytes += kept.size_bytes - (before.size_bytes if before is not None else 0)
        self._kept[key] = kept
        while self._kept_bytes > KEPT_BYTES_MAX:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= oldest.size_bytes


def _read(answer: bytes, count: int) -> list[str | None]:
    (outputs,) = read(TOLD_OUTPUTS, answer)
    if len(outputs) != count:
        raise MalformedFrame("more or fewer outputs than were asked for")
    return outputs

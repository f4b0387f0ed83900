"""Runs one blocking query and tells when it came back and how its index moved.

Indexes themselves cannot be compared, nor durations to the millisecond: what clients rely on is whether a
change woke the query, whether a timeout kept the index, and that a timeout comes within wait + wait/16.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from tests.conformance.case import Json, Watch, get
from tests.conformance.http_facts import Answer, answer_facts, exchange
from tests.conformance.normalise import Normaliser
from tests.system.agents import Agent

# Long enough for the query to be parked before the change is sent; nothing outside tells that it is.
PARK_S = 0.15
# Two processes and this one share two cores.
SCHEDULING_S = 0.4


def watch_facts(agents: Sequence[Agent], watch: Watch, normaliser: Normaliser) -> dict[str, Json]:
    """Of the first agent; a change may be sent to another."""
    agent = agents[0]
    before = exchange(agent, get(watch.target))
    blocked = with_query(watch.target, position(before, watch) + f"&wait={watch.wait_ms}ms")
    with ThreadPoolExecutor(1) as pool:
        started = time.monotonic()
        waiting = pool.submit(timed, agent, blocked)
        if watch.change:
            time.sleep(PARK_S)
        woke_before_change = bool(watch.change) and waiting.done()
        change_statuses: list[Json] = [exchange(agents[change.at], change).status for change in watch.change]
        facts = when_and_index(waiting, started, before, watch)
    facts["changes answered"] = change_statuses
    if woke_before_change:
        facts["returned"] = "before the change"
    after, _ = waiting.result()
    whole = answer_facts(after, normaliser)
    return facts | (whole if watch.body else {"status": whole["status"]})


def position(before: Answer, watch: Watch) -> str:
    if watch.by_hash:
        return f"hash={before.header('X-Consul-Contenthash') or ''}"
    return f"index={before.index() + watch.ahead}"


def timed(agent: Agent, target: str) -> tuple[Answer, float]:
    answer = exchange(agent, get(target))
    return answer, time.monotonic()


def when_and_index(
    waiting: Future[tuple[Answer, float]], started: float, before: Answer, watch: Watch
) -> dict[str, Json]:
    after, ended = waiting.result()
    facts: dict[str, Json] = {"returned": when(ended - started, watch.wait_ms / 1000)}
    if watch.by_hash:
        same = after.header("X-Consul-Contenthash") == before.header("X-Consul-Contenthash")
        return facts | {"hash": "the same" if same else "another"}
    moved = after.index() - before.index()
    return facts | {"index": "the same" if moved == 0 else "higher" if moved > 0 else "lower"}


def when(elapsed_s: float, wait_s: float) -> str:
    # A timer may fire a hair before the client's clock agrees.
    if elapsed_s < wait_s * 0.98:
        return "early"
    if elapsed_s <= wait_s * 17 / 16 + SCHEDULING_S:
        return "at the timeout"
    return "after wait + wait/16"


def with_query(target: str, query: str) -> str:
    return f"{target}{'&' if '?' in target else '?'}{query}"

"""Runs cases against two agents at once and gives back what differed.

Starting an agent is the dear part, so the cases of one setting share a pair of processes, and a case whose
`given` is that of the case before, which only read, starts from where that one left off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby

from tests.conformance.case import RESOLVER, WHOLE, Ask, Case, Json, Kill, Question, Request, Setting, Watch
from tests.conformance.differences import Difference, differences
from tests.conformance.expected import Deviation, explanation
from tests.conformance.side import Side, writes
from tests.conformance.upstream import upstream
from tests.system.agents import START_S_MAX, Agent, Program, running, until, wait_until_ready
from tests.system.clusters import Cluster, emptied, loopbacks, role


@dataclass(frozen=True, slots=True)
class Found:
    """One difference of one exchange (-1 while preparing), and the deviation that explains it, if any."""

    exchange: int
    difference: Difference
    deviation: Deviation | None


@dataclass(frozen=True, slots=True)
class Outcome:
    case: Case
    found: tuple[Found, ...]
    consul: tuple[dict[str, Json], ...]

    @property
    def unexplained(self) -> tuple[Found, ...]:
        return tuple(each for each in self.found if each.deviation is None)


def run_cases(cases: Sequence[Case], consul: Program, ours: Program) -> Iterator[Outcome]:
    for setting, group in groupby(cases, key=lambda case: case.setting):
        yield from run_setting(setting, list(group), consul, ours)


def run_setting(setting: Setting, cases: list[Case], consul: Program, ours: Program) -> Iterator[Outcome]:
    while cases:
        with ExitStack() as started, ThreadPoolExecutor(2) as pool:
            config = with_resolver(setting.config, started)
            sides = [
                Side(started.enter_context(agents_of(each, setting, config)), setting)
                for each in (consul, ours)
            ]
            pair = Pair(sides[0], sides[1], pool)
            while cases:
                case = cases.pop(0)
                yield pair.run(case)
                if case.ends_agent or case.breaks_cluster:
                    break


@contextmanager
def agents_of(program: Program, setting: Setting, config: Mapping[str, object]) -> Iterator[Sequence[Agent]]:
    """The one that is asked, then the others."""
    if not setting.others:
        with running(program, config, setting.arguments) as agent:
            yield [agent]
        return
    places = loopbacks(len(setting.others) + 1)
    with emptied(Cluster(program)) as cluster:
        for number, (place, own) in enumerate(zip(places, (*setting.others, {}), strict=True), 1):
            cluster.add(place, {**role(places, place), **config, **own}, name=f"n{number}")
        cluster.wait_for_one_view()
        *others, asked = [member.agent for member in cluster.members]
        wait_until_ready(asked)
        until(lambda: asked.get_json("/v1/status/leader"), within_s=START_S_MAX)
        # Who knows all members may still be fetching what they have.
        until(lambda: asked.get_json("/v1/catalog/services"), within_s=START_S_MAX)
        yield [asked, *others]


def with_resolver(config: Mapping[str, object], started: ExitStack) -> dict[str, object]:
    """RESOLVER among the recursors becomes the address of a resolver that runs as long as the agents."""
    recursors = config.get("recursors")
    if not isinstance(recursors, list) or RESOLVER not in recursors:
        return dict(config)
    address = started.enter_context(upstream())
    return {**config, "recursors": [address if each == RESOLVER else each for each in recursors]}


class Pair:
    def __init__(self, consul: Side, ours: Side, pool: ThreadPoolExecutor) -> None:
        self.sides = (consul, ours)
        self.pool = pool
        self.state: tuple[Request, ...] | None = None

    def run(self, case: Case) -> Outcome:
        found = self.prepare(case)
        consul, ours = self.pool.map(lambda side: side.ask(case), self.sides)
        for number, (theirs, mine) in enumerate(zip(consul, ours, strict=True)):
            found += compared(case, number, theirs, mine)
        if case.ends_agent or any(writes(ask) for ask in case.ask):
            self.state = None
        return Outcome(case, tuple(found), tuple(consul))

    def prepare(self, case: Case) -> list[Found]:
        if case.given == self.state:
            return []
        self.state = case.given
        consul, ours = self.pool.map(lambda side: side.prepare(case.given), self.sides)
        if any(status != 200 for status in consul):
            raise ValueError(f"Consul itself refuses what the case {case.name!r} starts from: {consul}")
        return [Found(-1, each, explanation(case.name, each)) for each in differences(consul, ours, WHOLE)]


def compared(case: Case, number: int, consul: dict[str, Json], ours: dict[str, Json]) -> list[Found]:
    look = case.ask[number].look if number < len(case.ask) else WHOLE
    if consul.get("status") != ours.get("status"):
        # One says yes and the other no: headers and layout differ for no other reason.
        consul, ours = (outline(facts) for facts in (consul, ours))
    unlike = differences(dict(consul), dict(ours), look)
    return [Found(number, each, explanation(case.name, each)) for each in unlike]


def outline(facts: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in facts.items() if key not in ("headers", "layout")}


def title(ask: Ask) -> str:
    match ask:
        case Request(method=method, target=target, body=body):
            text = f"{method} {target}"
            return text if body is None else f"{text}  {body[:160].decode(errors='replace')}"
        case Question(name=name, type=kind):
            how = (
                ("EDNS", ask.edns),
                ("TCP", ask.tcp),
                ("class", "" if ask.class_ == "IN" else ask.class_),
                ("subnet", ask.subnet),
            )
            return " ".join([name, kind, *(f"{key} {value}" for key, value in how if value)])
        case Watch(target=target):
            changes = "; ".join(title(change) for change in ask.change) or "nothing"
            return f"GET {target} blocks for {ask.wait_ms} ms, meanwhile {changes}"
        case Kill():
            return f"kill -9 of n{ask.at}"

"""Runs cases against two agents at once and gives back what differed.

Starting an agent is the dear part, so the cases of one setting share a pair of processes, and a case whose
`given` is that of the case before, which only read, starts from where that one left off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby

from tests.conformance.case import RESOLVER, WHOLE, Ask, Case, Deviation, Json, Request, Setting
from tests.conformance.differences import Difference, differences, matches
from tests.conformance.side import Side, writes
from tests.conformance.upstream import upstream
from tests.system.agents import Program, running


@dataclass(frozen=True, slots=True)
class Found:
    """One difference of one exchange, and the deviation that explains it, if any."""

    exchange: int
    difference: Difference
    deviation: Deviation | None


@dataclass(frozen=True, slots=True)
class Outcome:
    case: Case
    found: tuple[Found, ...]
    consul: tuple[dict[str, Json], ...]
    unseen: tuple[Deviation, ...]
    """Deviations the case announces and that did not show: the page promises too much."""

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
            agents = [
                started.enter_context(running(each, config, setting.arguments)) for each in (consul, ours)
            ]
            pair = Pair(Side(agents[0], setting), Side(agents[1], setting), pool)
            while cases:
                case = cases.pop(0)
                yield pair.run(case)
                if case.ends_agent:
                    break


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
        seen = {each.deviation for each in found}
        unseen = tuple(each for each in case.differs if each not in seen)
        return Outcome(case, tuple(found), tuple(consul), unseen)

    def prepare(self, case: Case) -> list[Found]:
        if case.given == self.state:
            return []
        self.state = case.given
        consul, ours = self.pool.map(lambda side: side.prepare(case.given), self.sides)
        if any(status != 200 for status in consul):
            raise ValueError(f"Consul itself refuses what the case {case.name!r} starts from: {consul}")
        return [Found(-1, each, explanation(case, each)) for each in differences(consul, ours, WHOLE)]


def compared(case: Case, number: int, consul: dict[str, Json], ours: dict[str, Json]) -> list[Found]:
    look = case.ask[number].look if number < len(case.ask) else WHOLE
    return [
        Found(number, each, explanation(case, each)) for each in differences(dict(consul), dict(ours), look)
    ]


def explanation(case: Case, difference: Difference) -> Deviation | None:
    return next((each for each in case.differs if matches(difference.where, each.at)), None)


def title(ask: Ask) -> str:
    match ask:
        case Request(method=method, target=target, body=body):
            text = f"{method} {target}"
            return text if body is None else f"{text}  {body[:160].decode(errors='replace')}"
    kind = type(ask).__name__.lower()
    rest = ", ".join(f"{key}={value}" for key, value in vars_of(ask) if value)
    return f"{kind} {rest}"


def vars_of(ask: Ask) -> list[tuple[str, object]]:
    hidden = {"look", "recursion", "body"}
    return [(key, getattr(ask, key)) for key in ask.__slots__ if key not in hidden]

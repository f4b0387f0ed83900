"""What a watch asks, again and again, and which of the answers are news.

The command line and the agent both watch, one with a socket of its own and one without any, so the questions
and their order are here. An answer is news if its index moved and it says something else than the last one:
an index may move for a change that this question does not show.

An agent that has just come to a cluster knows nothing of it yet. Its first answer would tell a handler that
there is nothing, which a proxy takes for its word, so until the agent has met the others there is no answer:
as in Consul, where only servers answer. What an agent remembers of its last run is handed over.
"""

from __future__ import annotations

from collections.abc import Mapping

from adsum.frozen import dataclass
from adsum.named import NamedTuple

# By type, the parameters that belong to it; what they all take is beside them.
PARAMETERS = {
    "key": ("key",),
    "keyprefix": ("prefix",),
    "services": ("filter",),
    "nodes": ("filter",),
    "service": ("service", "tag", "passingonly", "filter"),
    "checks": ("service", "state", "filter"),
    "event": ("name",),
}
NEEDED = {"key": "key", "keyprefix": "prefix", "service": "service"}
STALE, JOINING = "X-Adsum-Stale", "joining"  # says who has compared its catalog with nobody yet
HAS_MET_NOBODY = "this agent has somebody to join, and has compared its catalog with nobody yet"
WITHOUT_TYPE = "the type of the watch is missing"


class BadWatch(ValueError):
    """It could never be asked; the sentence says what is wrong with it."""


class WatchPlan(NamedTuple):
    """Made by `plan_of`."""

    kind: str
    path: str
    query: tuple[tuple[str, str], ...]

    @property
    def is_of_keys(self) -> bool:
        """So what is not there is an answer like others."""
        return self.kind in ("key", "keyprefix")


@dataclass(frozen=True, slots=True)
class News:
    index: int
    data: object


def plan_of(
    kind: str,
    given: Mapping[str, str],
    tags: tuple[str, ...] = (),
    *,
    passing_only: bool = False,
    stale: bool = False,
    datacenter: str = "",
) -> WatchPlan:
    """Raises `BadWatch`."""
    if not kind:
        raise BadWatch(WITHOUT_TYPE)
    if kind not in PARAMETERS:
        raise BadWatch(f'there is no watch of type "{kind}": it is one of {", ".join(PARAMETERS)}')
    has = {name: text for name, text in given.items() if text}
    asked = [*has, *(["tag"] if tags else []), *(["passingonly"] if passing_only else [])]
    for name in asked:
        if name not in PARAMETERS[kind]:
            raise BadWatch(f"a watch of type {kind} takes no {name}")
    if kind in NEEDED and NEEDED[kind] not in has:
        raise BadWatch(f"a watch of type {kind} needs its {NEEDED[kind]}")
    if "service" in has and "state" in has:
        raise BadWatch("a watch of type checks takes a service or a state, not both")
    return WatchPlan(
        kind,
        _path(kind, has),
        (
            *((name, text) for name, text in (("dc", datacenter), ("stale", "1" if stale else "")) if text),
            *((("recurse", "1"),) if kind == "keyprefix" else ()),
            *(("tag", tag) for tag in tags),
            *((("passing", "1"),) if passing_only else ()),
            *((name, has[name]) for name in ("name", "filter") if name in has),
        ),
    )


def _path(kind: str, has: Mapping[str, str]) -> str:
    if kind in ("key", "keyprefix"):
        return f"/v1/kv/{has[NEEDED[kind]].removeprefix('/')}"
    if kind == "service":
        return f"/v1/health/service/{has['service']}"
    if kind == "checks":
        is_of_service = "service" in has
        of = f"checks/{has['service']}" if is_of_service else f"state/{has.get('state', 'any')}"
        return f"/v1/health/{of}"
    return {"services": "/v1/catalog/services", "nodes": "/v1/catalog/nodes", "event": "/v1/event/list"}[kind]


class Watcher:
    """One watch: what to ask next, and whether an answer is news."""

    def __init__(self, plan: WatchPlan) -> None:
        self.plan = plan
        self._index = 0  # 0: asked without waiting
        self._last: News | None = None
        self._last_event = ""

    def query(self) -> list[tuple[str, str]]:
        return [*self.plan.query, *([("index", str(self._index))] if self._index else [])]

    def heard(self, index: int, answer: object) -> News | None:
        """`answer` is what the agent said, and nothing where it has no such key."""
        if self._last is not None and index == self._index:
            return None
        is_event = self.plan.kind == "event"  # whose indexes are in no order
        self._index = 0 if index < self._index and not is_event else index
        data = self._new_events(answer) if is_event else _shown(self.plan.kind, answer)
        if self._last is not None and data == ([] if is_event else self._last.data):
            return None
        self._last = News(index, data)
        return self._last

    def _new_events(self, answer: object) -> object:
        events = answer if isinstance(answer, list) else []
        ids = [str(event.get("ID")) if isinstance(event, dict) else "" for event in events]
        known = ids.index(self._last_event) + 1 if self._last_event in ids else 0
        if ids:
            self._last_event = ids[-1]
        return events[known:]


def _shown(kind: str, answer: object) -> object:
    """A key alone is no list, and a record says its members in the order of Consul's own `watch`."""
    if kind not in ("key", "keyprefix") or not isinstance(answer, list):
        return answer
    records = [_record(each) for each in answer if isinstance(each, dict)]
    return records if kind == "keyprefix" else next(iter(records), None)


def _record(record: Mapping[str, object]) -> dict[str, object]:
    names = ("Key", "CreateIndex", "ModifyIndex", "LockIndex", "Flags", "Value")
    return {**{name: record.get(name) for name in names}, "Session": record.get("Session", "")}

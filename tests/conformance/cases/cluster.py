"""The cases about catalog, health, waiting and DNS once more, in a cluster of three: what one agent was told
there, two are told here by turns, and a third is asked.

Case names are the same, so that a difference that is meant for one agent is meant here as well. Cases that
begin with the same registrations stand together, because registering is what takes time. Of blocking queries
those are here that a change elsewhere ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import cycle

from tests.conformance.case import (
    Ask,
    Case,
    Family,
    Kill,
    Look,
    Question,
    Request,
    Setting,
    Watch,
    get,
    loads,
    put,
)
from tests.conformance.cases import blocking, catalog, dns_answers, health
from tests.conformance.worlds import SHOP

THREE = Setting(
    "three agents",
    arguments=(),
    config={"node_meta": {"zone": "z 1"}},
    others=(
        {"node_meta": {"rack": "r1", "rfc1035-x": "v"}},
        {"node_meta": {"rack": "r2"}},
    ),
)
OWNERS = (1, 2)
# An owner publishes one thing once a second at most, and here it was registered just before it changes.
WAIT_MS = 2_500
WATCHED = {
    "/v1/health/service/web?passing",
    "/v1/health/service/zz",
    "/v1/health/service/solo",
    "/v1/catalog/services",
    "/v1/catalog/node/n1",
}
# Ordered by distances that are measured anew in each run.
NEAR = Look(unordered=("body",))


def in_cluster(name: str, cases: Iterable[Case]) -> Family:
    spread_out = list(unique(spread(case) for case in cases))
    beginnings = {case.given: number for number, case in reversed(list(enumerate(spread_out)))}
    return Family(f"{name}, three agents", tuple(sorted(spread_out, key=lambda case: beginnings[case.given])))


def spread(case: Case) -> Case:
    """Each registration goes to one of the owners by turns, and what changes it later goes there too."""
    homes: dict[str, int] = {}
    turns = cycle(OWNERS)
    given = tuple(replace(each, at=homes.setdefault(subject(each), next(turns))) for each in case.given)
    return replace(case, given=given, setting=THREE, ask=tuple(routed(ask, homes) for ask in case.ask))


def routed(ask: Ask, homes: Mapping[str, int]) -> Ask:
    match ask:
        case Request() if ask.method == "PUT":
            return ask if ask.at else at_home(ask, homes)
        case Request() if "near=" in ask.target:
            return replace(ask, look=NEAR)
        case Watch():
            return replace(ask, change=tuple(at_home(each, homes) for each in ask.change), wait_ms=WAIT_MS)
        case _:
            return ask


def at_home(request: Request, homes: Mapping[str, int]) -> Request:
    return replace(request, at=homes.get(subject(request), OWNERS[0]))


def subject(request: Request) -> str:
    """The service or check that is registered or changed: `web1` of a body with that ID, of
    `…/deregister/web1` and of `…/fail/service:web1:2?note=x`.
    """
    if request.target.endswith("/register") and request.body is not None:
        definition = loads(request.body)
        assert isinstance(definition, dict)
        return str(definition.get("ID") or definition["Name"])
    last = request.target.partition("?")[0].rpartition("/")[2]
    return last.removeprefix("service:").partition(":")[0]


def unique(cases: Iterator[Case]) -> Iterator[Case]:
    """Cases that differed by their setting alone are the same here."""
    seen: set[str] = set()
    for case in cases:
        name = case.name.removeprefix("node meta: ").removeprefix("-dev: ")
        if name not in seen:
            seen.add(name)
            yield replace(case, name=name)


def ended_elsewhere(case: Case) -> bool:
    """Of those about one service or node, which stand for the others; not `agent/service`, which has no
    catalog behind it.
    """
    return any(isinstance(ask, Watch) and ask.change and ask.target in WATCHED for ask in case.ask)


AFTERWARDS: tuple[Ask, ...] = (
    get("/v1/catalog/nodes"),
    get("/v1/catalog/services", look=catalog.TAGS),
    get("/v1/catalog/service/web"),
    get("/v1/catalog/service/db"),
    get("/v1/catalog/node/n2"),
    get("/v1/health/node/n2"),
    get("/v1/health/service/web"),
    get("/v1/health/service/web?passing"),
    get("/v1/health/service/db?passing"),
    get("/v1/health/checks/web"),
    get("/v1/health/state/critical"),
    Question("web.service.consul"),
    Question("web.service.consul", "SRV"),
    Question("db.service.consul"),
    Question("n2.node.consul"),
)
FEWER = (
    Case(
        "an agent dies",
        (Kill(2), get("/v1/health/node/n2", until="Agent not live or unreachable"), *AFTERWARDS),
        SHOP,
        breaks_cluster=True,
    ),
    Case(
        "an agent leaves",
        (
            replace(put("/v1/agent/leave"), at=2),
            get("/v1/catalog/nodes?filter=Node==n2", until="[]"),
            *AFTERWARDS,
        ),
        SHOP,
        breaks_cluster=True,
    ),
)

FAMILIES = (
    in_cluster("catalog", catalog.FAMILY.cases),
    in_cluster("health", health.FAMILY.cases),
    in_cluster("blocking", filter(ended_elsewhere, blocking.FAMILY.cases)),
    in_cluster("dns answers", dns_answers.FAMILY.cases),
    Family("fewer agents", tuple(spread(case) for case in FEWER)),
)

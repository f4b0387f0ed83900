"""Keys on three servers, and on one with two client agents: each is told something by turns, and one is
asked, of the latter a client. Then some of the servers die.

Case names are those of one server, so that a difference that is meant there is meant here as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle

from tests.conformance.case import (
    INDEX_OF_KEY,
    Ask,
    Case,
    Family,
    Kill,
    Look,
    Request,
    Setting,
    Watch,
    get,
    put,
    send,
)
from tests.conformance.cases import kv
from tests.conformance.cases.kv import KV, ONE, TREE, key

SERVERS = Setting(
    "three servers",
    arguments=(),
    config={"server": True, "bootstrap": False, "bootstrap_expect": 3},
    others=({}, {}),
)
CLIENTS = Setting("a server and two clients", arguments=(), others=({}, {}))
# A change crosses to the server that is asked.
WAIT_MS = 900
WATCHED = ("a/e", "a/none", "a/?recurse")
# Which of the three leads is drawn by lot.
ANY_LEADER = Look(types=("body",))
HELD_S_MAX = 20.0


def spread(case: Case, setting: Setting) -> Case:
    turns = cycle((1, 2, 0))
    ask = tuple(routed(each, turns) for each in case.ask)
    given = tuple(replace(each, at=next(turns)) for each in case.given)
    return replace(case, ask=ask, given=given, setting=setting)


def routed(ask: Ask, turns: Iterator[int]) -> Ask:
    match ask:
        case Request() if ask.method in ("PUT", "DELETE"):
            return replace(ask, at=next(turns))
        case Watch():
            change = tuple(replace(each, at=next(turns)) for each in ask.change)
            return replace(ask, change=change, wait_ms=WAIT_MS)
        case _:
            return ask


COMPARED = tuple(
    key(f"{method} {name}?cas={cas}", send(method, f"{KV}{name}?cas={cas}", body), get(KV + name))
    for method, body in (("PUT", "new"), ("DELETE", None))
    for name in ("a", "none")
    for cas in ("0", "1", INDEX_OF_KEY.format("a"))
)
WAKES = tuple(
    Case(f"wait for {target} on {why}", (Watch(KV + target, change),), TREE)
    for target in WATCHED
    for why, change in kv.CHANGES
)
STALE = (
    key("a stale answer in time", put(KV + "a", "new"), get(KV + "a?raw&stale", until="new")),
    key("not too stale", put(KV + "a", "new"), get(KV + "a?raw&max_stale=5s", until="new")),
    key("a consistent answer at once", put(KV + "a", "new"), get(KV + "a?raw&consistent")),
    key("a default answer at once", put(KV + "a", "new"), get(KV + "a?raw")),
)
STATUS = (
    Case("who leads", (get("/v1/status/leader", look=ANY_LEADER),)),
    Case("who takes part", (get("/v1/status/peers", look=Look(unordered=("body",))),)),
)


def held(request: Request, until: str) -> Request:
    return replace(request, until=until, read_s_max=HELD_S_MAX)


NO_LEADER = "No cluster leader"
FEWER = (
    Case(
        "one of three servers dies",
        (
            Kill(1),
            held(put(KV + "a", "after"), "true"),
            get(KV + "a?raw"),
            get(KV + "a?raw&consistent"),
            get(KV + "a?raw&stale", until="after"),
        ),
        ONE,
        breaks_cluster=True,
    ),
    Case(
        "two of three servers die",
        (
            get(KV + "a?stale", until="YmFy"),  # else it dies out with those that have it
            Kill(1),
            Kill(2),
            held(put(KV + "a", "after"), NO_LEADER),
            held(get(KV + "a"), NO_LEADER),
            held(get(KV + "a?consistent"), NO_LEADER),
            held(send("DELETE", KV + "a"), NO_LEADER),
            get(KV + "a?stale"),
            get(KV + "none?stale"),
            get(KV + "?keys&stale"),
            get("/v1/status/leader"),
        ),
        ONE,
        breaks_cluster=True,
    ),
)

# What is said of it differs by how it was found out.
REFUSED = Look(only=("status",))
ALONE = Case(
    "the only server dies",
    (
        Kill(1),
        replace(put(KV + "a", "after", look=REFUSED), read_s_max=HELD_S_MAX),
        replace(get(KV + "a", look=REFUSED), read_s_max=HELD_S_MAX),
        replace(get(KV + "a?stale", look=REFUSED), read_s_max=HELD_S_MAX),
    ),
    ONE,
    setting=CLIENTS,
    breaks_cluster=True,
)

EVERYWHERE = (*kv.READ, *kv.WRITES, *kv.CONFLICTS, *COMPARED, *STALE, *STATUS, *WAKES)
FAMILIES = (
    Family("keys, three servers", tuple(spread(case, SERVERS) for case in EVERYWHERE)),
    Family("keys, through a client", tuple(spread(case, CLIENTS) for case in EVERYWHERE)),
    Family("fewer servers", (*(replace(case, setting=SERVERS) for case in FEWER), ALONE)),
)

from __future__ import annotations

from dataclasses import replace

import pytest

from adsum.consensus.bootstrap import AliveServer, FoundNow, KeepWaiting, ServerStanding, decide
from adsum.raft.types import MemberId

NAMES = ("a", "b", "c")
EMPTY = {
    name: ServerStanding(MemberId(name, f"log-{name}"), "dc1", 3, "", True, sees=NAMES) for name in NAMES
}
ALIVE = [AliveServer(name, "dc1", 3) for name in NAMES]


def others(name: str) -> dict[str, ServerStanding | None]:
    return {each: standing for each, standing in EMPTY.items() if each != name}


def test_all_who_are_empty_come_to_the_same_cluster_in_whatever_order_they_know_each_other() -> None:
    first, *rest = [
        decide(EMPTY[name], order, others(name)) for name in NAMES for order in (ALIVE, list(reversed(ALIVE)))
    ]
    assert isinstance(first, FoundNow)
    assert [str(member) for member in first.configuration.voters] == ["a/log-a", "b/log-b", "c/log-c"]
    assert rest == [first] * 5


def test_a_server_that_was_wiped_in_between_would_be_another_cluster() -> None:
    wiped = EMPTY | {"c": replace(EMPTY["c"], member=MemberId("c", "log-new"))}
    before = decide(EMPTY["a"], ALIVE, others("a"))
    after = decide(EMPTY["a"], ALIVE, {name: wiped[name] for name in "bc"})
    assert isinstance(before, FoundNow)
    assert isinstance(after, FoundNow)
    assert before.cluster_id != after.cluster_id


def test_a_single_server_that_expects_one_asks_nobody() -> None:
    alone = replace(EMPTY["a"], expect=1)
    assert isinstance(decide(alone, [AliveServer("a", "dc1", 1)], {}), FoundNow)
    assert isinstance(decide(alone, [], {}), FoundNow)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "server b does not answer"),
        (replace(EMPTY["b"], cluster_id="xyz"), "server b belongs to cluster xyz: this one waits"),
        (
            replace(EMPTY["b"], is_empty=False),
            "server b has a log, or founds with others, and has not said of which cluster",
        ),
        (replace(EMPTY["b"], expect=5), "server b says datacenter dc1 and bootstrap_expect 5"),
        (replace(EMPTY["b"], datacenter="dc2"), "server b says datacenter dc2"),
        (replace(EMPTY["b"], sees=("a", "b", "d")), "server b sees a, b, d, and this one a, b, c"),
        (EMPTY["c"], "what answers as server b calls itself c"),
    ],
    ids=[
        "silent",
        "has a cluster",
        "has a log",
        "expects others",
        "elsewhere",
        "sees others",
        "somebody else",
    ],
)
def test_one_answer_that_is_not_empty_and_equal_means_wait(
    answer: ServerStanding | None, reason: str
) -> None:
    decision = decide(EMPTY["a"], ALIVE, others("a") | {"b": answer})
    assert isinstance(decision, KeepWaiting)
    assert decision.reason.startswith(reason)


D = AliveServer("d", "dc1", 0)
EMPTY_D = ServerStanding(MemberId("d", "log-d"), "dc1", 0, "", True, sees=NAMES)


def test_a_server_that_expects_nothing_is_asked_and_is_no_founder() -> None:
    without = decide(EMPTY["a"], ALIVE, others("a"))
    assert decide(EMPTY["a"], [*ALIVE, D], others("a") | {"d": EMPTY_D}) == without
    assert isinstance(without, FoundNow)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "server d does not answer"),
        (replace(EMPTY_D, cluster_id="xyz"), "server d belongs to cluster xyz: this one waits"),
        (replace(EMPTY_D, is_empty=False), "server d has a log, or founds with others"),
        (
            replace(EMPTY_D, expect=3),
            "server d says datacenter dc1 and bootstrap_expect 3, and gossip dc1 and",
        ),
        (replace(EMPTY_D, datacenter="dc2"), "server d says datacenter dc2"),
        (replace(EMPTY_D, sees=("a", "b")), "server d sees a, b, and this one a, b, c"),
        (EMPTY["c"], "what answers as server d calls itself c"),
    ],
    ids=["silent", "has a cluster", "has a log", "expects", "elsewhere", "sees others", "somebody else"],
)
def test_one_that_expects_nothing_and_may_know_of_a_cluster_means_wait(
    answer: ServerStanding | None, reason: str
) -> None:
    decision = decide(EMPTY["a"], [*ALIVE, D], others("a") | {"d": answer})
    assert isinstance(decision, KeepWaiting)
    assert decision.reason.startswith(reason)


@pytest.mark.parametrize(
    ("own", "alive", "reason"),
    [
        (EMPTY["a"], ALIVE[:2], "2 servers are alive in dc1, and 3 are expected"),
        (EMPTY["a"], [*ALIVE, AliveServer("d", "dc1", 3)], "4 servers are alive in dc1, and 3 are expected"),
        (
            EMPTY["a"],
            [*ALIVE[:2], AliveServer("c", "dc1", 5)],
            "server c has bootstrap_expect 5, and this one 3",
        ),
        (
            EMPTY["a"],
            [*ALIVE[:2], AliveServer("c", "dc1", 0)],
            "2 servers are alive in dc1, and 3 are expected; 1 more have no bootstrap_expect",
        ),
        (
            EMPTY["a"],
            [*ALIVE, *(AliveServer(f"x{number}", "dc1", 0) for number in range(33))],
            "33 servers have no bootstrap_expect, and a cluster has at most 32",
        ),
        (EMPTY["a"], [*ALIVE[:2], AliveServer("c", "dc2", 3)], "2 servers are alive in dc1"),
        (replace(EMPTY["a"], expect=0), ALIVE, "bootstrap_expect is not set"),
        (replace(EMPTY["a"], is_empty=False), ALIVE, "this server has a log already"),
        (replace(EMPTY["a"], cluster_id="xyz"), ALIVE, "this server has a log already"),
    ],
    ids=[
        "too few",
        "too many",
        "other expect",
        "no expect",
        "many beside",
        "another datacenter",
        "own unset",
        "own log",
        "own cluster",
    ],
)
def test_what_speaks_against_it_is_said(own: ServerStanding, alive: list[AliveServer], reason: str) -> None:
    decision = decide(own, alive, others("a"))
    assert isinstance(decision, KeepWaiting)
    assert decision.reason.startswith(reason)

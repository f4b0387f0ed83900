from __future__ import annotations

import pytest

from adsum.watch_plan import BadWatch, News, Watcher, WatchPlan, plan_of


def event(name: str) -> dict[str, str]:
    return {"ID": name, "Payload": ""}


@pytest.mark.parametrize(
    ("kind", "given", "path", "query"),
    [
        ("key", {"key": "/a b/c"}, "/v1/kv/a b/c", ()),
        ("keyprefix", {"prefix": "a/"}, "/v1/kv/a/", (("recurse", "1"),)),
        ("services", {}, "/v1/catalog/services", ()),
        ("nodes", {"filter": 'Meta.a == "b"'}, "/v1/catalog/nodes", (("filter", 'Meta.a == "b"'),)),
        ("service", {"service": "web"}, "/v1/health/service/web", ()),
        ("checks", {}, "/v1/health/state/any", ()),
        ("checks", {"state": "critical"}, "/v1/health/state/critical", ()),
        ("checks", {"service": "web"}, "/v1/health/checks/web", ()),
        ("event", {"name": "deploy"}, "/v1/event/list", (("name", "deploy"),)),
    ],
)
def test_each_type_asks_its_own_question(
    kind: str, given: dict[str, str], path: str, query: tuple[tuple[str, str], ...]
) -> None:
    assert plan_of(kind, given) == WatchPlan(kind, path, query)


def test_what_is_asked_of_a_service_and_by_whom_is_in_the_query() -> None:
    plan = plan_of("service", {"service": "w"}, ("a", "b"), passing_only=True, stale=True, datacenter="dc2")
    assert plan.query == (("dc", "dc2"), ("stale", "1"), ("tag", "a"), ("tag", "b"), ("passing", "1"))


def test_a_parameter_of_another_type_is_refused() -> None:
    for bad in ({"key": "a"}, {"name": "a"}):
        with pytest.raises(BadWatch, match="a watch of type nodes takes no"):
            plan_of("nodes", bad)
    with pytest.raises(BadWatch, match="takes no tag"):
        plan_of("nodes", {}, ("a",))


def test_an_answer_is_news_if_its_index_moved_and_it_says_something_else() -> None:
    watcher = Watcher(plan_of("nodes", {}))
    assert watcher.query() == []
    assert watcher.heard(5, ["a"]) == News(5, ["a"])
    assert watcher.query() == [("index", "5")]
    assert watcher.heard(5, ["a"]) is None
    assert watcher.heard(6, ["a"]) is None
    assert watcher.heard(7, ["a", "b"]) == News(7, ["a", "b"])


def test_what_is_not_there_is_told_at_first_and_when_it_goes() -> None:
    watcher = Watcher(plan_of("key", {"key": "a"}))
    assert watcher.heard(1, None) == News(1, None)
    assert watcher.heard(2, None) is None
    assert watcher.heard(3, [{"Key": "a", "Value": None}]) is not None
    assert watcher.heard(4, None) == News(4, None)


def test_an_index_that_fell_is_forgotten() -> None:
    watcher = Watcher(plan_of("nodes", {}))
    watcher.heard(5, ["a"])
    assert watcher.heard(3, ["a"]) is None
    assert watcher.query() == []
    assert watcher.heard(3, ["b"]) == News(3, ["b"])


def test_events_are_handed_over_once_whichever_way_their_indexes_go() -> None:
    watcher = Watcher(plan_of("event", {}))
    assert watcher.heard(9, [event("1")]) == News(9, [event("1")])
    assert watcher.heard(4, [event("1"), event("2")]) == News(4, [event("2")])
    assert watcher.query() == [("index", "4")]
    assert watcher.heard(7, [event("1"), event("2")]) is None
    assert watcher.heard(8, [event("8"), event("9")]) == News(8, [event("8"), event("9")])

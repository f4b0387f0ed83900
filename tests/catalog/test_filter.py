"""`filter_vectors.json` holds expressions and what Consul 1.8.7 answered over the catalog of `_world`:
ids in order, or the error after its usual beginning. Where we differ on purpose, a test says so by name."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from adsum.catalog.bad_filter import PREFIX, BadFilter, TooCostly
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.filter import Fields, compile_filter
from adsum.catalog.filter_fields import CHECK, HEALTH_ENTRY, NODE, NODE_SERVICE, SERVICE_NODE
from adsum.catalog.filter_grammar import DEPTH_MAX, EXPRESSION_CHARACTERS_MAX, MATCHES_MAX, parse_filter
from adsum.catalog.model import Check, Node, PlacedCheck, Service
from adsum.catalog.view import Instance, View
from adsum.now import Now

NOW = Now(0, 1_000)
LETTERS = r"\pL"
VECTORS: dict[str, dict[str, list[str] | str]] = json.loads(
    (Path(__file__).parent / "filter_vectors.json").read_text()
)


def _world() -> View:
    view = View(NOW, tag=1)
    alpha_meta = {"rack": "r1", "os": "linux", "empty": "", "a-b": "dash", "sp ace": "x"}
    alpha_id = "11111111-1111-1111-1111-111111111111"
    alpha_addresses = {"lan": "10.0.0.1", "wan": "1.1.1.1"}
    for node in (
        _node("alpha", "10.0.0.1", node_id=alpha_id, meta=alpha_meta, tagged_addresses=alpha_addresses),
        _node("beta", "10.0.0.2", meta={"rack": "r2"}),
        _node("gamma", "10.0.0.3"),
    ):
        view.put_node(NOW, "owner", node)
    _put_services(view)
    _put_checks(view)
    return view


def _node(
    name: str,
    address: str,
    *,
    node_id: str = "",
    meta: dict[str, str] | None = None,
    tagged_addresses: dict[str, str] | None = None,
) -> Node:
    return Node(
        node_id=node_id,
        name=name,
        address=address,
        datacenter="dc1",
        meta=meta or {},
        tagged_addresses=tagged_addresses or {},
    )


def _put_services(view: View) -> None:
    web1 = Service(
        service_id="web1",
        name="web",
        tags=("a", "b"),
        port=80,
        meta={"v": "1", "x": ""},
        weight_passing=5,
        weight_warning=2,
        enable_tag_override=True,
        tagged_addresses={"lan": ("10.1.0.1", 8080), "virtual": ("", 0)},
    )
    web3_tags = ("A-x", "prim ary", "a.b")
    proxy = Service(
        service_id="web3-sidecar-proxy",
        name="web-sidecar-proxy",
        kind="connect-proxy",
        port=20_000,
        proxy={
            "DestinationServiceName": "web",
            "DestinationServiceID": "web3",
            "LocalServiceAddress": "127.0.0.1",
            "LocalServicePort": 99,
            "Config": {"a": 1},
            "Upstreams": [{"DestinationName": "db", "LocalBindPort": 123, "DestinationType": "service"}],
        },
    )
    view.put_service(NOW, "alpha", web1)
    view.put_service(NOW, "beta", Service(service_id="web2", name="web", address="1.2.3.4"))
    web3 = Service(service_id="web3", name="web", tags=web3_tags, port=65_535, meta={"v": "2"})
    view.put_service(NOW, "gamma", web3)
    view.put_service(NOW, "gamma", proxy)


def _put_checks(view: View) -> None:
    of_web1 = Check(
        check_id="c1",
        name="chk one",
        status=CheckStatus.PASSING,
        output="ok 200\nfine",
        notes="n",
        kind="http",
        service_id="web1",
        service_name="web",
        service_tags=("a", "b"),
    )
    view.put_check(NOW, "alpha", of_web1)
    view.put_check(NOW, "alpha", Check(check_id="n1", name="node chk", status=CheckStatus.WARNING))
    of_web2 = Check(
        check_id="c2", name="chk two", status=CheckStatus.CRITICAL, service_id="web2", service_name="web"
    )
    view.put_check(NOW, "beta", of_web2)


WORLD = _world()
WEB = WORLD.instances("web")


def _answer(
    expression: str, fields: Fields, items: Iterable[object], name: Callable[[object], str]
) -> list[str] | str:
    try:
        holds = compile_filter(expression, fields)
        return [name(item) for item in items if holds(item)]
    except BadFilter as error:
        return str(error).removeprefix(PREFIX)


def _instance_id(item: object) -> str:
    assert isinstance(item, Instance)
    return item.service.value.service_id


def _check_id(item: object) -> str:
    assert isinstance(item, PlacedCheck)
    return item.check.check_id


def _node_name(item: object) -> str:
    assert isinstance(item, Node)
    return item.name


def _of_web(expression: str, fields: Fields = SERVICE_NODE) -> list[str] | str:
    return _answer(expression, fields, WEB, _instance_id)


CHECKS = [PlacedCheck(host.name, row.value) for host, row in WORLD.checks()]
NODES = [host.node.value for host in WORLD.nodes()]
PROXIES = WORLD.instances("web-sidecar-proxy")


@pytest.mark.parametrize(
    ("family", "fields", "items", "name"),
    [
        ("SERVICE_NODE", SERVICE_NODE, WEB, _instance_id),
        ("HEALTH_ENTRY", HEALTH_ENTRY, WEB, _instance_id),
        ("HEALTH_ENTRY_OF_PROXY", HEALTH_ENTRY, PROXIES, _instance_id),
        ("CHECK", CHECK, CHECKS, _check_id),
        ("NODE", NODE, NODES, _node_name),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_answers_are_consuls(
    family: str, fields: Fields, items: list[object], name: Callable[[object], str]
) -> None:
    ours = {expression: _answer(expression, fields, items, name) for expression in VECTORS[family]}
    assert ours == VECTORS[family]


def test_every_error_has_consuls_beginning() -> None:
    with pytest.raises(BadFilter, match=f"^{PREFIX}1:1 "):
        compile_filter("", NODE)


def test_services_of_a_node_are_selected_by_their_own_field_names() -> None:
    web1 = WEB[0].service.value
    assert compile_filter(
        'Service == web and Tags contains a and Meta.v == "1" and Port == 80', NODE_SERVICE
    )(web1)
    assert not compile_filter("Weights.Passing != 5", NODE_SERVICE)(web1)


def test_a_selector_through_a_list_holds_if_any_element_does_even_when_negated() -> None:
    # alpha's check of the node is warning, so "some check is not passing" holds for web1 as well
    assert _of_web("Checks.Status != passing", HEALTH_ENTRY) == ["web1", "web2"]
    assert _of_web("not Checks.Status == passing", HEALTH_ENTRY) == ["web2", "web3"]


@pytest.mark.parametrize("match", ['== ""', "contains x", "matches `.*`", "is not empty"])
def test_missing_map_key_answers_no(match: str) -> None:
    assert _of_web(f"ServiceMeta.nope {match}") == []


@pytest.mark.parametrize("match", ['!= ""', "not contains x", "not matches `.*`", "is empty"])
def test_missing_map_key_answers_yes_to_a_negation(match: str) -> None:
    assert _of_web(f"ServiceMeta.nope {match}") == ["web1", "web2", "web3"]


def test_a_missing_key_never_matches_where_consul_says_it_always_does() -> None:
    # Consul 1.8.7 answers all three: there, both `matches` and `not matches` hold for a missing key.
    assert _of_web('TaggedAddresses.lan matches "10.0.0"') == ["web1"]
    assert _of_web('ServiceTaggedAddresses["lan"].Address matches 10') == ["web1"]


def test_texts_may_be_asked_for_emptiness_as_in_newer_consul() -> None:
    # Consul 1.8.7: Invalid match operator "Is Empty" for selector "ServiceAddress".
    assert _of_web("ServiceAddress is empty") == ["web1", "web3"]
    assert _of_web("ServiceAddress is not empty") == ["web2"]
    assert _of_web("ServiceMeta.x is empty") == ["web1", "web2", "web3"]


def test_services_may_be_asked_whether_they_speak_for_a_mesh_themselves() -> None:
    # Consul 1.8.7 closes the connection without an answer.
    native = Service(service_id="n", name="n", connect={"Native": True})
    is_native = compile_filter("Connect.Native == true", NODE_SERVICE)
    assert (is_native(native), is_native(Service(service_id="p", name="p"))) == (True, False)


def test_a_wrong_selector_is_refused_before_any_item_is_seen() -> None:
    with pytest.raises(BadFilter, match='Selector "Nope" is not valid'):
        compile_filter("ServiceID == web1 or Nope == 1", SERVICE_NODE)


def test_settings_of_another_type_than_expected_count_as_unset() -> None:
    odd = Service(service_id="x", name="x", proxy={"LocalServicePort": "99", "Upstreams": {"a": 1}})
    assert compile_filter("Proxy.LocalServicePort == 0 and Proxy.Upstreams is empty", NODE_SERVICE)(odd)


def test_list_of_one_object_without_settings_is_not_empty() -> None:
    proxy = Service(service_id="x", name="x", proxy={"Upstreams": [{}]})
    assert compile_filter("Proxy.Upstreams is not empty", NODE_SERVICE)(proxy)


def test_thirty_parentheses_are_read_at_once() -> None:
    # eight take Consul 1.8.7 half a second, each further one several times as long
    assert _of_web("(" * 30 + "ServiceID == web1" + ")" * 30) == ["web1"]
    assert "Unmatched parentheses" in _of_web("(" * 30 + "ServiceID == web1")


@pytest.mark.parametrize("nesting", ["(", "not "])
def test_nesting_has_a_limit(nesting: str) -> None:
    with pytest.raises(BadFilter, match=f"nested deeper than {DEPTH_MAX} levels"):
        compile_filter(nesting * 2_000 + "ServiceID == web1", SERVICE_NODE)


def test_length_and_comparisons_have_limits() -> None:
    with pytest.raises(BadFilter, match="longer than"):
        compile_filter(" " * EXPRESSION_CHARACTERS_MAX + "ServiceID == web1", SERVICE_NODE)
    with pytest.raises(BadFilter, match="comparisons"):
        compile_filter(" or ".join(["ServiceID == w"] * (MATCHES_MAX + 1)), SERVICE_NODE)
    assert _of_web(" or ".join(["ServiceID == web2"] * MATCHES_MAX)) == ["web2"]


@pytest.mark.parametrize("pattern", ["a.{9}b", "(a|b)*a(a|b){20}c", "(a+)+$"])
def test_a_regular_expression_that_gets_too_costly_is_refused_when_it_does(pattern: str) -> None:
    holds = compile_filter(f"Output matches `{pattern}`", CHECK)
    placed = PlacedCheck("n", Check(check_id="c", name="c", status=CheckStatus.PASSING, output="a" * 60_000))
    with pytest.raises(TooCostly, match="needs too much work; make it simpler"):
        list(filter(holds, [placed] * 100))


def test_names_of_groups_may_be_written_as_in_newer_go() -> None:
    # Consul 1.8.7: invalid or unsupported Perl syntax: `(?<`.
    assert _of_web('ServiceID matches "(?<n>w)"') == ["web1", "web2", "web3"]


# Each of them cost 0.3 to 4 s while every regular expression had a budget of its own, and comparisons none.
COSTLY = {
    "many patterns to make": " or ".join(['Notes matches "a.{400}b"'] * 250),
    "many patterns that are slow": " or ".join(['Output matches ".{0,239}a!"'] * 250),
    "classes of Unicode": " or ".join([f"Output matches `{LETTERS * 300}`"] * 8),
    "many comparisons": " or ".join([f"Node == n{n}" for n in range(250)]),
    "many lists of texts": " or ".join([f"ServiceTags contains n{n}" for n in range(250)]),
}


@pytest.mark.parametrize("expression", COSTLY.values(), ids=COSTLY.keys())
def test_all_of_an_expression_draws_on_one_account(expression: str) -> None:
    """A yardstick on the same machine: reading the longest list of comparisons that is allowed, 1.5 ms."""
    yardstick = " or ".join(["ServiceID == w"] * MATCHES_MAX)
    check = Check(
        check_id="c", name="c", status=CheckStatus.PASSING, output="a" * 200, service_tags=("x",) * 20
    )
    items = [PlacedCheck("n", check)] * 1_000
    spent_ns = _processor_ns(lambda: _refused(expression, items))
    assert spent_ns < 100 * _processor_ns(lambda: parse_filter(yardstick))


def _refused(expression: str, items: list[PlacedCheck]) -> None:
    with pytest.raises(TooCostly, match="too much work"):
        list(filter(compile_filter(expression, CHECK), items))


def _processor_ns(work: Callable[[], object]) -> int:
    """Of the fastest of three: what else the processor had to do is not counted."""
    spent = []
    for _ in range(3):
        begun = time.process_time_ns()
        work()
        spent.append(time.process_time_ns() - begun)
    return min(spent)


@pytest.mark.parametrize(
    "expression",
    [
        'ServiceMeta.v == "1" and "v1" in ServiceTags and Node != n3',
        'ServiceMeta.v == "1" and "v1" in ServiceTags and ServiceID matches "web-[0-9]+-prod"',
        'ServiceID contains "production" or ServiceAddress matches "^10[.]0[.]"',
    ],
)
def test_what_people_ask_may_be_asked_about_twenty_thousand_services(expression: str) -> None:
    view = View(NOW, tag=1)
    view.put_node(NOW, "owner", _node("n1", "10.0.0.1"))
    service = Service(
        service_id="web-12345-production.eu1", name="w", tags=("a", "v1"), meta={"v": "1"}, address="10.0.0.1"
    )
    view.put_service(NOW, "n1", service)
    items = list(view.instances("w")) * 20_000
    assert len(list(filter(compile_filter(expression, SERVICE_NODE), items))) == 20_000


def test_objects_that_a_selector_leads_through_are_paid_for() -> None:
    view = View(NOW, tag=1)
    view.put_node(NOW, "owner", _node("n1", "10.0.0.1"))
    view.put_service(NOW, "n1", Service(service_id="w", name="w"))
    for n in range(1_000):
        view.put_check(NOW, "n1", Check(check_id=f"c{n}", name="c", status=CheckStatus.PASSING))
    for expression in ("Checks.Status == warning", "Checks is empty"):
        with pytest.raises(TooCostly, match="compare less, or ask about one service or node"):
            list(filter(compile_filter(expression, HEALTH_ENTRY), list(view.instances("w")) * 1_000))


@pytest.mark.parametrize("expression", ["Output contains b", "ServiceTags contains b", "Output matches b"])
def test_the_length_of_what_is_searched_is_paid_for(expression: str) -> None:
    check = Check(
        check_id="c", name="c", status=CheckStatus.PASSING, output="a" * 10_000, service_tags=("a",) * 1_000
    )
    with pytest.raises(TooCostly, match="too much work"):
        list(filter(compile_filter(expression, CHECK), [PlacedCheck("n", check)] * 1_000))

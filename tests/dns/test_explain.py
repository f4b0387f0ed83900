"""The sentences of `adsum resolve`, literally."""

from __future__ import annotations

from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import Check
from adsum.dns import wire
from adsum.dns.explain import explain
from adsum.dns.settings import DnsSettings, Recursor
from tests.dns.support import NOW, Catalog

WARNED = (
    "web2 on n1 (10.0.0.2, port 81) is left out: it is warning, and only_passing is set. "
    'Check "web" is warning.'
)


def test_service_tells_who_is_given_and_who_is_left_out_and_why(catalog: Catalog) -> None:
    assert explain(catalog.view, DnsSettings(only_passing=True), "web.service.consul", wire.SRV) == [
        "web.service.consul. asks for the service web.",
        "Of 3 registered, 1 can be given.",
        "web1 on n1 (127.0.0.1, port 80) is passing and is given.",
        WARNED,
        'web3 on n1 (10.0.0.3, port 83) is left out: it is critical. Check "web" is critical.',
        "The answer is NOERROR with 1 record:",
        "web.service.consul. 0 IN SRV 1 5 80 n1.node.dc1.consul.",
    ]


def test_tag_is_named_as_the_reason(catalog: Catalog) -> None:
    sentences = explain(catalog.view, DnsSettings(), "c.web.service.consul", wire.A)
    assert "web1 on n1 (127.0.0.1, port 80) is left out: it does not carry the tag c." in sentences


def test_every_check_that_fails_is_named_and_maintenance_by_its_reason(catalog: Catalog) -> None:
    failing = Check(check_id="disk", name="disk", status=CheckStatus.CRITICAL, output="full\nof cats")
    maintenance = Check(
        check_id="_node_maintenance",
        name="Node Maintenance Mode",
        status=CheckStatus.CRITICAL,
        notes="new disk",
    )
    for check in (failing, maintenance):
        catalog.view.put_check(NOW, "n1", check)
    sentences = explain(catalog.view, DnsSettings(), "web.service.consul", wire.A)
    assert (
        "web1 on n1 (127.0.0.1, port 80) is left out: it is critical. "
        'Check "Node Maintenance Mode" is critical (new disk); check "disk" is critical (full).'
    ) in sentences


def test_the_zone_itself_is_told_as_what_it_is_with_its_record_as_dig_writes_it(catalog: Catalog) -> None:
    assert explain(catalog.view, DnsSettings(), "consul.", wire.SOA) == [
        "consul. is our zone itself.",
        "The answer is NOERROR with 1 record:",
        "consul. 0 IN SOA ns.consul. hostmaster.consul. 1795003745 3600 600 86400 0",
    ]
    assert explain(catalog.view, DnsSettings(), "Adsum", wire.NS) == [
        "adsum. is our zone itself.",
        "Its name servers are the servers of the catalog.",
        "The answer is NOERROR with 1 record:",
        "adsum. 0 IN NS n1.node.dc1.adsum.",
    ]
    assert explain(catalog.view, DnsSettings(), "consul", wire.A) == [
        "consul. is our zone itself.",
        "It has records of the types SOA and NS only, each to be asked for by its type.",
        "The answer is NXDOMAIN with no records.",
    ]


def test_what_only_the_zone_has_is_said_to_be_the_zone_s_whatever_name_is_asked(catalog: Catalog) -> None:
    assert explain(catalog.view, DnsSettings(), "nobody.consul", wire.NS) == [
        "nobody.consul. is in our zone consul, and for this type the zone itself answers.",
        "Its name servers are the servers of the catalog.",
        "The answer is NOERROR with 1 record:",
        "consul. 0 IN NS n1.node.dc1.consul.",
    ]


def test_a_bare_name_is_told_what_the_whole_one_would_be(catalog: Catalog) -> None:
    assert explain(catalog.view, DnsSettings(), "web", wire.A)[:2] == [
        "web. is outside our domains (consul, adsum).",
        "If it is a service, ask for web.service.consul; if a node, for web.node.consul.",
    ]


def test_wrong_data_centre_is_named_as_the_reason(catalog: Catalog) -> None:
    assert explain(catalog.view, DnsSettings(), "web.service.dc9.consul", wire.A) == [
        "web.service.dc9.consul. is in our domain consul, but there is no data centre dc9 here, only dc1.",
        "The answer is NXDOMAIN with no records.",
    ]


def test_node_shows_its_meta(catalog: Catalog) -> None:
    sentences = explain(catalog.view, DnsSettings(), "n1.node.consul", wire.ANY)
    assert 'n1.node.consul. 0 IN TXT "rack=r1"' in sentences


def test_unknown_node_unknown_service_and_no_name_are_told_apart(catalog: Catalog) -> None:
    def first(name: str) -> str:
        return explain(catalog.view, DnsSettings(), name, wire.A)[0]

    assert (
        first("x.node.consul")
        == "x.node.consul. asks for the node x, and there is no such node in the catalog."
    )
    assert first("x.service.consul") == "x.service.consul. asks for the service x."
    assert first("a..b").startswith("a..b is no DNS name")


def test_other_peoples_names_go_to_the_recursors(catalog: Catalog) -> None:
    settings = DnsSettings(recursors=(Recursor(host="192.0.2.53"), Recursor(host="192.0.2.54", port=5353)))
    assert explain(catalog.view, settings, "www.example.com", wire.A) == [
        "www.example.com. is outside our domains (consul, adsum).",
        "The question goes to the recursors: 192.0.2.53, 192.0.2.54 port 5353.",
    ]


def test_chain_that_leaves_our_domains_says_where(catalog: Catalog) -> None:
    assert explain(catalog.view, DnsSettings(), "ext.node.consul", wire.A)[-1] == (
        "The chain of aliases leaves our domains at www.example.com and ends here, for want of recursors."
    )


def test_long_lists_are_cut(catalog: Catalog) -> None:
    for number in range(130):
        catalog.service(f"crowd{number}", "crowd", port=number)
    assert "The other 30 are not listed here." in explain(
        catalog.view, DnsSettings(), "crowd.service.consul", wire.A
    )


def test_every_type_of_name_can_be_explained(catalog: Catalog) -> None:
    for name in (
        "consul",
        "0a000002.addr.consul",
        "2.0.0.10.in-addr.arpa",
        "10.in-addr.arpa",
        "v6.service.consul",
    ):
        for qtype in wire.TYPE_NAMES:
            assert explain(catalog.view, DnsSettings(), name, qtype)

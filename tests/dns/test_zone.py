"""The transcripts of the contract, section 3.5, and what we settled where Consul's versions differ."""

from __future__ import annotations

import dns.flags
import dns.message
import dns.rcode
import pytest

from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import Node
from adsum.dns.answers import Transport
from adsum.dns.settings import DnsSettings, Recursor, Soa
from adsum.now import Now
from tests.dns.support import NOW, Ask, Catalog, asker, lines

NODE_TEXTS = ['"consul-network-segment="', '"rack=r1"', '"v"']


def texts_of(name: str) -> list[str]:
    return [f"{name} 0 IN TXT {text}" for text in NODE_TEXTS]


def has_soa(answer: dns.message.Message, zone: str = "consul.") -> bool:
    fields = [line.split(" ") for line in lines(answer.authority)]
    serials = [int(each.pop(6)) for each in fields]
    expected = f"{zone} 0 IN SOA ns.{zone} hostmaster.{zone} 3600 600 86400 0".split(" ")
    return fields == [expected] and serials[0] >= NOW.wall_ms // 1000


def is_nothing(answer: dns.message.Message) -> bool:
    return answer.rcode() == dns.rcode.NXDOMAIN and not answer.answer and has_soa(answer)


def is_no_data(answer: dns.message.Message) -> bool:
    return answer.rcode() == dns.rcode.NOERROR and not answer.answer and has_soa(answer)


def test_node_answers_its_address_with_its_meta_beside_it(ask: Ask) -> None:
    answer = ask("n1.node.consul")
    assert lines(answer.answer) == ["n1.node.consul. 0 IN A 127.0.0.1"]
    assert lines(answer.additional) == texts_of("n1.node.consul.")
    assert answer.flags & dns.flags.AA
    assert not answer.flags & dns.flags.RA


def test_node_any_has_address_and_meta_in_the_answer(ask: Ask) -> None:
    answer = ask("n1.node.consul", "ANY")
    assert lines(answer.answer) == ["n1.node.consul. 0 IN A 127.0.0.1", *texts_of("n1.node.consul.")]
    assert not answer.additional


def test_node_txt_is_its_meta(ask: Ask) -> None:
    assert lines(ask("n1.node.consul", "TXT").answer) == texts_of("n1.node.consul.")


@pytest.mark.parametrize("rdtype", ["SRV", "MX", "AAAA"])
def test_node_without_that_type_is_no_data_with_soa(ask: Ask, rdtype: str) -> None:
    assert is_no_data(ask("n1.node.consul", rdtype))


@pytest.mark.parametrize(
    "name",
    [
        "nope.node.consul",
        "nope.service.consul",
        "zz.web.service.consul",
        "web.service.dc9.consul",
        "n1.node.dc9.consul",
        "n1.node.a.dc1.consul",
        "My_Svc.X.service.consul",
        "consul",
        "dc1.consul",
        "service.consul",
        "web.connect.consul",
        "web.ingress.consul",
        "web.virtual.consul",
        "nope.query.consul",
    ],
)
def test_unknown_name_is_nxdomain_with_soa(ask: Ask, name: str) -> None:
    assert is_nothing(ask(name))


@pytest.mark.parametrize("rdtype", ["SRV", "CNAME", "MX", "TXT", "AAAA", "ANY"])
def test_unknown_node_is_nxdomain_whatever_the_type(ask: Ask, rdtype: str) -> None:
    assert is_nothing(ask("nope.node.consul", rdtype))


@pytest.mark.parametrize("name", ["n1.node.dc1.consul", "n1.node.dc1.dc.consul", "N1.NODE.DC1.consul"])
def test_own_data_centre_may_be_named(ask: Ask, name: str) -> None:
    assert lines(ask(name).answer) == [f"{name}. 0 IN A 127.0.0.1"]


def test_node_name_may_contain_dots(ask: Ask) -> None:
    assert lines(ask("dot.ted.node.consul").answer) == ["dot.ted.node.consul. 0 IN A 10.9.9.9"]


def test_service_a_leaves_out_critical_instances(ask: Ask) -> None:
    answer = ask("web.service.consul")
    assert lines(answer.answer) == [
        "web.service.consul. 0 IN A 10.0.0.2",
        "web.service.consul. 0 IN A 127.0.0.1",
    ]
    assert not answer.additional
    assert not answer.authority


def test_service_srv_names_targets_that_its_additional_section_resolves(ask: Ask) -> None:
    answer = ask("web.service.consul", "SRV")
    assert lines(answer.answer) == [
        "web.service.consul. 0 IN SRV 1 1 81 0a000002.addr.dc1.consul.",
        "web.service.consul. 0 IN SRV 1 5 80 n1.node.dc1.consul.",
    ]
    assert lines(answer.additional) == [
        "0a000002.addr.dc1.consul. 0 IN A 10.0.0.2",
        "n1.node.dc1.consul. 0 IN A 127.0.0.1",
        *sorted(texts_of("n1.node.dc1.consul.") * 2),  # once for each of its instances, as Consul has it
    ]


@pytest.mark.parametrize("name", ["_web._tcp.service.consul", "_web._tcp.consul", "_web._tcp.dc1.consul"])
def test_rfc_2782_names_mean_the_service(ask: Ask, name: str) -> None:
    assert [line.split(" ", 2)[2] for line in lines(ask(name, "SRV").answer)] == [
        "IN SRV 1 1 81 0a000002.addr.dc1.consul.",
        "IN SRV 1 5 80 n1.node.dc1.consul.",
    ]


def test_protocol_other_than_tcp_is_a_tag(ask: Ask) -> None:
    assert lines(ask("_web._c.service.consul").answer) == ["_web._c.service.consul. 0 IN A 10.0.0.2"]
    assert is_nothing(ask("_web._udp.service.consul", "SRV"))


def test_tag_selects_instances_without_regard_to_case_or_dots(ask: Ask) -> None:
    assert len(lines(ask("c.web.service.consul", "SRV").answer)) == 1
    assert len(lines(ask("x.Y.dotted.service.consul").answer)) == 1


@pytest.mark.parametrize("rdtype", ["AAAA", "MX", "TXT", "CNAME"])
def test_service_without_that_type_is_no_data_with_soa(ask: Ask, rdtype: str) -> None:
    assert is_no_data(ask("web.service.consul", rdtype))


def test_service_any_is_its_addresses(ask: Ask) -> None:
    assert len(lines(ask("web.service.consul", "ANY").answer)) == 2


def test_ipv6_instance_answers_aaaa_and_srv_only(ask: Ask) -> None:
    target = "20010db8000000000000000000000001.addr.dc1.consul."
    answer = ask("v6.service.consul", "SRV")
    assert lines(answer.answer) == [f"v6.service.consul. 0 IN SRV 1 1 82 {target}"]
    assert f"{target} 0 IN AAAA 2001:db8::1" in lines(answer.additional)
    assert lines(ask("v6.service.consul", "AAAA").answer) == ["v6.service.consul. 0 IN AAAA 2001:db8::1"]
    assert is_no_data(ask("v6.service.consul", "A"))


def test_twenty_instances_give_three_without_edns_and_all_with_it_or_over_tcp(ask: Ask) -> None:
    assert len(lines(ask("many.service.consul").answer)) == 3
    assert len(lines(ask("many.service.consul", edns=1232).answer)) == 20
    over_tcp = dns.message.from_wire(
        ask("many.service.consul", "SRV", transport=Transport.TCP).to_wire(), one_rr_per_rrset=True
    )
    assert len(over_tcp.answer) == 20


def test_trimmed_answer_says_so(ask: Ask) -> None:
    assert ask("many.service.consul").flags & dns.flags.TC
    assert not ask("web.service.consul").flags & dns.flags.TC


def test_trimmed_answer_is_silent_when_truncation_is_switched_off(catalog: Catalog) -> None:
    ask = asker(catalog.view, DnsSettings(enable_truncate=False))
    assert not ask("many.service.consul").flags & dns.flags.TC


def test_srv_without_edns_counts_512_bytes_uncompressed(catalog: Catalog) -> None:
    settings = DnsSettings(udp_answer_limit=5, enable_additional_node_meta_txt=False)
    answer = asker(catalog.view, settings)("many.service.consul", "SRV")
    assert len(lines(answer.answer)) == len(lines(answer.additional)) == 4
    assert answer.flags & dns.flags.TC


def test_host_name_as_node_address_is_an_alias(ask: Ask) -> None:
    for rdtype in ("A", "AAAA", "CNAME", "MX", "TXT", "CAA"):  # an alias stands for every type
        answer = ask("search.service.consul", rdtype)
        assert lines(answer.answer) == ["search.service.consul. 0 IN CNAME www.example.com."]
    assert lines(ask("search.service.consul", "SRV").answer) == [
        "search.service.consul. 0 IN SRV 1 1 8080 www.example.com."
    ]
    assert lines(ask("ext.node.consul").answer) == ["ext.node.consul. 0 IN CNAME www.example.com."]


def test_alias_inside_our_domain_is_followed(ask: Ask) -> None:
    chain = [
        "cn.service.consul. 0 IN CNAME web.service.consul.",
        "web.service.consul. 0 IN A 10.0.0.2",
        "web.service.consul. 0 IN A 127.0.0.1",
    ]
    assert lines(ask("cn.service.consul").answer) == chain
    answer = ask("cn.service.consul", "SRV")
    assert lines(answer.answer) == ["cn.service.consul. 0 IN SRV 1 1 84 web.service.consul."]
    assert lines(answer.additional) == sorted([*chain[1:], *texts_of("n1.node.dc1.consul.")])


def test_circle_of_aliases_stops(ask: Ask) -> None:
    assert lines(ask("loop1.service.consul").answer) == [
        "loop1.service.consul. 0 IN CNAME loop2.service.consul.",
        "loop2.service.consul. 0 IN CNAME loop1.service.consul.",
    ]


def test_long_chain_of_aliases_stops(catalog: Catalog) -> None:
    for number in range(8):
        catalog.service(f"link{number}", address=f"link{number + 1}.service.consul")
    answer = asker(catalog.view, DnsSettings())("link0.service.consul", transport=Transport.TCP)
    assert len(lines(answer.answer)) == 4


def test_service_that_is_its_own_alias_means_its_node(ask: Ask) -> None:
    assert lines(ask("self.service.consul").answer) == ["self.service.consul. 0 IN A 127.0.0.1"]
    assert lines(ask("Self.Service.consul", "SRV").answer) == [
        "Self.Service.consul. 0 IN SRV 1 1 86 n1.node.dc1.consul."
    ]


def test_alias_gives_way_to_addresses(ask: Ask) -> None:
    assert lines(ask("mixed.service.consul").answer) == ["mixed.service.consul. 0 IN A 10.0.0.9"]
    assert is_no_data(ask("mixed.service.consul", "AAAA"))


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("2.0.0.10.in-addr.arpa", "web.service.dc1.consul."),
        ("1.0.0.127.in-addr.arpa", "n1.node.dc1.consul."),
        (
            "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
            "v6.service.dc1.consul.",
        ),
    ],
)
def test_pointer_leads_to_the_node_first_and_then_to_the_service(ask: Ask, name: str, target: str) -> None:
    assert lines(ask(name, "PTR").answer) == [f"{name}. 0 IN PTR {target}"]


@pytest.mark.parametrize("rdtype", ["A", "TXT", "SRV"])
def test_known_address_in_reverse_has_a_pointer_and_nothing_else(ask: Ask, rdtype: str) -> None:
    assert is_no_data(ask("2.0.0.10.in-addr.arpa", rdtype))
    assert lines(ask("2.0.0.10.in-addr.arpa", "ANY").answer) == [
        "2.0.0.10.in-addr.arpa. 0 IN PTR web.service.dc1.consul."
    ]


@pytest.mark.parametrize(
    "name", ["7.7.7.10.in-addr.arpa", "10.in-addr.arpa", "x.0.0.127.in-addr.arpa", "arpa"]
)
def test_pointer_of_an_unknown_address_is_nxdomain_with_soa(ask: Ask, name: str) -> None:
    assert is_nothing(ask(name, "PTR"))


@pytest.mark.parametrize(
    "name", ["0a000002.addr.consul", "0A000002.addr.dc1.consul", "0a000002.addr.dc9.consul"]
)
def test_address_is_spelt_in_its_name(ask: Ask, name: str) -> None:
    assert lines(ask(name).answer) == [f"{name}. 0 IN A 10.0.0.2"]


def test_address_of_the_other_family_is_no_data_with_the_address_beside_it(ask: Ask) -> None:
    answer = ask("0a000002.addr.consul", "AAAA")
    assert is_no_data(answer)
    assert lines(answer.additional) == ["0a000002.addr.consul. 0 IN A 10.0.0.2"]


@pytest.mark.parametrize("digits", ["zz", "0a00000g", "0a00000", "0a000002ff", "x.0a000002", "0a 00 00"])
def test_address_that_is_none_is_nxdomain(ask: Ask, digits: str) -> None:
    assert is_nothing(ask(f"{digits}.addr.consul"))


@pytest.mark.parametrize("name", ["consul", "foo.consul", "web.service.consul"])
def test_soa_is_answered_anywhere_in_the_zone(ask: Ask, name: str) -> None:
    answer = ask(name, "SOA")
    assert [line.split(" ")[:6] for line in lines(answer.answer)] == [
        ["consul.", "0", "IN", "SOA", "ns.consul.", "hostmaster.consul."]
    ]
    assert lines(answer.authority) == ["consul. 0 IN NS n1.node.dc1.consul."]
    assert lines(answer.additional) == ["n1.node.dc1.consul. 0 IN A 127.0.0.1"]


def test_name_servers_are_the_servers_three_at_most(catalog: Catalog) -> None:
    for number in range(4):
        catalog.node(f"s{number}", f"10.3.0.{number}")
        catalog.service("consul", node=f"s{number}")
    answer = asker(catalog.view, DnsSettings())("foo.consul", "NS")
    assert len(lines(answer.answer)) == len(lines(answer.additional)) == 3


def test_owner_names_echo_the_askers_spelling(ask: Ask) -> None:
    answer = ask("WeB.SerVice.CONsul", "SRV")
    assert {str(rrset.name) for rrset in answer.answer} == {"WeB.SerVice.CONsul."}
    again = ask("wEb.service.consul", "SRV")
    assert {str(rrset.name) for rrset in again.answer} == {"wEb.service.consul."}


def test_soa_echoes_the_askers_spelling_of_the_domain(ask: Ask) -> None:
    (soa,) = ask("WeB.SerVice.CONsul", "AAAA").authority
    assert str(soa.name) == "CONsul."


def test_serial_is_the_second_of_the_last_change(catalog: Catalog) -> None:
    ask = asker(catalog.view, DnsSettings())

    def serial() -> int:
        return int(lines(ask("consul", "SOA").answer)[0].split(" ")[6])

    before = serial()
    assert serial() == before
    catalog.view.put_node(
        Now(0, NOW.wall_ms + 90_000),
        "owner",
        Node(node_id="n9", name="n9", address="10.9.9.1", datacenter="dc1"),
    )
    assert serial() == before + 90


def test_spelling_is_echoed_without_compression_too(catalog: Catalog) -> None:
    ask = asker(catalog.view, DnsSettings(disable_compression=True))
    for name in ("WEB.service.consul.", "web.SERVICE.consul."):
        assert {str(rrset.name) for rrset in ask(name).answer} == {name}


@pytest.mark.parametrize("name", ["www.example.com", "consul.example", "notconsul", "."])
def test_other_peoples_names_are_refused_without_recursors(ask: Ask, name: str) -> None:
    answer = ask(name)
    assert answer.rcode() == dns.rcode.REFUSED
    assert not answer.flags & dns.flags.AA
    assert answer.edns == -1
    assert ask(name, edns=1232).edns == 0


def test_zone_transfer_is_not_implemented(ask: Ask) -> None:
    assert ask("consul", "AXFR").rcode() == dns.rcode.NOTIMP


def test_failed_node_still_has_its_address_and_no_service(catalog: Catalog) -> None:
    catalog.view.set_presence(NOW, "n1", is_present=False)
    ask = asker(catalog.view, DnsSettings())
    assert is_nothing(ask("web.service.consul"))
    assert lines(ask("n1.node.consul").answer) == ["n1.node.consul. 0 IN A 127.0.0.1"]


def test_node_level_check_hides_every_instance_of_the_node(catalog: Catalog) -> None:
    catalog.node_check("n1", CheckStatus.CRITICAL)
    assert is_nothing(asker(catalog.view, DnsSettings())("many.service.consul"))


def test_warning_instances_leave_when_only_passing_is_set(catalog: Catalog) -> None:
    ask = asker(catalog.view, DnsSettings(only_passing=True))
    assert lines(ask("web.service.consul").answer) == ["web.service.consul. 0 IN A 127.0.0.1"]


def test_answers_follow_the_domain_that_was_asked(catalog: Catalog) -> None:
    ask = asker(catalog.view, DnsSettings(other_domains=("alt.example.", "adsum.")))
    targets = {line.split(" ")[-1] for line in lines(ask("web.service.alt.example", "SRV").answer)}
    assert targets == {"n1.node.dc1.alt.example.", "0a000002.addr.dc1.alt.example."}
    assert has_soa(ask("nope.service.adsum"), "adsum.")


def test_own_domain_may_have_several_labels(catalog: Catalog) -> None:
    ask = asker(catalog.view, DnsSettings(domain="Disco.Example.com"))
    assert len(lines(ask("web.service.disco.example.com").answer)) == 2
    assert ask("web.service.consul").rcode() == dns.rcode.REFUSED


def test_ttls_come_from_the_settings(catalog: Catalog) -> None:
    settings = DnsSettings(
        node_ttl_s=7,
        service_ttl_s={"web": 10, "we*": 11, "mi*": 13, "*": 12, "m*": 15, "many": 14},
        soa=Soa(min_ttl_s=5),
        enable_additional_node_meta_txt=False,
    )
    ask = asker(catalog.view, settings)
    assert {rrset.ttl for rrset in ask("Web.service.consul", "SRV").answer} == {10}
    assert {rrset.ttl for rrset in ask("web.service.consul", "SRV").additional} == {10}
    assert {rrset.ttl for rrset in ask("mixed.service.consul").answer} == {13}
    assert {rrset.ttl for rrset in ask("v6.service.consul", "AAAA").answer} == {12}
    assert {rrset.ttl for rrset in ask("cn.service.consul").answer} == {12}
    assert {rrset.ttl for rrset in ask("n1.node.consul").answer} == {7}
    assert {rrset.ttl for rrset in ask("nope.service.consul").authority} == {5}


def test_a_record_limit_caps_addresses_without_calling_it_truncation(catalog: Catalog) -> None:
    answer = asker(catalog.view, DnsSettings(a_record_limit=2))("many.service.consul", edns=1232)
    assert len(lines(answer.answer)) == 2
    assert not answer.flags & dns.flags.TC


def test_instances_that_share_an_address_give_one_record_and_one_target_each_port(catalog: Catalog) -> None:
    for number in range(3):
        weights = (number + 1, 1)
        catalog.service(f"twin{number}", "twin", address="10.5.0.1", port=1000 + number // 2, weights=weights)
    ask = asker(catalog.view, DnsSettings())
    assert len(lines(ask("twin.service.consul").answer)) == 1
    assert lines(ask("twin.service.consul", "SRV").answer) == [
        "twin.service.consul. 0 IN SRV 1 1 1000 0a050001.addr.dc1.consul.",
        "twin.service.consul. 0 IN SRV 1 3 1001 0a050001.addr.dc1.consul.",
    ]


def test_meta_keys_are_escaped(catalog: Catalog) -> None:
    catalog.node("odd", "10.6.0.1", **{"a=b`c": "x y", "d": "e=f`g"})
    answer = asker(catalog.view, DnsSettings())("odd.node.consul", "TXT")
    assert lines(answer.answer) == [
        'odd.node.consul. 0 IN TXT "a`=b``c=x y"',
        'odd.node.consul. 0 IN TXT "d=e=f``g"',
    ]


def test_node_whose_name_dns_cannot_carry_is_reached_by_address(catalog: Catalog) -> None:
    catalog.node("n" * 64, "10.7.0.1")
    catalog.service("long", node="n" * 64, port=9)
    answer = asker(catalog.view, DnsSettings())("long.service.consul", "SRV")
    assert lines(answer.answer) == ["long.service.consul. 0 IN SRV 1 1 9 0a070001.addr.dc1.consul."]


def test_recursion_is_offered_where_recursors_are_configured(catalog: Catalog) -> None:
    ask = asker(catalog.view, DnsSettings(recursors=(Recursor(host="127.0.0.1"),)))
    assert ask("web.service.consul").flags & dns.flags.RA

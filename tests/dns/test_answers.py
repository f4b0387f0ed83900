"""Sizes, order and memory of rendered answers."""

from __future__ import annotations

from collections import Counter
from random import Random

import dns.flags
import dns.message
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import Check
from adsum.dns import answers as answers_module
from adsum.dns import wire
from adsum.dns.answers import Answers, Transport
from adsum.dns.settings import DnsSettings
from adsum.dns.wire import Question
from tests.dns.support import NOW, Ask, Catalog, asker, lines, standard_catalog


def question_of(name: str, qtype: int = wire.A, edns: int | None = None) -> Question:
    wire_name = wire.encode_name(name)
    assert wire_name is not None
    return Question(7, wire.RD, wire_name, qtype, edns_bytes=edns)


def reply_to(answers: Answers, question: Question, transport: Transport = Transport.UDP_HERE) -> bytes:
    head, body = answers.to(question, transport).take()
    return question.message_id.to_bytes(2) + head + question.echo + body


def firsts(ask: Ask, name: str, times: int, edns: int | None = 1232) -> Counter[str]:
    packets = (ask(name, edns=edns) for _ in range(times))
    return Counter(str(packet.answer[0][0]) for packet in packets)


def test_three_instances_come_first_in_turn(catalog: Catalog) -> None:
    catalog.node("n2", "10.0.0.7")
    catalog.service("web4", "web", node="n2")
    counts = firsts(asker(catalog.view, DnsSettings()), "web.service.consul", 300)
    assert counts == {"127.0.0.1": 100, "10.0.0.2": 100, "10.0.0.7": 100}


def test_every_instance_gets_its_share_when_only_three_fit(ask: Ask) -> None:
    given_out: Counter[str] = Counter()
    for _ in range(200):
        given_out.update(lines(ask("many.service.consul").answer))
    assert len(given_out) == 20
    assert set(given_out.values()) == {30}


def test_large_services_forget_nobody() -> None:
    catalog = Catalog()
    catalog.node("n1", "127.0.0.1")
    for number in range(100):
        catalog.service(f"big{number}", "big", address=f"10.2.0.{number + 1}")
    answers = Answers(catalog.view, DnsSettings(), Random(1))
    question = question_of("big.service.consul", edns=4096)
    address = slice(12, 16)  # of the first record, behind its pointer, type, class, TTL and length
    firsts = {answers.to(question, Transport.UDP).take()[1][address] for _ in range(100 * 33)}
    assert len(firsts) == 100


def test_order_is_the_seeds(catalog: Catalog) -> None:
    def story(seed: int) -> list[str]:
        ask = asker(catalog.view, DnsSettings(), seed)
        return [str(ask("many.service.consul", edns=1232).answer[0][0]) for _ in range(5)]

    assert story(1) == story(1)
    assert story(1) != story(2)


@pytest.mark.parametrize("qtype", [wire.A, wire.SRV, wire.ANY])
@pytest.mark.parametrize("edns", [None, 0, 512, 600, 1232, 4096, 65535])
@pytest.mark.parametrize("transport", list(Transport))
def test_answers_fit_the_room(catalog: Catalog, qtype: int, edns: int | None, transport: Transport) -> None:
    answers = Answers(catalog.view, DnsSettings(), Random(1))
    reply = reply_to(answers, question_of("many.service.consul", qtype, edns), transport)
    limits = {
        Transport.TCP: 65535,
        Transport.UDP: min(1232, max(512, edns or 0)),
        Transport.UDP_HERE: max(512, edns or 0),
    }
    assert len(reply) <= limits[transport]
    assert dns.message.from_wire(reply).answer


def test_more_srv_records_fit_when_texts_give_way(catalog: Catalog) -> None:
    answers = Answers(catalog.view, DnsSettings(), Random(1))
    reply = reply_to(answers, question_of("many.service.consul", wire.SRV, 1300))
    parsed = dns.message.from_wire(reply, one_rr_per_rrset=True)
    assert len(parsed.answer) == 20
    assert {each.rdtype for each in parsed.additional} == {dns.rdatatype.A}
    assert not parsed.flags & dns.flags.TC


def test_answers_to_other_hosts_stay_below_the_configured_size(catalog: Catalog) -> None:
    answers = Answers(catalog.view, DnsSettings(udp_bytes_max_other_hosts=800), Random(1))
    question = question_of("many.service.consul", wire.SRV, 4096)
    assert len(reply_to(answers, question, Transport.UDP)) <= 800
    assert len(reply_to(answers, question, Transport.UDP_HERE)) > 800


def test_one_record_too_large_for_udp_is_an_empty_answer_with_tc(catalog: Catalog) -> None:
    catalog.node("wordy", "10.8.0.1", essay="x" * 700)
    ask = asker(catalog.view, DnsSettings())
    answer = ask("wordy.node.consul", "TXT")
    assert not answer.answer
    assert answer.flags & dns.flags.TC
    assert ask("wordy.node.consul", "TXT", transport=Transport.TCP).answer


def test_texts_beside_an_address_are_dropped_without_tc(catalog: Catalog) -> None:
    catalog.node("wordy", "10.8.0.1", essay="x" * 700)
    answer = asker(catalog.view, DnsSettings())("wordy.node.consul")
    assert len(answer.answer) == 1
    assert not answer.additional
    assert not answer.flags & dns.flags.TC


def test_thousands_of_instances_fill_tcp_and_no_more() -> None:
    catalog = Catalog()
    catalog.node("n1", "127.0.0.1", **{f"key{number}": "x" * 200 for number in range(8)})
    for number in range(1200):
        catalog.service(f"s{number}", "s", address=f"10.{number // 250}.0.{number % 250 + 1}", port=number)
    answers = Answers(catalog.view, DnsSettings(), Random(1))
    for qtype, most in ((wire.A, 1200), (wire.SRV, 1024)):
        reply = reply_to(answers, question_of("s.service.consul", qtype), Transport.TCP)
        assert len(reply) <= answers_module.TCP_BYTES_MAX
        parsed = dns.message.from_wire(reply, one_rr_per_rrset=True)
        assert most * 0.8 < len(parsed.answer) <= most


def test_chain_without_edns_is_cut_after_five_records(catalog: Catalog) -> None:
    catalog.service("alias", address="many.service.consul")
    ask = asker(catalog.view, DnsSettings())
    assert len(lines(ask("alias.service.consul").answer)) == 6
    assert len(lines(ask("alias.service.consul", edns=1232).answer)) == 21


def test_an_answer_is_rendered_once_until_the_catalog_moves(catalog: Catalog) -> None:
    answers = Answers(catalog.view, DnsSettings(), Random(1))
    for name in ("web.service.consul", "WEB.service.CONSUL", "web.SERVICE.consul"):
        reply_to(answers, question_of(name))
    assert answers.rendered == 1
    check = Check(check_id="service:web2", name="web2", status=CheckStatus.CRITICAL, service_id="web2")
    catalog.view.put_check(NOW, "n1", check)
    parsed = dns.message.from_wire(reply_to(answers, question_of("web.service.consul")))
    assert lines(parsed.answer) == ["web.service.consul. 0 IN A 127.0.0.1"]
    assert answers.rendered == 2


def test_new_settings_are_true_at_once(catalog: Catalog) -> None:
    answers = Answers(catalog.view, DnsSettings(), Random(1))
    reply_to(answers, question_of("web.service.consul"))
    answers.reconfigure(DnsSettings(service_ttl_s={"*": 9}))
    parsed = dns.message.from_wire(reply_to(answers, question_of("web.service.consul")))
    assert parsed.answer[0].ttl == 9


def test_memory_of_answers_is_bounded(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers_module, "RENDERINGS_MAX", 10)
    answers = Answers(catalog.view, DnsSettings(), Random(1))
    for number in range(25):
        reply_to(answers, question_of(f"nope{number}.service.consul"))
    assert answers.overflows == 4


def test_what_is_asked_all_the_time_is_not_rendered_anew_for_names_that_are_asked_once(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers_module, "RENDERINGS_MAX", 10)
    answers = Answers(catalog.view, DnsSettings(), Random(1))
    for number in range(100):
        reply_to(answers, question_of("n1.node.consul"))
        reply_to(answers, question_of(f"nope{number}.service.consul"))
    assert answers.rendered == 101


STANDARD = standard_catalog()
NAMES = st.sampled_from(["web", "many", "v6", "cn", "loop1", "mixed", "search", "nope"])
OWN_LABELS = st.lists(
    st.sampled_from(
        ["web", "many", "n1", "service", "node", "addr", "_web", "_tcp", "dc1", "dc", "0a000002", "x" * 63]
    ),
    max_size=6,
)
QTYPES = st.sampled_from([*wire.TYPE_NAMES, 0, 41, 65, 65535])


@given(
    OWN_LABELS,
    st.sampled_from(["consul", "adsum", "in-addr.arpa", "com"]),
    QTYPES,
    st.none() | st.integers(0, 65535),
    st.sampled_from(list(Transport)),
    st.builds(
        DnsSettings,
        only_passing=st.booleans(),
        disable_compression=st.booleans(),
        enable_truncate=st.booleans(),
        udp_answer_limit=st.integers(-1, 50),
        a_record_limit=st.integers(0, 5),
        udp_bytes_max_other_hosts=st.integers(0, 5000),
    ),
)
def test_every_answer_parses_and_fits(
    labels: list[str], domain: str, qtype: int, edns: int | None, transport: Transport, settings: DnsSettings
) -> None:
    name = wire.encode_name(".".join([*labels, domain]))
    if name is None:
        return
    question = Question(7, 0, name, qtype, edns_bytes=edns)
    answers = Answers(STANDARD.view, settings, Random(1))
    for _ in range(3):
        reply = reply_to(answers, question, transport)
        parsed = dns.message.from_wire(reply)
        assert parsed.id == 7
        assert (parsed.edns == -1) == (edns is None)
        if transport is Transport.TCP:
            assert len(reply) <= 65535
        else:
            assert len(reply) <= max(512, edns or 0)
        if transport is Transport.UDP:
            assert len(reply) <= max(512, settings.udp_bytes_max_other_hosts)

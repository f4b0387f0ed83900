"""Asks one DNS question with dnspython and reduces the answer to comparable facts.

Answers are drawn in random order by both sides, so sections are compared as sorted lists. Glue and TXT
extras repeat in Consul; the repeats are facts too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import dns.edns
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset

from tests.conformance.case import Json, Question
from tests.conformance.normalise import Normaliser
from tests.system.agents import Agent

TIMEOUT_S = 4.0
FLAGS = ("QR", "AA", "TC", "RD", "RA")
SOA_SERIAL = re.compile(r"(?<= SOA )(\S+ \S+) \d+")
# Without EDNS a resolver may drop what is longer; the byte budget is part of the promise.
CLASSIC_BYTES_MAX = 512


def question_facts(agent: Agent, question: Question, normaliser: Normaliser) -> dict[str, Json]:
    message = make_message(question)
    ask = dns.query.tcp if question.tcp else dns.query.udp
    # one_rr_per_rrset keeps repeated records; trailing bytes would be a fault of the answer.
    response = ask(message, "127.0.0.1", TIMEOUT_S, agent.ports.dns, one_rr_per_rrset=True)
    facts: dict[str, Json] = {
        "rcode": dns.rcode.to_text(response.rcode()),
        "flags": [name for name in FLAGS if response.flags & dns.flags.from_text(name)],
        "question": [str(each) for each in response.question],
        "edns": edns_facts(response),
        "fits": fits(response, question),
    }
    for name in ("answer", "authority", "additional"):
        records = sorted(texts(getattr(response, name)))
        facts[name] = (
            counted(records) if question.counts_only else [normaliser.text(record) for record in records]
        )
    return facts


def make_message(question: Question) -> dns.message.QueryMessage:
    options = [dns.edns.ECSOption.from_text(question.subnet)] if question.subnet else None
    message = dns.message.make_query(
        question.name,
        question.type,
        question.class_,
        use_edns=0 if question.edns is not None else -1,
        payload=question.edns,
        options=options,
    )
    if not question.recursion:
        message.flags &= ~dns.flags.RD
    return message


def texts(rrsets: Iterable[dns.rrset.RRset]) -> Iterable[str]:
    for rrset in rrsets:
        for record in rrset:
            kind = dns.rdatatype.to_text(rrset.rdtype)
            line = f"{rrset.name} {rrset.ttl} {dns.rdataclass.to_text(rrset.rdclass)} {kind} {record}"
            yield SOA_SERIAL.sub(r"\1 <serial>", line)


def counted(records: list[str]) -> Json:
    """How many of each type, and their TTLs."""
    counts: dict[str, Json] = {}
    for record in records:
        _, ttl, _, kind, *_ = record.split(" ")
        have = counts.get(f"{kind} ttl {ttl}", 0)
        assert isinstance(have, int)
        counts[f"{kind} ttl {ttl}"] = have + 1
    return counts


def edns_facts(response: dns.message.Message) -> Json:
    if response.edns < 0:
        return None
    options: list[Json] = [option.to_text() for option in response.options]
    return {"version": response.edns, "payload": response.payload, "options": options}


def fits(response: dns.message.Message, question: Question) -> bool:
    limit = 65_535 if question.tcp else max(CLASSIC_BYTES_MAX, question.edns or 0)
    assert response.wire is not None
    return len(response.wire) <= limit

"""DNS under dns_config, alt_domain, node_meta and recursors.

A small resolver of our own on loopback (upstream.py) stands in for the Internet; `RESOLVER` in a
configuration is replaced by its address.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.conformance.case import RESOLVER, Case, Family, Question, Setting
from tests.conformance.worlds import NAMES, WEB

DEAD = "127.0.0.1:1"


def setting(name: str, dns_config: Mapping[str, object], **config: object) -> Setting:
    return Setting(name, {"dns_config": dns_config, **config})


NO_TXT = {"enable_additional_node_meta_txt": False}
TRUNCATE = setting("truncation", {"enable_truncate": True, "udp_answer_limit": 5, **NO_TXT})
TRUNCATE_TXT = setting("truncation with TXT extras", {"enable_truncate": True}, node_meta={"rack": "r1"})
MORE_ANSWERS = setting("answer limit 10", {"udp_answer_limit": 10})
ONE_ADDRESS = setting("a_record_limit 2", {"a_record_limit": 2})
UNCOMPRESSED = setting("no compression", {"disable_compression": True})
ONLY_PASSING = setting("only passing", {"only_passing": True})
TTLS = setting("TTLs", {"node_ttl": "7s", "service_ttl": {"web": "10s", "w*": "5s", "ma*": "6s", "*": "3s"}})
SOA = setting("SOA", {"soa": {"refresh": 1, "retry": 2, "expire": 3, "min_ttl": 4}})
ALTERNATE = setting("alt_domain", {}, alt_domain="alt.example.")
OWN_DOMAIN = setting("domain", {}, domain="Corp.Example")
FORWARDING = setting(
    "recursors", {"service_ttl": {"*": "9s"}, "recursor_timeout": "300ms"}, recursors=[RESOLVER]
)
FAILOVER = setting("the second recursor", {"recursor_timeout": "300ms"}, recursors=[DEAD, RESOLVER])
NOBODY = setting("no recursor answers", {"recursor_timeout": "300ms"}, recursors=[DEAD])


def sized(setting: Setting) -> tuple[Case, ...]:
    """How many records of each type come back; which ones is drawn at random."""
    return tuple(
        Case(
            f"{setting.name}: many {kind}{f' EDNS {edns}' if edns else ''}{' TCP' if tcp else ''}",
            (Question("many.service.consul", kind, edns=edns, tcp=tcp, counts_only=True),),
            NAMES,
            setting,
        )
        for kind in ("A", "SRV")
        for edns, tcp in (
            (None, False),
            (512, False),
            (700, False),
            (1232, False),
            (4096, False),
            (None, True),
        )
    )


def asked(setting: Setting, *names: str, types: tuple[str, ...] = ("A", "SRV")) -> tuple[Case, ...]:
    return tuple(
        Case(f"{setting.name}: {name} {kind}", (Question(name, kind),), NAMES, setting)
        for name in names
        for kind in types
    )


SIZES = tuple(
    case for each in (TRUNCATE, TRUNCATE_TXT, MORE_ANSWERS, ONE_ADDRESS, UNCOMPRESSED) for case in sized(each)
)

FILTERED = (
    *asked(ONLY_PASSING, "web.service.consul", "a.web.service.consul", "c.web.service.consul"),
    *asked(TTLS, "web.service.consul", "twins.service.consul", "both.service.consul", "nope.service.consul"),
    *asked(TTLS, "n1.node.consul", "0a000002.addr.consul", "search.service.consul", "cn.service.consul"),
    *asked(SOA, "nope.service.consul", "consul", "v6.service.consul", types=("A", "SOA")),
)

DOMAINS = (
    *asked(
        ALTERNATE,
        "web.service.alt.example",
        "n1.node.alt.example",
        "nope.service.alt.example",
        types=("A", "SRV", "SOA"),
    ),
    *asked(ALTERNATE, "web.service.consul", "cn.service.alt.example", "alt.example", "example"),
    *asked(
        OWN_DOMAIN,
        "web.service.corp.example",
        "n1.node.corp.example",
        "web.service.consul",
        "corp.example",
        types=("A", "SRV", "SOA", "NS"),
    ),
    Case(
        "domain: PTR",
        (Question("2.0.0.10.in-addr.arpa", "PTR"), Question("1.0.0.127.in-addr.arpa", "PTR")),
        WEB,
        OWN_DOMAIN,
    ),
)

RECURSING = (
    *asked(
        FORWARDING,
        "www.example.com",
        "alias.example.com",
        "many.example.com",
        "nx.example.com",
        types=("A", "AAAA", "TXT", "ANY"),
    ),
    *asked(FORWARDING, "refused.example.com", "servfail.example.com", "silent.example.com", types=("A",)),
    *asked(
        FORWARDING,
        "search.service.consul",
        "mixed.service.consul",
        "cn.service.consul",
        types=("A", "AAAA", "SRV", "ANY"),
    ),
    *asked(FORWARDING, "web.service.consul", "nope.service.consul", "n1.node.consul"),
    Case("recursors: over TCP", (Question("www.example.com", tcp=True),), WEB, FORWARDING),
    Case("recursors: recursion not wanted", (Question("www.example.com", recursion=False),), WEB, FORWARDING),
    Case("recursors: EDNS", (Question("many.example.com", edns=1232),), WEB, FORWARDING),
    Case(
        "recursors: PTR",
        (
            Question("80.2.0.192.in-addr.arpa", "PTR"),
            Question("9.9.9.9.in-addr.arpa", "PTR"),
            Question("2.0.0.10.in-addr.arpa", "PTR"),
        ),
        WEB,
        FORWARDING,
    ),
    *asked(FAILOVER, "www.example.com", types=("A",)),
    *asked(NOBODY, "www.example.com", "web.service.consul", types=("A",)),
)

FAMILY = Family("dns settings", SIZES + FILTERED + DOMAINS + RECURSING)

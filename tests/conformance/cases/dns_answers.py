"""DNS as an agent answers it unconfigured: what Consul was seen to answer as far as one agent shows it,
and more.
"""

from __future__ import annotations

from tests.conformance.case import Case, Family, Question, Setting, put
from tests.conformance.worlds import NAMES, WEB1, WEB2, check_fails

TRANSCRIPT = Setting("transcripts", {"node_meta": {"rack": "r1", "rfc1035-x": "v"}})
ESCAPED = Setting("escaped", {"node_meta": {"odd": "a=b`c", "plain": "x"}})
TYPES = ("A", "AAAA", "SRV", "ANY", "TXT", "CNAME", "MX", "NS", "SOA", "PTR", "CAA", "TYPE65")
PLACES = (
    "n1.node.consul",
    "web.service.consul",
    "v6.service.consul",
    "both.service.consul",
    "search.service.consul",
    "nope.service.consul",
    "nope.node.consul",
    "0a000002.addr.consul",
    "20010db8000000000000000000000001.addr.consul",
    "consul",
    "foo.consul",
    "www.example.com",
)
NAMES_TO_TRY = (
    "n1.node.dc1.consul", "N1.NODE.CONSUL", "n1.node.dc9.consul", "a.n1.node.consul", "node.consul",
    "n1.node", "web.service.dc1.consul", "web.service.dc9.consul", "web.service.a.dc1.consul",
    "service.consul", "WEB.service.consul", "WeB.SerVice.CONsul", "a.web.service.consul",
    "c.web.service.consul", "zz.web.service.consul", "A.web.service.consul", "a.b.web.service.consul",
    "_web._tcp.service.consul", "_web._udp.service.consul", "_web._c.service.consul",
    "_web._tcp.service.dc1.consul", "_web._tcp.consul", "_web._C.service.consul",
    "_web._tcp.service.dc9.consul", "_nope._tcp.service.consul", "_web.service.consul",
    "web._tcp.service.consul", "cn.service.consul", "mixed.service.consul", "loop-a.service.consul",
    "self.service.consul", "twins.service.consul", "My_Svc.X.service.consul", "camel.service.consul",
    "Tag.Dotted.camel.service.consul", "up.camel.service.consul", "consul.service.consul",
    "web.connect.consul", "web.ingress.consul", "web.virtual.consul", "nope.query.consul",
    "0a000002.addr.dc1.consul", "0A00FF02.addr.consul", "zz.addr.consul", "0a0000.addr.consul", "ns.consul",
    "a.b.c.consul", "web.service.node.consul", "x.service.web.node.consul", "node.service.consul",
    "web.service.consul.example.com", "xn--nxasmq6b.service.consul", "web.service.dc1.extra.consul", ".",
)  # fmt: skip

ASKED = tuple(
    Case(f"{place} {kind}", (Question(place, kind),), NAMES, TRANSCRIPT) for place in PLACES for kind in TYPES
)
FORMS = tuple(
    Case(f"{name} {kind}", (Question(name, kind),), NAMES, TRANSCRIPT)
    for name in NAMES_TO_TRY
    for kind in ("A", "SRV", "AAAA")
)

ONE_OF_TWO = tuple(
    Case(
        f"names.service.consul {kind}: only one CNAME chain",
        (Question("names.service.consul", kind, counts_only=True),),
        NAMES,
        TRANSCRIPT,
    )
    for kind in ("A", "SRV", "CNAME")
)

SIZE_OPTIONS: tuple[tuple[str, int | None, bool], ...] = (
    ("without EDNS", None, False),
    ("EDNS 100", 100, False),
    ("EDNS 512", 512, False),
    ("EDNS 600", 600, False),
    ("EDNS 1232", 1232, False),
    ("EDNS 4096", 4096, False),
    ("EDNS 65535", 65535, False),
    ("TCP", None, True),
    ("TCP with EDNS", 1232, True),
)
SIZES = tuple(
    Case(
        f"{name} {kind} {how}",
        (Question(name, kind, edns=edns, tcp=tcp, counts_only=True),),
        NAMES,
        TRANSCRIPT,
    )
    for name in ("many.service.consul", "ports.service.consul")
    for kind in ("A", "SRV", "ANY", "AAAA")
    for how, edns, tcp in SIZE_OPTIONS
)

HEADER = (
    Case("node meta is escaped", (Question("n1.node.consul", "TXT"),), (), ESCAPED),
    Case(
        "EDNS is echoed",
        (Question("web.service.consul", edns=1400), Question("nope.service.consul", edns=1400)),
        NAMES,
        TRANSCRIPT,
    ),
    Case(
        "the client subnet is echoed",
        (Question("web.service.consul", edns=1400, subnet="192.0.2.0/24"),),
        NAMES,
        TRANSCRIPT,
    ),
    Case(
        "an IPv6 client subnet",
        (Question("web.service.consul", edns=1400, subnet="2001:db8::/56"),),
        NAMES,
        TRANSCRIPT,
    ),
    Case(
        "recursion is not wanted",
        (Question("web.service.consul", recursion=False), Question("www.example.com", recursion=False)),
        NAMES,
        TRANSCRIPT,
    ),
    Case(
        "other classes",
        (
            Question("web.service.consul", class_="CH"),
            Question("version.bind", "TXT", class_="CH"),
            Question("web.service.consul", class_="ANY"),
        ),
        NAMES,
        TRANSCRIPT,
    ),
    Case("a zone transfer", (Question("consul", "AXFR", tcp=True),), NAMES, TRANSCRIPT),
)

REVERSE_NAMES = (
    "2.0.0.10.in-addr.arpa", "1.0.0.127.in-addr.arpa", "9.9.9.9.in-addr.arpa", "91.0.0.10.in-addr.arpa",
    "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa", "10.in-addr.arpa",
    "3.0.0.10.in-addr.arpa",
)  # fmt: skip
REVERSE = (
    *(Case(f"PTR {name}", (Question(name, "PTR"),), NAMES, TRANSCRIPT) for name in REVERSE_NAMES),
    *(
        Case(
            f"an address asked in reverse, type {kind}",
            (Question(REVERSE_NAMES[0], kind),),
            NAMES,
            TRANSCRIPT,
        )
        for kind in ("A", "ANY")
    ),
)

CHANGES = (
    Case(
        "a critical instance leaves the answer",
        (check_fails("service:web1"), Question("web.service.consul"), Question("web.service.consul", "SRV")),
        (WEB1, WEB2),
    ),
    Case(
        "nobody healthy is NXDOMAIN",
        (check_fails("service:web1"), Question("web.service.consul"), Question("web.service.consul", "SRV")),
        (WEB1,),
    ),
    Case(
        "service maintenance",
        (put("/v1/agent/service/maintenance/web1?enable=true"), Question("web.service.consul")),
        (WEB1,),
    ),
    Case(
        "node maintenance",
        (
            put("/v1/agent/maintenance?enable=true"),
            Question("web.service.consul"),
            Question("n1.node.consul"),
        ),
        (WEB1,),
    ),
    Case(
        "a warning lowers the weight",
        (put("/v1/agent/check/warn/service:web1"), Question("web.service.consul", "SRV")),
        (WEB1,),
    ),
)

FAMILY = Family("dns answers", ASKED + FORMS + ONE_OF_TWO + SIZES + HEADER + REVERSE + CHANGES)

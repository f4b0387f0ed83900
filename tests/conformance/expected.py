"""The differences we mean, each under its id from docs/deviations.md.

A difference is explained only where its case, its place and what both sides said all match, so that one
deviation cannot hide another. Patterns are whole strings in which `*` stands for anything; values are as the
report prints them, which is JSON. A whole run fails when one of these does not show, or is not on the page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.conformance.differences import Difference, matches
from tests.system.agents import ROOT

PAGE = ROOT / "docs" / "deviations.md"


@dataclass(frozen=True, slots=True)
class Deviation:
    id: str
    why: str
    cases: tuple[str, ...] = ("*",)
    at: tuple[str, ...] = ("*",)
    consul: str = "*"
    ours: str = "*"

    def explains(self, case: str, difference: Difference) -> bool:
        return (
            matches(case, self.cases)
            and matches(difference.where, self.at)
            and matches(difference.consul, (self.consul,))
            and matches(difference.ours, (self.ours,))
        )


SOA = "*SOA ns.*"
# Where one side refuses and the other does not, and in what is read afterwards.
REFUSAL = ("status", "body*", "layout", "catalog follows")
SECTIONS = ("answer*", "authority*", "additional*")

DNS = (
    Deviation(
        "D1",
        "a trimmed answer says so",
        at=("flags",),
        consul='["QR", "AA", "RD"]',
        ours='["QR", "AA", "TC", "RD"]',
    ),
    Deviation(
        "D2", "a service has no TXT records", cases=("*.service.consul TXT",), at=("answer",), ours="[]"
    ),
    Deviation("D2", "and the SOA says so", cases=("*.service.consul TXT",), at=("authority",), ours=SOA),
    Deviation(
        "D3",
        "a node without that type: the SOA",
        cases=("*.node.*", "*.NODE.*"),
        at=("authority",),
        consul="[]",
        ours=SOA,
    ),
    Deviation("D4", "an unknown address in reverse is NXDOMAIN", cases=("PTR *",), at=("rcode", "flags*")),
    Deviation("D4", "with the SOA", cases=("PTR *",), at=("authority",), ours=SOA),
    Deviation("D5", "the address of the other family is beside NODATA", cases=("*.addr.* *",), at=SECTIONS),
    Deviation("D6", "an address that is none is NXDOMAIN", cases=("*.addr.consul *",), at=("rcode",)),
    Deviation(
        "D7",
        "names are in the domain that was asked",
        cases=("alt_domain: *alt.example *",),
        at=SECTIONS,
        ours="*alt.example.*",
    ),
    Deviation(
        "D30",
        "an unknown node is NXDOMAIN whatever the type",
        cases=("*.node.*",),
        at=("rcode",),
        consul='"NOERROR"',
        ours='"NXDOMAIN"',
    ),
    Deviation("D31", "the SOA echoes the question's case", cases=("*CONsul AAAA",), at=("authority*",)),
    Deviation("D32", "a CNAME loop is followed once", cases=("loop-a.*",), at=("answer", "additional")),
    Deviation(
        "D33",
        "extra records stay in step with the answers one by one",
        cases=("ports.service.consul SRV *", "*: many SRV"),
        at=("additional.A *", "additional.TXT *"),
    ),
    Deviation(
        "D34",
        "a PTR answers only PTR and ANY",
        cases=("an address asked in reverse, type A",),
        at=("answer", "authority"),
    ),
    Deviation(
        "D35",
        "an alias gives way to addresses",
        cases=("*mixed.service.consul AAAA",),
        at=("answer", "authority"),
    ),
    Deviation(
        "D36",
        "the target of an SRV record is left to the asker",
        cases=("recursors: search.service.consul SRV", "recursors: mixed.service.consul SRV"),
        at=("additional",),
        consul="*www.example.com.*",
    ),
)

INPUT = (
    Deviation(
        "D15",
        "what is registered must fit its way to every host",
        cases=("a body longer than any registration",),
        at=("status",),
        consul="200",
        ours="400",
    ),
    Deviation(
        "D16",
        "unknown keys are ignored, and both spellings of an id are known",
        cases=(
            "unknown keys*",
            "WriteRequest*",
            "*ID for *ID",
            "the token of a registration is not shown",
            "refused: an unknown kind of check",
        ),
        at=REFUSAL,
    ),
    Deviation("D18", "a port must be one", cases=("refused: a *port*",), at=REFUSAL),
    Deviation("D42", "an empty check is none", cases=("an empty check is no check",), at=REFUSAL),
    Deviation(
        "D42", "and so is a null", cases=("a null in a list of checks",), at=("failed", "headers", *REFUSAL)
    ),
    Deviation(
        "D43",
        "no names of Go types in a refusal",
        cases=("a list", "a string", "a check as a list"),
        at=("body",),
    ),
)

AGENT = (
    Deviation("D11", "POST stands in for PUT", cases=("*with POST",), at=REFUSAL),
    Deviation(
        "D54",
        "as newer Consul",
        cases=("* of an unknown check", "pass without an id", "update without an id", "check ids are *"),
        at=("status", "body"),
    ),
    Deviation(
        "D55",
        "the default reason of a maintenance is in our own words",
        at=("body*.Notes",),
        consul="*but no reason was provided*",
    ),
    Deviation(
        "D45",
        "an alias does not watch itself",
        cases=("an alias of a node",),
        at=("body*Status", "body*Output"),
    ),
    Deviation(
        "D82",
        "the first word on why a check is critical goes out at once",
        cases=("fail with a note",),
        at=("body[0].Output",),
        consul='""',
        ours='"ouch"',
    ),
    Deviation(
        "D46",
        "an alias that names no node means this one, and says so",
        at=("body*.Output",),
        consul='"Service * could not be found on node "',
        ours='"Service * could not be found on node n1"',
    ),
    Deviation("D44", "no sidecar comes with a service", cases=("a sidecar",), at=REFUSAL),
    Deviation("D57", "the tags of Consul's gossip library are not ours", at=("body*.Tags.ft_fs",)),
    Deviation(
        "D58", "our version is beside the API level", at=("body.Stats.build.adsum", "body*.Tags.adsum")
    ),
    Deviation("D99", "an empty list is a list", cases=("members of the WAN, of a client",), at=("body",)),
    Deviation("D95", "who could not be joined, and why", cases=("join nobody*",), at=("body",)),
    Deviation("D56", "a client says who leads", at=("body.Stats.consul.leader_name",), consul="(absent)"),
    Deviation("D96", "agents measure their own place", cases=("setting a place",), at=("status", "body")),
    Deviation("D97", "one pool, and any agent may be asked", cases=("key*", "a key*"), at=("body",)),
    Deviation("D97", "clients too", cases=("keys, of a client",), at=("status",), consul="500", ours="200"),
    Deviation(
        "D97",
        "sentences say what to do",
        cases=("no base64*", "a short key", "using an unknown key", "removing the primary key"),
        at=("body",),
    ),
    Deviation(
        "D59",
        "metrics for Prometheus are on",
        cases=("metrics for Prometheus",),
        at=("status", "headers.Content-Type"),
    ),
    Deviation("D58", "as newer Consul", cases=("version is newer*",), at=("status", "headers.*")),
    Deviation("D60", "reload says what it did", cases=("reload",), at=("body", "headers.*", "layout")),
    Deviation("D61", "the stream says what it is", cases=("monitor*",), at=("headers.Content-Type",)),
)

READS = (
    Deviation(
        "D62",
        "reads of the catalog are local, and say so",
        at=("headers.X-Consul-Effective-Consistency",),
        ours='"stale"',
    ),
    Deviation(
        "D63", "the local copy always hits", cases=("*with cached",), at=("headers.Age", "headers.X-Cache")
    ),
    Deviation("D8", "a missing key matches only the negation", cases=("*.rack *matches *",), at=("body",)),
    Deviation("D9", "a text can be asked whether it is empty", cases=("*: * is *empty",), at=REFUSAL),
    Deviation(
        "D67",
        "a filter that makes Consul close the connection is answered",
        cases=("/v1/agent/services: Connect.Native == false",),
        at=("failed", "headers", *REFUSAL),
    ),
    Deviation("D64", "a bad filter is the client's fault", at=("status",), consul="500", ours="400"),
    Deviation(
        "D100",
        "no other agent was asked",
        cases=("*with dc=zz",),
        at=("body",),
        consul='"rpc error making call: No path to datacenter"',
        ours='"No path to datacenter"',
    ),
    Deviation("D68", "an empty list is a list", at=("body",), consul="null", ours="[]"),
    Deviation("D17", "ns=default is no namespace", cases=("* with ns=default",), at=REFUSAL),
    Deviation("D69", "a negative index is none", cases=("a negative index", "kv: * index=-1"), at=REFUSAL),
    Deviation(
        "D20",
        "only a new name or tag wakes",
        cases=("/v1/catalog/services on the same tags*",),
        at=("index", "returned"),
    ),
    Deviation(
        "D21",
        "only what changes the answer wakes",
        cases=("an unknown service while another goes", "with a filter"),
        at=("index", "returned"),
    ),
)

PATHS = (
    Deviation("D71", "Vary is sent with errors too", at=("headers.Vary",), consul="(absent)"),
    Deviation(
        "D72",
        "HEAD of nothing has its length",
        cases=("an unknown path",),
        at=("headers.Content-Length",),
        consul="null",
        ours='"0"',
    ),
    Deviation(
        "D10",
        "a path is cleaned and served",
        cases=("a doubled slash", "a dot segment", "kv: without the last slash"),
        at=REFUSAL,
    ),
    Deviation("D73", "the root is a page", cases=("the root without a page",), at=("status",)),
    Deviation(
        "D74",
        "a bad escape in a path is explained",
        cases=("a bad escape", "kv: badly named *"),
        at=("body",),
    ),
    Deviation(
        "D74",
        "a bad escape in the query is taken as it stands",
        cases=("a bad escape in the query",),
        at=REFUSAL,
    ),
    Deviation(
        "D76",
        "a body that would not shrink is not compressed",
        at=("headers.Content-Encoding",),
        consul='"gzip"',
        ours="(absent)",
    ),
)

HOLDING = ("lock: *", "txn: *", "session: *", "kv*")
SESSIONS = (
    Deviation("D141", "grants count on", cases=HOLDING, at=("*LockIndex",), consul="0", ours='"<index>"'),
    Deviation("D142", "a held key shows its token", cases=HOLDING, at=("*FencingToken",), consul="(absent)"),
    Deviation(
        "D144",
        "checks under their old name, or none by a null",
        cases=("session: create {*Checks*}", "session: create {'node_checks*"),
        at=("body[0].*Checks*",),
    ),
    Deviation("D146", "128 operations", cases=("txn: too many",), at=("body",)),
    Deviation(
        "D146",
        "empty lists",
        cases=("external: in a transaction: *",),
        at=("*Tags",),
        consul="null",
        ours="[]",
    ),
)

KEYS = (
    Deviation("D124", "a key is not cleaned", cases=("kv: taken as it is: *",), at=REFUSAL),
    Deviation("D124", "nor refused", cases=("kv: does not print: *",), at=REFUSAL),
    Deviation(
        "D125",
        "only its own creation wakes",
        cases=("wait for a/none on *", "wait for zz on *", "wait for none/?recurse on *"),
        at=("index", "returned"),
    ),
    Deviation("D126", "chunks make no value larger", cases=("kv: * in chunks",), at=REFUSAL),
    Deviation("D127", "a target has a size", cases=("kv: too long a name",), at=("status",)),
    Deviation("D128", "a datacenter in any case", cases=("kv: GET with dc=DC1",), at=REFUSAL),
    Deviation("D129", "an unknown method is no HTTP", cases=("kv: an unknown method",), at=REFUSAL),
    Deviation(
        "D70",
        "an index that was never given out",
        cases=("wait for an index to come, for long",),
        at=("returned",),
    ),
)

EXPECTED = DNS + INPUT + AGENT + READS + PATHS + SESSIONS + KEYS


def explanation(case: str, difference: Difference) -> Deviation | None:
    return next((each for each in EXPECTED if each.explains(case, difference)), None)


def undocumented() -> list[str]:
    rows = set(re.findall(r"^\| (D\d+) \|", PAGE.read_text(), re.MULTILINE)) if PAGE.exists() else set()
    return sorted({each.id for each in EXPECTED} - rows)

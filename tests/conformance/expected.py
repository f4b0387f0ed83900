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

EXPECTED: tuple[Deviation, ...] = (
    # DNS
    Deviation(
        "D1",
        "a trimmed answer says so",
        at=("flags",),
        consul='["QR", "AA", "RD"]',
        ours='["QR", "AA", "TC", "RD"]',
    ),
    Deviation("D2", "a service has no TXT records", cases=("*.service.consul TXT",), ours="[]"),
    Deviation("D2", "and says so with the SOA", cases=("*.service.consul TXT",), at=("authority",), ours=SOA),
    Deviation(
        "D3",
        "a node without that type: the SOA",
        at=("authority",),
        cases=("*.node.*", "*.NODE.*"),
        consul="[]",
        ours=SOA,
    ),
    Deviation(
        "unknown-node-of-odd-type",
        "an unknown node is NXDOMAIN whatever the type",
        cases=("*.node.*", "*.NODE.*"),
        at=("rcode",),
        consul='"NOERROR"',
        ours='"NXDOMAIN"',
    ),
    Deviation("D4", "an unknown address asked in reverse is NXDOMAIN", cases=("PTR *",), ours="*"),
    Deviation(
        "D5",
        "an address of the other family is NODATA, with the address beside it",
        cases=("*.addr.* *",),
        at=("additional", "answer", "authority"),
    ),
    Deviation(
        "D6",
        "an address that is none is NXDOMAIN",
        cases=("zz.addr.consul *", "0a0000.addr.consul *"),
        at=("rcode", "authority"),
    ),
    Deviation(
        "case-of-addr",
        "the case of the question is echoed here too",
        cases=("0A00FF02.addr.consul A",),
        at=("answer*",),
    ),
    Deviation(
        "case-of-soa",
        "the SOA's owner echoes the question's case",
        cases=("*CONsul AAAA",),
        at=("authority*",),
    ),
    Deviation(
        "loops",
        "a CNAME loop is followed once",
        cases=("loop-a.service.consul *",),
        at=("answer", "additional"),
    ),
    Deviation(
        "glue-once",
        "the address of a target is repeated for each instance, trimmed or not",
        cases=("ports.service.consul SRV *",),
        at=("additional.A *",),
    ),
    Deviation(
        "D7",
        "names are in the domain that was asked",
        cases=("alt_domain: *.alt.example *", "alt_domain: alt.example *"),
        at=("additional*", "answer*", "authority*"),
        ours="*alt.example.*",
    ),
    Deviation(
        "extras-when-trimmed",
        "extra records stay in step with the answers one by one",
        cases=("*: many SRV",),
        at=("additional.TXT ttl 0",),
    ),
    Deviation(
        "reverse-other-types",
        "a PTR is the answer only to PTR and ANY",
        cases=("an address asked in reverse, type A",),
    ),
    # HTTP
    Deviation("D8", "a missing key matches only the negation", cases=("*not matches*", "*TaggedAddresses*")),
    Deviation("D9", "a text can be asked whether it is empty", cases=("*: * is *empty",)),
    Deviation(
        "stale-reads",
        "reads of the catalog are local, and say so",
        at=("headers.X-Consul-Effective-Consistency",),
        ours='"stale"',
    ),
    Deviation(
        "cached",
        "the local copy is the answer, so ?cached always hits",
        cases=("*with cached",),
        at=("headers.Age", "headers.X-Cache"),
    ),
    Deviation(
        "vary",
        "Vary is sent with errors too",
        at=("headers.Vary",),
        consul="(absent)",
        ours='"Accept-Encoding"',
    ),
    Deviation(
        "filter-400",
        "a bad filter is the client's fault",
        at=("status",),
        consul="500",
        ours="400",
        cases=("/v1/*: *", "filter and passing*"),
    ),
    Deviation(
        "unknown-keys",
        "unknown keys are ignored",
        cases=(
            "unknown keys*",
            "WriteRequest*",
            "a check with ID for CheckID",
            "CheckID for ID",
            "refused: an unknown kind of check",
            "the token of a registration is not shown",
        ),
    ),
    Deviation(
        "empty-check",
        "an empty check in a list is no check",
        cases=("an empty check is no check", "a null in a list of checks"),
    ),
    Deviation("post-for-put", "POST stands in for PUT on the agent", cases=("*with POST",)),
    Deviation(
        "unknown-check-404",
        "as newer Consul",
        cases=("* of an unknown check", "* without an id", "check ids are matched exactly"),
        at=("status", "body"),
        consul="*",
        ours="*",
    ),
    Deviation("ports", "a port must be one", cases=("refused: a *port*",)),
    Deviation(
        "ns-default", "ns=default is what a client without namespaces means", cases=("* with ns=default",)
    ),
    Deviation(
        "empty-list",
        "an empty list is a list",
        cases=("gateway services",),
        at=("body",),
        consul="null",
        ours="[]",
    ),
    Deviation(
        "redirects",
        "a path is cleaned and served, not redirected",
        cases=("a doubled slash", "a dot segment"),
    ),
    Deviation("negative-index", "a negative index is none", cases=("a negative index",)),
    Deviation("prometheus", "metrics for Prometheus are on", cases=("metrics for Prometheus",)),
    Deviation("version", "as newer Consul", cases=("version is newer than this Consul",)),
    Deviation("reload-report", "reload says what it did", cases=("reload",)),
    Deviation(
        "monitor-type", "the stream says what it is", cases=("monitor*",), at=("headers.Content-Type",)
    ),
    Deviation(
        "wakes-less",
        "only what changes the answer wakes",
        cases=(
            "/v1/catalog/services on the same tags*",
            "an unknown service while another goes",
            "with a filter",
        ),
        at=("index", "returned"),
    ),
    Deviation(
        "default-reasons",
        "the default reason of a maintenance is in our own words",
        at=("body*.Notes",),
        consul="*but no reason was provided*",
    ),
    Deviation(
        "go-types",
        "no names of Go types in a refusal",
        cases=("a list", "a string", "a check as a list"),
        at=("body",),
    ),
    Deviation(
        "serf-tags",
        "the tags of Consul's gossip library are not ours",
        cases=("members*", "self*"),
        at=("*Tags.ft_fs",),
    ),
    Deviation(
        "own-version",
        "our own version stands beside the API level",
        cases=("self*",),
        at=("body.Stats.build.adsum",),
    ),
    Deviation("alone", "one agent keeps no roll of others yet", cases=("join nobody*",), at=("body",)),
    Deviation(
        "coordinates",
        "one agent has no coordinates yet",
        cases=("coordinates*", "self*"),
        at=("status", "body.Coord"),
    ),
    Deviation("alias-of-a-node", "an alias does not watch itself", cases=("an alias of a node",)),
    Deviation("sidecars", "no sidecar is registered along with a service", cases=("a sidecar",)),
    Deviation(
        "consul-panics",
        "where Consul closes the connection we answer",
        at=("failed", "status", "headers", "body", "layout", "catalog follows"),
        cases=("*: Connect.Native == false", "a null in a list of checks"),
    ),
    Deviation("root", "the root is a page of its own", cases=("the root without a page",), at=("status",)),
    Deviation("bad-escapes", "a bad escape in a path is explained", cases=("a bad escape",), at=("body",)),
    Deviation(
        "bad-query-escapes",
        "a bad escape in the query is taken as it stands",
        cases=("a bad escape in the query",),
    ),
    Deviation(
        "small-gzip",
        "a body that would not shrink is not compressed",
        cases=("gzip*",),
        at=("headers.Content-Encoding",),
        ours="(absent)",
    ),
    Deviation(
        "alias-says-where",
        "an alias that names no node means this one, and says so",
        at=("body*.Output",),
        consul='"Service * could not be found on node "',
        ours='"Service * could not be found on node n1"',
    ),
)


def explanation(case: str, difference: Difference) -> Deviation | None:
    return next((each for each in EXPECTED if each.explains(case, difference)), None)


def undocumented() -> list[str]:
    rows = set(re.findall(r"^\| (D\d+) \|", PAGE.read_text(), re.MULTILINE)) if PAGE.exists() else set()
    return sorted({each.id for each in EXPECTED} - rows)

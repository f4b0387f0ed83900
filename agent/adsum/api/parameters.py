"""Query parameters as Consul's clients send them and Consul's agent reads them.

Three kinds of yes and no exist side by side. Presence: `?stale`, `?stale=` and `?stale=false` all mean yes;
ask `query.has`. Go's ParseBool, where an empty value is yes (`?passing`), and where it is an error
(`?enable`). The texts are Consul's; clients and their tests know them.
"""

from __future__ import annotations

from adsum.durations import BadDuration, parse_duration
from adsum.http.request import Query
from adsum.http.response import HeaderList
from adsum.http.router import HttpRefusal

TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
NAMESPACES_SENTENCE = (
    'Bad request: Invalid query parameter: "{name}" - {kind} are a Consul Enterprise feature'
)


def is_true_or_empty(query: Query, name: str) -> bool:
    """`?passing` and its like: absent is no, empty is yes."""
    if not query.has(name):
        return False
    value = query.first(name)
    if value in TRUE or not value:
        return True
    if value in FALSE:
        return False
    raise HttpRefusal(400, f"Invalid value for ?{name}")


def required_boolean(query: Query, name: str) -> bool:
    """`?enable`: it must be there and it must be a boolean."""
    if not query.has(name):
        raise HttpRefusal(400, f"Missing value for {name}")
    value = query.first(name)
    if value in TRUE:
        return True
    if value in FALSE:
        return False
    raise HttpRefusal(400, f'Invalid value for {name}: "{value}"')


def duration_ns(query: Query, name: str, *, refusal: str = "") -> int | None:
    """None when absent or empty. `refusal` is Consul's text for that parameter (`Invalid wait time`)."""
    value = query.first(name)
    if not value:
        return None
    try:
        return parse_duration(value)
    except BadDuration as bad:
        raise HttpRefusal(400, refusal or f"Invalid value for {name}: {bad}") from None


def check_namespace(query: Query) -> None:
    """Everything lives in the one namespace and partition that there is, under its usual name or none."""
    for name, kind in (("ns", "Namespaces"), ("partition", "Partitions")):
        if query.first(name).lower() not in ("", "default"):
            raise HttpRefusal(400, NAMESPACES_SENTENCE.format(name=name, kind=kind))


def check_datacenter(query: Query, own: str, headers: HeaderList = ()) -> None:
    """`?dc=` may only name this one. Reads that carry an index pass the headers their refusal carries too."""
    asked = query.first("dc")
    if asked and asked.lower() != own.lower():
        raise HttpRefusal(500, "No path to datacenter", headers)


def node_meta(query: Query) -> dict[str, str]:
    """`node-meta=rack:r1`, repeated, all must match; without a colon the value asked for is empty."""
    wanted = {}
    for pair in query.all("node-meta"):
        key, _, value = pair.partition(":")
        wanted[key] = value
    return wanted

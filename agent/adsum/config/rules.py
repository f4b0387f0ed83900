"""What no single value can show: keys without support, and keys that do not go together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from adsum.catalog.definitions import BadDefinition
from adsum.catalog.validate import DNS_LABEL, refuse_bad_meta
from adsum.config.config import Config, Gossip
from adsum.config.keys import ALLOW_UNSUPPORTED, KEYS, Fate, did_you_mean, nearest
from adsum.config.kinds import DISABLED, BadValue
from adsum.config.merge import Placed, Settings
from adsum.config.network import is_within
from adsum.config.values import Values
from adsum.durations import format_duration
from adsum.now import HOUR, MILLISECOND, SECOND
from adsum.owners import STORE

DATACENTER = re.compile(r"[a-z0-9_-]+")
GOSSIP_MODES = frozenset({"classic", "adaptive"})
GOSSIP_INTERVAL_NS_MIN = 10 * MILLISECOND
GOSSIP_COUNT_MAX = 100  # far beyond what any cluster gains from
RECONNECT_TIMEOUT_NS_MIN = 8 * HOUR  # what Consul documents
RETRY_INTERVAL_NS_MIN = SECOND
ON_LOOPBACK = ("127.", "::1", "[::1]", "localhost")
NODE_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
LOG_LEVELS = {"WARNING": "WARN", "ERR": "ERROR"} | {
    level: level for level in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR")
}


def refuse_or_warn(values: Values, settings: Settings) -> list[str]:
    """Warnings about keys without effect; keys whose effect would protect something are refused."""
    allowed = values.texts(ALLOW_UNSUPPORTED)
    for placed in values.given(ALLOW_UNSUPPORTED):
        if placed.value not in KEYS:
            sentence = f'"{placed.value}" is no key we know' + did_you_mean(nearest(str(placed.value), KEYS))
            values.refuse_at(placed.place, sentence)
    warnings = []
    for name, given in settings.items():
        fate = KEYS[name].fate
        if fate.is_supported or fate is Fate.MOOT or not _asks_for_something(name, given):
            continue
        if fate is Fate.WARNED:
            warnings.append(f"{given[-1].place}: not supported yet, it has no effect")
        elif name in allowed:
            warnings.append(
                f"{given[-1].place}: NOT IN FORCE: {name} is not supported yet and protects nothing"
            )
        else:
            values.refuse_at(
                given[-1].place,
                f"not supported yet, and going on without it would leave this agent less protected than you "
                f'asked for; to do so knowingly, set {ALLOW_UNSUPPORTED} = ["{name}"]',
            )
    return warnings


def _asks_for_something(name: str, given: tuple[Placed, ...]) -> bool:
    values = [each.value for each in given]
    if not KEYS[name].kind.is_list and not KEYS[name].kind.is_map:
        return values[-1] != KEYS[name].default and values[-1] not in ("", [], {})
    return bool(values)


def read_gossip_mode(text: str) -> str:
    if text.lower() not in GOSSIP_MODES:
        raise BadValue(f'must be classic or adaptive, not "{text}"')
    return text.lower()


def read_log_level(text: str) -> str:
    level = LOG_LEVELS.get(text.upper())
    if level is None:
        raise BadValue(f'must be trace, debug, info, warn or error, not "{text}"')
    return level


def check_rules(config: Config, values: Values) -> list[str]:
    """Every rule looks at the whole; the result is warnings."""
    rules = [_check_node(config), _check_server(config), _check_ports(config)]
    for name, sentence in chain(*rules, gossip_mistakes(config.gossip), _check_joining(config)):
        values.refuse(name, sentence)
    return list(_warnings(config))


def _check_node(config: Config) -> Iterator[tuple[str, str]]:
    if not DATACENTER.fullmatch(config.datacenter):
        yield "datacenter", f'may hold only letters, digits, "-" and "_", not "{config.datacenter}"'
    if not config.node_name.strip():
        yield "node_name", "must not be empty"
    if config.node_id and not NODE_ID.fullmatch(config.node_id):
        yield "node_id", f'must be a UUID, not "{config.node_id}"'
    if config.node_id.replace("-", "").startswith(STORE.hex()):
        yield (
            "node_id",
            "begins as the name of the store does, and other agents would refuse it: choose another",
        )
    if not config.data_dir and not config.is_dev:
        why = "registrations and the node's identity are kept there (-dev needs none)"
        yield "data_dir", f"must be set: {why}"
    if "" in config.tagged_addresses:
        yield "tagged_addresses", "must not hold an empty name"
    if config.default_query_time_ns > config.max_query_time_ns:
        yield "default_query_time", "must not exceed max_query_time"
    try:
        refuse_bad_meta(dict(config.node_meta), what="node_meta")
    except BadDefinition as problem:
        yield "node_meta", str(problem).removeprefix("Invalid node_meta: ")


def _check_server(config: Config) -> Iterator[tuple[str, str]]:
    if config.bootstrap_expect and not config.is_server:
        yield "bootstrap_expect", "needs server = true: only servers can be expected"
    if config.bootstrap_expect and config.is_dev:
        yield "bootstrap_expect", "cannot be used with -dev, which is a cluster of its own"
    elif config.bootstrap_expect > 1 and config.bootstrap:
        yield (
            "bootstrap_expect",
            "and bootstrap exclude each other: expect all servers, or bootstrap from one",
        )
    if config.bootstrap and not config.is_server and not config.is_dev:
        yield "bootstrap", "needs server = true"


def _check_ports(config: Config) -> Iterator[tuple[str, str]]:
    ports, where = config.ports, config.addresses
    dns, http = ("DNS", ports.dns, where.dns), ("HTTP", ports.http, where.http)
    https = ("HTTPS", ports.https, where.https)
    pairs = (("ports.http", http, dns), ("ports.https", https, dns), ("ports.https", https, http))
    for key, (_, port, addresses), (other, other_port, other_addresses) in pairs:
        shared = set(addresses) & set(other_addresses)
        if port == other_port > 0 and shared:
            yield key, f"is the port of {other} as well, {port} on {min(shared)}"


def gossip_mistakes(gossip: Gossip) -> Iterator[tuple[str, str]]:
    """Apart, because a simulation takes the same values by the same rules."""
    paces = {"probe_interval": gossip.probe_interval_ns, "gossip_interval": gossip.gossip_interval_ns}
    for name, interval_ns in paces.items():
        if interval_ns < GOSSIP_INTERVAL_NS_MIN:
            yield f"gossip_lan.{name}", "must be at least 10ms: a shorter one does nothing but send"
    if gossip.probe_timeout_ns < MILLISECOND:
        yield "gossip_lan.probe_timeout", "must be at least 1ms: no answer is quicker than that everywhere"
    elif gossip.probe_timeout_ns >= gossip.probe_interval_ns:
        interval = format_duration(gossip.probe_interval_ns)
        yield (
            "gossip_lan.probe_timeout",
            f"must be below gossip_lan.probe_interval, {interval}: others are asked to probe in what is left",
        )
    counts = {
        "gossip_nodes": gossip.gossip_nodes,
        "retransmit_mult": gossip.retransmit_mult,
        "suspicion_mult": gossip.suspicion_mult,
    }
    for name, count in counts.items():
        if not 1 <= count <= GOSSIP_COUNT_MAX:
            yield f"gossip_lan.{name}", f"must be between 1 and {GOSSIP_COUNT_MAX}, not {count}"
    if not 0 <= gossip.push_nodes <= GOSSIP_COUNT_MAX:
        yield "gossip.push_nodes", f"must be between 0 and {GOSSIP_COUNT_MAX}, not {gossip.push_nodes}"
    if gossip.reconnect_timeout_ns < RECONNECT_TIMEOUT_NS_MIN:
        yield (
            "reconnect_timeout",
            "must be at least 8h: a failed member that is forgotten sooner may miss its own return",
        )


def _check_joining(config: Config) -> Iterator[tuple[str, str]]:
    if config.retry_interval_ns < RETRY_INTERVAL_NS_MIN:
        yield "retry_interval", "must be at least 1s: every attempt asks DNS and all agents named"
    own = config.advertise_address
    if own and config.serf_lan_allowed_cidrs and not is_within(own, config.serf_lan_allowed_cidrs):
        yield (
            "serf_lan_allowed_cidrs",
            f"must hold this agent's own address, {own}: with the same list the others would not let it in",
        )


def _warnings(config: Config) -> Iterator[str]:
    if not DNS_LABEL.fullmatch(config.node_name):
        yield f'node_name "{config.node_name}" is not a DNS label: DNS clients cannot ask for this node'
    if config.bootstrap_expect == 2:
        yield "bootstrap_expect is 2: two servers cannot lose one and go on; expect 3"
    elif config.bootstrap_expect > 1 and config.bootstrap_expect % 2 == 0:
        yield f"bootstrap_expect is {config.bootstrap_expect}: one less tolerates as many failures"
    if config.ports.https != DISABLED and not config.has_https_certificate:
        yield (
            f"ports.https is {config.ports.https}, but an agent that starts without cert_file and key_file "
            "has no certificate to show and serves no HTTPS; when they are added, it takes a restart: "
            "a reload opens no listener"
        )
    joined = (*config.start_join, *config.retry_join)
    joins_other_hosts = any(not entry.startswith(ON_LOOPBACK) for entry in joined)
    if config.ports.serf_lan == DISABLED and joined:
        yield "ports.serf_lan is -1: without gossip this agent joins nobody, whatever retry_join says"
    elif config.advertise_address.startswith(ON_LOOPBACK) and joins_other_hosts:
        yield (
            f"bind_addr or advertise_addr is {config.advertise_address}, where other hosts do not reach this "
            "agent: to be in a cluster with them, name its address on their network"
        )
    if config.enable_script_checks and not config.is_dev and not config.http.allow_write_http_from:
        yield (
            "enable_script_checks lets everybody who reaches the HTTP API run commands on this host: "
            "enable_local_script_checks does not, and http_config.allow_write_http_from limits who may"
        )

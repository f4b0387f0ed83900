"""Whether a definition makes sense: Consul's rules, in Consul's words.

A definition that cannot work is refused with `BadDefinition`; one that works but not as its author may think
(a name that DNS cannot ask for, an interval below the floor) is taken, and the warnings say what happens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from adsum.catalog.definitions import (
    DEREGISTER_NS_MIN,
    INTERVAL_NS_MIN,
    META_KEY,
    META_KEY_LENGTH_MAX,
    META_PAIRS_MAX,
    META_VALUE_LENGTH_MAX,
    PROXY_KEYS_OF_NO_GATEWAY,
    SERVICE_PORT_MAX,
    WEIGHT_MAX,
    BadDefinition,
    CheckDefinition,
    CheckStatus,
    ServiceDefinition,
    shown,
)
from adsum.catalog.model import SERF_HEALTH
from adsum.durations import format_duration

DNS_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
UNSPECIFIED_ADDRESSES = frozenset({"0.0.0.0", "::", "[::]"})  # noqa: S104 - compared with, never bound
STATUSES = frozenset(CheckStatus)
PROXY_KIND = "connect-proxy"
GATEWAY_KINDS_WITH_PORT = frozenset({"mesh-gateway", "terminating-gateway"})
GATEWAY_KINDS = GATEWAY_KINDS_WITH_PORT | {"ingress-gateway"}
META_RESERVED_PREFIX = "consul-"


def validate_service(definition: ServiceDefinition) -> list[str]:
    """Raises for what cannot be used; the result is what its author should know."""
    if not definition.name:
        raise BadDefinition("Missing service name")
    if definition.address in UNSPECIFIED_ADDRESSES:
        raise BadDefinition("Invalid service address")
    tagged, weights = definition.tagged_addresses.items(), definition.weights
    ports = [("Port", definition.port), *((f"TaggedAddresses {key} Port", at.port) for key, at in tagged)]
    for field, port in ports:
        if not 0 <= port <= SERVICE_PORT_MAX:
            sentence = f"{field} {port} is not between 0 and {SERVICE_PORT_MAX}"
            raise BadDefinition(f"Invalid service port: {sentence}")
    if weights.passing < 1:
        raise BadDefinition("Invalid Weights: Passing must be greater than 0")
    if weights.warning < 0:
        raise BadDefinition("Invalid Weights: Warning must be greater or equal than 0")
    if max(weights) > WEIGHT_MAX:
        raise BadDefinition(f"Invalid Weights: DNS Weight must be between 0 and {WEIGHT_MAX}")
    refuse_bad_meta(definition.meta, what="Service Meta")
    if problems := list(_kind_problems(definition)):
        count = "1 error" if len(problems) == 1 else f"{len(problems)} errors"
        listed = "".join(f"\t* {problem}\n" for problem in problems)
        raise BadDefinition(f"{count} occurred:\n{listed}\n")
    for check in definition.checks:
        _refuse_bad_check(check)
        if check.status and check.status not in STATUSES:
            raise BadDefinition("Status for checks must 'passing', 'warning', 'critical'")
    return _service_warnings(definition)


def validate_check(definition: CheckDefinition) -> list[str]:
    """For a check registered on its own."""
    if not definition.name:
        raise BadDefinition("Missing check name")
    if definition.status and definition.status not in STATUSES:
        raise BadDefinition("Bad check status")
    _refuse_bad_check(definition)
    return _check_warnings(definition)


def refuse_bad_meta(meta: dict[str, str], *, what: str) -> None:
    """The rules are the same for a service's meta and for a node's."""
    if len(meta) > META_PAIRS_MAX:
        sentence = f"Node metadata cannot contain more than {META_PAIRS_MAX} key/value pairs"
        raise BadDefinition(f"Invalid {what}: {sentence}")
    for key, value in sorted(meta.items()):
        if reason := _meta_problem(key, value):
            raise BadDefinition(f"Invalid {what}: Couldn't load metadata pair ('{key}', '{value}'): {reason}")


def _meta_problem(key: str, value: str) -> str:
    if not key:
        return "Key cannot be blank"
    if not META_KEY.fullmatch(key):
        return "Key contains invalid characters"
    if len(key) > META_KEY_LENGTH_MAX:
        return f"Key is too long (limit: {META_KEY_LENGTH_MAX} characters)"
    if key.startswith(META_RESERVED_PREFIX):
        return f"Key prefix '{META_RESERVED_PREFIX}' is reserved for internal use"
    if len(value.encode()) > META_VALUE_LENGTH_MAX:
        return f"Value is too long (limit: {META_VALUE_LENGTH_MAX} characters)"
    return ""


def _kind_problems(definition: ServiceDefinition) -> Iterator[str]:
    if definition.kind == PROXY_KIND:
        destination = definition.proxy.get("DestinationServiceName")
        if not isinstance(destination, str) or not destination.strip():
            yield "Proxy.DestinationServiceName must be non-empty for Connect proxy services"
        if not definition.port:
            yield "Port must be set for a Connect proxy"
        if definition.connect.get("Native") is True:
            yield "A Proxy cannot also be Connect Native, only typical services"
    if definition.kind in GATEWAY_KINDS_WITH_PORT and not definition.port:
        yield f"Port must be non-zero for a {definition.kind}"
    if definition.kind in GATEWAY_KINDS:
        for key in PROXY_KEYS_OF_NO_GATEWAY:
            if definition.proxy.get(key):
                yield f"The Proxy.{key} configuration is invalid for a {definition.kind}"


def _refuse_bad_check(check: CheckDefinition) -> None:
    if reason := _check_problem(check):
        raise BadDefinition(f"Invalid check: {reason}")


def _check_problem(check: CheckDefinition) -> str:
    is_alias = bool(check.alias_service or check.alias_node)
    called = check.http or check.tcp or check.udp or check.grpc or check.h2ping
    runs = bool(check.args or called or check.os_service)
    if check.check_id == SERF_HEALTH:
        return f'"{SERF_HEALTH}" is the check of the node itself; choose another CheckID'
    if check.interval_ns > 0 and check.ttl_ns > 0:
        return "Interval and TTL cannot both be specified"
    if runs and check.interval_ns <= 0:
        return "Interval must be > 0 for Script, HTTP, or TCP checks"
    if runs and is_alias:
        return "Interval cannot be set for Alias checks"
    if is_alias and check.ttl_ns > 0:
        return "TTL must be not be set for Alias checks"
    if not runs and not is_alias and check.ttl_ns <= 0:
        return "TTL must be > 0 for TTL checks"
    if check.output_max_size < 0:
        return "MaxOutputMaxSize must be positive"
    if check.failures_before_warning > check.failures_before_critical:
        return "FailuresBeforeWarning can't be higher than FailuresBeforeCritical"
    return ""


def _service_warnings(definition: ServiceDefinition) -> list[str]:
    warnings = []
    name = shown(definition.name)
    if not DNS_LABEL.fullmatch(definition.name):
        warnings.append(f"service name {name} is not a DNS label: HTTP clients find it, DNS clients cannot")
    odd = [tag for tag in definition.tags if not all(map(DNS_LABEL.fullmatch, tag.split(".")))]
    if odd:
        others = f" (and {len(odd) - 1} more of its tags)" if len(odd) > 1 else ""
        which = f"tag {shown(odd[0])}{others} of service {name}"
        warnings.append(f"{which} is no DNS label: DNS clients cannot ask for it")
    if "SidecarService" in definition.connect:
        warnings.append(f"service {name} asks for a sidecar: there is no mesh here, it gets none")
    for check in definition.checks:
        warnings += _check_warnings(check)
    return warnings


def _check_warnings(check: CheckDefinition) -> list[str]:
    warnings = []
    if 0 < check.interval_ns < INTERVAL_NS_MIN:
        warnings.append(_raised(check, "interval", check.interval_ns, INTERVAL_NS_MIN))
    if 0 < check.deregister_critical_service_after_ns < DEREGISTER_NS_MIN:
        wanted_ns = check.deregister_critical_service_after_ns
        warnings.append(_raised(check, "deregister_critical_service_after", wanted_ns, DEREGISTER_NS_MIN))
    return warnings


def _raised(check: CheckDefinition, key: str, wanted_ns: int, floor_ns: int) -> str:
    wanted, floor = format_duration(wanted_ns), format_duration(floor_ns)
    return f"check {shown(check.check_id)}: {key} {wanted} is below the floor, {floor} is used"

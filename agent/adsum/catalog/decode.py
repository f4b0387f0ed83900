"""From what a client or a file says to definitions.

Input is plain values (dict, list, str, int, float, bool, None), whoever parsed them: the HTTP API and the
configuration share this door. It takes what any Consul client has ever sent: keys match in any case, with or
without underscores, unknown keys are ignored, null means absent, durations are Go strings or nanoseconds.
Wrong types are refused in the words of Go's JSON decoder, because clients and their tests know those words.

When one body spells a field twice, Consul's order decides: of spellings without an underscore the last wins,
and a spelling with one only fills a gap. (Tried on Consul 1.8.7.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from adsum.catalog.definitions import (
    OUTPUT_BYTES_MAX,
    PROXY_KEYS_OF_NO_GATEWAY,
    BadDefinition,
    CheckDefinition,
    ServiceAddress,
    ServiceDefinition,
    Weights,
)
from adsum.catalog.spelling import canonical_key
from adsum.durations import BadDuration, parse_duration
from adsum.frozen import replace

INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1
# Of what is carried without being understood. Real ones have five levels; writing and reading them again
# recurses, and a registration that was taken must not be one that cannot be read back.
NESTING_MAX = 32
# Their contents are carried as they came, but these are looked at, and shown by the names clients know.
PROXY_KEYS = (
    *PROXY_KEYS_OF_NO_GATEWAY,
    *("Mode", "Config", "Upstreams", "MeshGateway", "Expose", "TransparentProxy"),
)
CONNECT_KEYS = ("Native", "SidecarService")
SHELL = ("/bin/sh", "-c")  # what the legacy `Script` string is run by

T = TypeVar("T")


class WrongType(BadDefinition):
    """The caller's value has another type than its field; the parts are there for other words than Go's."""

    def __init__(self, field: str, found: str, wanted: str) -> None:
        place = f"Go struct field .{field}" if field else "Go value"
        sentence = f"json: cannot unmarshal {found} into {place} of type {wanted}"
        super().__init__(f"Request decode failed: {sentence}")
        self.field = field
        self.found = found
        self.wanted = wanted


def decode_service(raw: object, *, output_bytes_max: int = OUTPUT_BYTES_MAX) -> ServiceDefinition:
    """A service and its checks; null is the empty service, which validation refuses by its missing name."""
    body = Fields(raw, type_name="structs.ServiceDefinition")
    name = body.text("Name")
    service = ServiceDefinition(
        service_id=body.text("ID") or name,
        name=name,
        kind=body.text("Kind"),
        tags=body.texts("Tags"),
        address=body.text("Address"),
        port=body.integer("Port"),
        meta=body.text_map("Meta"),
        tagged_addresses=_tagged_addresses(body),
        weights=_weights(body),
        enable_tag_override=body.boolean("EnableTagOverride"),
        token=body.text("Token"),
        proxy=body.opaque("Proxy", PROXY_KEYS),
        connect=body.opaque("Connect", CONNECT_KEYS),
    )
    return replace(service, checks=_service_checks(body, service, output_bytes_max))


def decode_check(raw: object, *, output_bytes_max: int = OUTPUT_BYTES_MAX) -> CheckDefinition:
    """A check on its own, of the node or of a service named by ServiceID."""
    check = _check(Fields(raw, type_name="structs.CheckDefinition"), output_bytes_max)
    return replace(check, check_id=check.check_id or check.name)


def _service_checks(
    body: Fields, service: ServiceDefinition, output_bytes_max: int
) -> tuple[CheckDefinition, ...]:
    raw_checks = [("Check", body.value("Check"))]
    raw_checks += [("Checks", raw) for raw in body.items("Checks", wanted="structs.CheckTypes")]
    checks = [
        _check(Fields(raw, type_name="structs.CheckType", outer=outer), output_bytes_max)
        for outer, raw in raw_checks
        if raw is not None and raw != {}
    ]
    return tuple(_bound_to(service, check, n, len(checks)) for n, check in enumerate(checks, start=1))


def _bound_to(service: ServiceDefinition, check: CheckDefinition, n: int, count: int) -> CheckDefinition:
    """Spring and Fabio compute these ids themselves, so they are part of the interface."""
    check_id = check.check_id or f"service:{service.service_id}" + (f":{n}" if count > 1 else "")
    name, token = check.name or f"Service '{service.name}' check", check.token or service.token
    return replace(check, check_id=check_id, name=name, service_id=service.service_id, token=token)


def _check(body: Fields, output_bytes_max: int) -> CheckDefinition:
    wanted_bytes = body.integer("OutputMaxSize")
    return CheckDefinition(
        check_id=body.text("CheckID") or body.text("ID"),
        name=body.text("Name"),
        notes=body.text("Notes"),
        service_id=body.text("ServiceID"),
        status=body.text("Status"),
        token=body.text("Token"),
        args=_args(body),
        docker_container_id=body.text("DockerContainerID"),
        shell=body.text("Shell"),
        http=body.text("HTTP"),
        method=body.text("Method"),
        header=_header(body),
        body=body.text("Body"),
        disable_redirects=body.boolean("DisableRedirects"),
        tcp=body.text("TCP"),
        tcp_use_tls=body.boolean("TCPUseTLS"),
        udp=body.text("UDP"),
        grpc=body.text("GRPC"),
        grpc_use_tls=body.boolean("GRPCUseTLS"),
        h2ping=body.text("H2PING"),
        h2ping_use_tls=body.boolean("H2PingUseTLS", default=True),
        os_service=body.text("OSService"),
        tls_skip_verify=body.boolean("TLSSkipVerify"),
        tls_server_name=body.text("TLSServerName"),
        alias_service=body.text("AliasService"),
        alias_node=body.text("AliasNode"),
        interval_ns=body.duration("Interval"),
        # Consul takes a negative one for "not set"
        timeout_ns=max(0, body.duration("Timeout")),
        ttl_ns=body.duration("TTL"),
        success_before_passing=body.integer("SuccessBeforePassing"),
        failures_before_warning=body.integer("FailuresBeforeWarning"),
        failures_before_critical=body.integer("FailuresBeforeCritical"),
        deregister_critical_service_after_ns=max(0, body.duration("DeregisterCriticalServiceAfter")),
        # a negative size stays, so that validation can refuse it
        output_max_size=min(wanted_bytes, output_bytes_max) if wanted_bytes else output_bytes_max,
    )


def _args(body: Fields) -> tuple[str, ...]:
    args = body.texts("Args") or body.texts("ScriptArgs")
    script = body.text("Script")
    return args or ((*SHELL, script) if script else ())


def _header(body: Fields) -> dict[str, list[str]]:
    label = body.label("Header")
    return {
        name: [_text(value, label) for value in _list(values, label, "[]string")]
        for name, values in body.mapping("Header", wanted="map[string][]string").items()
    }


def _weights(body: Fields) -> Weights:
    raw = body.value("Weights")
    if raw is None:
        return Weights()
    given = Fields(raw, type_name="structs.Weights", outer=body.label("Weights"))
    return Weights(passing=given.integer("Passing"), warning=given.integer("Warning"))


def _tagged_addresses(body: Fields) -> dict[str, ServiceAddress]:
    label = body.label("TaggedAddresses")
    addresses = {}
    for key, raw in body.mapping("TaggedAddresses", wanted="map[string]structs.ServiceAddress").items():
        given = Fields(raw, type_name="structs.ServiceAddress", outer=label)
        addresses[key] = ServiceAddress(address=given.text("Address"), port=given.integer("Port"))
    return addresses


class Fields:
    """One object's fields by their Go names; inside another object, errors name the outer field, as in Go."""

    def __init__(self, raw: object, *, type_name: str, outer: str = "") -> None:
        if raw is not None and not isinstance(raw, Mapping):
            raise WrongType(outer, _kind(raw), type_name)
        self._outer = outer
        self._values = _by_canonical_key(raw or {})

    def label(self, name: str) -> str:
        return self._outer or name

    def value(self, name: str) -> object:
        return self._values.get(name.lower())

    def text(self, name: str) -> str:
        return _text(self.value(name), self.label(name))

    def boolean(self, name: str, *, default: bool = False) -> bool:
        return self._read(name, default, _boolean)

    def integer(self, name: str) -> int:
        return self._read(name, 0, _integer)

    def duration(self, name: str) -> int:
        return self._read(name, 0, lambda raw, _label: _duration_ns(raw))

    def _read(self, name: str, default: T, reader: Callable[[object, str], T]) -> T:
        raw = self.value(name)
        return default if raw is None else reader(raw, self.label(name))

    def items(self, name: str, *, wanted: str) -> list[object]:
        return _list(self.value(name), self.label(name), wanted)

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(_text(raw, self.label(name)) for raw in self.items(name, wanted="[]string"))

    def mapping(self, name: str, *, wanted: str) -> dict[str, object]:
        raw = self.value(name)
        if raw is None:
            return {}
        if not isinstance(raw, Mapping):
            raise WrongType(self.label(name), _kind(raw), wanted)
        return {str(key): value for key, value in raw.items()}

    def text_map(self, name: str) -> dict[str, str]:
        label = self.label(name)
        return {key: _text(raw, label) for key, raw in self.mapping(name, wanted="map[string]string").items()}

    def opaque(self, name: str, keys: Sequence[str]) -> dict[str, object]:
        value = self.mapping(name, wanted=f"structs.{name}")
        if _is_deeper(value, NESTING_MAX):
            raise BadDefinition(f"Request decode failed: {name} is nested deeper than {NESTING_MAX} levels")
        known = {canonical_key(key): key for key in keys}
        return {known.get(canonical_key(key), key): inner for key, inner in value.items()}


def _by_canonical_key(raw: Mapping[object, object]) -> dict[str, object]:
    values: dict[str, object] = {}
    aliases: dict[str, object] = {}
    for key, value in raw.items():
        text = str(key)
        if value is not None:
            (aliases if "_" in text else values)[canonical_key(text)] = value
    for name, value in aliases.items():
        values[name] = values.get(name) or value
    return values


def _text(raw: object, label: str) -> str:
    if raw is None:
        return ""
    if not isinstance(raw, str):
        raise WrongType(label, _kind(raw), "string")
    return raw


def _boolean(raw: object, label: str) -> bool:
    if not isinstance(raw, bool):
        raise WrongType(label, _kind(raw), "bool")
    return raw


def _integer(raw: object, label: str) -> int:
    if isinstance(raw, float):
        raise WrongType(label, f"number {raw!r}", "int")
    if not isinstance(raw, int) or isinstance(raw, bool):
        raise WrongType(label, _kind(raw), "int")
    if not INTEGER_MIN <= raw <= INTEGER_MAX:
        raise WrongType(label, f"number {_digits(raw)}", "int")
    return raw


def _digits(value: int) -> str:
    """Python refuses to print integers of thousands of digits, and nobody wants to read them."""
    return str(value) if value.bit_length() < 256 else "of more than 256 bits"


def _list(raw: object, label: str, wanted: str) -> list[object]:
    if raw is None:
        return []
    if not isinstance(raw, list | tuple):
        raise WrongType(label, _kind(raw), wanted)
    return list(raw)


def _is_deeper(raw: object, levels: int) -> bool:
    """Looks no further than it has to, so that what it guards against does not happen here."""
    if not isinstance(raw, Mapping | list | tuple):
        return False
    inner = raw.values() if isinstance(raw, Mapping) else raw
    return levels == 0 or any(_is_deeper(value, levels - 1) for value in inner)


def _duration_ns(raw: object) -> int:
    """Consul ignores a duration that is neither text nor number, and some clients send `false` for "none"."""
    if isinstance(raw, str):
        try:
            return parse_duration(raw)
        except BadDuration as problem:
            raise BadDefinition(f"Request decode failed: {problem}") from None
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not math.isfinite(raw):
        return 0
    return max(INTEGER_MIN, min(int(raw), INTEGER_MAX))


def _kind(raw: object) -> str:
    """As Go's decoder calls it; a TOML date has no JSON name and keeps its own."""
    for kind, types in (("bool", bool), ("string", str), ("object", Mapping), ("array", list | tuple)):
        if isinstance(raw, types):
            return kind
    return "number" if isinstance(raw, int | float) else type(raw).__name__

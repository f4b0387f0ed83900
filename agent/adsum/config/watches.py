"""Watches that files define: what is watched, and the program or the request that each change is handed to.

They run without `enable_script_checks`, as in Consul: who may write these files may run commands anyway, and
no watch comes over HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from adsum.catalog.spelling import canonical_key
from adsum.config.config import HttpHandler, WatchDefinition
from adsum.config.keys import did_you_mean, nearest
from adsum.config.kinds import BadValue, KeyKind, convert, describe
from adsum.config.table import HTTP_HANDLER_KEYS, WATCH_KEYS
from adsum.config.values import Values
from adsum.watch_plan import BadWatch, plan_of

WATCHES_MAX = 64  # each is a query that waits, and may be a process
SHELL = "/bin/sh"
TEXTS = ("key", "prefix", "service", "state", "name", "filter")
TRUTHS = {"true": True, "false": False, "1": True, "0": False}
DEFAULTS = HttpHandler(url="")


class Refused(Exception):
    """With the key within the watch."""

    def __init__(self, key: str, sentence: str) -> None:
        super().__init__(sentence)
        self.key = key


def read_watches(values: Values) -> tuple[tuple[WatchDefinition, ...], list[str]]:
    """Watches, and warnings."""
    given = values.given("watches")
    if len(given) > WATCHES_MAX:
        values.refuse_at(
            given[WATCHES_MAX].place, f"there are {len(given)} watches, and at most {WATCHES_MAX} are run"
        )
    places: dict[WatchDefinition, str] = {}
    warnings = []
    for placed in given:
        assert isinstance(placed.value, Mapping)
        try:
            watch = _read(placed.value)
        except Refused as refused:
            place = f"{placed.place}.{refused.key}" if refused.key else placed.place
            values.refuse_at(place, str(refused))
            continue
        if watch in places:
            warnings.append(f"{placed.place}: the same watch as at {places[watch]}, and run once")
        places.setdefault(watch, placed.place)
    return tuple(places), warnings


def _read(value: Mapping[str, object]) -> WatchDefinition:
    raw = _known(value, WATCH_KEYS.split(), "")
    try:
        plan = plan_of(
            *(_text(raw, "type"), {name: _text(raw, name) for name in TEXTS}, _texts(raw, "tag")),
            passing_only=_truth(raw, "passingonly"),
            stale=_truth(raw, "stale"),
            datacenter=_text(raw, "datacenter"),
        )
    except BadWatch as bad:
        raise Refused("", str(bad)) from None
    http = None
    handler_type = _text(raw, "handler_type") or "script"
    if handler_type not in ("script", "http"):
        raise Refused("handler_type", f'must be script or http, not "{handler_type}"')
    handlers = [
        name for name in ("handler", "args", "http_handler_config") if raw.get(name) not in (None, [])
    ]
    fitting = ("http_handler_config",) if handler_type == "http" else ("handler", "args")
    if len(handlers) > 1:
        raise Refused("", f"only one handler is allowed, not {' and '.join(handlers)}")
    if not handlers or handlers[0] not in fitting:
        raise Refused("", f"a handler of type {handler_type} needs {' or '.join(reversed(fitting))}")
    if handler_type == "http":
        http = _http_handler(raw["http_handler_config"])
    command = _text(raw, "handler")
    args = (SHELL, "-c", command) if command else _texts(raw, "args")
    if http is None and not args[0]:
        raise Refused(handlers[0], "must name a program")
    return WatchDefinition(plan=plan, args=args, http=http, token=_text(raw, "token"))


def _http_handler(value: object) -> HttpHandler:
    place = "http_handler_config"
    if isinstance(value, list | tuple) and len(value) == 1:  # HCL's block
        value = value[0]
    if not isinstance(value, Mapping):
        raise Refused(place, f"must be an object, not {describe(value)}")
    raw = _known(value, HTTP_HANDLER_KEYS.split(), place)
    url = _text(raw, "path", place)
    if not url.startswith(("http://", "https://")) or not urlsplit(url).netloc:
        raise Refused(f"{place}.path", 'must be a URL, as "http://127.0.0.1:8000/changed"')
    timeout_ns = _converted(KeyKind.DURATION, raw.get("timeout"), f"{place}.timeout")
    return HttpHandler(
        url=url,
        method=_text(raw, "method", place) or DEFAULTS.method,
        header=_headers(raw.get("header"), f"{place}.header"),
        timeout_ns=timeout_ns if isinstance(timeout_ns, int) and timeout_ns else DEFAULTS.timeout_ns,
        tls_skip_verify=_truth(raw, "tls_skip_verify", place),
    )


def _headers(value: object, place: str) -> tuple[tuple[str, str], ...]:
    blocks = value if isinstance(value, list | tuple) else [] if value is None else [value]
    pairs: list[tuple[str, str]] = []
    for block in blocks:
        if not isinstance(block, Mapping):
            raise Refused(place, f"must be an object, not {describe(block)}")
        for name, given in block.items():
            texts = given if isinstance(given, list | tuple) else [given]
            pairs += [(str(name), str(_converted(KeyKind.TEXT, text, f"{place}.{name}"))) for text in texts]
    return tuple(pairs)


def _known(value: Mapping[str, object], known: list[str], at: str) -> dict[str, object]:
    names = {canonical_key(name): name for name in known}
    raw: dict[str, object] = {}
    for key, inner in value.items():
        name = canonical_key(str(key))
        if name not in names:
            near = nearest(name, names)
            place = f"{at}.{key}" if at else str(key)
            raise Refused(place, "is no key we know" + did_you_mean(names[near] if near else None))
        raw[names[name]] = inner
    return raw


def _text(raw: Mapping[str, object], name: str, at: str = "") -> str:
    value = _converted(KeyKind.TEXT, raw.get(name), f"{at}.{name}" if at else name)
    return str(value) if value is not None else ""


def _texts(raw: Mapping[str, object], name: str) -> tuple[str, ...]:
    value = raw.get(name)
    listed = value if isinstance(value, list | tuple) else [] if value is None else [value]
    return tuple(str(_converted(KeyKind.TEXT, each, name)) for each in listed)


def _truth(raw: Mapping[str, object], name: str, at: str = "") -> bool:
    """Also in quotes, as Consul's own examples have it."""
    value = raw.get(name)
    if isinstance(value, str):
        value = TRUTHS.get(value.lower(), value)
    return _converted(KeyKind.BOOL, value, f"{at}.{name}" if at else name) is True


def _converted(kind: KeyKind, value: object, place: str) -> object:
    try:
        return None if value is None else convert(kind, value)
    except BadValue as bad:
        raise Refused(place, str(bad)) from None

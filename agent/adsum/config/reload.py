"""What a reload changes: key by key, and never more than can be applied without a restart."""

from __future__ import annotations

from dataclasses import replace

from adsum.config.config import Config
from adsum.config.keys import KEYS, TLS_KEYS, Fate
from adsum.config.kinds import convert
from adsum.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Changes:
    """Names of keys. Keys without effect are in none of the lists."""

    applied: list[str]
    needs_restart: list[str]


def diff(old: Config, new: Config) -> Changes:
    changes = Changes([], [])
    for name in sorted(old.given.keys() | new.given.keys()):
        if KEYS[name].fate.is_supported and _value(old, name) != _value(new, name):
            (changes.applied if _is_reloaded(old, name) else changes.needs_restart).append(name)
    return changes


def applied(old: Config, new: Config) -> Config:
    """The old configuration with only what a reload applies taken from the new one."""
    tls = None
    if old.tls is not None:  # if none of its keys is left, all of them are at their defaults
        given = new.tls or type(old.tls)()
        tls = replace(given, datacenter=old.tls.datacenter, domain=old.tls.domain)
    running = {name: value for name, value in old.given.items() if not _is_reloaded(old, name)}
    fresh = {name: value for name, value in new.given.items() if _is_reloaded(old, name)}
    return replace(
        old,
        node_meta=new.node_meta,
        recursors=new.recursors,
        dns=new.dns,
        services=new.services,
        checks=new.checks,
        watches=new.watches,
        check_update_interval_ns=new.check_update_interval_ns,
        discard_check_output=new.discard_check_output,
        tls=tls,
        log=replace(old.log, level=new.log.level),
        given=running | fresh,
    )


def _is_reloaded(old: Config, name: str) -> bool:
    """An agent that was started without a key of TLS has nothing yet that could speak it."""
    return KEYS[name].fate is Fate.RELOAD and not (old.tls is None and name in TLS_KEYS)


def _value(config: Config, name: str) -> object:
    """A key set to its default is a key not set, 60s is 1m, and HTTPS without a certificate is not served."""
    if name == "ports.https":
        return config.ports.https
    key = KEYS[name]
    return convert(key.kind, config.given[name]) if name in config.given else key.default

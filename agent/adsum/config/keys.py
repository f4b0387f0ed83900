"""Looking keys up: by exact name, as leniently as people write them, and the nearest one to a slip."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterable, Iterator

from adsum.catalog.spelling import canonical_key
from adsum.config.kinds import KeyKind, convert
from adsum.config.table import TABLE, WITHOUT_EFFECT
from adsum.frozen import dataclass

ALLOW_UNSUPPORTED = "adsum.allow_unsupported"
GROUP = re.compile(r"^(\w+) (\w+) (\S+): (.*(?:\n .*)*)", re.MULTILINE)
NEAREST_SIMILARITY = 0.6  # difflib's own; a lower one names keys that nobody meant


class Fate(enum.Enum):
    RESTART = "restart"
    RELOAD = "reload"
    PROTECTS = "protects"
    MOOT = "moot"
    WARNED = "warned"

    @property
    def is_supported(self) -> bool:
        return self in {Fate.RESTART, Fate.RELOAD}


@dataclass(frozen=True, slots=True)
class ConfigKey:
    name: str
    kind: KeyKind
    default: object  # converted; None where there is none
    fate: Fate


def _read_table() -> Iterator[ConfigKey]:
    rows = [tuple(line.split()) for line in TABLE.strip().split("\n")]
    for fate, kind_name, default, names in GROUP.findall(WITHOUT_EFFECT):
        rows += [(name, kind_name, default, fate) for name in names.split()]
    kinds, fates = {each.value: each for each in KeyKind}, {each.value: each for each in Fate}
    for name, kind_name, default, fate in rows:
        kind = kinds[kind_name]
        is_bare = default == "-" or kind in {KeyKind.TEXT, KeyKind.DURATION}
        raw = default if is_bare else json.loads(default)
        yield ConfigKey(name, kind, None if default == "-" else convert(kind, raw), fates[fate])


KEYS = {key.name: key for key in _read_table()}

# What is given of these makes an agent speak TLS; all of them are read by `config.tls`.
TLS_KEYS = frozenset(
    name
    for name, key in KEYS.items()
    if key.fate is Fate.RELOAD
    and (name in {"ca_file", "ca_path", "cert_file", "key_file"} or name.startswith(("verify_", "tls")))
)

# A singular block joins its list.
SINGULARS = {"service": "services", "check": "checks"}


def _read_sections() -> dict[str, dict[str, str]]:
    """Per section, "" being the whole, its members: how a key is compared, and its full name."""
    sections: dict[str, dict[str, str]] = {}
    for name in KEYS:
        parts = name.split(".")
        for depth in range(len(parts)):
            members = sections.setdefault(".".join(parts[:depth]), {})
            members[canonical_key(parts[depth])] = ".".join(parts[: depth + 1])
    sections[""] |= SINGULARS
    return sections


SECTIONS = _read_sections()


def resolve(section: str, key: str) -> str | None:
    """The full name of a key as somebody wrote it: Consul ignores case, and so do underscores here."""
    return SECTIONS[section].get(canonical_key(key))


def nearest_key(section: str, key: str) -> str | None:
    """First among its neighbours, then anywhere: a key is often right and its section forgotten."""
    wanted = canonical_key(key)
    neighbours = SECTIONS[section]
    if near := nearest(wanted, neighbours):
        return neighbours[near]
    by_last_part = {canonical_key(name.rpartition(".")[2]): name for name in KEYS}
    near = nearest(wanted, by_last_part)
    return by_last_part[near] if near else None


def nearest(wanted: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches  # only for those who slipped

    matches = get_close_matches(wanted, list(known), n=1, cutoff=NEAREST_SIMILARITY)
    return matches[0] if matches else None


def did_you_mean(name: str | None) -> str:
    return f': did you mean "{name}"?' if name else ""

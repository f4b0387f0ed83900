"""Compares two answers, already reduced to plain JSON facts, and names each place where they differ.

A path reads like a selector: `body[0].Checks[1].Output`. The `Look` of an exchange prunes both sides with
the same rules before they are compared, so a rule can never hide a difference on one side only.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache

from tests.conformance.case import Json, Look

ABSENT = "(absent)"


@dataclass(frozen=True, slots=True)
class Difference:
    where: str
    consul: str
    ours: str


def differences(consul: Json, ours: Json, look: Look) -> list[Difference]:
    return list(walk("", prune("", consul, look), prune("", ours, look)))


def walk(path: str, consul: Json, ours: Json) -> list[Difference]:
    if isinstance(consul, dict) and isinstance(ours, dict):
        return in_objects(path, consul, ours)
    if isinstance(consul, list) and isinstance(ours, list) and len(consul) == len(ours):
        pairs = enumerate(zip(consul, ours, strict=True))
        return [found for at, (left, right) in pairs for found in walk(f"{path}[{at}]", left, right)]
    # 1 and True are equal in Python and not in JSON.
    if type(consul) is type(ours) and consul == ours:
        return []
    return [Difference(path, shown(consul), shown(ours))]


def in_objects(path: str, consul: dict[str, Json], ours: dict[str, Json]) -> list[Difference]:
    found: list[Difference] = []
    for key in sorted(consul.keys() | ours.keys()):
        at = f"{path}.{key}" if path else key
        if key not in consul:
            found.append(Difference(at, ABSENT, shown(ours[key])))
        elif key not in ours:
            found.append(Difference(at, shown(consul[key]), ABSENT))
        else:
            found += walk(at, consul[key], ours[key])
    return found


def prune(path: str, value: Json, look: Look) -> Json:
    """The facts with everything removed that the look leaves out, and random orders sorted."""
    if matches(path, look.types):
        return f"<{json_type(value)}>"
    if isinstance(value, dict):
        return pruned_object(path, value, look)
    if isinstance(value, list):
        items = [prune(f"{path}[{at}]", item, look) for at, item in enumerate(value)]
        return sorted(items, key=shown) if matches(path, look.unordered) else items
    return value


def pruned_object(path: str, value: dict[str, Json], look: Look) -> Json:
    kept: dict[str, Json] = {}
    for key, item in value.items():
        at = f"{path}.{key}" if path else key
        if matches(at, look.ignore) or (look.only and not is_wanted(at, look.only)):
            continue
        kept[key] = prune(at, item, look)
    return kept


def is_wanted(path: str, only: tuple[str, ...]) -> bool:
    """A path is wanted when it is listed, lies below a listed one, or leads to one."""
    below = tuple(f"{pattern}{join}*" for pattern in only for join in ".[")
    above = tuple(pattern[: cut.start()] for pattern in only for cut in re.finditer(r"[.\[]", pattern))
    return matches(path, only + below + above)


def matches(path: str, patterns: tuple[str, ...]) -> bool:
    return any(expression(pattern).fullmatch(path) for pattern in patterns)


@cache
def expression(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL)


def json_type(value: Json) -> str:
    names = {dict: "object", list: "list", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")


def shown(value: Json) -> str:
    """As JSON, whole: the report cuts."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)

"""Takes out of an answer what must differ between two agents: ids, indexes, times, their own ports and
folders.

Everything else stays as it came. A value is replaced by a word that says what it was, so that a missing or
misplaced one still shows: an index that is 0 where Consul has one is a difference, an index that is 12
instead of 17 is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict

from tests.conformance.case import Json
from tests.system.agents import Agent

INDEX_KEYS = {"CreateIndex", "ModifyIndex", "LockIndex", "Index"}
VERSION_KEYS = {"Version", "version", "build", "HumanVersion"}
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*( ?(Z|[+-]\d\d:?\d\d)( UTC)?)?")
INDEX_IN_TEXT = re.compile(r"(current modify index) \d+")
VERSION = re.compile(r"^\d+\.\d+\.\d+[^:]*")


class Normaliser:
    """Knows the numbers and names of the agent that is asked, and of the others of its cluster."""

    def __init__(self, agent: Agent, others: Sequence[Agent] = ()) -> None:
        self.ports = {number: f"<{name} port>" for name, number in asdict(agent.ports).items()}
        for which, other in enumerate(others, 1):
            self.ports |= {
                number: f"<{name} port of n{which}>" for name, number in asdict(other.ports).items()
            }
        own = "|".join(str(number) for number in self.ports)
        self.port_in_text = re.compile(rf"(?<!\d)({own})(?!\d)")
        self.folder = str(agent.folder)

    def json(self, value: Json, key: str = "") -> Json:
        if isinstance(value, dict):
            return {self.text(name): self.json(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [self.json(item, key) for item in value]
        if isinstance(value, str) and key == "ContentHash":
            return "<hash>"
        if isinstance(value, str):
            return VERSION.sub("<version>", value) if key in VERSION_KEYS else self.text(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return self.number(value, key)
        return value

    def number(self, value: int, key: str) -> Json:
        if key in INDEX_KEYS and value > 0:
            return "<index>"
        return self.ports.get(value, value)

    def text(self, value: str) -> str:
        value = value.replace(self.folder, "<folder>")
        value = UUID.sub("<uuid>", value)
        value = TIME.sub("<time>", value)
        value = INDEX_IN_TEXT.sub(r"\1 <index>", value)
        return self.port_in_text.sub(lambda found: self.ports[int(found[1])], value)
